"""Which blocks are held, which are cached, and who is evicted."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from loadtests.simulation.block_cache import BlockCache

NUM_BLOCKS = 8


def chain(name: str, length: int) -> list[bytes]:
    return [f"{name}{index}".encode() for index in range(length)]


def cached(cache: BlockCache, hashes: list[bytes]) -> None:
    """Let somebody compute these blocks, and end."""
    assert cache.take((), len(hashes))
    held = [block_hash for block_hash in hashes if cache.store(block_hash)]
    cache.release(held, len(hashes) - len(held))


def test_what_was_computed_is_found_until_the_first_gap() -> None:
    cache = BlockCache(NUM_BLOCKS)
    cached(cache, chain("a", 3))
    assert cache.find(chain("a", 5), 5) == 3
    assert cache.find(chain("a", 5), 2) == 2
    assert cache.find([b"x", *chain("a", 3)], 4) == 0


def test_the_end_of_the_prefix_that_was_used_least_recently_is_evicted_first() -> None:
    cache = BlockCache(NUM_BLOCKS)
    cached(cache, chain("a", 4))
    cached(cache, chain("b", 4))
    assert cache.take((), 2)
    assert cache.find(chain("a", 4), 4) == 2
    assert cache.find(chain("b", 4), 4) == 4


def test_a_hit_makes_a_prefix_recently_used() -> None:
    cache = BlockCache(NUM_BLOCKS)
    cached(cache, chain("a", 4))
    cached(cache, chain("b", 4))
    assert cache.take(chain("a", 4), 0)
    cache.release(chain("a", 4), 0)
    assert cache.take((), 4)
    assert cache.find(chain("a", 4), 4) == 4
    assert cache.find(chain("b", 4), 4) == 0


def test_a_prefix_that_two_hold_is_counted_once_and_kept_for_the_second() -> None:
    cache = BlockCache(NUM_BLOCKS)
    cached(cache, chain("a", 4))
    assert cache.take(chain("a", 4), 1)
    assert cache.take(chain("a", 4), 1)
    assert cache.num_used == 6
    cache.release(chain("a", 4), 1)
    assert not cache.take((), 4)
    assert cache.num_used == 5


def test_nothing_changes_where_room_is_lacking() -> None:
    cache = BlockCache(NUM_BLOCKS)
    cached(cache, chain("a", 4))
    cache.take_events()
    assert not cache.take(chain("a", 2), 6, num_reserved=1)
    assert (cache.num_used, cache.num_free_cached) == (0, 4)
    assert cache.take_events() == ([], [])


def test_events_are_the_net_change() -> None:
    cache = BlockCache(4)
    cached(cache, chain("a", 4))
    assert cache.take_events() == (chain("a", 4), [])
    cached(cache, chain("b", 4))
    cached(cache, chain("a", 4))
    assert cache.take_events() == ([], [])
    cached(cache, chain("c", 1))
    assert cache.take_events() == ([b"c0"], [b"a3"])


class CacheMachine(RuleBasedStateMachine):
    """Requests come, compute, and go; what events tell is what is found."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = BlockCache(NUM_BLOCKS)
        self.held: list[list[bytes]] = []
        self.num_others = 0
        self.told: set[bytes] = set()

    @rule(name=st.sampled_from("abc"), length=st.integers(1, 6), others=st.integers(0, 3))
    def come(self, name: str, length: int, others: int) -> None:
        hashes = chain(name, length)
        num_hits = self.cache.find(hashes, length)
        if not self.cache.take(hashes[:num_hits], length - num_hits + others):
            return
        held = hashes[:num_hits]
        held += [block_hash for block_hash in hashes[num_hits:] if self.cache.store(block_hash)]
        self.num_others += length + others - len(held)
        self.held.append(held)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        num_others = self.num_others if not self.held else 0
        self.num_others -= num_others
        self.cache.release(held, num_others)

    @invariant()
    def the_books_agree(self) -> None:
        self.cache.check_invariants(self.held, self.num_others)

    @invariant()
    def who_listens_to_events_knows_what_is_cached(self) -> None:
        stored, removed = self.cache.take_events()
        self.told = (self.told | set(stored)) - set(removed)
        for name in "abc":
            hashes = chain(name, 6)
            assert [h in self.told for h in hashes] == [
                bool(self.cache.find([h], 1)) for h in hashes
            ]


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
