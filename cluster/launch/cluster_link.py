"""The launcher's two sockets to the coordinator: what it knows out, the cluster view in."""

import asyncio
import logging
from collections.abc import Callable

from cluster.errors import DecodeError
from cluster.telemetry.logs import RateLimited
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import VIEW_TOPIC, Endpoints
from cluster.wire.messages import ClusterView, DesiredState, ProcessExited, ProcessStarted
from cluster.wire.sockets import Context, LoopReader, connect_reports, connect_sub, try_send


class ClusterLink:
    """Tells the coordinator, and calls `on_view` for each view. Never waits for either."""

    def __init__(
        self,
        context: Context,
        endpoints: Endpoints,
        on_view: Callable[[ClusterView], None],
        on_bad_frame: Callable[[], None],
    ) -> None:
        self._reports = connect_reports(context, endpoints.reports)
        self._views = connect_sub(context, endpoints.view, VIEW_TOPIC)
        self._encoder = Encoder()
        self._decoder: Decoder[ClusterView] = Decoder(ClusterView)
        self._on_view = on_view
        self._on_bad_frame = on_bad_frame
        self._complaints = RateLimited(logging.getLogger("launch"))
        self._reader = LoopReader(asyncio.get_running_loop(), self._views, self._take)

    def tell(self, message: DesiredState | ProcessStarted | ProcessExited) -> None:
        """Send it if a coordinator is there. The desired state repeats all that was missed."""
        try_send(self._reports, self._encoder.encode(message))

    def _take(self, frames: list[bytes]) -> None:
        try:
            view = self._decoder.decode(frames[1:])
        except DecodeError as error:
            self._on_bad_frame()
            self._complaints.warning("bad view", "dropped a bad frame on the view link: %s", error)
            return
        self._on_view(view)

    def close(self) -> None:
        """Release the sockets."""
        self._reader.close()
        self._reports.close()
        self._views.close()
