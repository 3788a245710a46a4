"""The files of TLS: `launch` says which flag is wrong before it starts anything."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.config import FrontendConfig
from cluster.errors import ConfigError
from cluster.launch.tls_files import with_tls_files
from tests.support.certificates import Certificate, make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def complaint(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        with_tls_files(msgspec.convert({k: str(v) for k, v in settings.items()}, FrontendConfig))
    return str(caught.value)


def test_without_files_there_is_no_tls() -> None:
    assert not with_tls_files(FrontendConfig()).is_over_tls


def test_paths_are_made_absolute(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(certificate.certfile.parent)
    found = with_tls_files(
        FrontendConfig(ssl_certfile="server.pem", ssl_keyfile="server-key.pem",
                       ssl_ca_certs="server.pem")
    )  # fmt: skip
    assert found.is_over_tls
    assert found.ssl_certfile == found.ssl_ca_certs == str(certificate.certfile)
    assert found.ssl_keyfile == str(certificate.keyfile)


def test_one_file_may_hold_certificate_and_key(certificate: Certificate, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.certfile.read_bytes() + certificate.keyfile.read_bytes())
    assert with_tls_files(FrontendConfig(ssl_certfile=str(both))).is_over_tls


@pytest.mark.parametrize("name", ["ssl_certfile", "ssl_keyfile", "ssl_ca_certs"])
def test_a_missing_file_is_named_with_its_flag(certificate: Certificate, name: str) -> None:
    files: dict[str, object] = {
        "ssl_certfile": certificate.certfile,
        "ssl_keyfile": certificate.keyfile,
    }
    words = complaint(**(files | {name: "/nowhere.pem"}))
    flag = "--" + name.replace("_", "-")
    assert words == f"{flag} /nowhere.pem cannot be read: No such file or directory"


def test_a_key_needs_its_certificate(certificate: Certificate, tmp_path: Path) -> None:
    other = make_certificate(tmp_path, "other")
    assert "--ssl-certfile" in complaint(ssl_keyfile=certificate.keyfile)
    assert "--ssl-keyfile" in complaint(
        ssl_certfile=certificate.certfile, ssl_keyfile=other.keyfile
    )
    assert "--ssl-keyfile" in complaint(ssl_certfile=certificate.certfile)


def test_what_is_no_certificate_is_no_authority(certificate: Certificate, tmp_path: Path) -> None:
    file = tmp_path / "nothing.pem"
    file.write_text("nothing")
    words = complaint(
        ssl_certfile=certificate.certfile, ssl_keyfile=certificate.keyfile, ssl_ca_certs=file
    )
    assert words.startswith(f"--ssl-ca-certs {file} holds no certificates")


def test_a_wrong_password_is_said_and_not_asked_for(tmp_path: Path) -> None:
    locked = make_certificate(tmp_path, "locked", password="right")
    files = {"ssl_certfile": locked.certfile, "ssl_keyfile": locked.keyfile}
    for more in ({}, {"ssl_keyfile_password": "wrong"}):
        assert "--ssl-keyfile-password is wrong" in complaint(**files, **more)
