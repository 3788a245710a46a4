"""An engine that a test plays by hand, message by message, over the real sockets."""

import asyncio
from pathlib import Path

import zmq

from cluster.wire.block_hash import HASH_SEED
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import Endpoints
from cluster.wire.ids import engine_identity
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AbortRequests,
    AddRequest,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineGoodbye,
    EngineHello,
    FrontendToEngine,
    Message,
    Utility,
)
from cluster.wire.sockets import Context, connect_dealer, connect_outputs

BLOCK_SIZE = 8


class WireEngine:
    """Connects to frontend 0, incarnation 1, and says only what it is told to."""

    def __init__(
        self, context: Context, run_directory: Path, rank: int = 0, incarnation: int = 1
    ) -> None:
        self.rank, self.incarnation = rank, incarnation
        self._context = context
        self._addresses = Endpoints(run_directory).frontend(0, 1)
        self._encoder = Encoder()
        self._decoder: Decoder[FrontendToEngine] = Decoder(FrontendToEngine)
        self._outputs = connect_outputs(context, self._addresses.outputs)
        self.connect()

    def connect(self) -> None:
        """Take up the connection on which requests come."""
        identity = engine_identity(self.rank, self.incarnation)
        self._dealer = connect_dealer(self._context, self._addresses.requests, identity)

    def disconnect(self) -> None:
        """Drop the connection on which requests come."""
        self._dealer.close()

    def close(self) -> None:
        """Drop all connections."""
        self._dealer.close()
        self._outputs.close(linger=0)

    def say_hello(
        self,
        model_fingerprint: str = "model",
        block_size: int = BLOCK_SIZE,
        hash_seed: str = HASH_SEED,
    ) -> None:
        """Be there."""
        hello = EngineHello(
            PROTOCOL_VERSION, self.rank, self.incarnation, model_fingerprint, 1024, block_size,
            1000, 64, hash_seed,
        )  # fmt: skip
        self._dealer.send_multipart(self._encoder.encode(hello))

    def put_out(self, *outputs: EngineCoreOutput) -> None:
        """Send what one step produced."""
        self.tell(EngineCoreOutputs(self.rank, self.incarnation, list(outputs)))

    def say_goodbye(self) -> None:
        """End as an engine does that is asked to."""
        self.tell(self.goodbye())

    def goodbye(self) -> EngineGoodbye:
        """The last words of an engine that is asked to stop."""
        return EngineGoodbye(self.rank, self.incarnation, drained=True)

    def tell(self, message: Message) -> None:
        """Send on the link of outputs."""
        self._outputs.send_multipart(self._encoder.encode(message))

    async def next_message(self) -> AddRequest | AbortRequests | Utility:
        """The next message that is not a probe. Raises TimeoutError if none comes."""
        async with asyncio.timeout(5):
            while True:
                try:
                    frames = self._dealer.recv_multipart(flags=zmq.NOBLOCK)
                except zmq.Again:
                    await asyncio.sleep(0.002)
                    continue
                message = self._decoder.decode(frames)
                if not isinstance(message, Utility) or message.method != "ping":
                    return message

    async def next_request(self) -> AddRequest:
        """The next message, which is a request."""
        message = await self.next_message()
        assert isinstance(message, AddRequest), message
        return message
