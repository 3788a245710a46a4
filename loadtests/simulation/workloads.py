"""The loads that policies are judged by: seeded, and the same for every policy."""

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from loadtests.simulation.arrival_times import gamma_arrivals
from loadtests.simulation.block_chain import BlockChains
from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.lengths import Lengths
from loadtests.simulation.request import ClientRequest


class Workload(Protocol):
    """A kind of load."""

    @property
    def base_load(self) -> float:
        """Its usual rate, as a share of what the engines can serve."""
        ...

    def requests_per_second(self, cost: CostModel) -> float:
        """How many of its requests one such engine can serve, by means."""
        ...

    def requests(
        self, rate_per_second: float, seconds: float, cost: CostModel, source: random.Random
    ) -> list[ClientRequest]:
        """The requests of a run in the order of their arrival; later turns of sessions hang on them."""
        ...


class Kind(msgspec.Struct, frozen=True):
    """One kind of request in a mix."""

    prompt: Lengths
    output: Lengths
    weight: float = 1.0
    tenant: str = ""


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts that share nothing, of one or several kinds."""

    kinds: Sequence[Kind]
    base_load: float
    variation: float = 1.0
    """Of the gaps between arrivals."""

    def requests_per_second(self, cost: CostModel) -> float:
        """How many of its requests one such engine can serve."""
        total = sum(kind.weight for kind in self.kinds)
        seconds = sum(
            kind.weight / cost.requests_per_second(kind.prompt.mean_tokens, kind.output.mean_tokens)
            for kind in self.kinds
        )
        return total / seconds

    def requests(
        self, rate_per_second: float, seconds: float, cost: CostModel, source: random.Random
    ) -> list[ClientRequest]:
        """Each of a kind by chance."""
        times = list(gamma_arrivals(rate_per_second, seconds, self.variation, source))
        kinds = source.choices(self.kinds, [kind.weight for kind in self.kinds], k=len(times))
        return [
            ClientRequest(
                request_id=str(index),
                arrived_at=time,
                prompt_tokens=kind.prompt.draw(source),
                output_tokens=kind.output.draw(source),
                tenant=kind.tenant,
            )
            for index, (time, kind) in enumerate(zip(times, kinds, strict=True))
        ]


class Flood(msgspec.Struct, frozen=True, kw_only=True):
    """A usual load of several tenants, and one that asks far too much in the middle third."""

    usual: Mix
    flood: Kind
    base_load: float
    flood_load: float
    """What the flood adds while it lasts, as a share of what the engines can serve."""

    def requests_per_second(self, cost: CostModel) -> float:
        """How many of the usual requests one such engine can serve."""
        return self.usual.requests_per_second(cost)

    def requests(
        self, rate_per_second: float, seconds: float, cost: CostModel, source: random.Random
    ) -> list[ClientRequest]:
        """Those of the others at the rate, those of the flood in proportion to it."""
        mix = Mix(kinds=[self.flood], base_load=self.flood_load)
        per_load = mix.requests_per_second(cost) / self.usual.requests_per_second(cost)
        flood_rate = rate_per_second / self.base_load * self.flood_load * per_load
        flood = mix.requests(flood_rate, seconds / 3, cost, source)
        for request in flood:
            request.arrived_at += seconds / 3
            request.request_id = f"flood-{request.request_id}"
        usual = self.usual.requests(rate_per_second, seconds, cost, source)
        return sorted([*usual, *flood], key=lambda request: request.arrived_at)


class _Prefixes:
    """Some prefixes of equal length, which are used as often as Zipf's law says."""

    def __init__(self, chains: BlockChains, number: int, num_blocks: int) -> None:
        self._chains = [chains.new(num_blocks) for _ in range(number)]
        self._weights = [1 / rank for rank in range(1, number + 1)]

    def draw(self, source: random.Random) -> tuple[bytes, ...]:
        """One of them."""
        return source.choices(self._chains, self._weights)[0]


class PrefixGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts that begin with one of some long texts, by Zipf's law, and go on with their own."""

    num_groups: int
    prefix_tokens: int
    suffix: Lengths
    output: Lengths
    base_load: float
    cached_share: float
    """What of the prompts good routing finds in caches; the capacity is meant with it."""
    variation: float = 1.0

    def requests_per_second(self, cost: CostModel) -> float:
        """How many of its requests one such engine can serve, its cache well used."""
        prompt_tokens = self.prefix_tokens + self.suffix.mean_tokens
        return cost.requests_per_second(prompt_tokens, self.output.mean_tokens, self.cached_share)

    def requests(
        self, rate_per_second: float, seconds: float, cost: CostModel, source: random.Random
    ) -> list[ClientRequest]:
        """Each of a group by chance."""
        chains = BlockChains()
        prefixes = _Prefixes(chains, self.num_groups, self.prefix_tokens // cost.block_size)
        requests = []
        times = gamma_arrivals(rate_per_second, seconds, self.variation, source)
        for index, time in enumerate(times):
            prefix = prefixes.draw(source)
            prompt_tokens = self.prefix_tokens + self.suffix.draw(source)
            num_blocks = prompt_tokens // cost.block_size
            requests.append(
                ClientRequest(
                    request_id=str(index),
                    arrived_at=time,
                    prompt_tokens=prompt_tokens,
                    output_tokens=self.output.draw(source),
                    hashes=prefix + chains.new(num_blocks - len(prefix)),
                    num_prompt_hashes=num_blocks,
                )
            )
        return requests


class Conversations(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions whose every turn begins with all turns before: a tree of prefixes.

    Some system prompts are its roots, by Zipf's law. A turn comes when its user has read the answer
    before it.
    """

    num_system_prompts: int
    system_tokens: int
    first_message: Lengths
    """The first of a session may bring a document."""
    message: Lengths
    answer: Lengths
    mean_turns: float
    mean_think_seconds: float
    base_load: float
    cached_share: float

    def requests_per_second(self, cost: CostModel) -> float:
        """How many turns one such engine can serve, its cache well used."""
        turn_tokens = self.message.mean_tokens + self.answer.mean_tokens
        prompt_tokens = (
            self.system_tokens
            + self.first_message.mean_tokens
            + turn_tokens * (self.mean_turns - 1)
        )  # turns of long sessions are many, so the mean turn has nearly a whole session before it
        return cost.requests_per_second(prompt_tokens, self.answer.mean_tokens, self.cached_share)

    def requests(
        self, rate_per_second: float, seconds: float, cost: CostModel, source: random.Random
    ) -> list[ClientRequest]:
        """The first turns; each has the later ones of its session."""
        chains = BlockChains()
        num_blocks = self.system_tokens // cost.block_size
        roots = _Prefixes(chains, self.num_system_prompts, num_blocks)
        times = gamma_arrivals(rate_per_second / self.mean_turns, seconds, 1.0, source)
        return [
            self._session(f"{index}", time, roots.draw(source), cost, chains, source)
            for index, time in enumerate(times)
        ]

    def _session(
        self,
        name: str,
        time: float,
        root: tuple[bytes, ...],
        cost: CostModel,
        chains: BlockChains,
        source: random.Random,
    ) -> ClientRequest:
        turns: list[ClientRequest] = []
        context_tokens, hashes = self.system_tokens, root
        goes_on = True
        while goes_on:
            message = self.first_message if not turns else self.message
            prompt_tokens = context_tokens + message.draw(source)
            output_tokens = self.answer.draw(source)
            context_tokens = prompt_tokens + output_tokens
            hashes += chains.new(context_tokens // cost.block_size - len(hashes))
            turns.append(
                ClientRequest(
                    request_id=f"{name}.{len(turns)}",
                    arrived_at=time,
                    prompt_tokens=prompt_tokens,
                    output_tokens=output_tokens,
                    hashes=hashes,
                    num_prompt_hashes=prompt_tokens // cost.block_size,
                    session=name,
                    think_seconds=source.expovariate(1 / self.mean_think_seconds),
                )
            )
            if len(turns) > 1:
                turns[-2].next_turn = turns[-1]
            goes_on = source.random() > 1 / self.mean_turns
        return turns[0]


_SHORT = Kind(Lengths(512), Lengths(128), weight=0.92)

WORKLOADS: Mapping[str, Workload] = {
    "uniform": Mix(kinds=[Kind(Lengths(512), Lengths(128))], base_load=0.87),
    "heavy-tail": Mix(
        kinds=[Kind(Lengths(600, 2.0, 16, 16_000), Lengths(200, 2.0, 4, 4000))],
        base_load=0.8,
        variation=2.0,
    ),
    "long-prompts": Mix(
        kinds=[_SHORT, Kind(Lengths(8000), Lengths(128), weight=0.08)], base_load=0.8
    ),
    "kv-bound": Mix(
        kinds=[Kind(Lengths(1024, 0.5, 64, 8000), Lengths(700, 1.0, 16, 6000))],
        base_load=1.05,
        variation=1.5,
    ),
    "prefix-groups": PrefixGroups(
        num_groups=120,
        prefix_tokens=4096,
        suffix=Lengths(256, 0.5, 16, 2000),
        output=Lengths(128),
        base_load=0.6,
        cached_share=0.85,
    ),
    "conversations": Conversations(
        num_system_prompts=8,
        system_tokens=1024,
        first_message=Lengths(1500, 1.5, 32, 12_000),
        message=Lengths(200, 1.0, 16, 4000),
        answer=Lengths(150, 1.0, 8, 1500),
        mean_turns=6,
        mean_think_seconds=4.0,
        base_load=0.6,
        cached_share=0.8,
    ),
    "flood": Flood(
        usual=Mix(
            kinds=[
                Kind(Lengths(512, 1.0, 16, 8000), Lengths(128, 1.0, 4, 1000), tenant=tenant)
                for tenant in ("anna", "bela", "cleo")
            ],
            base_load=0.5,
        ),
        flood=Kind(Lengths(512, 1.0, 16, 8000), Lengths(128, 1.0, 4, 1000), tenant="flood"),
        base_load=0.5,
        flood_load=1.5,
    ),
}
"""By name. At base load engines are busy, but keep up; only `kv-bound` asks for more than fits."""
