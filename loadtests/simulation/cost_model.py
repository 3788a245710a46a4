"""How long an engine's steps take, and how much it holds."""

import msgspec

REFERENCE_FILL = 0.9
"""The share of a KV cache that is full when an engine does all that it can."""


class CostModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine: speeds by the names of a load report, sizes by the names of the settings.

    A step takes `decode_seconds_per_step` + decodes · `decode_seconds_per_request` + their context
    tokens · `decode_seconds_per_kv_token` + prompt tokens / `prefill_tokens_per_second`. The defaults
    are a model of 8 billion parameters on one data centre GPU, roughly; the order of policies is
    what a simulation tells, not the milliseconds.
    """

    decode_seconds_per_step: float = 0.006
    decode_seconds_per_request: float = 0.00008
    decode_seconds_per_kv_token: float = 6e-8
    prefill_tokens_per_second: float = 20_000.0
    max_num_seqs: int = 128
    kv_capacity_tokens: int = 120_000
    block_size: int = 64
    """Coarser than an engine's 16: hits are whole blocks either way, and there are fewer to follow."""
    max_num_batched_tokens: int = 2048
    prefill_chunk_while_decoding: int = 512

    def __post_init__(self) -> None:
        """Raises ValueError, naming the field, for a model that could not compute anything."""
        for name in self.__struct_fields__:
            least = 0 if name.startswith("decode_seconds") else 1
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} is {getattr(self, name)}, and must be at least {least}")
        if self.decode_seconds_per_step + self.decode_seconds_per_request <= 0:
            raise ValueError("a decode step must take time")
        if self.kv_capacity_tokens < self.block_size:
            raise ValueError("kv_capacity_tokens is less than one block")

    @property
    def num_blocks(self) -> int:
        """Blocks of the KV cache."""
        return self.kv_capacity_tokens // self.block_size

    @property
    def max_tokens(self) -> int:
        """The longest request, answer included, that the cache can hold."""
        return self.num_blocks * self.block_size

    def blocks_for(self, num_tokens: int) -> int:
        """How many blocks hold the KV of `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def step_seconds(self, prefill_tokens: int, decodes: int, kv_tokens: int) -> float:
        """How long a step takes whose decodes attend to `kv_tokens`, all together."""
        return (
            self.decode_seconds_per_step
            + self.decode_seconds_per_request * decodes
            + self.decode_seconds_per_kv_token * kv_tokens
            + prefill_tokens / self.prefill_tokens_per_second
        )

    def slowed(self, factor: float) -> "CostModel":
        """The same engine, all of it so many times slower."""
        return msgspec.structs.replace(
            self,
            decode_seconds_per_step=self.decode_seconds_per_step * factor,
            decode_seconds_per_request=self.decode_seconds_per_request * factor,
            decode_seconds_per_kv_token=self.decode_seconds_per_kv_token * factor,
            prefill_tokens_per_second=self.prefill_tokens_per_second / factor,
        )

    def requests_per_second(
        self, prompt_tokens: float, output_tokens: float, cached_share: float = 0.0
    ) -> float:
        """How many such requests one engine can serve, its batch as large as slots and cache allow.

        `cached_share` of the prompt tokens are taken to be in the prefix cache. An estimate from
        means: what varies costs more.
        """
        context = prompt_tokens + output_tokens / 2
        fitting = REFERENCE_FILL * self.kv_capacity_tokens / context
        batch = max(1.0, min(self.max_num_seqs, fitting))
        computed = prompt_tokens * (1 - cached_share)
        steps = max(computed / self.prefill_chunk_while_decoding, output_tokens / batch)
        seconds = (
            computed / self.prefill_tokens_per_second
            + steps * self.decode_seconds_per_step
            + output_tokens * self.decode_seconds_per_request
            + output_tokens * context * self.decode_seconds_per_kv_token
        )
        return 1.0 / seconds


def read_cost_model(content: bytes) -> CostModel:
    """The cost model of a JSON text; what it leaves out has its default. Raises ValueError."""
    return msgspec.json.decode(content, type=CostModel)
