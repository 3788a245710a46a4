"""A request as a simulated engine has it."""

from dataclasses import dataclass, field

from loadtests.simulation.request import ClientRequest


@dataclass(slots=True, eq=False)
class EngineRequest:
    """One attempt of a client's request, from its dispatch to its end or to the engine's."""

    client: ClientRequest
    frontend_index: int
    dispatch_seq: int
    precedence: tuple[float, int]
    """The lowest goes first, the highest is preempted first."""
    num_outputs: int
    """Tokens of the answer that there are, up to when it last began to decode."""
    num_computed: int = 0
    """Context tokens whose KV there is, up to when it last began to decode."""
    num_blocks: int = 0
    """Blocks that it held when it last began to decode, or holds since its admission."""
    held: list[bytes] = field(default_factory=list)
    """Cached blocks among them, by their hashes."""
    num_settled: int = 0
    """Leading blocks that came from the cache or were offered to it."""
    is_decoding: bool = False
    decoding_since: int = 0
    """Decode steps that the engine had made when this began to decode."""
    was_admitted: bool = False
    cached_tokens: int = 0
    """Prompt tokens that were in the cache at its first admission."""

    @property
    def context_tokens(self) -> int:
        """Prompt and answer, as far as the answer had come when it last began to decode."""
        return self.client.prompt_tokens + self.num_outputs

    @property
    def tokens_to_compute(self) -> int:
        """What is left of its context before it can decode."""
        return self.context_tokens - self.num_computed

    def outputs_at(self, decode_step: int) -> int:
        """Tokens of the answer after so many decode steps of the engine."""
        return self.num_outputs + (decode_step - self.decoding_since if self.is_decoding else 0)
