"""News cut at tokens."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.sampling import FinishReason
from frontend.logprobs import PositionLogprobs
from frontend.output_processor import ChoiceDelta, TokenLogprob
from frontend.responses_api.token_cuts import TokenCuts


def token(token_id: int, text_offset: int) -> TokenLogprob:
    return TokenLogprob(PositionLogprobs(token_id, -0.5, []), text_offset)


def ids_of(pieces: list[ChoiceDelta]) -> list[tuple[str, list[int]]]:
    return [(piece.text, [item.position.token_id for item in piece.logprobs]) for piece in pieces]


def test_each_token_goes_with_its_text() -> None:
    news = ChoiceDelta("abcd", [7, 8], [token(7, 0), token(8, 3)])
    pieces = TokenCuts().cut(news)
    assert ids_of(pieces) == [("abc", [7]), ("d", [8])]
    assert [piece.token_ids for piece in pieces] == [[7, 8], []]


def test_a_token_without_text_goes_with_the_next_one() -> None:
    assert ids_of(TokenCuts().cut(ChoiceDelta("é", [7, 8], [token(7, 0), token(8, 0)]))) == [
        ("é", [7, 8])
    ]


def test_a_token_waits_for_text_that_is_held_back() -> None:
    cuts = TokenCuts()
    assert ids_of(cuts.cut(ChoiceDelta("a", [7, 8], [token(7, 0), token(8, 1)]))) == [("a", [7])]
    assert ids_of(cuts.cut(ChoiceDelta("b", [], []))) == [("b", [8])]


def test_the_last_piece_has_the_end_and_all_tokens_left() -> None:
    cuts = TokenCuts()
    news = ChoiceDelta("a", [7, 2], [token(7, 0), token(2, 1)], FinishReason.STOP, "x")
    [piece] = cuts.cut(news)
    assert ids_of([piece]) == [("a", [7, 2])]
    assert (piece.finish_reason, piece.stop_reason) == (FinishReason.STOP, "x")


def test_news_without_text_are_one_piece() -> None:
    assert ids_of(TokenCuts().cut(ChoiceDelta("", [7], [token(7, 0)]))) == [("", [])]


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=8), st.data())
def test_nothing_is_lost_however_news_are_batched(texts: list[str], data: st.DataObject) -> None:
    offsets = [sum(map(len, texts[:i])) for i in range(len(texts))]
    cuts, pieces, first = TokenCuts(), [], 0
    while first < len(texts):
        last = first + data.draw(st.integers(1, len(texts) - first))
        tokens = [token(i, offsets[i]) for i in range(first, last)]
        news = ChoiceDelta("".join(texts[first:last]), list(range(first, last)), tokens)
        news.finish_reason = FinishReason.STOP if last == len(texts) else None
        pieces += cuts.cut(news)
        first = last
    assert "".join(piece.text for piece in pieces) == "".join(texts)
    assert [item.position.token_id for piece in pieces for item in piece.logprobs] == list(
        range(len(texts))
    )
