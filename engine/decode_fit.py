"""The fit of a decode step's time: a constant, a part for each request, a part for each KV token."""

RIDGES = (1e-6, 1e-3, 1e-3)
"""Added to the diagonal, relative to it: steps that are all alike still give one finite answer.

Least for the constant, which so explains what is not told apart. Were half of a step of one request held
to be the request's own, an engine that has run no more would seem slow, and would never be given more.
"""


class DecodeFit:
    """Non-negative least squares of seconds ≈ c + a · requests + b · KV tokens, the past decaying.

    Without the constant, most of a step's time in a small batch, a lightly loaded engine would seem
    to take long for each request, and a balancer would keep it lightly loaded.
    """

    def __init__(self) -> None:
        self.num_steps = 0
        self.coefficients = (0.0, 0.0, 0.0)
        """Seconds per step, per request, per KV token."""
        self._products = [[0.0] * 3 for _ in range(3)]
        self._times = [0.0] * 3

    def seconds(self, requests: int, kv_tokens: int) -> float:
        """The fitted time of a decode step; 0 for no requests."""
        per_step, per_request, per_kv_token = self.coefficients
        return (per_step if requests else 0.0) + per_request * requests + per_kv_token * kv_tokens

    def observe(self, requests: int, kv_tokens: int, seconds: float, decay: float) -> None:
        """Add one step, after weighing all earlier ones by `decay`, and solve again."""
        self.num_steps += 1
        shape = (1.0, float(requests), float(kv_tokens))
        for row, mine in enumerate(shape):
            self._times[row] = decay * self._times[row] + mine * seconds
            products = self._products[row]
            for column, other in enumerate(shape):
                products[column] = decay * products[column] + mine * other
        self.coefficients = self._solve()

    def _solve(self) -> tuple[float, float, float]:
        """Leave out the term that is most negative in its share of the time, until none is."""
        terms = [0, 1, 2]
        while True:
            values = self._solve_for(terms)
            shares = [
                value * self._products[0][term] for value, term in zip(values, terms, strict=True)
            ]
            if min(shares) >= 0.0:
                solution = [0.0, 0.0, 0.0]
                for term, value in zip(terms, values, strict=True):
                    solution[term] = value
                return solution[0], solution[1], solution[2]
            del terms[shares.index(min(shares))]

    def _solve_for(self, terms: list[int]) -> list[float]:
        """Gaussian elimination over these terms; a ridge keeps every pivot positive."""
        rows = [
            [self._products[i][j] * (1.0 + RIDGES[i] * (i == j)) for j in terms] + [self._times[i]]
            for i in terms
        ]
        size = len(terms)
        for pivot in range(size):
            for row in range(pivot + 1, size):
                factor = rows[row][pivot] / rows[pivot][pivot]
                for column in range(pivot, size + 1):
                    rows[row][column] -= factor * rows[pivot][column]
        values = [0.0] * size
        for row in reversed(range(size)):
            known = sum(rows[row][column] * values[column] for column in range(row + 1, size))
            values[row] = (rows[row][size] - known) / rows[row][row]
        return values
