"""A transformers causal language model in two halves: hidden states, and logits of chosen rows."""

import copy

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from cluster.errors import ModelError
from engine.execution.paged_attention import PagedStep


class CausalLM:
    """Calls a model on a flat batch, and its head only on the rows whose logits are wanted."""

    def __init__(self, model: nn.Module) -> None:
        name = str(model.base_model_prefix)
        decoder = getattr(model, name, None)
        if not isinstance(decoder, nn.Module) or decoder is model:
            raise ModelError(f"{type(model).__name__} has no separate decoder and head")
        self._decoder = decoder
        # The head with all that its authors do around it (scaling, caps): the same model, whose
        # decoder hands on what it is given.
        self._head = copy.copy(model)
        self._head.__dict__["_modules"] = {**dict(model.named_children()), name: _PassOn()}

    def hidden_states(self, step: PagedStep) -> torch.Tensor:
        """The last hidden state of every token of the step, (tokens, hidden)."""
        output = self._decoder(
            input_ids=step.batch.token_ids,
            position_ids=step.batch.position_ids,
            use_cache=False,
            paged=step,
        )
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(rows, hidden) to (rows, vocabulary) float32."""
        logits: torch.Tensor = self._head(inputs_embeds=hidden[None], use_cache=False).logits
        return logits[0].float()


class _PassOn(nn.Module):
    def forward(self, inputs_embeds: torch.Tensor, **_: object) -> BaseModelOutputWithPast:
        return BaseModelOutputWithPast(last_hidden_state=inputs_embeds)
