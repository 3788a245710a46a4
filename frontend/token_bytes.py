"""How tokens are spelled in bytes, so that text can be put together token by token, exactly.

Byte-level tokenizers (GPT-2, Llama 3, Qwen, SmolLM …) spell each byte as one printable character;
those in SentencePiece's style (Llama 2, Mistral, Gemma …) write ▁ for a space and `<0xE2>` for a
byte that has no token of its own. In both, a text is the bytes of its tokens, one after the other.
"""

import json
import re
from typing import Any

import tokenizers

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_level_alphabet() -> dict[str, int]:
    """The character of each byte: itself where it is printable, else the next from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if chr(byte) not in alphabet)
    return alphabet | {chr(0x100 + index): byte for index, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_level_alphabet()


class TokenBytes:
    """The spelling of every token, looked up once."""

    def __init__(self, backend: tokenizers.Tokenizer, is_byte_level: bool) -> None:
        self._backend = backend
        self._spell = _spell_byte_level if is_byte_level else _spell_sentencepiece
        self._known: dict[int, bytes] = {}
        self._whole_texts: dict[int, str | None] = {}

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer) -> "TokenBytes | None":
        """The spelling of this tokenizer; None if its texts are not made of its tokens' bytes."""
        # The decoder's own state: the whole tokenizer as a text has megabytes.
        decoder = backend.decoder
        steps = _decoding_steps(None if decoder is None else json.loads(decoder.__getstate__()))
        if steps == ["ByteLevel"]:
            return cls(backend, is_byte_level=True)
        if "ByteFallback" in steps and set(steps) <= {"Replace", "ByteFallback", "Fuse", "Strip"}:
            return cls(backend, is_byte_level=False)
        return None

    def __getitem__(self, token_id: int) -> bytes:
        spelling = self._known.get(token_id)
        if spelling is None:
            spelling = self._known[token_id] = self._spell(
                self._backend.id_to_token(token_id) or ""
            )
        return spelling

    def whole_text(self, token_id: int) -> str | None:
        """The characters that the token is; None if its bytes are only a part of some."""
        try:
            return self._whole_texts[token_id]
        except KeyError:
            return self._whole_texts.setdefault(token_id, _decoded(self[token_id]))


def _decoded(spelling: bytes) -> str | None:
    try:
        return spelling.decode()
    except UnicodeDecodeError:
        return None


def _decoding_steps(decoder: dict[str, Any] | None) -> list[str]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [step for part in decoder["decoders"] for step in _decoding_steps(part)]
    return [decoder["type"]]


def _spell_byte_level(token: str) -> bytes:
    try:
        return bytes([_BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:  # an added token, which is written as it is
        return token.encode()


def _spell_sentencepiece(token: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()
