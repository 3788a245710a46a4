"""The files of TLS, tried by `launch` before anything is started."""

import ssl
from pathlib import Path

import msgspec

from cluster.config import FrontendConfig
from cluster.errors import ConfigError

_FILES = {
    "ssl_certfile": "--ssl-certfile",
    "ssl_keyfile": "--ssl-keyfile",
    "ssl_ca_certs": "--ssl-ca-certs",
}


def with_tls_files(frontend: FrontendConfig) -> FrontendConfig:
    """The settings with absolute paths.

    Raises ConfigError, naming the flag, if a file is missing or they do not belong together.
    """
    paths = {name: _path(getattr(frontend, name), flag) for name, flag in _FILES.items()}
    frontend = msgspec.structs.replace(frontend, **paths)
    if frontend.ssl_certfile is not None:
        _check_chain(frontend, frontend.ssl_certfile)
    else:
        _check_nothing_else_is_given(frontend)
    return frontend


def _path(given: str | None, flag: str) -> str | None:
    if given is None:
        return None
    path = Path(given)
    try:
        path.open("rb").close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a path"
        raise ConfigError(f"{flag} {given} cannot be read: {reason}") from None
    return str(path.resolve())


def _check_nothing_else_is_given(frontend: FrontendConfig) -> None:
    for name in (*_FILES, "ssl_keyfile_password"):
        if getattr(frontend, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} needs --ssl-certfile")


def _check_chain(frontend: FrontendConfig, certfile: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Given no password, OpenSSL would ask for it at the terminal.
        context.load_cert_chain(certfile, frontend.ssl_keyfile, frontend.ssl_keyfile_password or "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"--ssl-certfile {certfile} and --ssl-keyfile {frontend.ssl_keyfile or certfile} are not "
            f"a certificate and its key, or --ssl-keyfile-password is wrong: {error}"
        ) from None
    if frontend.ssl_ca_certs is not None:
        try:
            context.load_verify_locations(frontend.ssl_ca_certs)
        except ssl.SSLError as error:
            raise ConfigError(
                f"--ssl-ca-certs {frontend.ssl_ca_certs} holds no certificates: {error}"
            ) from None
