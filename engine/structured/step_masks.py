"""The masks of one step, computed by threads of its own while the model computes the step."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from weakref import WeakKeyDictionary

from llguidance import LLTokenizer

from cluster.deep_call import submit_deep
from engine.request import Request
from engine.scheduling.output import ScheduledRequest
from engine.structured.errors import GrammarFailed
from engine.structured.mask import GrammarMask
from engine.structured.matcher import GrammarMatcher
from engine.structured.matchers import MatcherFactory

_logger = logging.getLogger(__name__)

_MAX_THREADS = 8


class StepMasks:
    """The masks of a step's requests, as they get ready."""

    def __init__(self, pending: Mapping[Request, Future[GrammarMask]]) -> None:
        self._pending = pending

    def of(self, request: Request) -> GrammarMask | None:
        """The request's mask, waited for if need be; None if it has no grammar.

        Raises GrammarFailed if the request cannot go on.
        """
        mask = self._pending.get(request)
        return None if mask is None else mask.result()


NO_MASKS = StepMasks({})


class GrammarMasks:
    """Follows the requests that have grammars. Owned by the busy loop.

    A request's matcher is begun with its first chunk of prompt. So it is there when the first token is
    drawn, unless it takes longer than the model takes for all of the prompt: the loop waits then.
    """

    def __init__(self, load: Callable[[], LLTokenizer]) -> None:
        self._factory = MatcherFactory(load)
        self._matchers: WeakKeyDictionary[Request, Future[GrammarMatcher]] = WeakKeyDictionary()

    def warm_up(self) -> None:
        """Load the vocabulary now, since that would hold up all that run later."""
        try:
            self._factory.vocabulary()
        except GrammarFailed as error:
            _logger.warning("requests with grammars will fail: %s", error)

    def begin(self, scheduled: Iterable[ScheduledRequest]) -> StepMasks:
        """Begin with what the step's requests need; costs nothing where none has a grammar."""
        runs = [run for run in scheduled if run.request.sampling.grammar]
        if not runs:
            return NO_MASKS
        # Threads that end with their work: an engine without grammars has none, nor one that stops.
        executor = ThreadPoolExecutor(_num_threads(len(runs)), "grammar")
        for run in runs:
            if run.request not in self._matchers:
                self._matchers[run.request] = submit_deep(
                    executor, self._factory.new_matcher, run.request.sampling.grammar
                )
        masks = {
            run.request: submit_deep(
                executor, _mask, self._matchers[run.request], run.request.output_token_ids
            )
            for run in runs
            if run.samples
        }
        executor.shutdown(wait=False)
        return StepMasks(masks)


def _mask(matcher: Future[GrammarMatcher], output_token_ids: list[int]) -> GrammarMask:
    # Matchers are submitted before masks, so whatever is waited for here runs already.
    return matcher.result().mask_after(output_token_ids)


def _num_threads(num_requests: int) -> int:
    return min(num_requests, os.cpu_count() or 1, _MAX_THREADS)
