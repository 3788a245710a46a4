"""Many unlike questions, each asked whole and streamed: what comes must be the same to the last byte."""

import asyncio
import itertools
from typing import Any, NamedTuple

import httpx

from tests.support.questions import QUESTIONS
from tests.support.ways import CHAT_PATH, COMPLETIONS_PATH, Reply, Way

CONCURRENCY = 8
PATIENCE_SECONDS = 120.0
TEXTS = [
    "Écris une phrase sur le fleuve: « la Seine »", "Schreib über süße Äpfel und große Füße.",
    "Напиши предложение о луне.", "写一个关于月亮的句子。", "月について一文を書いてください。", "달에 대해 쓰세요.",
    "اكتب جملة عن القمر", "כתוב משפט על הירח", "Γράψε για το φεγγάρι.", "चाँद के बारे में लिखो।",
    "Repeat: 😀 漢字 🧑\u200d🚀 👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈", "🙂🙃" * 8, "é́ e\u0301 ﬁ \u00a0\u2028 zero\u200bwidth",
    "def fibonacci(n: int) -> int:\n    ", "#include <stdio.h>\nint main(void) {\n\t", "SELECT name FROM horses\nWHERE ",
    '{"name": "quadriga", "horses": [', "<ul>\n  <li>one</li>\n  <li>", "1, 1, 2, 3, 5, 8, 13, ", "    \n\n\t  x",
]  # fmt: skip
SAMPLINGS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.5, "top_k": 200, "n": 2},
]
NUM_BEST = [None, 0, 3]
STOP_LENGTHS = [1, 2, 3, 7, 20]


class Question(NamedTuple):
    """One question, for either endpoint."""

    path: str
    text: str
    fields: dict[str, Any]


def questions(count: int) -> list[Question]:
    """So many of them, all languages first; every mixture of endpoint, sampling and logprobs occurs."""
    texts = itertools.cycle(TEXTS + QUESTIONS)
    return [_question(number, next(texts)) for number in range(count)]


def _question(number: int, text: str) -> Question:
    path = (CHAT_PATH, COMPLETIONS_PATH)[number % 2]
    num_best = NUM_BEST[number // 2 % len(NUM_BEST)]
    fields: dict[str, Any] = {"max_tokens": 12 + number % 21, "seed": number, "ignore_eos": True}
    fields |= SAMPLINGS[number // 6 % len(SAMPLINGS)]
    if num_best is not None:
        is_chat = path == CHAT_PATH
        fields |= (
            {"logprobs": True, "top_logprobs": num_best} if is_chat else {"logprobs": num_best}
        )
    return Question(path, text, fields)


async def check_streams_equal(url: str, count: int) -> int:
    """Ask all, without a stop string and with one from the answer's own text; how many had one.

    Raises AssertionError naming the question whose stream differs.
    """
    slots = asyncio.Semaphore(CONCURRENCY)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False) as client:

        async def check(number: int, question: Question) -> bool:
            async with slots:
                plain = await _both(client, question)
                stop = _stop_inside(plain.text, number)
                if stop:
                    stopped = await _both(client, question, stop=stop)
                    assert stopped.text == plain.text[: plain.text.index(stop)], question
                return bool(stop)

        found = await asyncio.gather(*itertools.starmap(check, enumerate(questions(count))))
    return sum(found)


async def _both(client: httpx.AsyncClient, question: Question, **fields: Any) -> Reply:
    path, text, own = question
    whole = await Way(path, False).ask(client, text, **own, **fields)
    streamed = await Way(path, True).ask(client, text, **own, **fields)
    assert streamed == whole, f"{question} {fields}"
    return whole


def _stop_inside(text: str, number: int) -> str:
    """A stop string that begins at another place for each number; none of half a character."""
    if not text:
        return ""
    start = number * 5 % len(text)
    stop = text[start : start + STOP_LENGTHS[number % len(STOP_LENGTHS)]]
    return stop.partition("\ufffd")[0]
