"""One step while it is being planned: what is left of its budget, and what it holds so far."""

from collections.abc import Mapping, Set

from engine.request import Request
from engine.scheduling.output import ScheduledRequest, SchedulerOutput
from engine.scheduling.tenants import share_tokens


class StepPlan:
    """Collects a step's requests under its token budget, and can take one back."""

    def __init__(self, max_num_batched_tokens: int) -> None:
        self._tokens_left = max_num_batched_tokens
        self._new_prompt_tokens_left = max_num_batched_tokens
        self._new_prompt_tokens_of: dict[str, int] = {}
        """By tenant, what is left of its share; empty while nothing is shared."""
        self.preempted: list[Request] = []
        self._scheduled: dict[str, ScheduledRequest] = {}

    def __len__(self) -> int:
        return len(self._scheduled)

    def limit_new_prompts(self, num_tokens: int) -> None:
        """From here on new prompts are added only until the step takes `num_tokens` more.

        Not meant is the context of a stream that has begun, and then moved or was preempted: its
        client waits for all of it to be computed, far longer than a long step keeps the others.
        """
        self._new_prompt_tokens_left = num_tokens

    def share_new_prompts(
        self, wanted_tokens: Mapping[str, int], crowded_out: Set[str] = frozenset()
    ) -> None:
        """From here on each tenant has an even share of what the step can take of new prompts.

        So a short prompt of one need not wait for a long one of another. With next to nothing to
        share it goes by the order alone. Those that are crowded out have the rest of the step too: the
        limit spares the streams that decode, and those are nearly all of whoever crowds them out.
        """
        num_tokens = max(0, min(self._tokens_left, self._new_prompt_tokens_left))
        if len(wanted_tokens) > num_tokens or (len(wanted_tokens) < 2 and not crowded_out):
            return
        shares = share_tokens(wanted_tokens, num_tokens)
        unmet = {name: wanted_tokens[name] - shares[name] for name in crowded_out & shares.keys()}
        more = share_tokens(unmet, self._tokens_left - num_tokens)
        self._new_prompt_tokens_of = {name: shares[name] + more.get(name, 0) for name in shares}
        self._new_prompt_tokens_left = num_tokens + sum(more.values())

    def tokens_left_for(self, request: Request) -> int:
        """How many tokens of the request the step could take."""
        if request.num_output_tokens:
            return self._tokens_left
        num_tokens = max(0, min(self._tokens_left, self._new_prompt_tokens_left))
        return min(num_tokens, self._new_prompt_tokens_of.get(request.tenant, num_tokens))

    def schedule(self, request: Request, block_table: list[int]) -> None:
        """Compute as many of the request's tokens as the budget allows, one at least."""
        num_left = request.num_tokens_to_schedule
        num_tokens = min(num_left, self.tokens_left_for(request))
        assert num_tokens > 0, f"{request.request_id} is scheduled without a token"
        self._tokens_left -= num_tokens
        self._new_prompt_tokens_left -= num_tokens
        if not request.num_output_tokens and request.tenant in self._new_prompt_tokens_of:
            self._new_prompt_tokens_of[request.tenant] -= num_tokens
        self._scheduled[request.request_id] = ScheduledRequest(
            request, request.next_position, num_tokens, block_table, num_tokens == num_left
        )

    def schedule_decode(self, request: Request, block_table: list[int]) -> None:
        """Compute the request's newest token: `schedule` in short, for the most of a step's requests."""
        assert self._tokens_left > 0, f"{request.request_id} is scheduled without a token"
        self._tokens_left -= 1
        self._new_prompt_tokens_left -= 1
        self._scheduled[request.request_id] = ScheduledRequest(
            request, request.next_position, 1, block_table
        )

    def preempt(self, request: Request) -> None:
        """Note that the request lost its blocks; if it was scheduled, its budget is free again."""
        self.preempted.append(request)
        scheduled = self._scheduled.pop(request.request_id, None)
        if scheduled is not None:
            self._tokens_left += scheduled.num_tokens
            self._new_prompt_tokens_left += scheduled.num_tokens

    def output(self) -> SchedulerOutput:
        """The finished plan, in the order of scheduling."""
        return SchedulerOutput(list(self._scheduled.values()), self.preempted)
