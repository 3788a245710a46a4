"""The model's tokenizer, through the `tokenizers` package alone: importing transformers loads torch."""

from pathlib import Path
from typing import Any

import msgspec
import tokenizers

from cluster.config import ClusterConfig
from cluster.errors import ModelError
from frontend.chat_template import ChatTemplate
from frontend.model_info import read_json_object
from frontend.token_bytes import TokenBytes

MOST_CHARACTERS_MADE_ONE = 4
"""What a normalizer may make one character of: a letter with its accents."""
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")


class Tokenizer:
    """Text to token ids and back. Safe to use from several threads."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        special_tokens: dict[str, str] | None = None,
        chat_template_source: str | None = None,
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        self.bytes_of_tokens = TokenBytes.of(backend)
        """How each token is spelled in bytes; None if tokens have no spelling of their own."""
        self._longest_token_characters = max(map(len, backend.get_vocab()), default=1)
        self.special_token_ids = frozenset(
            token_id
            for token_id, token in backend.get_added_tokens_decoder().items()
            if token.special
        )
        special_tokens = special_tokens or {}
        eos_token = special_tokens.get("eos_token")
        self.eos_token_id = backend.token_to_id(eos_token) if eos_token is not None else None
        self.chat_template = (
            ChatTemplate(chat_template_source, special_tokens)
            if chat_template_source is not None
            else None
        )

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """The token ids of the text, with what the model puts around a text if asked for."""
        # The batch call lets other threads run meanwhile, and leaves out character offsets.
        [encoding] = self.backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        return encoding.ids

    def least_tokens(self, text: str) -> int:
        """How many tokens the text has at least, known without tokenizing it; 0 if nobody can say."""
        if self.bytes_of_tokens is None:
            return 0
        return len(text) // (MOST_CHARACTERS_MADE_ONE * self._longest_token_characters)

    def decode(self, token_ids: list[int], skip_special_tokens: bool) -> str:
        """The text of the tokens; bytes that are no character become U+FFFD."""
        return self.backend.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token stands for, special tokens spelled out; none if it is unknown."""
        if self.bytes_of_tokens is not None:
            return self.bytes_of_tokens[token_id]
        return self.decode([token_id], skip_special_tokens=False).encode()

    def token_name(self, token_id: int) -> str:
        """The token as the vocabulary spells it."""
        return self.backend.id_to_token(token_id) or ""


def load_tokenizer(config: ClusterConfig) -> Tokenizer:
    """The tokenizer of the model folder, with the folder's chat template or the configured one.

    Raises ModelError if a file is missing or cannot be used.
    """
    folder = config.model_directory
    path = folder / "tokenizer.json"
    if not path.exists():
        raise ModelError(f"{folder} has no tokenizer.json")
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises plain Exception
        raise ModelError(f"{path} is not a tokenizer: {error}") from error
    settings_path = folder / "tokenizer_config.json"
    settings = read_json_object(settings_path) if settings_path.exists() else {}
    template = _chat_template(folder, settings, config.frontend.chat_template)
    return Tokenizer(backend, _special_tokens(settings), template)


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    tokens = {name: settings.get(name) for name in SPECIAL_TOKENS}
    return {
        name: token["content"] if isinstance(token, dict) else str(token)
        for name, token in tokens.items()
        if token is not None
    }


def _chat_template(folder: Path, settings: dict[str, Any], override: str | None) -> str | None:
    path = Path(override) if override is not None else folder / "chat_template.jinja"
    if override is not None or path.exists():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"the chat template {path} cannot be read: {error}") from error
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    try:
        return msgspec.convert(template, str | None)
    except msgspec.ValidationError as error:
        raise ModelError(f"the chat template in {folder} is not a text") from error
