"""Who may come in: refusals of new requests, each with its reason."""

from cluster.errors import Convicted, InvalidRequest, NotServing, Overloaded
from frontend.backlog import Backlog
from frontend.cluster_view import LiveView
from frontend.convictions import Convictions
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_table import RETRY_AFTER_SECONDS
from frontend.waiting_line import WaitingLine


class Admission:
    """Looks at a request before it is taken on."""

    def __init__(
        self,
        view: LiveView,
        waiting: WaitingLine,
        convictions: Convictions,
        metrics: FrontendMetrics,
    ) -> None:
        self._view = view
        self._waiting = waiting
        self._convictions = convictions
        self._metrics = metrics

    def check(self, request: GenerationRequest, is_draining: bool, now: float) -> None:
        """Raises NotServing while draining or if its engine does not serve, Convicted, InvalidRequest
        if it is pinned to an engine that the cluster does not have, and Overloaded."""
        self.check_room(request, is_draining, now)
        if self._convictions.hold_against(request):
            self._metrics.refused("convicted")
            raise Convicted(
                "this request has ended the engines that served it, and is not tried again for"
                " some minutes"
            )

    def check_room(self, request: GenerationRequest, is_draining: bool, now: float) -> None:
        """Raises what `check` does, but for convictions, which need the prompt.

        Costs little, and tells of a sketch with an empty prompt what holds for every prompt.
        """
        if is_draining:
            self._metrics.refused("draining")
            raise NotServing("the server is shutting down", RETRY_AFTER_SECONDS)
        self._check_pin(request.pinned_rank, now)
        backlog = Backlog.of(self._view.routing_view(now))
        try:
            self._waiting.check_room(request, now, backlog)
        except Overloaded as error:
            self._metrics.refused(error.reason)
            raise

    def _check_pin(self, rank: int | None, now: float) -> None:
        if rank is None:
            return
        size = self._view.num_engines
        if not 0 <= rank < size:
            raise InvalidRequest(
                f"data_parallel_rank must be between 0 and {size - 1}, not {rank}",
                param="data_parallel_rank",
            )
        book = self._view.books.get(rank)
        if book is None or not self._view.may_choose(book, now):
            raise NotServing(f"engine {rank} is not serving", RETRY_AFTER_SECONDS)
