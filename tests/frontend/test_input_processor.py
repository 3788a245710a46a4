"""Bodies to requests, without HTTP."""

import msgspec
import pytest

from cluster.config import ClusterConfig, EngineConfig
from cluster.errors import ContextLengthExceeded, InvalidRequest, RequestError
from cluster.wire.block_hash import hash_blocks
from frontend.input_processor import Arrival, InputProcessor
from frontend.model_info import GenerationDefaults
from frontend.openai.decoding import decode_body
from frontend.openai.schemas import ChatBody, ChatMessage, CompletionBody
from frontend.request import GenerationRequest
from frontend.tokenizer import Tokenizer
from tests.support.frontend_app import MODEL, encode
from tests.support.tiny_tokenizer import byte_level_backend, tiny_tokenizer

CONFIG = ClusterConfig(engine=EngineConfig(block_size=4))
RECOMMENDED = GenerationDefaults(
    temperature=0.2, top_k=5, top_p=0.9, min_p=0.1, repetition_penalty=1.1, max_new_tokens=9
)


def completion(body: CompletionBody, processor: InputProcessor | None = None) -> GenerationRequest:
    processor = processor or InputProcessor(CONFIG, MODEL, tiny_tokenizer())
    return processor.prepare_completion(body, Arrival(1.5, traceparent="00-ab"), None).requests[0]


def test_a_request_carries_hashes_of_its_full_blocks_salted_if_so_asked() -> None:
    prompt = list(range(4, 14))
    assert completion(CompletionBody(prompt=[*prompt])).block_hashes == hash_blocks(prompt, 4)
    salted = completion(CompletionBody(prompt=[*prompt], cache_salt="tenant"))
    assert salted.block_hashes == hash_blocks(prompt, 4, "tenant")
    assert salted.cache_salt == "tenant"


def test_a_request_carries_when_it_arrived_its_priority_and_its_trace() -> None:
    request = completion(CompletionBody(prompt="Hi", priority=-3))
    assert (request.arrived_at, request.priority, request.traceparent) == (1.5, -3, "00-ab")


def test_sampling_is_the_clients_word_then_the_models_then_openais() -> None:
    plain = completion(CompletionBody(prompt="Hi")).sampling
    assert (plain.temperature, plain.top_k, plain.top_p, plain.min_p) == (1.0, 0, 1.0, 0.0)
    model = msgspec.structs.replace(MODEL, defaults=RECOMMENDED)
    processor = InputProcessor(CONFIG, model, tiny_tokenizer())
    recommended = completion(CompletionBody(prompt="Hi"), processor).sampling
    assert (recommended.temperature, recommended.top_k, recommended.top_p) == (0.2, 5, 0.9)
    assert (recommended.min_p, recommended.repetition_penalty) == (0.1, 1.1)
    asked = completion(CompletionBody(prompt="Hi", temperature=0, top_k=-1), processor).sampling
    assert (asked.temperature, asked.top_k) == (0.0, 0)


def test_the_models_own_length_limits_chats_that_name_none() -> None:
    model = msgspec.structs.replace(MODEL, defaults=RECOMMENDED)
    processor = InputProcessor(CONFIG, model, tiny_tokenizer())
    chat = ChatBody(messages=[ChatMessage(role="user", content="Hi")])
    assert processor.prepare_chat(chat, Arrival(0), None).requests[0].sampling.max_tokens == 9
    chat.max_tokens = 20
    assert processor.prepare_chat(chat, Arrival(0), None).requests[0].sampling.max_tokens == 20


def test_every_choice_of_a_request_is_of_its_session() -> None:
    processor = InputProcessor(CONFIG, MODEL, tiny_tokenizer())
    body = CompletionBody(prompt=["Hi", "Ho"], n=2)
    prepared = processor.prepare_completion(body, Arrival(0, session="anna"), None)
    assert [request.session for request in prepared.requests] == ["anna"] * 4


@pytest.mark.parametrize("temperature", [0, 1e-9])
def test_temperatures_next_to_nothing_are_greedy(temperature: float) -> None:
    body = CompletionBody(prompt="Hi", temperature=temperature)
    assert completion(body).sampling.temperature == 0.0


def test_ends_of_the_generation_configuration_and_the_tokenizer_both_stop() -> None:
    model = msgspec.structs.replace(MODEL, eos_token_ids=(1,))
    processor = InputProcessor(CONFIG, model, tiny_tokenizer())
    body = CompletionBody(prompt="Hi", stop_token_ids=[9, 2])
    assert completion(body, processor).sampling.stop_token_ids == [1, 2, 9]


def test_bad_words_are_banned_at_the_start_of_a_text_and_after_a_space() -> None:
    sampling = completion(CompletionBody(prompt="Hi", bad_words=["dog"])).sampling
    assert encode("dog") in sampling.bad_words
    spaced = encode(" dog")
    assert (spaced in sampling.bad_words) == (len(spaced) == len(encode("dog")))


def test_a_seed_is_kept_inside_63_bits() -> None:
    assert completion(CompletionBody(prompt="Hi", seed=-1)).sampling.seed == 2**63 - 1
    assert 0 <= completion(CompletionBody(prompt="Hi")).sampling.seed < 2**63


def test_a_model_without_a_template_says_so() -> None:
    processor = InputProcessor(CONFIG, MODEL, Tokenizer(byte_level_backend()))
    chat = ChatBody(messages=[ChatMessage(role="user", content="Hi")])
    with pytest.raises(InvalidRequest, match="no chat template"):
        processor.prepare_chat(chat, Arrival(0), None)


def test_broken_tool_arguments_name_the_call() -> None:
    body = decode_body(
        b'{"messages":[{"role":"assistant","content":null,"tool_calls":'
        b'[{"function":{"name":"f","arguments":"{"}}]}]}',
        ChatBody,
    )
    processor = InputProcessor(CONFIG, MODEL, tiny_tokenizer())
    with pytest.raises(RequestError) as caught:
        processor.prepare_chat(body, Arrival(0), None)
    assert caught.value.param == "messages[0].tool_calls[0].function.arguments"


class UntouchedTokenizer(Tokenizer):
    """Says how many tokens a text has at least, and never tokenizes one."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        raise AssertionError(f"{len(text)} characters are tokenized")


@pytest.mark.parametrize("is_chat", [True, False])
def test_a_text_that_cannot_fit_is_refused_without_tokenizing_it(is_chat: bool) -> None:
    processor = InputProcessor(
        CONFIG,
        MODEL,
        UntouchedTokenizer(
            tiny_tokenizer().backend, chat_template_source="{{ messages[0].content }}"
        ),
    )
    text = "a b " * 250_000

    def prepare() -> None:
        if is_chat:
            message = ChatMessage(role="user", content=text)
            processor.prepare_chat(ChatBody(messages=[message]), Arrival(0.0), None)
        else:
            completion(CompletionBody(prompt=text), processor)

    with pytest.raises(ContextLengthExceeded, match="resulted in at least 20833 tokens"):
        prepare()


REFUSING = """{% if messages[0].role == "user" %}{{ raise_exception("rendered") }}{% endif %}Hi"""


def with_template(source: str) -> Tokenizer:
    return Tokenizer(tiny_tokenizer().backend, chat_template_source=source)


def test_what_a_user_says_that_cannot_fit_is_refused_without_rendering_it() -> None:
    processor = InputProcessor(CONFIG, MODEL, with_template(REFUSING))
    body = ChatBody(messages=[ChatMessage(role="user", content="a b " * 250_000)])
    with pytest.raises(ContextLengthExceeded, match="resulted in at least"):
        processor.prepare_chat(body, Arrival(0.0), None)


def test_what_a_template_leaves_out_is_no_part_of_the_prompt() -> None:
    processor = InputProcessor(CONFIG, MODEL, with_template(REFUSING))
    body = ChatBody(messages=[ChatMessage(role="assistant", content="a b " * 250_000)])
    assert processor.prepare_chat(body, Arrival(0.0), None).prompts[0].text == "Hi"


def test_spaces_around_what_a_user_says_do_not_count() -> None:
    processor = InputProcessor(CONFIG, MODEL, with_template("{{ messages[0].content | trim }}"))
    body = ChatBody(messages=[ChatMessage(role="user", content=" " * 1_000_000 + "Hi")])
    assert processor.prepare_chat(body, Arrival(0.0), None).prompts[0].text == "Hi"
