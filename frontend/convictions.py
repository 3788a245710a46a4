"""Requests that have killed engines, and are refused when they come again. Pure; takes `now`."""

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from cluster.wire.messages import Conviction
from frontend.request import GenerationRequest
from frontend.suspicion import EngineKey

MAX_CONVICTIONS = 1000
FINGERPRINT_BYTES = 16


class _Known(NamedTuple):
    until: float
    deaths: list[EngineKey]
    is_own: bool
    """Whether this frontend is to tell of it."""


class Convictions:
    """By fingerprint, those of this frontend and what the coordinator tells of the others'."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._known: dict[bytes, _Known] = {}
        self.num_learned = 0
        """Rises with every new conviction: what was checked before is to be checked again."""

    def __len__(self) -> int:
        return len(self._known)

    def convict(self, request: GenerationRequest, deaths: Iterable[EngineKey], now: float) -> None:
        """Refuse this request from now on, for a while; these deaths are its doing."""
        until = now + self._timeout_seconds
        self._learn(fingerprint(request), _Known(until, list(deaths), is_own=True))

    def merge(self, convictions: Iterable[Conviction], now: float) -> set[EngineKey]:
        """Learn of others' convictions; returns the deaths that are explained by new ones."""
        explained: set[EngineKey] = set()
        for conviction in convictions:
            if conviction.fingerprint not in self._known and conviction.seconds_left > 0:
                explained.update(conviction.deaths)
                until = now + min(conviction.seconds_left, self._timeout_seconds)
                known = _Known(until, conviction.deaths, is_own=False)
                self._learn(conviction.fingerprint, known)
        return explained

    def hold_against(self, request: GenerationRequest) -> bool:
        """Whether this very request, whatever its seed, is to be refused."""
        return bool(self._known) and fingerprint(request) in self._known

    def own(self, now: float) -> list[Conviction]:
        """What the other frontends have to know, with the time that each has left."""
        return [
            Conviction(key, known.until - now, known.deaths)
            for key, known in self._known.items()
            if known.is_own and known.until > now
        ]

    def expire(self, now: float) -> None:
        """Forget those whose time is over."""
        if any(known.until <= now for known in self._known.values()):
            self._known = {key: known for key, known in self._known.items() if known.until > now}

    def _learn(self, key: bytes, known: _Known) -> None:
        self._known[key] = known
        self.num_learned += 1
        if len(self._known) > MAX_CONVICTIONS:
            del self._known[min(self._known, key=lambda key: self._known[key].until)]


def fingerprint(request: GenerationRequest) -> bytes:
    """Of all that an engine computes the request from, but for what makes each try a new one."""
    sampling = msgspec.structs.replace(request.sampling, seed=0, choice=0)
    hasher = blake2b(array("I", request.prompt_token_ids).tobytes(), digest_size=FINGERPRINT_BYTES)
    hasher.update(msgspec.msgpack.encode((request.cache_salt, sampling)))
    return hasher.digest()
