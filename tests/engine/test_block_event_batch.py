from hypothesis import given
from hypothesis import strategies as st

from engine.block_event_batch import MOST_HASHES_OF_A_KIND, BlockChanges, BlockEventBatch

HASHES = [bytes([number]) for number in range(6)]


def replayed(told: set[bytes], changes: list[BlockChanges]) -> set[bytes]:
    """What a reader holds who held `told` before."""
    for stored, removed, cleared in changes:
        assert not set(stored) & set(removed)
        told = ((set() if cleared else told) | set(stored)) - set(removed)
    return told


@given(
    st.lists(
        st.sets(st.sampled_from(HASHES)) | st.sampled_from(["tell", "start over", "reader joins"])
    )
)
def test_who_hears_all_from_a_start_over_on_holds_exactly_what_is_cached(
    story: list[set[bytes] | str],
) -> None:
    batch = BlockEventBatch()
    cached: set[bytes] = set()
    from_the_start: set[bytes] = set()
    latecomer: set[bytes] | None = None
    """Has missed what was told before it came."""
    for event in [*story, "tell", "start over", "tell"]:
        if isinstance(event, set):  # the cache after a step
            batch.add(event - cached, cached - event)
            cached = event
        elif event == "start over":
            batch.start_over(cached)
        elif event == "reader joins":
            latecomer = {b"what it holds from before"}
        else:
            changes = batch.take()
            from_the_start = replayed(from_the_start, changes)
            assert from_the_start == cached
            if latecomer is not None:
                latecomer = replayed(latecomer, changes)
            assert not batch.take()
    assert latecomer in (None, cached)


def test_what_enters_and_leaves_between_two_messages_is_in_none() -> None:
    batch = BlockEventBatch()
    batch.add([b"comes", b"goes"], [])
    batch.add([], [b"goes", b"returns"])
    batch.add([b"returns"], [])
    assert batch.take() == [BlockChanges([b"comes"], [], cleared=False)]


def test_many_changes_are_told_in_messages_of_a_bounded_size() -> None:
    batch = BlockEventBatch()
    removed = [number.to_bytes(2) for number in range(MOST_HASHES_OF_A_KIND + 1)]
    batch.add([b"new"], removed)
    first, second = batch.take()
    assert first == BlockChanges([b"new"], removed[:MOST_HASHES_OF_A_KIND], cleared=False)
    assert second == BlockChanges([], removed[-1:], cleared=False)


def test_of_a_whole_cache_only_the_first_message_clears() -> None:
    batch = BlockEventBatch()
    batch.start_over(number.to_bytes(2) for number in range(2 * MOST_HASHES_OF_A_KIND))
    assert [changes.cleared for changes in batch.take()] == [True, False]


def test_an_empty_cache_is_told_too() -> None:
    batch = BlockEventBatch()
    batch.start_over([])
    assert batch.take() == [BlockChanges([], [], cleared=True)]
