"""The HTTP socket is had, or refused in one line."""

import socket

import pytest

from cluster.errors import ConfigError
from cluster.launch.listener import bind_listener, listener_url, start_listening


def test_port_zero_takes_a_free_port_that_answers() -> None:
    with bind_listener("127.0.0.1", 0) as listener:
        start_listening(listener)
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass
        assert listener_url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port {port} cannot be used: Address already in"):
            bind_listener("127.0.0.1", port)


def test_of_two_that_are_bound_only_the_first_listens() -> None:
    with bind_listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with bind_listener("127.0.0.1", port) as second:
            start_listening(first)
            with pytest.raises(ConfigError, match=f"--port {port} cannot be used"):
                start_listening(second)


@pytest.mark.parametrize("host", ["no such host", "203.0.113.7"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=f"--host {host}"):
        bind_listener(host, 0)


def test_an_open_address_is_shown_as_one_that_can_be_reached() -> None:
    with bind_listener("0.0.0.0", 0) as listener:
        assert listener_url(listener).startswith("http://127.0.0.1:")
        assert listener_url(listener, is_over_tls=True).startswith("https://127.0.0.1:")
