"""Answers of a real model that are held to a grammar."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from cluster.config import EngineConfig
from cluster.wire.messages import AddRequest
from cluster.wire.sampling import FinishReason, SamplingParams
from engine.core import EngineCore
from engine.execution.logits import adjust_logits
from engine.execution.runner import ModelRunner
from engine.execution.sampler import sample
from engine.structured.mask import GrammarMask
from frontend.structured.grammars import (
    choice_grammar,
    ebnf_grammar,
    json_object_grammar,
    json_schema_grammar,
    regex_grammar,
)
from tests.support.json_schemas import json_schemas
from tests.support.serving import make_request, make_runner, whole_run
from tests.support.tiny_model import make_tiny_model

EOS = 2
_numbers = itertools.count()


class Served:
    """A tiny model with a tokenizer in a real engine core."""

    def __init__(self, directory: Path) -> None:
        folder = make_tiny_model(directory)
        self.runner: ModelRunner = make_runner(folder)
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.core = self.new_core()

    def new_core(self, num_blocks: int | None = None) -> EngineCore:
        """An engine that has computed nothing yet, with fewer blocks than there are if told so."""
        runner = self.runner
        return EngineCore(
            EngineConfig(), num_blocks or runner.num_blocks, runner.max_model_len, runner,
            runner.vocab_size,
        )  # fmt: skip

    def messages(self, count: int, **sampling: Any) -> list[AddRequest]:
        """The same request with as many seeds."""
        defaults: dict[str, Any] = {"max_tokens": 400, "temperature": 1.0, "stop_token_ids": [EOS]}
        prompt = self.tokenizer.encode("Write a short story:").ids
        return [
            AddRequest(
                f"r{next(_numbers)}", 0, 1, 1, 0, prompt, [], [],
                SamplingParams(**(defaults | {"seed": seed} | sampling)),
            )
            for seed in range(count)
        ]  # fmt: skip

    def answers(
        self, messages: list[AddRequest], core: EngineCore | None = None
    ) -> list[tuple[str, FinishReason]]:
        """What each is answered, and why it ended."""
        core = core or self.core
        tokens: dict[str, list[int]] = {message.request_id: [] for message in messages}
        reasons: dict[str, FinishReason] = {}
        for message in messages:
            assert core.add_request(message, 0.0) is None
        while core.has_work:
            work = core.begin_step(0.0)
            for output in core.finish_step(work, core.submit(work).result(), 1.0).get(0, []):
                tokens[output.request_id] += output.token_ids
                if output.finish_reason is not None:
                    reasons[output.request_id] = output.finish_reason
        return [
            (self.tokenizer.decode(token_ids), reasons[request_id])
            for request_id, token_ids in tokens.items()
        ]

    def texts(self, count: int, **sampling: Any) -> list[str]:
        """Complete answers."""
        answers = self.answers(self.messages(count, **sampling))
        assert {reason for _, reason in answers} == {FinishReason.STOP}
        return [text for text, _ in answers]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("tiny"))


@settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    schema=json_schemas, seed=st.integers(0, 2**31), temperature=st.sampled_from([0.0, 1.0, 2.0])
)
def test_whatever_is_complete_is_valid_by_its_schema(
    served: Served, schema: dict[str, Any], seed: int, temperature: float
) -> None:
    messages = served.messages(
        1, grammar=json_schema_grammar(schema), seed=seed, temperature=temperature
    )
    [(text, reason)] = served.answers(messages)
    assert reason is FinishReason.STOP
    jsonschema.validate(json.loads(text), schema)


def test_json_objects_that_end_are_objects(served: Served) -> None:
    answers = served.answers(served.messages(20, grammar=json_object_grammar()))
    complete = [text for text, reason in answers if reason is FinishReason.STOP]
    assert complete
    assert all(isinstance(json.loads(text), dict) for text in complete)


def test_an_answer_that_max_tokens_cuts_is_the_beginning_of_one(served: Served) -> None:
    grammar = regex_grammar("(the dog )*!", "")
    for text, reason in served.answers(served.messages(5, grammar=grammar, max_tokens=3)):
        assert (reason is FinishReason.STOP) == text.endswith("!")
        assert ("the dog " * 10).startswith(text.rstrip("!"))


def test_a_regular_expression_is_matched(served: Served) -> None:
    texts = served.texts(20, grammar=regex_grammar("[0-9]{3}-(a|bc)é?", ""))
    assert all(re.fullmatch("[0-9]{3}-(a|bc)é?", text) for text in texts)
    assert len(set(texts)) > 5


def test_one_of_the_choices_is_made(served: Served) -> None:
    texts = served.texts(30, grammar=choice_grammar(["yes", "no", "maybe not"], ""))
    assert set(texts) == {"yes", "no", "maybe not"}


def is_sum(text: str) -> bool:
    """Whether the text is a digit once every pair of digits in brackets is made one."""
    simpler = re.sub(r"\([0-9]\+[0-9]\)", "0", text)
    return bool(re.fullmatch("[0-9]", text)) or (simpler != text and is_sum(simpler))


def test_a_grammar_of_rules_is_followed(served: Served) -> None:
    grammar = ebnf_grammar('root ::= item | "(" root "+" root ")"\nitem ::= [0-9]', "")
    for text in served.texts(20, grammar=grammar):
        assert is_sum(text), text


def test_greedy_answers_follow_the_grammar_too(served: Served) -> None:
    [text] = served.texts(1, grammar=regex_grammar("[0-9]{8}", ""), temperature=0.0)
    assert re.fullmatch("[0-9]{8}", text)


def test_min_tokens_hold_back_an_end_that_could_wait(served: Served) -> None:
    texts = served.texts(10, grammar=regex_grammar("[0-9]+", ""), min_tokens=9)
    assert min(len(text) for text in texts) >= 9


def test_min_tokens_do_not_keep_a_complete_answer_from_ending(served: Served) -> None:
    texts = served.texts(5, grammar=regex_grammar("[0-9]{4}", ""), min_tokens=100)
    assert all(re.fullmatch("[0-9]{4}", text) for text in texts)


def test_a_preempted_answer_is_the_same(served: Served) -> None:
    messages = served.messages(8, grammar=regex_grammar("([a-z]{6} ){40}", ""), max_tokens=300)
    expected = served.answers(messages)
    core = served.new_core(num_blocks=20)
    assert served.answers(messages, core) == expected
    assert core.stats().preemptions > 0


def test_a_grammar_costs_the_other_requests_of_a_batch_nothing(served: Served) -> None:
    free = served.messages(4, max_tokens=20)
    expected = served.answers(free)
    bound = served.messages(4, grammar=regex_grammar("[0-9]{9}", ""))
    broken = served.messages(1, grammar="nonsense")
    answers = served.answers([*free, *bound, *broken])
    assert answers[:4] == expected
    assert [reason for _, reason in answers[4:]] == [FinishReason.STOP] * 4 + [FinishReason.ERROR]


# ── one row ──────────────────────────────────────────────────────────────────────────────────


def mask_of(*token_ids: int, num_tokens: int = 50) -> GrammarMask:
    bits = sum(1 << token_id for token_id in token_ids)
    return GrammarMask(bits.to_bytes(8, "little"), num_tokens)


def test_a_mask_leaves_the_allowed_logits_and_no_others() -> None:
    row = torch.randn(50)
    adjusted = adjust_logits(row, make_request([1]), mask_of(0, 7, 8, 49))
    assert adjusted.isfinite().nonzero()[:, 0].tolist() == [0, 7, 8, 49]
    assert adjusted[[0, 7, 8, 49]].equal(row[[0, 7, 8, 49]])


def test_a_row_wider_than_the_mask_s_vocabulary_is_masked_by_its_bits() -> None:
    adjusted = adjust_logits(torch.zeros(40), make_request([1]), mask_of(39, 45))
    assert adjusted.isfinite().nonzero()[:, 0].tolist() == [39]


def test_no_bias_and_no_penalty_can_lift_a_mask() -> None:
    request = make_request([1], logit_bias=[(3, 100.0)], repetition_penalty=0.1)
    adjusted = adjust_logits(torch.zeros(50), request, mask_of(7))
    assert adjusted.isfinite().nonzero()[:, 0].tolist() == [7]


def test_a_banned_word_that_the_grammar_needs_is_an_error_and_a_stop_is_not() -> None:
    stuck = make_request([1], bad_words=[[7]])
    stopped = make_request([1], stop_token_ids=[7], min_tokens=5)
    assert not adjust_logits(torch.zeros(50), stuck, mask_of(7)).isfinite().any()
    assert adjust_logits(torch.zeros(50), stopped, mask_of(7)).isfinite().sum() == 1
    assert adjust_logits(torch.zeros(50), stopped, mask_of(7, 8)).isfinite()[7] == 0


def test_logprobs_are_of_what_the_model_computed(served: Served) -> None:
    row = torch.randn(50)
    raw = row.log_softmax(-1)

    class OneMask:
        def of(self, _: object) -> GrammarMask:
            return mask_of(7)

    [drawn] = sample(row[None], [whole_run(make_request([1], logprobs=2))], OneMask())  # type: ignore[arg-type]
    assert drawn.token_id == 7
    assert drawn.logprobs is not None
    values = torch.frombuffer(bytearray(drawn.logprobs.logprobs.data), dtype=torch.float32)
    assert values[0] == pytest.approx(float(raw[7]))
    assert values[1] == pytest.approx(float(raw.max()))
