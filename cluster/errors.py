"""Every error that this project raises on purpose.

    ClusterError
    ├── ConfigError               a setting is wrong             → `launch` prints it, exit code 2
    │   └── ModelError            a model folder cannot be used  → `launch` prints it, exit code 2
    ├── StartupError              the cluster did not come up    → `launch` prints it, exit code 3
    ├── ControlError              a `cluster` command failed     → printed, exit code 1
    │   └── OperationConflict     not while this is under way    → the same; 409 over HTTP
    ├── WireError
    │   ├── DecodeError           a frame is not a message       → counted and dropped by the receiver
    │   ├── ProtocolMismatch      a peer speaks another version  → the peer is refused
    │   └── InsecureEndpoint      an open TCP address, no keys   → the process refuses to start
    ├── RequestError              the client's fault             → 4xx
    │   ├── InvalidRequest        a field is wrong               → 400, names the field
    │   ├── ContextLengthExceeded prompt (and answer) too long   → 400 context_length_exceeded
    │   ├── ModelNotFound         another model was asked for    → 404
    │   ├── Unauthorized          no key, or a wrong one         → 401
    │   ├── Forbidden             not with this key              → 403
    │   └── Convicted             it has killed engines before   → 422 request_convicted
    └── ServiceError              our side's fault               → 5xx, or 429
        ├── NotServing            no engine, or we are leaving   → 503 with Retry-After
        ├── Overloaded            too much to do already         → 429 with Retry-After
        └── EngineFailed          the request's moves are spent  → 500 engine_failed

The frontend's map from these to HTTP answers is `frontend/openai/errors.py`, and nowhere else.
"""


class ClusterError(Exception):
    """The root: anything that this project raises on purpose."""


class ConfigError(ClusterError):
    """A setting is unknown, out of range or contradicts another; the text names it."""


class ModelError(ConfigError):
    """A model folder is missing, incomplete, or uses a feature that is not supported."""


class StartupError(ClusterError):
    """The cluster did not become ready: a child died while loading, or the deadline passed."""


class ControlError(ClusterError):
    """A `cluster` command could not reach its cluster, or was refused by it."""


class OperationConflict(ControlError):
    """An operation is refused for what the cluster does now; it may be asked for again later."""


class WireError(ClusterError):
    """Something is wrong with a message or a link between two processes."""


class DecodeError(WireError):
    """Frames that are not a message of this link. Receivers count and drop them."""


class ProtocolMismatch(WireError):
    """A peer speaks another major version of the protocol."""


class InsecureEndpoint(WireError):
    """A TCP address beyond loopback was given without keys."""


class RequestError(ClusterError):
    """The client sent something that cannot be served; `param` names the field at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidRequest(RequestError):
    """A field of the request is missing, of the wrong type, or out of range."""


class ContextLengthExceeded(RequestError):
    """The prompt, or the prompt and the answer asked for, do not fit the model's context."""


class ModelNotFound(RequestError):
    """The request names a model that is not served here."""


class Unauthorized(RequestError):
    """The request carries no API key, or one that is not known."""


class Forbidden(RequestError):
    """The request needs an admin key, and there is none or it has another."""


class Convicted(RequestError):
    """The same request has killed engines a short while ago, and is not tried again yet."""


class ServiceError(ClusterError):
    """A request that is right could not be served."""

    def __init__(self, message: str, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class NotServing(ServiceError):
    """No engine can take the request now, or the server is leaving."""


class Overloaded(ServiceError):
    """More is queued than may be, or the wait would be too long; `reason` says it in two words."""

    def __init__(
        self, message: str, retry_after_seconds: int | None = None, reason: str = "overloaded"
    ) -> None:
        super().__init__(message, retry_after_seconds)
        self.reason = reason


class EngineFailed(ServiceError):
    """The engines that held the request died more often than it may be moved, or failed on it."""
