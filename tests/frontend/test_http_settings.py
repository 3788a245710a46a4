"""What the HTTP server is told, where a default of its own would do harm."""

from cluster.config import FrontendConfig
from frontend.http_settings import hypercorn_settings


def test_idle_connections_outlast_those_of_usual_balancers() -> None:
    assert hypercorn_settings(FrontendConfig()).keep_alive_timeout >= 75


def test_no_number_of_requests_ends_a_connection() -> None:
    assert hypercorn_settings(FrontendConfig()).keep_alive_max_requests > 10**9


def test_heads_have_one_limit_in_both_versions_of_http() -> None:
    settings = hypercorn_settings(FrontendConfig(max_header_bytes=5000))
    assert settings.h11_max_incomplete_size == settings.h2_max_header_list_size == 5000


def test_without_a_certificate_there_is_no_tls() -> None:
    assert not hypercorn_settings(FrontendConfig()).ssl_enabled
