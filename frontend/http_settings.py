"""What hypercorn is told of our settings."""

import logging
import ssl
import sys

from hypercorn.config import Config as HypercornConfig

from cluster.config import FrontendConfig

MAX_HTTP2_STREAMS = 256
"""Requests at once on one connection of HTTP/2; a balancer that has more opens another."""


def hypercorn_settings(frontend: FrontendConfig) -> HypercornConfig:
    """Timeouts, limits, certificates; nothing is logged but warnings."""
    settings = HypercornConfig()
    settings.keep_alive_timeout = frontend.keep_alive_timeout
    # At its limit a connection of HTTP/2 would end with answers under way.
    settings.keep_alive_max_requests = sys.maxsize
    settings.h11_max_incomplete_size = frontend.max_header_bytes
    settings.h2_max_header_list_size = frontend.max_header_bytes
    settings.h2_max_concurrent_streams = MAX_HTTP2_STREAMS
    settings.accesslog = None
    settings.errorlog = logging.getLogger("hypercorn.error")
    settings.errorlog.setLevel(logging.WARNING)
    settings.include_server_header = False
    _add_tls(settings, frontend)
    return settings


def _add_tls(settings: HypercornConfig, frontend: FrontendConfig) -> None:
    settings.certfile = frontend.ssl_certfile
    settings.keyfile = frontend.ssl_keyfile or frontend.ssl_certfile
    settings.keyfile_password = frontend.ssl_keyfile_password
    settings.ca_certs = frontend.ssl_ca_certs
    if frontend.ssl_ca_certs is not None:
        settings.verify_mode = ssl.CERT_REQUIRED
