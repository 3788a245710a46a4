"""The right answers: what each body gets while nothing is broken."""

import asyncio
from collections.abc import Sequence
from typing import Any

from loadtests.drills.bodies import Body, choose_stop_string
from loadtests.drills.drill import DrillError
from loadtests.drills.history import Exchange, body_key
from loadtests.drills.sender import Sender

CONCURRENCY = 12
NOWHERE = "\n\n\n\n"
"""A stop string for an answer that has none of its own."""


class References:
    """Asks for fault-free answers, each once, and completes bodies that need one to be whole."""

    def __init__(self) -> None:
        self.answers: dict[str, Exchange] = {}
        """By `body_key`."""
        self._stop_strings: dict[str, str] = {}

    async def prepare(self, bodies: Sequence[Body], sender: Sender, model: str) -> list[Body]:
        """The bodies as they can be sent; each has its right answer now.

        Raises DrillError if one is not answered.
        """
        await self._find_stop_strings(bodies, sender, model)
        completed = [body._replace(fields=self.complete(body, model)) for body in bodies]
        await self._ask(completed, sender)
        return completed

    def complete(self, body: Body, model: str) -> dict[str, Any]:
        """The fields of a body, with the model's name, and with the stop string that was found."""
        fields = {**body.fields, "model": body.fields.get("model") or model}
        if body.needs_stop_string and _key(body) in self._stop_strings:
            fields["stop"] = [self._stop_strings[_key(body)]]
        return fields

    async def _find_stop_strings(self, bodies: Sequence[Body], sender: Sender, model: str) -> None:
        """A stop string must occur in the answer, so the answer without it comes first."""
        wanting = [b for b in bodies if b.needs_stop_string and _key(b) not in self._stop_strings]
        await self._ask(
            [body._replace(fields=self.complete(body, model)) for body in wanting], sender
        )
        for body in wanting:
            text = self.answers[_key(body)].choices[0].text
            self._stop_strings[_key(body)] = choose_stop_string(text) or NOWHERE

    async def _ask(self, bodies: Sequence[Body], sender: Sender) -> None:
        missing = [body for body in bodies if _key(body) not in self.answers]
        slots = asyncio.Semaphore(CONCURRENCY)

        async def one(body: Body) -> None:
            async with slots:
                exchange = await sender.send(body.kind, body.path, body.fields)
            exchange.is_reference = True
            if not exchange.is_whole:
                raise DrillError(f"no undisturbed {body.kind} answer: {exchange.error}")
            self.answers[_key(body)] = exchange

        await asyncio.gather(*map(one, missing))


def _key(body: Body) -> str:
    return body_key(body.path, body.fields)
