"""The padded sizes of decode batches."""

from hypothesis import given
from hypothesis import strategies as st

from engine.execution.cuda.batch_buckets import bucket_for, decode_buckets


def test_small_batches_have_close_buckets() -> None:
    assert decode_buckets(64) == [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]


def test_the_last_bucket_takes_a_full_engine() -> None:
    assert decode_buckets(1) == [1]
    assert decode_buckets(3) == [1, 2, 3]
    assert decode_buckets(100)[-2:] == [96, 100]


def test_very_large_batches_are_not_recorded() -> None:
    assert decode_buckets(4096)[-1] == 512
    assert len(decode_buckets(4096)) < 40


@given(max_num_seqs=st.integers(1, 4096), data=st.data())
def test_a_batch_takes_the_smallest_bucket_that_holds_it(
    max_num_seqs: int, data: st.DataObject
) -> None:
    buckets = decode_buckets(max_num_seqs)
    num_rows = data.draw(st.integers(1, buckets[-1]))
    size = bucket_for(num_rows, buckets)
    assert num_rows <= size
    assert not any(num_rows <= smaller < size for smaller in buckets)
    assert size - num_rows <= max(7, num_rows / 8)
