"""Every setting of the cluster, once: the flags, the TOML file, the environment and the docs come from here.

A setting is a field with a description and, where there is one, a limit. `launch` resolves all
of them, writes them to `cluster.json` in the run directory, and each process reads that file.
Field names are unique over all sections, since each is also a flag (`max_num_seqs` is
`--max-num-seqs`). `None` means "work it out at start".
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

EMBEDDED_MODEL = "smollm2-135m-instruct"


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings: one table of the TOML file, one heading of `launch --help`."""


class ModelConfig(Section, frozen=True, kw_only=True):
    """Model."""

    model: Annotated[
        str | None,
        Meta(description="Folder of a decoder-only Hugging Face model. Default: the embedded one."),
    ] = None
    served_model_name: Annotated[
        str | None, Meta(description="Name in the API. Default: the folder's name.")
    ] = None
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        Meta(description="Type of the weights in memory. auto: the checkpoint's; on a CPU the "
             "arithmetic is float32 whatever the weights are."),
    ] = "auto"  # fmt: skip
    quantization: Annotated[
        Literal["none", "int8"],
        Meta(description="int8: weights of 8 bits with a scale for each output, on a CPU; half of "
             "bfloat16's memory, and faster for few requests at once."),
    ] = "none"  # fmt: skip
    max_model_len: Annotated[
        Annotated[int, Meta(ge=16)] | None,
        Meta(description="Longest prompt plus answer, in tokens. Default: the model's own."),
    ] = None
    seed: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Seed from which requests without one get theirs, in the order of their "
             "arrival at each frontend. Default: chance."),
    ] = None  # fmt: skip


class EngineConfig(Section, frozen=True, kw_only=True):
    """Engines."""

    data_parallel_size: Annotated[
        int,
        Meta(description="Number of engine replicas.", ge=1, le=1024,
             extra_json_schema={"flags": ["--dp", "-dp"]}),
    ] = 1  # fmt: skip
    engine: Annotated[
        Literal["model", "simulated"],
        Meta(description="simulated: real processes, wire, scheduler and KV cache, but made-up "
             "tokens at a set pace. For load tests and drills."),
    ] = "model"  # fmt: skip
    device: Annotated[
        Literal["auto", "cuda", "cpu"], Meta(description="Where the engines run.")
    ] = "auto"
    devices: Annotated[
        str | None,
        Meta(description="GPUs to use, comma separated (indexes or UUIDs). Default: the first N."),
    ] = None
    threads_per_engine: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="CPU threads of an engine. Default: its share of the cores."),
    ] = None
    block_size: Annotated[int, Meta(description="Tokens in a KV cache block.", ge=1, le=256)] = 16
    kv_cache_memory: Annotated[
        str | None,
        Meta(description="KV cache of an engine: bytes, or 512MiB, 4GiB … Default: on the CPU 1GiB, "
             "less where memory is short; on a GPU what its largest step leaves free."),
    ] = None  # fmt: skip
    kv_cache_dtype: Annotated[
        Literal["auto", "float32", "float16", "bfloat16"],
        Meta(description="Type of the KV cache. auto: float16 on the CPU, the weights' on a GPU."),
    ] = "auto"
    gpu_memory_utilization: Annotated[
        float, Meta(description="Share of a GPU's memory that an engine may use.", gt=0, le=1)
    ] = 0.9
    max_num_seqs: Annotated[
        int, Meta(description="Requests that run at once in one engine.", ge=1, le=4096)
    ] = 64
    max_num_batched_tokens: Annotated[
        int, Meta(description="Tokens that one step may compute.", ge=1)
    ] = 512
    prefill_chunk_while_decoding: Annotated[
        int,
        Meta(description="Tokens of new prompts a step may compute while others are decoding.",
             ge=1),
    ] = 128  # fmt: skip
    async_scheduling: Annotated[
        bool | None,
        Meta(description="Schedule a step while the one before is still computed. Default: on a GPU; a "
             "CPU has no time of its own for that."),
    ] = None  # fmt: skip
    enable_prefix_caching: Annotated[
        bool, Meta(description="Keep the KV blocks of finished requests for equal prefixes.")
    ] = True
    scheduling_policy: Annotated[
        Literal["fcfs", "priority"],
        Meta(description="First come first served, or by priority and then arrival."),
    ] = "fcfs"
    attention_backend: Annotated[
        Literal["auto", "torch", "cpu_native"],
        Meta(description="Paged attention and linears: plain torch, or the compiled CPU kernels "
             "(needs a C compiler at first start). auto: the fastest that works here; on a GPU "
             "FlashAttention, if it is installed."),
    ] = "auto"  # fmt: skip
    check_invariants: Annotated[
        bool, Meta(description="Verify the block accounting whenever an engine becomes idle.")
    ] = False
    inject_fault: Annotated[
        list[str],
        Meta(description="For drills: let engines fail on purpose, e.g. hang:rank=0:step=500 "
             "(docs/drills.md); may be given several times."),
    ] = []  # fmt: skip


class SimulationConfig(Section, frozen=True, kw_only=True):
    """Simulated engine: how long its steps take."""

    simulated_step_seconds: Annotated[
        float, Meta(description="Seconds that every step takes.", ge=0)
    ] = 0.01
    simulated_request_seconds: Annotated[
        float, Meta(description="Seconds that each decoding request adds to a step.", ge=0)
    ] = 0.0005
    simulated_kv_token_seconds: Annotated[
        float, Meta(description="Seconds that each token of context of those adds.", ge=0)
    ] = 0.0000001
    simulated_prefill_rate: Annotated[
        float, Meta(description="Prompt tokens computed in a second.", gt=0)
    ] = 20_000.0


class FrontendConfig(Section, frozen=True, kw_only=True):
    """HTTP and routing."""

    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(description="Port to listen on; 0 takes a free one.", ge=0, le=65535)
    ] = 8000
    frontends: Annotated[
        Annotated[int, Meta(ge=1, le=256)] | None,
        Meta(description="Number of HTTP processes. Default: min(dp, 4).",
             extra_json_schema={"flags": ["--api-server-count"]}),
    ] = None  # fmt: skip
    api_key: Annotated[
        list[str], Meta(description="Keys that clients must send; may be given several times.")
    ] = []
    admin_key: Annotated[
        list[str],
        Meta(description="Keys that open the cluster's operation over HTTP (/cluster/…); may be given "
             "several times. Default: none, and it is closed."),
    ] = []  # fmt: skip
    api_key_file: Annotated[
        str | None,
        Meta(description="File with more keys for clients: one a line, # begins a comment. Read once, "
             "when the cluster starts; no key of it is shown in a list of processes."),
    ] = None  # fmt: skip
    admin_key_file: Annotated[
        str | None, Meta(description="File with more admin keys, in the same form.")
    ] = None
    ssl_certfile: Annotated[
        str | None,
        Meta(description="File with the certificate, and those up to its root: then all of HTTP is "
             "over TLS."),
    ] = None  # fmt: skip
    ssl_keyfile: Annotated[
        str | None,
        Meta(
            description="File with the certificate's private key. Default: it is in --ssl-certfile."
        ),
    ] = None
    ssl_keyfile_password: Annotated[
        str | None,
        Meta(
            description="What the private key is encrypted with; better given in the environment."
        ),
    ] = None
    ssl_ca_certs: Annotated[
        str | None,
        Meta(description="File with the authorities that may have signed clients' certificates: "
             "clients must then have one."),
    ] = None  # fmt: skip
    allowed_origins: Annotated[
        list[str],
        Meta(description="Web pages that may use the API from a browser, by origin; may be given "
             "several times, or once as a JSON list. *: all."),
    ] = msgspec.field(default_factory=lambda: ["*"])  # fmt: skip
    allowed_methods: Annotated[
        list[str], Meta(description="Methods that those pages may use, likewise. *: all there are.")
    ] = msgspec.field(default_factory=lambda: ["*"])
    allowed_headers: Annotated[
        list[str], Meta(description="Headers that those pages may send, likewise. *: all.")
    ] = msgspec.field(default_factory=lambda: ["*"])
    allow_credentials: Annotated[
        bool,
        Meta(description="Let those pages send cookies and the like; needs --allowed-origins."),
    ] = False
    routing: Annotated[
        Literal["marginal-cost", "vllm", "vllm-classic", "power-of-two", "least-inflight",
                "round-robin", "random"],
        Meta(description="How a replica is chosen for a request (docs/balancing.md)."),
    ] = "marginal-cost"  # fmt: skip
    max_migrations: Annotated[
        int,
        Meta(description="How often a request may move on after its engine failed in a step that "
             "the request was part of. Engines killed from outside do not count.", ge=0, le=100),
    ] = 2  # fmt: skip
    max_resumable_tokens: Annotated[
        int,
        Meta(description="A request whose prompt and max_tokens are more than this is not kept for "
             "going on in another engine.", ge=0),
    ] = 1_000_000  # fmt: skip
    conviction_timeout: Annotated[
        float,
        Meta(description="Seconds for which a request that has killed its engines is refused when it "
             "comes again.", ge=0),
    ] = 300.0  # fmt: skip
    queue_timeout: Annotated[
        float, Meta(description="Seconds a request waits for an engine that can take it.", gt=0)
    ] = 120.0
    max_queued_requests: Annotated[
        int,
        Meta(description="Requests one frontend holds while the engines are full or away.", ge=1),
    ] = 10_000
    max_queued_tokens: Annotated[
        int, Meta(description="Prompt tokens that those have together, at most.", ge=1)
    ] = 50_000_000
    max_ttft: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Refuse a request that would wait longer than this for its first token, in "
             "seconds. Default: never."),
    ] = None  # fmt: skip
    slow_reader_timeout: Annotated[
        float,
        Meta(description="Seconds after which a client that reads nothing of its stream is cut off.",
             gt=0),
    ] = 60.0  # fmt: skip
    keep_alive_timeout: Annotated[
        float,
        Meta(description="Seconds an idle connection stays open; keep it above the balancer's.",
             gt=0),
    ] = 75.0  # fmt: skip
    max_body_bytes: Annotated[int, Meta(description="Largest request body.", ge=1024)] = (
        16 * 1024 * 1024
    )
    body_timeout: Annotated[
        float,
        Meta(description="Seconds within which a request's body must have arrived.", gt=0),
    ] = 120.0  # fmt: skip
    max_header_bytes: Annotated[
        int,
        Meta(description="Longest head of a request: its first line and its headers.", ge=1024),
    ] = 64 * 1024  # fmt: skip
    max_connections: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Connections that one frontend has open at once; more wait until one closes. "
             "Default: as many as it may have files."),
    ] = None  # fmt: skip
    max_messages: Annotated[
        int, Meta(description="Messages in one conversation, at most.", ge=1)
    ] = 10_000
    max_prompts: Annotated[int, Meta(description="Prompts in one request, at most.", ge=1)] = 1024
    max_choices: Annotated[
        int, Meta(description="Answers to one request, over all its prompts, at most.", ge=1)
    ] = 1024
    max_stop_strings: Annotated[
        int, Meta(description="Stop strings in one request, at most.", ge=1)
    ] = 128
    max_tools: Annotated[int, Meta(description="Tools in one request, at most.", ge=1)] = 128
    max_json_depth: Annotated[
        int,
        Meta(description="Lists and objects of a request that may be inside each other.",
             ge=8, le=500),
    ] = 200  # fmt: skip
    tokenizer_threads: Annotated[
        int, Meta(description="Threads that tokenize, in each frontend.", ge=1, le=64)
    ] = 2
    chat_template: Annotated[
        str | None, Meta(description="File with a chat template. Default: the model's own.")
    ] = None
    tool_call_parser: Annotated[
        Literal["auto", "hermes", "llama3_json", "mistral", "pythonic", "json"],
        Meta(description="How the model writes calls of tools. auto: as its chat template tells."),
    ] = "auto"
    reasoning_parser: Annotated[
        Literal["none", "deepseek_r1", "qwen3", "think", "granite", "mistral"],
        Meta(description="How the model marks its reasoning, which then is no part of the content. "
             "none: the text stays as it is."),
    ] = "none"  # fmt: skip

    @property
    def is_over_tls(self) -> bool:
        """Whether clients must speak HTTPS."""
        return self.ssl_certfile is not None


class CoordinatorConfig(Section, frozen=True, kw_only=True):
    """Health."""

    publish_interval: Annotated[
        float, Meta(description="Seconds between two cluster views while things change.", gt=0)
    ] = 0.05
    suspect_after: Annotated[
        float,
        Meta(description="Seconds without a report after which an engine gets no new work.",
             gt=0),
    ] = 1.0  # fmt: skip
    hang_timeout: Annotated[
        float,
        Meta(description="Seconds without a finished step, or without any sign of life, after "
             "which an engine is declared dead (more where its steps are long).", gt=0),
    ] = 3.0  # fmt: skip


class LaunchConfig(Section, frozen=True, kw_only=True):
    """Supervision."""

    startup_timeout: Annotated[
        float, Meta(description="Seconds until the first engine must be ready.", gt=0)
    ] = 600.0
    shutdown_timeout: Annotated[
        float, Meta(description="Seconds that running requests get when the cluster stops.", ge=0)
    ] = 30.0
    max_restarts: Annotated[
        int, Meta(description="Restarts at once of one process in the window.", ge=0)
    ] = 3
    restart_window: Annotated[
        float, Meta(description="Seconds over which restarts are counted.", gt=0)
    ] = 60.0
    cluster_id: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,31}$")] | None,
        Meta(description="Name of this cluster for `cluster status`. Default: a fresh one."),
    ] = None
    log_format: Annotated[
        Literal["auto", "console", "json"],
        Meta(description="auto: readable lines on a terminal, JSON lines otherwise."),
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least level to log.")
    ] = "info"


class ClusterConfig(Section, frozen=True, kw_only=True):
    """The whole configuration of one cluster, with the run directory it lives in."""

    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    simulation: SimulationConfig = SimulationConfig()
    frontend: FrontendConfig = FrontendConfig()
    coordinator: CoordinatorConfig = CoordinatorConfig()
    launch: LaunchConfig = LaunchConfig()
    run_directory: str = ""

    @property
    def model_directory(self) -> Path:
        """The folder with the weights; `launch` has resolved it before any process reads it."""
        assert self.model.model is not None, "launch resolves the model before it writes the config"
        return Path(self.model.model)

    @property
    def num_frontends(self) -> int:
        """Number of HTTP processes, with the default worked out."""
        return self.frontend.frontends or min(self.engine.data_parallel_size, 4)


def load_config(path: Path) -> ClusterConfig:
    """Read the resolved configuration that `launch` wrote for its children."""
    return msgspec.json.decode(path.read_bytes(), type=ClusterConfig)


def save_config(config: ClusterConfig, path: Path) -> None:
    """Write the resolved configuration, readable by people and by children."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2))


_UNITS = {"": 1, "B": 1, "K": 1000, "M": 1000**2, "G": 1000**3,
          "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3, "KB": 1000, "MB": 1000**2, "GB": 1000**3}  # fmt: skip


def parse_bytes(text: str) -> int:
    """Number of bytes in `text`, such as "1048576", "512MiB" or "4GiB".

    Raises ValueError if it is not a positive size.
    """
    number = text.strip().rstrip("KMGkmgiIbB ")
    unit = text.strip()[len(number) :].strip().upper()
    if unit not in _UNITS:
        raise ValueError(f"{text!r} is not a size such as 512MiB or 4GiB")
    size = int(float(number) * _UNITS[unit])
    if size <= 0:
        raise ValueError(f"{text!r} is not a positive size")
    return size
