"""The other end of the control socket, for commands that talk to a running cluster."""

import secrets
from pathlib import Path

import zmq

from cluster.errors import ControlError, DecodeError, OperationConflict
from cluster.launch.rundir import live_runs
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import ControlReply, ControlRequest
from cluster.wire.sockets import connect_dealer, new_context, try_send

ANSWER_SECONDS = 10.0


def find_run(cluster_id: str | None, root: Path | None = None) -> Path:
    """The run directory of the cluster of that name, or of the only one there is.

    Raises ControlError if there is none, or no way to tell which one is meant.
    """
    runs = {path.name: path for path in live_runs(root)}
    if cluster_id is not None:
        if cluster_id not in runs:
            known = f"; running: {', '.join(runs)}" if runs else ""
            raise ControlError(f"no cluster {cluster_id} is running{known}")
        return runs[cluster_id]
    if not runs:
        raise ControlError("no cluster is running")
    if len(runs) > 1:
        raise ControlError(f"several clusters are running, choose by --cluster: {', '.join(runs)}")
    return next(iter(runs.values()))


def ask(run_directory: Path, verb: str, *args: str) -> str:
    """The launcher's answer to one command, a JSON text.

    Raises ControlError if it refuses, or does not answer, and OperationConflict if it refuses for
    what it is doing now.
    """
    with (
        new_context() as context,
        connect_dealer(
            context, Endpoints(run_directory).control, b"cluster-" + secrets.token_hex(8).encode()
        ) as socket,
    ):
        try_send(socket, Encoder().encode(ControlRequest(verb, list(args))))
        if not socket.poll(round(ANSWER_SECONDS * 1000), zmq.POLLIN):
            raise ControlError(
                f"cluster {run_directory.name} does not answer: it is starting, ending, or hangs"
            )
        try:
            reply: ControlReply = Decoder(ControlReply).decode(socket.recv_multipart())
        except DecodeError as error:
            raise ControlError(f"cluster {run_directory.name} answers nonsense: {error}") from None
    if reply.error:
        raise (OperationConflict if reply.is_conflict else ControlError)(reply.error)
    return reply.body
