"""Tokens to text: the same however they are batched."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import EngineFailed
from cluster.wire.sampling import FinishReason
from frontend.output_processor import ChoiceDelta, OutputOptions, OutputProcessor
from frontend.request_stream import TokenBatch
from tests.support.frontend_app import encode
from tests.support.scripted_engine import scripted_logprobs
from tests.support.tiny_tokenizer import VOCAB_SIZE, tiny_tokenizer


def batches(token_ids: list[int], cuts: list[int], reason: FinishReason) -> list[TokenBatch]:
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(token_ids)}), len(token_ids)]
    parts = []
    for start, end in itertools.pairwise(edges):
        block = scripted_logprobs(token_ids[start:end], 1)
        assert block is not None
        parts.append(TokenBatch(token_ids=token_ids[start:end], logprobs=[block]))
    parts[-1].finish_reason = reason
    return parts


def run(options: OutputOptions, parts: list[TokenBatch]) -> tuple[ChoiceDelta, int]:
    processor = OutputProcessor(tiny_tokenizer(), [], options)
    whole = ChoiceDelta()
    for part in parts:
        whole.extend(processor.process(part))
        if whole.finish_reason is not None:
            break
    return whole, processor.num_output_tokens


@given(
    token_ids=st.lists(st.integers(0, VOCAB_SIZE + 5), min_size=1, max_size=50),
    cuts=st.lists(st.integers(1, 50), max_size=10),
    stops=st.lists(st.text("aeht \ufffd", min_size=1, max_size=3), max_size=3),
    skip_special_tokens=st.booleans(),
    min_tokens=st.integers(0, 5),
)
def test_text_reason_logprobs_and_count_do_not_depend_on_the_batches(
    token_ids: list[int],
    cuts: list[int],
    stops: list[str],
    skip_special_tokens: bool,
    min_tokens: int,
) -> None:
    options = OutputOptions(
        stops=stops, skip_special_tokens=skip_special_tokens, min_tokens=min_tokens
    )
    at_once = run(options, batches(token_ids, [], FinishReason.LENGTH))
    assert run(options, batches(token_ids, cuts, FinishReason.LENGTH)) == at_once
    whole, num_tokens = at_once
    assert num_tokens == len(whole.token_ids) == len(whole.logprobs)
    full = tiny_tokenizer().decode(token_ids, skip_special_tokens)
    if whole.stop_reason is None:
        assert whole.text == full
    else:
        assert full.startswith(whole.text) or "\ufffd" in full
        assert whole.finish_reason is FinishReason.STOP


def test_each_token_offset_is_where_its_text_begins() -> None:
    token_ids = encode("Hello there, how are you")
    whole, _ = run(OutputOptions(), batches(token_ids, [], FinishReason.LENGTH))
    for token_id, item in zip(token_ids, whole.logprobs, strict=True):
        piece = tiny_tokenizer().token_bytes(token_id).decode()
        assert whole.text.startswith(piece, item.text_offset)


def test_the_models_own_end_is_not_named_as_the_reason() -> None:
    batch = TokenBatch(
        token_ids=[*encode("Hi"), 2], finish_reason=FinishReason.STOP, stop_token_id=2
    )
    named, _ = run(OutputOptions(), [batch])
    silent, _ = run(OutputOptions(silent_stop_ids=frozenset({2})), [batch])
    assert (named.text, named.stop_reason) == ("Hi", 2)
    assert (silent.text, silent.stop_reason) == ("Hi", None)


def test_a_stop_tokens_text_is_kept_only_if_asked_for() -> None:
    tokens = encode("Hello")
    batch = TokenBatch(token_ids=tokens, finish_reason=FinishReason.STOP, stop_token_id=tokens[-1])
    cut, count = run(OutputOptions(), [batch])
    kept, _ = run(OutputOptions(include_stop_in_text=True), [batch])
    assert (kept.text, count) == ("Hello", len(tokens))
    assert len(cut.text) < len("Hello")


def test_a_failed_request_raises_with_the_engines_words() -> None:
    processor = OutputProcessor(tiny_tokenizer(), [], OutputOptions())
    with pytest.raises(EngineFailed, match="out of memory"):
        processor.process(TokenBatch(finish_reason=FinishReason.ERROR, error="out of memory"))


def test_prompt_only_drops_the_token_that_an_engine_must_make() -> None:
    batch = TokenBatch(token_ids=encode("H"), finish_reason=FinishReason.STOP, stop_token_id=2)
    whole, count = run(OutputOptions(is_prompt_only=True), [batch])
    assert (whole.text, whole.token_ids, whole.finish_reason, count) == (
        "",
        [],
        FinishReason.LENGTH,
        0,
    )
