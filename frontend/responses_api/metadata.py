"""What clients attach to a response, to find it again."""

from typing import Annotated

from msgspec import Meta

from cluster.errors import InvalidRequest

MAX_PAIRS = 16
MAX_KEY_CHARACTERS = 64
MAX_VALUE_CHARACTERS = 512

Metadata = Annotated[
    dict[str, Annotated[str, Meta(max_length=MAX_VALUE_CHARACTERS)]], Meta(max_length=MAX_PAIRS)
]


def check_metadata_keys(metadata: Metadata) -> None:
    """Raises InvalidRequest for a key that is too long."""
    longest = max(map(len, metadata), default=0)
    if longest > MAX_KEY_CHARACTERS:
        raise InvalidRequest(
            f"metadata: a key may have at most {MAX_KEY_CHARACTERS} characters, not {longest}",
            "metadata",
        )
