from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.block_hash import hash_blocks
from cluster.wire.messages import PROTOCOL_VERSION, BlockEvents, EngineHello
from frontend.cluster_view import LiveView
from frontend.routing.prefix_index import PrefixIndex

BLOCK_SIZE = 4
CHAIN = hash_blocks(range(40), BLOCK_SIZE)


def events(
    seq: int, stored: Sequence[bytes] = (), removed: Sequence[bytes] = (), cleared: bool = False
) -> BlockEvents:
    return BlockEvents(0, 1, seq, list(stored), list(removed), cleared)


def index_of(*known: bytes) -> PrefixIndex:
    """An index of an engine that has told of these blocks."""
    index = PrefixIndex(BLOCK_SIZE)
    index.apply(events(1, known))
    return index


def test_a_hit_is_as_long_as_the_chain_of_leading_blocks() -> None:
    index = index_of(*CHAIN[:3])
    assert index.num_blocks == 3
    assert index.hit_tokens(CHAIN) == 3 * BLOCK_SIZE
    assert index.hit_tokens(CHAIN[:2]) == 2 * BLOCK_SIZE
    assert index.hit_tokens(hash_blocks([99] * 40, BLOCK_SIZE)) == 0
    assert index.hit_tokens([]) == 0


def test_without_its_first_block_nothing_of_a_chain_is_a_hit() -> None:
    assert index_of(*CHAIN[1:]).hit_tokens(CHAIN) == 0


@given(
    known=st.integers(0, len(CHAIN)),
    promised=st.integers(0, len(CHAIN)),
    asked=st.integers(0, len(CHAIN)),
    likely_tokens=st.integers(0, 2 * BLOCK_SIZE * len(CHAIN)),
)
def test_known_and_promised_blocks_count_whatever_was_taken_for_likely(
    known: int, promised: int, asked: int, likely_tokens: int
) -> None:
    index = index_of(*CHAIN[:known])
    index.promise("a", CHAIN[:promised])
    expected = min(asked, max(known, promised)) * BLOCK_SIZE
    assert index.hit_tokens(CHAIN[:asked], likely_tokens) == expected


# ── promises ──


def test_what_was_sent_counts_until_it_is_withdrawn() -> None:
    index = index_of()
    index.promise("a", CHAIN[:4])
    index.promise("b", CHAIN[:2])
    assert (index.hit_tokens(CHAIN), index.num_blocks) == (4 * BLOCK_SIZE, 0)
    index.withdraw("a")
    assert index.hit_tokens(CHAIN) == 2 * BLOCK_SIZE
    index.withdraw("b")
    assert index.hit_tokens(CHAIN) == 0
    assert not index._promised


def test_a_request_that_has_ended_leaves_what_the_engine_has_told_of() -> None:
    index = index_of()
    index.promise("a", CHAIN[:4])
    index.apply(events(2, CHAIN[:3]))
    index.withdraw("a")
    assert index.hit_tokens(CHAIN) == 3 * BLOCK_SIZE


# ── events ──


def test_old_events_change_nothing() -> None:
    index = index_of(CHAIN[0])
    index.apply(events(2, removed=[CHAIN[0]]))
    index.apply(events(1, [CHAIN[0]]))
    index.apply(events(2, CHAIN, cleared=True))
    assert index.num_blocks == 0
    assert not index.is_behind(2)


def test_after_a_gap_it_is_behind_and_goes_on_with_what_it_knows() -> None:
    index = index_of(CHAIN[0])
    index.apply(events(3, [CHAIN[1]]))
    assert index.is_behind(3)
    assert index.hit_tokens(CHAIN) == 2 * BLOCK_SIZE
    index.apply(events(4))
    assert index.is_behind(4)
    index.apply(events(5, CHAIN[:1], cleared=True))
    assert not index.is_behind(5)
    assert index.hit_tokens(CHAIN) == BLOCK_SIZE


def test_a_whole_cache_of_which_a_part_was_lost_is_a_gap_too() -> None:
    index = index_of(CHAIN[9])
    index.apply(events(2, CHAIN[:2], cleared=True))
    index.apply(events(4, CHAIN[4:6]))
    assert index.is_behind(4)
    assert index.hit_tokens(CHAIN[:3]) == 2 * BLOCK_SIZE


def test_a_number_that_was_only_heard_of_is_missed() -> None:
    index = index_of()
    assert not index.is_behind(1)
    assert index.is_behind(2)


@given(
    st.lists(st.tuples(st.sampled_from(["hello", "events"]), st.integers(1, 4), st.integers(1, 9)))
)
def test_blocks_of_another_incarnation_are_never_claimed(
    story: list[tuple[str, int, int]],
) -> None:
    view = LiveView((0, 1), 1.0, 0.0)
    for kind, incarnation, seq in story:
        if kind == "hello":
            view.welcome(
                EngineHello(
                    PROTOCOL_VERSION, 0, incarnation, "model", 1024, BLOCK_SIZE, 100, 8, "seed"
                ),
                0.0,
            )
        else:
            own = hash_blocks([incarnation] * BLOCK_SIZE, BLOCK_SIZE)
            view.accept_block_events(BlockEvents(0, incarnation, seq, own, []))
        for book in view.books.values():
            for other in {1, 2, 3, 4} - {book.incarnation}:
                foreign = hash_blocks([other] * BLOCK_SIZE, BLOCK_SIZE)
                assert book.prefix.hit_tokens(foreign) == 0
