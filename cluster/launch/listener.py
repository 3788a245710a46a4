"""The HTTP socket, bound once by the launcher and inherited by every frontend."""

import socket

from cluster.errors import ConfigError

BACKLOG = 4096


def bind_listener(host: str, port: int) -> socket.socket:
    """A bound TCP socket that does not listen yet. Raises ConfigError, naming the flag, if it
    cannot be had: without SO_REUSEPORT, so that a port in use is noticed."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"--host {host} is not an address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ConfigError(f"--host {host} --port {port} cannot be used: {error.strerror}") from None
    return listener


def start_listening(listener: socket.socket) -> None:
    """Accept connections into the backlog. Raises ConfigError if another process was faster."""
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        port = listener.getsockname()[1]
        raise ConfigError(f"--port {port} cannot be used: {error.strerror}") from None


def listener_url(listener: socket.socket, is_over_tls: bool = False) -> str:
    """A URL that reaches the listener from this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "https" if is_over_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
