"""Text token by token is the text of all tokens, and no character is ever split."""

from hypothesis import given
from hypothesis import strategies as st

from frontend.detokenizer import BytesDetokenizer, WindowDetokenizer, make_detokenizer
from frontend.tokenizer import Tokenizer
from tests.support.tiny_tokenizer import (
    VOCAB_SIZE,
    byte_fallback_backend,
    metaspace_backend,
    tiny_tokenizer,
)

BYTE_FALLBACK = Tokenizer(byte_fallback_backend())
METASPACE = Tokenizer(metaspace_backend())
TRICKY = "Repeat: 😀 漢字 🧑‍🚀 é ñ"


def pieces(
    tokenizer: Tokenizer, token_ids: list[int], skip_special_tokens: bool, prompt: list[int]
) -> list[str]:
    detokenizer = make_detokenizer(tokenizer, prompt, skip_special_tokens)
    return [*(detokenizer.push(token_id) for token_id in token_ids), detokenizer.flush()]


@given(st.lists(st.integers(0, VOCAB_SIZE + 5), max_size=60), st.booleans())
def test_byte_level_pieces_join_to_the_full_decode_of_any_tokens(
    token_ids: list[int], skip_special_tokens: bool
) -> None:
    tokenizer = tiny_tokenizer()
    joined = "".join(pieces(tokenizer, token_ids, skip_special_tokens, []))
    assert joined == tokenizer.decode(token_ids, skip_special_tokens)


def test_every_single_token_of_the_vocabulary_is_spelled_as_the_tokenizer_decodes_it() -> None:
    tokenizer = tiny_tokenizer()
    for token_id in range(tokenizer.backend.get_vocab_size()):
        spelled = tokenizer.token_bytes(token_id).decode("utf-8", "replace")
        assert spelled == tokenizer.decode([token_id], skip_special_tokens=False)


def test_a_character_of_several_tokens_comes_whole_with_its_last_one() -> None:
    tokenizer = tiny_tokenizer()
    token_ids = tokenizer.encode(TRICKY, add_special_tokens=False)
    assert len(token_ids) > len(TRICKY)
    assert "\ufffd" not in "".join(pieces(tokenizer, token_ids, True, []))
    assert "".join(pieces(tokenizer, token_ids, True, [])) == TRICKY


def test_an_unfinished_character_is_flushed_as_a_replacement_at_the_end_only() -> None:
    tokenizer = tiny_tokenizer()
    emoji = tokenizer.encode("ok 😀", add_special_tokens=False)
    text = pieces(tokenizer, emoji[:-1], True, [])
    assert "\ufffd" not in "".join(text[:-1])
    assert text[-1] == "\ufffd"


def test_special_tokens_are_shown_only_if_asked_for() -> None:
    tokenizer = tiny_tokenizer()
    token_ids = tokenizer.encode("a<|im_end|>b", add_special_tokens=False)
    assert "".join(pieces(tokenizer, token_ids, True, [])) == "ab"
    assert "".join(pieces(tokenizer, token_ids, False, [])) == "a<|im_end|>b"


@given(st.text(st.characters(codec="utf-8"), max_size=20), st.booleans())
def test_byte_fallback_pieces_join_to_what_the_tokens_add_to_their_prompt(
    text: str, skip_special_tokens: bool
) -> None:
    prompt = BYTE_FALLBACK.encode("hello", add_special_tokens=False)
    token_ids = BYTE_FALLBACK.encode(text, add_special_tokens=False)
    before = BYTE_FALLBACK.decode(prompt, skip_special_tokens)
    after = BYTE_FALLBACK.decode(prompt + token_ids, skip_special_tokens)
    joined = "".join(pieces(BYTE_FALLBACK, token_ids, skip_special_tokens, prompt))
    assert before + joined == after


def test_byte_fallback_keeps_whole_characters_before_an_unfinished_one() -> None:
    token_ids = BYTE_FALLBACK.encode("漢字", add_special_tokens=False)
    assert "".join(pieces(BYTE_FALLBACK, token_ids[:-1], True, [])).strip() == "漢\ufffd"


def test_byte_fallback_keeps_the_space_between_prompt_and_answer() -> None:
    prompt = BYTE_FALLBACK.encode("hello", add_special_tokens=False)
    answer = BYTE_FALLBACK.encode("the", add_special_tokens=False)
    assert "".join(pieces(BYTE_FALLBACK, answer, True, prompt)) == " the"


@given(st.lists(st.integers(2, 9), min_size=1, max_size=30), st.booleans())
def test_other_tokenizers_pieces_join_to_what_the_tokens_add_to_their_prompt(
    token_ids: list[int], skip_special_tokens: bool
) -> None:
    prompt = METASPACE.encode("hello there", add_special_tokens=False)
    joined = "".join(pieces(METASPACE, token_ids, skip_special_tokens, prompt))
    full = METASPACE.decode(prompt + token_ids, skip_special_tokens)
    assert METASPACE.decode(prompt, skip_special_tokens) + joined == full


def test_the_kind_of_detokenizer_follows_from_the_tokenizer() -> None:
    assert isinstance(make_detokenizer(tiny_tokenizer(), [], True), BytesDetokenizer)
    assert isinstance(make_detokenizer(BYTE_FALLBACK, [], True), BytesDetokenizer)
    assert isinstance(make_detokenizer(METASPACE, [], True), WindowDetokenizer)
