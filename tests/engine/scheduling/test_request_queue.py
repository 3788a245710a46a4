"""Who is served next."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.request_queue import RequestQueue


def make_request(sequence: int, priority: int = 0, arrived_at: float = 0.0) -> Request:
    return Request(
        request_id=f"request-{sequence}",
        frontend_index=0,
        attempt=0,
        token_ids=[1] * (sequence + 1),
        num_prompt_tokens=sequence + 1,
        sampling=SamplingParams(),
        block_hashes=[],
        precedence=(priority, arrived_at, sequence),
    )


def test_lower_priority_goes_first_then_the_earlier_arrival() -> None:
    queue = RequestQueue()
    late, urgent, early = make_request(0, 0, 5.0), make_request(1, -1, 9.0), make_request(2, 0, 4.0)
    for request in (late, urgent, early):
        queue.push(request)
    assert [queue.pop() for _ in range(3)] == [urgent, early, late]


def test_a_request_that_comes_back_is_served_where_it_was() -> None:
    queue = RequestQueue()
    first, second = make_request(0), make_request(1)
    queue.push(first)
    assert queue.pop() is first
    queue.push(second)
    queue.push(first)
    assert queue.first() is first


def test_a_removed_id_can_be_used_by_another_request() -> None:
    queue = RequestQueue()
    old, new = make_request(0), make_request(1)
    new.request_id = old.request_id
    queue.push(old)
    queue.remove(old)
    queue.push(new)
    assert queue.pop() is new
    assert not queue


def test_removal_leaves_no_more_behind_than_is_waiting() -> None:
    queue = RequestQueue()
    for sequence in range(1000):
        request = make_request(sequence)
        queue.push(request)
        if sequence:
            queue.remove(request)
    assert len(queue) == 1
    assert sum(len(heap) for heap in queue._heaps.values()) < 100


@given(st.lists(st.tuples(st.sampled_from(["push", "pop", "remove"]), st.integers(0, 9))))
def test_the_queue_behaves_like_a_sorted_list(operations: list[tuple[str, int]]) -> None:
    queue, model = RequestQueue(), list[Request]()
    requests = [make_request(sequence, priority=sequence % 3) for sequence in range(10)]
    for operation, sequence in operations:
        request = requests[sequence]
        if operation == "push" and request not in model:
            queue.push(request)
            model.append(request)
            model.sort(key=lambda r: r.precedence)
        elif operation == "pop" and model:
            assert queue.pop() is model.pop(0)
        elif operation == "remove" and request in model:
            queue.remove(request)
            model.remove(request)
        assert sorted(queue, key=lambda r: r.precedence) == model
        assert queue.num_tokens == sum(r.num_tokens for r in model)
        assert not model or queue.first() is model[0]
