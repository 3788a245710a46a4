"""Every message that travels between two processes, on one page.

Messages are arrays on the wire: a new field goes at the end and has a default, or the protocol's
major version rises. The tag of a message is also its one-byte type frame. Ages are sent instead
of times, since clocks of two machines share no origin.
"""

import enum

import msgspec

from cluster.wire.numbers import Count, Finite, Place
from cluster.wire.sampling import FinishReason, SamplingParams

PROTOCOL_VERSION = (1, 0)
"""(major, minor). Peers of another major version are refused."""


class Blob:
    """Raw bytes that travel beside the message, without a copy, when there are many of them."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blob) and bytes(self.data) == bytes(other.data)

    def __hash__(self) -> int:
        return hash(bytes(self.data))

    def __repr__(self) -> str:
        return f"Blob({len(self.data)} bytes)"


class Message(msgspec.Struct, frozen=True, array_like=True):
    """A message or a part of one."""


# ── frontend → engine ────────────────────────────────────────────────────────────────────────


class AddRequest(Message, frozen=True, tag=0x01):
    """Serve this request; `output_token_ids` is what the client already has of the answer.

    A request that moves from a dead engine is the same request with those tokens: the engine
    computes prompt and outputs as context, and goes on at the next output position.
    """

    request_id: str
    frontend_index: Place
    frontend_incarnation: Count
    dispatch_seq: Count
    """Rises with every message from this frontend to this engine that changes its load."""
    attempt: Count
    """0 for the first engine; outputs repeat it, so that an older attempt is told apart."""
    prompt_token_ids: list[int]
    output_token_ids: list[int]
    block_hashes: list[bytes]
    """Chained hashes of the prompt's full blocks (`cluster.wire.block_hash`)."""
    sampling: SamplingParams
    priority: int = 0
    """Lower goes first."""
    cache_salt: str = ""
    age_seconds: Finite = 0.0
    """Time since the client's request arrived."""
    traceparent: str = ""
    isolated_until: Count = 0
    """Until it has so many output tokens it is computed in steps of its own: it may have killed an
    engine, and if it does so again, nobody else was there."""
    tenant: str = ""
    """Who asks, where keys tell several apart: one leaves places and prompt tokens to others."""


class AbortRequests(Message, frozen=True, tag=0x02):
    """Forget these requests: their clients are gone, or a stop string was found."""

    frontend_index: Place
    frontend_incarnation: Count
    dispatch_seq: Count
    request_ids: list[str]


class Utility(Message, frozen=True, tag=0x03):
    """Call a method of the engine by name; it answers with a `UtilityResult`.

    Methods: `ping`, `reset_prefix_cache`, `check_invariants`, `publish_blocks`.
    """

    frontend_index: Place
    call_id: Count
    method: str
    args: list[str] = []


# ── engine → frontend ────────────────────────────────────────────────────────────────────────


class EngineHello(Message, frozen=True, tag=0x11):
    """The first message of an engine on every link to a frontend: what it is and can do."""

    protocol_version: tuple[int, int]
    rank: Place
    incarnation: Count
    model_fingerprint: str
    """Equal on all engines that serve the same weights; a moved request needs that."""
    max_model_len: Count
    block_size: Count
    num_blocks: Count
    max_num_seqs: Count
    hash_seed: str


class TokenLogprobs(Message, frozen=True):
    """Log probabilities of some positions, `width` a position: the token itself, then the best.

    `token_ids` is int32 and `logprobs` float32, both of shape (positions, width), native order.
    """

    width: int
    token_ids: Blob
    logprobs: Blob


class EngineCoreOutput(Message, frozen=True):
    """New tokens of one request."""

    request_id: str
    attempt: Count
    first_output_index: Count
    """Output position of `token_ids[0]`, counted over all attempts: no gap goes unseen."""
    token_ids: list[int]
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    """The token that ended the request, if one did; it is the last of `token_ids`."""
    cached_tokens: int | None = None
    """Prompt tokens found in the prefix cache; sent once, with the first output."""
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: TokenLogprobs | None = None
    error: str = ""
    """What went wrong, where `finish_reason` is ERROR."""
    vector: Blob | None = None
    """The whole answer to a request that pools, float32 in native order; there are no tokens then."""


class EnginePhase(enum.IntEnum):
    """What an engine says it is doing."""

    STARTING = 0
    LOADING = 1
    WARMING_UP = 2
    READY = 3


class LoadReport(Message, frozen=True, tag=0x12):
    """How busy an engine is, after its newest step and with what has arrived since.

    Travels on a clock, with every output, and to all frontends when one of them has sent something.
    """

    rank: Place
    incarnation: Count
    report_seq: Count
    phase: EnginePhase
    progress: Finite = 0.0
    """Share of the current phase that is done, while loading."""
    step: Count = 0
    seconds_since_step: Finite = 0.0
    """Age of the last finished step, or of the start of work if none finished since."""
    predicted_step_seconds: Finite = 0.0
    """Longest that the step under way may take, by the measured speeds."""
    waiting: Count = 0
    running: Count = 0
    waiting_prompt_tokens: Count = 0
    """Context tokens still to be computed, in waiting and running requests, cache hits deducted
    as far as they are known."""
    running_tokens: Count = 0
    """Tokens whose KV is held by running requests."""
    total_blocks: Count = 0
    used_blocks: Count = 0
    cached_blocks: Count = 0
    """Blocks that no request holds but that still answer for a prefix; free to be taken."""
    prefill_tokens_per_second: Finite = 0.0
    decode_seconds_per_step: Finite = 0.0
    decode_seconds_per_request: Finite = 0.0
    decode_seconds_per_kv_token: Finite = 0.0
    slowdown: Finite = 1.0
    """Recent step time over the fit: a throttled device or a noisy neighbour shows here."""
    acknowledged: list[tuple[Place, Count, Count]] = []
    """(frontend index, its incarnation, highest dispatch_seq that these numbers include)."""
    events_seq: Count = 0
    """Number of the newest `BlockEvents`: who has not got that one has missed something."""
    unpassed_prompt_tokens: Count = 0
    """Of `waiting_prompt_tokens`, what is computed before a prompt of a tenant that has next to nothing
    here: all of it, but for what is of tenants that crowd out others."""


class EngineCoreOutputs(Message, frozen=True, tag=0x13):
    """What one step produced for one frontend, with the load after that step."""

    rank: Place
    incarnation: Count
    outputs: list[EngineCoreOutput]
    load: LoadReport | None = None


class UtilityResult(Message, frozen=True, tag=0x14):
    """The answer to one `Utility` call: a JSON text, or what went wrong."""

    rank: Place
    incarnation: Count
    call_id: Count
    result: str = ""
    error: str = ""


class FlightRecord(Message, frozen=True):
    """The step that an engine was computing: after its death, who was there."""

    request_ids: list[str]
    """Everybody in the step; nobody between two steps."""
    prefill_request_ids: list[str] = []
    """Those of them whose context was being computed: their next token is the first here."""


class EngineGoodbye(Message, frozen=True, tag=0x15):
    """The engine's last words: it was drained, or an error of its own ends it."""

    rank: Place
    incarnation: Count
    drained: bool
    reason: str = ""
    flight: FlightRecord | None = None
    """The step in which it failed."""

    @property
    def cause(self) -> str:
        """What ended it: a kind, and after a colon the details."""
        return "drained" if self.drained else f"error: {self.reason}"


# ── engine → coordinator ─────────────────────────────────────────────────────────────────────


class BlockEvents(Message, frozen=True, tag=0x16):
    """What entered and left an engine's prefix cache since the last such message."""

    rank: Place
    incarnation: Count
    events_seq: Count
    stored: list[bytes]
    removed: list[bytes]
    cleared: bool = False
    """Everything known before this message is gone (applied before `stored`)."""


# ── frontend → coordinator ───────────────────────────────────────────────────────────────────


class FrontendHello(Message, frozen=True, tag=0x21):
    """A frontend is there: engines connect to these addresses. Repeated, so nobody misses it."""

    protocol_version: tuple[int, int]
    index: Place
    incarnation: Count
    requests_address: str
    outputs_address: str


class Conviction(Message, frozen=True):
    """A request that has killed engines is refused, from whomever it comes, for some time."""

    fingerprint: bytes
    """Of everything that an engine computes from, without the seed."""
    seconds_left: Finite
    deaths: list[tuple[Place, Count]] = []
    """(rank, incarnation) of the engines that it killed: nobody else is suspected for them."""


class FrontendReport(Message, frozen=True, tag=0x22):
    """How busy a frontend is, and whom it has convicted."""

    index: Place
    incarnation: Count
    in_flight: Count
    queued: Count
    convictions: list[Conviction] = []


# ── launcher → coordinator ───────────────────────────────────────────────────────────────────


class Role(enum.IntEnum):
    """Which of the rooms a process is."""

    ENGINE = 0
    FRONTEND = 1
    COORDINATOR = 2


class ProcessStarted(Message, frozen=True, tag=0x31):
    """The launcher has spawned this incarnation."""

    role: Role
    index: Place
    incarnation: Count
    pid: Count


class ProcessExited(Message, frozen=True, tag=0x32):
    """The launcher has seen this incarnation end."""

    role: Role
    index: Place
    incarnation: Count
    cause: str
    """A kind, and after a colon the details: `SIGKILL`, `exit code 1`, `hung: no step for 3 s`."""
    fault: bool
    """Whether the process is to blame; an outside SIGKILL or a planned end is no fault."""
    flight: FlightRecord | None = None
    """After a fault of an engine: what its flight record holds."""


class EngineDeath(Message, frozen=True):
    """The end of one incarnation of an engine, told for some seconds so that nobody misses it."""

    rank: Place
    incarnation: Count
    cause: str
    """A kind, and after a colon the details."""
    fault: bool
    """Whether the engine is to blame, and not somebody who killed or replaced it."""
    flight: FlightRecord | None = None
    """Whom it was computing when it failed; None where nobody can say."""
    age_seconds: Finite = 0.0


class ProcessEntry(Message, frozen=True):
    """One process as the launcher knows it."""

    role: Role
    index: Place
    incarnation: Count
    pid: Count
    alive: bool
    cause: str = ""
    fault: bool = False
    restarts: Count = 0
    parked: bool = False
    """Given up for now after too many deaths; tried again later."""
    draining: bool = False
    """Gets no new work: it is to end, or to start anew, once its requests are done."""


class DesiredState(Message, frozen=True, tag=0x33):
    """All that the launcher knows and wants, repeated so that a new coordinator learns it."""

    engines: Count
    frontends: Count
    draining: bool
    processes: list[ProcessEntry]
    deaths: list[EngineDeath] = []
    """Those of the last seconds, so that a new coordinator tells of them too."""


# ── coordinator → all ────────────────────────────────────────────────────────────────────────


class EngineState(enum.IntEnum):
    """What the cluster holds of an engine's current incarnation."""

    STARTING = 0
    READY = 1
    SUSPECT = 2
    DRAINING = 3
    DEAD = 4


class EngineEntry(Message, frozen=True):
    """One engine in the view: its newest incarnation, the verdict on it, and its newest report."""

    rank: Place
    incarnation: Count
    state: EngineState
    cause: str = ""
    fault: bool = False
    report: LoadReport | None = None
    report_age_seconds: Finite = 0.0
    restarts: Count = 0
    pid: Count = 0
    parked: bool = False


class FrontendEntry(Message, frozen=True):
    """One frontend in the view. Engines connect to it while it is alive."""

    index: Place
    incarnation: Count
    alive: bool
    requests_address: str = ""
    outputs_address: str = ""
    in_flight: Count = 0
    queued: Count = 0
    restarts: Count = 0
    pid: Count = 0
    cause: str = ""
    fault: bool = False
    draining: bool = False


class ClusterView(Message, frozen=True, tag=0x41):
    """The cluster as the coordinator sees it now; each view is complete."""

    coordinator_incarnation: Count
    view_seq: Count
    draining: bool
    engines: list[EngineEntry]
    frontends: list[FrontendEntry]
    num_engines: Count = 0
    """How many there are to be; 0 before the launcher has told."""
    num_frontends: Count = 0
    deaths: list[EngineDeath] = []
    """Those of the last seconds, the oldest first."""
    convictions: list[Conviction] = []
    """Requests that no frontend is to take."""


# ── `cluster` command ↔ launcher ─────────────────────────────────────────────────────────────


class ControlRequest(Message, frozen=True, tag=0x51):
    """A `cluster` command; the verbs are those of `cluster.launch.control_server`."""

    verb: str
    args: list[str] = []


class ControlReply(Message, frozen=True, tag=0x52):
    """The launcher's answer: a JSON text, or why not."""

    body: str = ""
    error: str = ""
    is_conflict: bool = False
    """Refused for what the cluster does now; the same may be obeyed later."""


FrontendToEngine = AddRequest | AbortRequests | Utility
EngineToFrontend = EngineHello | EngineCoreOutputs | UtilityResult | EngineGoodbye
ToCoordinator = (
    LoadReport | BlockEvents | EngineGoodbye
    | FrontendHello | FrontendReport | ProcessStarted | ProcessExited | DesiredState
)  # fmt: skip
FromCoordinator = ClusterView | BlockEvents
AnyMessage = (
    FrontendToEngine | EngineToFrontend | ToCoordinator | FromCoordinator
    | ControlRequest | ControlReply
)  # fmt: skip
