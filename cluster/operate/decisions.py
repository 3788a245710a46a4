"""`cluster decisions`: why requests went to which engine, asked of a frontend over HTTP."""

import argparse
import http.client
import ssl
from urllib.parse import urlsplit

import msgspec

from cluster.config import FrontendConfig, load_config
from cluster.errors import ControlError
from cluster.launch.control_client import find_run
from cluster.operate.decision_table import Decisions, render_decisions
from cluster.operate.looking import read_status

ANSWER_SECONDS = 10.0
DEFAULT_NUMBER, LARGEST_NUMBER = 5, 256


def add_decisions(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Add the command; returns its parser."""
    parser = commands.add_parser(
        "decisions", help="Show the last choices of an engine, and what they were made by."
    )
    parser.add_argument(
        "-n", "--number", type=_number, default=DEFAULT_NUMBER, metavar="N",
        help="How many to show. Default: %(default)s.",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    return parser


def show_decisions(arguments: argparse.Namespace) -> None:
    """Print the last choices of whichever frontend answers. Raises ControlError if it cannot be asked."""
    run_directory = find_run(arguments.cluster)
    # The settings hold a key; the cluster's user alone may read them.
    frontend = load_config(run_directory / "cluster.json").frontend
    url = read_status(run_directory).url
    body = _get(url, f"/cluster/decisions?n={arguments.number}", frontend)
    if arguments.json:
        print(msgspec.json.format(body, indent=2).decode())
    else:
        print(render_decisions(msgspec.json.decode(body, type=Decisions)))


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_NUMBER:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number from 1 to {LARGEST_NUMBER}"
        )
    return int(text)


def _admin_key(frontend: FrontendConfig) -> str:
    if not frontend.admin_key:
        raise ControlError(
            "this cluster was launched without --admin-key, and so its decisions are not shown"
        )
    return frontend.admin_key[0]


def _get(url: str, path: str, frontend: FrontendConfig) -> bytes:
    # Straight to the frontend: a proxy that the environment names must not see the key.
    headers = {"Authorization": f"Bearer {_admin_key(frontend)}"}
    connection = _connection(url, frontend)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise ControlError(f"{url} does not answer: {error}") from None
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise ControlError(f"{url} answers {response.status}: {body.decode(errors='replace')}")
    return body


def _connection(url: str, frontend: FrontendConfig) -> http.client.HTTPConnection:
    address = urlsplit(url).netloc
    if not frontend.is_over_tls:
        return http.client.HTTPConnection(address, timeout=ANSWER_SECONDS)
    # It must be the cluster's own certificate, which seldom is for this machine's own address.
    context = ssl.create_default_context(cafile=frontend.ssl_certfile)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return http.client.HTTPSConnection(address, timeout=ANSWER_SECONDS, context=context)
