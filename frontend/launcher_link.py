"""A frontend's questions to the launcher, for operators who speak HTTP."""

import asyncio
import secrets

from cluster.errors import ControlError, DecodeError, NotServing, OperationConflict
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import ControlReply, ControlRequest
from cluster.wire.sockets import LoopReader, connect_dealer, new_context, try_send

ANSWER_SECONDS = 5.0


async def ask_launcher(run_directory: str, verb: str, *args: str) -> str:
    """The launcher's answer to one control request, a JSON text; the event loop goes on meanwhile.

    Raises OperationConflict or ControlError if it refuses, NotServing if it does not answer.
    """
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[list[bytes]] = loop.create_future()

    def take(frames: list[bytes]) -> None:
        if not answered.done():
            answered.set_result(frames)

    identity = b"frontend-" + secrets.token_hex(8).encode()
    # Questions are rare, and so each has sockets and a context of its own.
    with (
        new_context() as context,
        connect_dealer(context, Endpoints(run_directory).control, identity) as dealer,
    ):
        reader = LoopReader(loop, dealer, take)
        try:
            try_send(dealer, Encoder().encode(ControlRequest(verb, list(args))))
            reader.poke()
            async with asyncio.timeout(ANSWER_SECONDS):
                frames = await answered
        except TimeoutError:
            raise NotServing(
                f"launch does not answer within {ANSWER_SECONDS:g} s: it is ending, or hangs"
            ) from None
        finally:
            reader.close()
    return _read(frames)


def _read(frames: list[bytes]) -> str:
    try:
        reply: ControlReply = Decoder(ControlReply).decode(frames)
    except DecodeError as error:
        raise NotServing(f"launch answers nonsense: {error}") from None
    if reply.error:
        raise (OperationConflict if reply.is_conflict else ControlError)(reply.error)
    return reply.body
