"""Hypercorn's HTTP connection, which ends as soon as its client has gone."""

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Closed, Event, Updated


class HttpConnection(TCPServer):
    """One connection.

    Hypercorn's own keeps an idle connection, with its file descriptor, until the keep-alive timeout,
    even where the client has closed it: its timer is all that is waited for.
    """

    async def _read_data(self) -> None:
        """Read until the client closes; then nothing is left to wait for."""
        await super()._read_data()
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """Send what the protocol has; a connection that becomes idle after its client left ends."""
        if isinstance(event, Updated) and event.idle and self.reader.at_eof():
            event = Closed()
        await super().protocol_send(event)
