"""The sizes that decode batches are padded to: each is a CUDA graph. No tensors."""

from bisect import bisect_left
from collections.abc import Sequence

_LARGEST = 512
"""A step of more rows computes long enough for its kernels to be launched one by one meanwhile."""


def decode_buckets(max_num_seqs: int) -> list[int]:
    """Padded batch sizes in ascending order: 1, 2, 4, 8, 16, 24 … `max_num_seqs`, or 512 if less.

    A batch of more than 64 rows gets an eighth of padding at most.
    """
    sizes, largest = [1], min(max_num_seqs, _LARGEST)
    while sizes[-1] < largest:
        sizes.append(min(sizes[-1] + _step_after(sizes[-1]), largest))
    return sizes


def _step_after(size: int) -> int:
    if size < 8:
        return size
    return max(8, (1 << size.bit_length() - 1) // 8)


def bucket_for(num_rows: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that takes so many rows; they are no more than the last one takes."""
    assert 0 < num_rows <= buckets[-1], f"{num_rows} rows do not fit into {buckets[-1]}"
    return buckets[bisect_left(buckets, num_rows)]
