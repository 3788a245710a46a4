"""The free queue against a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from engine.kv_cache.block import FreeBlockQueue, KVCacheBlock


def queue_of(*block_ids: int) -> tuple[FreeBlockQueue, list[KVCacheBlock]]:
    queue, blocks = FreeBlockQueue(), [KVCacheBlock(block_id) for block_id in block_ids]
    for block in blocks:
        queue.append(block)
    return queue, blocks


def ids(queue: FreeBlockQueue) -> list[int]:
    return [block.block_id for block in queue]


def test_blocks_leave_in_the_order_in_which_they_came() -> None:
    queue, _ = queue_of(3, 1, 2)
    assert [queue.pop_first().block_id for _ in range(3)] == [3, 1, 2]
    assert len(queue) == 0


def test_a_prepended_block_is_taken_next() -> None:
    queue, _ = queue_of(1, 2)
    queue.prepend(KVCacheBlock(0))
    assert ids(queue) == [0, 1, 2]


def test_a_block_can_be_taken_out_of_the_middle_and_put_back() -> None:
    queue, blocks = queue_of(0, 1, 2)
    queue.remove(blocks[1])
    assert ids(queue) == [0, 2]
    queue.append(blocks[1])
    assert ids(queue) == [0, 2, 1]


@given(
    st.lists(st.tuples(st.sampled_from(["append", "prepend", "pop", "remove"]), st.integers(0, 5)))
)
def test_the_queue_behaves_like_a_list(operations: list[tuple[str, int]]) -> None:
    blocks = [KVCacheBlock(block_id) for block_id in range(6)]
    queue, model = FreeBlockQueue(), list[int]()
    for operation, block_id in operations:
        if operation == "pop":
            if model:
                assert queue.pop_first().block_id == model.pop(0)
        elif operation == "remove":
            if block_id in model:
                model.remove(block_id)
                queue.remove(blocks[block_id])
        elif block_id not in model:
            model.insert(0 if operation == "prepend" else len(model), block_id)
            getattr(queue, operation)(blocks[block_id])
        assert (ids(queue), len(queue)) == (model, len(model))
