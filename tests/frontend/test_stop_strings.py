"""Stop strings, wherever the pieces of a text are cut."""

from hypothesis import given
from hypothesis import strategies as st

from frontend.stop_strings import StopStrings


def feed(stops: StopStrings, pieces: list[str]) -> tuple[str, str | None]:
    text = ""
    for piece in pieces:
        check = stops.push(piece)
        text += check.text
        if check.matched is not None:
            return text, check.matched
    return text + stops.flush(), None


def test_text_ends_exactly_before_the_stop_string() -> None:
    assert feed(StopStrings(["END"]), ["some E", "N", "D and more"]) == ("some ", "END")


def test_the_stop_string_can_be_kept() -> None:
    assert feed(StopStrings(["END"], include_in_text=True), ["a E", "ND b"]) == ("a END", "END")


def test_only_a_beginning_of_a_stop_string_is_held_back() -> None:
    stops = StopStrings(["<stop>", "\n\n"])
    assert stops.push("abc").text == "abc"
    assert stops.push("d<st").text == "d"
    assert stops.push("ring\n").text == "<string"
    assert stops.push("x").text == "\nx"


def test_what_was_held_back_is_released_at_the_end() -> None:
    assert feed(StopStrings(["hello"]), ["say hell"]) == ("say hell", None)


def test_the_earliest_match_wins_and_then_the_first_in_the_list() -> None:
    assert feed(StopStrings(["cd", "bc"]), ["abcd"]) == ("a", "bc")
    assert feed(StopStrings(["bcd", "bc"]), ["abcd"]) == ("a", "bcd")


def test_while_not_armed_text_passes_unchecked_and_begins_no_match() -> None:
    stops = StopStrings(["ab"])
    assert stops.push("ab a", is_armed=False) == ("ab a", None)
    assert stops.push("b ab") == ("b ", "ab")


def test_without_stop_strings_nothing_is_held_back() -> None:
    assert StopStrings([]).push("anything") == ("anything", None)


@given(
    characters=st.lists(st.sampled_from("ab"), max_size=40),
    stops=st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
)
def test_character_by_character_text_ends_where_the_first_match_completes(
    characters: list[str], stops: list[str]
) -> None:
    text = "".join(characters)
    ends = [
        (end, text.index(stop, end - len(stop)), stop)
        for end in range(len(text) + 1)
        for stop in stops
        if text[:end].endswith(stop)
    ]
    expected: tuple[str, str | None] = (text, None)
    if ends:
        first_end = min(ends)[0]
        start = min(start for end, start, _ in ends if end == first_end)
        expected = (text[:start], next(s for s in stops if text[start:first_end] == s))
    assert feed(StopStrings(stops), characters) == expected
