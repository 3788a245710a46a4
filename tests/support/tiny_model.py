"""Model folders of a few kilobytes that are whole: random weights, a tokenizer, a chat template."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_CORPUS = [
    "The four horses of the quadriga run abreast before one chariot, and none of them falls behind.",
    "When one of the horses stumbles, the others pull on, and the driver hardly feels the difference.",
    "What is the capital of France? The capital of France is Paris, a city on the river Seine.",
    "Write a short story about a lighthouse keeper who counts the ships that pass in the night.",
    "Numbers such as 10, 200 and 3000 are cut in digits; words are cut where the merges have them.",
]
_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True},
    "mistral": {"sliding_window": None, "num_attention_heads": 6, "num_key_value_heads": 3},
    "qwen2": {"tie_word_embeddings": False},
    "qwen3": {"head_dim": 32},
    "gemma": {"num_key_value_heads": 1},
    "phi3": {},
    "olmo2": {"num_key_value_heads": 4},
    "smollm3": {"no_rope_layer_interval": 2},
    "granite": {"logits_scaling": 0.5, "residual_multiplier": 0.8, "embedding_multiplier": 1.5},
}
FAMILIES = tuple(_FAMILIES)


def make_tiny_model(
    directory: Path,
    family: str = "llama",
    seed: int = 0,
    vocab_size: int = 384,
    tokenizer: bool = True,
    max_model_len: int = 512,
    dtype: str = "bfloat16",
    **overrides: Any,
) -> Path:
    """Write a random model of `family` to `directory`, the same for the same arguments.

    `overrides` go into its config. Returns `directory`.
    """
    config = transformers.AutoConfig.for_model(
        family,
        **(_SIZES | _FAMILIES[family] | {
            "vocab_size": vocab_size, "max_position_embeddings": max_model_len,
            "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.1,
        } | overrides),
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():
            if (
                parameter.dim() == 1
            ):  # norms begin as ones and biases as zeros, which hides mistakes
                parameter.data += 0.2 * torch.randn_like(parameter)
    model.to(getattr(torch, dtype)).save_pretrained(directory)
    transformers.GenerationConfig(
        bos_token_id=1, eos_token_id=2, pad_token_id=0
    ).save_pretrained(directory)  # fmt: skip
    if tokenizer:
        _write_tokenizer(directory, vocab_size, max_model_len)
    return directory


def _write_tokenizer(directory: Path, vocab_size: int, max_model_len: int) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=SPECIAL_TOKENS, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_model_len,
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2))
