"""Whatever comes in whatever order: every request ends once, with the text it must have."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.wire.messages import AddRequest
from cluster.wire.sampling import FinishReason, Pooling, PoolingParams
from tests.support.simulated_engine import SimulatedEngine

MAX_MODEL_LEN = 40

prompts = st.builds(
    lambda stem, length, last: [*range(stem, stem + length), last],
    st.integers(0, 1),
    st.integers(0, 23),
    st.integers(0, 3),
)
"""Beginnings of two texts with endings of their own: prefixes are shared often, or almost."""
samplings = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(1, 16).map(lambda fewer: 17 - fewer),
        "min_tokens": st.integers(0, 4),
        "stop_token_ids": st.lists(st.integers(0, 49), max_size=2),
        "frequency_penalty": st.sampled_from([0.0, 0.0, 1.0]),
        "pooling": st.sampled_from([None, None, None, *map(PoolingParams, Pooling)]),
    }
)
isolations = st.sampled_from([0, 0, 0, 1, 4, 20])
requests = st.tuples(prompts, samplings, st.integers(-1, 1), isolations)
Drawn = tuple[list[int], dict[str, Any], int, int]
engine_settings = st.fixed_dictionaries(
    {
        "max_in_flight": st.sampled_from([1, 2]),
        "is_eager": st.booleans(),
        "num_blocks": st.integers(10, 20),  # 40 tokens always fit in 10 blocks of 4
        "max_num_seqs": st.sampled_from([8, 3, 1]),
        "max_num_batched_tokens": st.sampled_from([24, 64, 7, 1]),
        "prefill_chunk_while_decoding": st.integers(1, 12),
        "enable_prefix_caching": st.booleans(),
        "scheduling_policy": st.sampled_from(["fcfs", "priority"]),
    }
)


class EngineMachine(RuleBasedStateMachine):
    """Random clients, with aborts at any moment and engines that are replaced at any moment.

    Whatever is in flight then, and in whatever order steps begin and end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.engine = SimulatedEngine(12, MAX_MODEL_LEN)
        self.num_added = 0

    @initialize(settings=engine_settings)
    def choose_engine(self, settings: dict[str, Any]) -> None:
        self.engine = SimulatedEngine(max_model_len=MAX_MODEL_LEN, **settings)

    @precondition(lambda self: len(self.engine.answers) > 5)
    @rule(settings=engine_settings)
    def replace_engine(self, settings: dict[str, Any]) -> None:
        """Another engine takes over all that is not finished, with the tokens that are out."""
        old, self.engine = self.engine, SimulatedEngine(max_model_len=MAX_MODEL_LEN, **settings)
        for answer in old.answers.values():
            if answer.finish_reason is None and not answer.is_aborted:
                self._add_like(answer.message, answer.token_ids)

    def _add_like(self, message: AddRequest, output: list[int]) -> None:
        """The same request, set apart for some tokens more if it was before."""
        sampling = message.sampling
        isolation = message.isolated_until
        self.engine.add(
            message.request_id,
            message.prompt_token_ids,
            output,
            isolated_until=isolation and isolation + len(output),
            max_tokens=sampling.max_tokens,
            min_tokens=sampling.min_tokens,
            stop_token_ids=sampling.stop_token_ids,
            frequency_penalty=sampling.frequency_penalty,
            pooling=sampling.pooling,
        )

    @rule(batch=st.lists(requests, min_size=1, max_size=5))
    def add(self, batch: list[Drawn]) -> None:
        for prompt, sampling, priority, isolated_until in batch:
            self.num_added += 1
            name, frontend_index = f"request-{self.num_added}", self.num_added % 2
            self.engine.add(
                name, prompt, priority=priority, frontend_index=frontend_index,
                isolated_until=isolated_until, **sampling,
            )  # fmt: skip

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.engine.abort(self._some_request(data))

    @rule(count=st.integers(1, 12))
    def step(self, count: int) -> None:
        for _ in range(count):
            if self.engine.core.has_work:
                self.engine.step()

    @rule(is_beginning=st.booleans())
    def half_a_step(self, is_beginning: bool) -> None:
        if not is_beginning and self.engine.in_flight:
            self.engine.end()
        elif len(self.engine.in_flight) < self.engine.max_in_flight:
            self.engine.begin()

    @precondition(lambda self: self.engine.core.has_work)
    @rule(data=st.data())
    def step_with_an_abort_in_it(self, data: st.DataObject) -> None:
        self.engine.step(during=lambda: self.engine.abort(self._some_request(data)))

    @invariant()
    def what_is_out_is_right(self) -> None:
        self.engine.check()
        for name, answer in self.engine.answers.items():
            expected = self.engine.expected(name)
            assert answer.token_ids == expected[: len(answer.token_ids)]
            if answer.finish_reason is not None:
                assert answer.token_ids == expected
                assert answer.outputs[-1].vector == self.engine.expected_vector(name)

    def teardown(self) -> None:
        """Everybody ends, and then nothing is held any more."""
        self.engine.run()
        self.what_is_out_is_right()
        for answer in self.engine.answers.values():
            assert answer.is_aborted or answer.finish_reason is not None
        assert self.engine.scheduler.kv_cache.num_used_blocks == 0

    def _some_request(self, data: st.DataObject) -> str:
        live = [
            name for name, answer in self.engine.answers.items() if answer.finish_reason is None
        ]
        return data.draw(st.sampled_from(live or ["unknown"]))


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(settings_=engine_settings, batch=st.lists(requests, max_size=8))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_all_requests_at_once_get_what_each_would_get_alone(
    settings_: dict[str, Any], batch: list[Drawn]
) -> None:
    engine = SimulatedEngine(max_model_len=MAX_MODEL_LEN, **settings_)
    for index, (prompt, sampling, priority, isolated_until) in enumerate(batch):
        engine.add(
            f"request-{index}", prompt, priority=priority, isolated_until=isolated_until, **sampling
        )
    engine.run()
    for name, answer in engine.answers.items():
        assert answer.token_ids == engine.expected(name)
        assert answer.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
