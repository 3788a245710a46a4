"""Types of the fields that clients send, with the ranges that hold whatever the model is.

A range is written here and nowhere else: msgspec refuses what is outside, and the OpenAPI document is
made from the same types. What depends on the model, or on a second field, is checked where that is known.
"""

from typing import Annotated

from msgspec import Meta

MAX_LOGPROBS = 20
MAX_PRIORITY = 2**31 - 1
MAX_RANK = 2**31 - 1
MAX_LISTED = 1024

NO_SEPARATORS = r"^[^@/\\\x00]*$"
FUNCTION_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
PATTERN_WORDS = {
    NO_SEPARATORS: "must not contain @, /, \\ or NUL",
    FUNCTION_NAME: "must be 1 to 64 letters, digits, _ and -",
}
"""What errors say in place of a pattern."""

Temperature = Annotated[float, Meta(ge=0, le=2)]
TopP = Annotated[float, Meta(gt=0, le=1)]
TopK = Annotated[int, Meta(ge=-1)]
MinP = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
RepetitionPenalty = Annotated[float, Meta(gt=0, le=1e6)]
"""Divides and multiplies logits."""
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0)]
PositiveCount = Annotated[int, Meta(ge=1)]
NumLogprobs = Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)]
Priority = Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]
Rank = Annotated[int, Meta(ge=0, le=MAX_RANK)]

TokenId = Annotated[int, Meta(ge=0)]
LogitBias = Annotated[
    dict[str, Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=MAX_LISTED)
]
SomeTokenIds = Annotated[list[TokenId], Meta(max_length=MAX_LISTED)]
TokenIds = Annotated[list[TokenId], Meta(min_length=1)]
Prompts = str | Annotated[list[str | TokenId | TokenIds], Meta(min_length=1)]
Word = Annotated[str, Meta(min_length=1)]
Words = Annotated[list[Word], Meta(max_length=MAX_LISTED)]
CacheSalt = Annotated[str, Meta(min_length=1, max_length=128, pattern=NO_SEPARATORS)]
FunctionName = Annotated[str, Meta(pattern=FUNCTION_NAME)]
