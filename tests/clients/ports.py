"""Ports for programs that cannot choose one themselves."""

import socket


def free_ports(count: int) -> list[int]:
    """So many different ports that nobody listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
