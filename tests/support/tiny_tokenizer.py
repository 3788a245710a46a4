"""Small real tokenizers, trained here in a moment, one of each kind that models come with."""

from functools import cache

import tokenizers
from tokenizers import (
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from frontend.tokenizer import Tokenizer

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    "A cluster serves one model from many replicas; a stream goes on when one of them dies.",
    "Hello there! How are you today? I am fine, thank you, and how are you?",
] * 4
SPECIAL_TOKENS = {"bos_token": "<|bos|>", "eos_token": "<|im_end|>"}
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{%- if message.role == 'wizard' -%}{{ raise_exception('No wizards here') }}{%- endif -%}
<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}<call>{{ call.function.name }}({{ call.function.arguments | tojson }}){% endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""
VOCAB_SIZE = 400


@cache
def byte_level_backend() -> tokenizers.Tokenizer:
    """In the style of GPT-2, Llama 3, Qwen and SmolLM; writes `<|bos|>` before a text."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=["<|bos|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", special_tokens=[("<|bos|>", 0)]
    )
    backend.add_tokens([AddedToken("<näive>", special=False, normalized=False)])
    return backend


@cache
def byte_fallback_backend() -> tokenizers.Tokenizer:
    """In SentencePiece's style, as of Llama 2, Mistral and Gemma."""
    pieces = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", *"abcdehlorstxyzé", "▁h", "▁he", "ll", "lo", "▁t", "▁th", "er"]
    merges = [("▁", "h"), ("▁h", "e"), ("l", "l"), ("l", "o"), ("▁", "t"), ("▁t", "h"), ("e", "r")]
    backend = tokenizers.Tokenizer(
        models.BPE(
            {piece: index for index, piece in enumerate(pieces)}, merges,
            unk_token="<unk>", byte_fallback=True, fuse_unk=True,
        )
    )  # fmt: skip
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(["<s>", "</s>", "<unk>"])
    return backend


@cache
def metaspace_backend() -> tokenizers.Tokenizer:
    """One whose decoder is neither of these, so that texts are decoded by window."""
    words = ["<s>", "</s>", "▁hello", "▁there", "▁how", "▁are", "▁you", "s", "!", "▁"]
    backend = tokenizers.Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, "<s>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens(["<s>", "</s>"])
    return backend


@cache
def tiny_tokenizer() -> Tokenizer:
    """The byte-level tokenizer with a chat template in ChatML's style."""
    return Tokenizer(byte_level_backend(), SPECIAL_TOKENS, CHAT_TEMPLATE)
