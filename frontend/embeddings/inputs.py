"""Bodies of /v1/embeddings to requests: tokenized, checked against the model's limits, hashed."""

from dataclasses import dataclass, replace

from cluster.errors import InvalidRequest
from cluster.wire.block_hash import hash_blocks
from cluster.wire.ids import new_request_id
from cluster.wire.sampling import Pooling, PoolingParams, SamplingParams
from frontend.context_limit import ContextLimit
from frontend.embeddings.schemas import EmbeddingBody
from frontend.input_processor import Arrival
from frontend.openai.unsupported import AsksNothing, refuse_fields
from frontend.prompts import Prompt, truncated
from frontend.request import GenerationRequest
from frontend.services import Services

UNSUPPORTED_FIELDS: dict[str, AsksNothing] = {
    "embed_dtype": lambda value: bool(value == "float32"),
    "endianness": lambda value: value in ("native", "little"),
    "use_activation": lambda _: False,
}


@dataclass(frozen=True, slots=True)
class EmbeddingInputs:
    """Makes the requests of a body. Its work is heavy: run it in worker threads."""

    services: Services

    def prepare(
        self, body: EmbeddingBody, arrival: Arrival, max_request_tokens: int | None
    ) -> list[GenerationRequest]:
        """One request for each input. Raises RequestError naming what is wrong."""
        inputs = self.services.inputs
        inputs.check_model(body.model)
        refuse_fields(body, UNSUPPORTED_FIELDS)
        self._check_dimensions(body)
        sketch = replace(
            inputs.sketch(body, arrival), sampling=_sampling(body), cache_salt=body.cache_salt or ""
        )
        response_id = new_request_id("embd")
        return [
            replace(
                sketch,
                request_id=f"{response_id}-{index}",
                prompt_token_ids=prompt.token_ids,
                block_hashes=self._hashes(prompt, sketch),
            )
            for index, prompt in enumerate(self._prompts(body, max_request_tokens))
        ]

    def _prompts(self, body: EmbeddingBody, max_request_tokens: int | None) -> list[Prompt]:
        limit = ContextLimit.of(self.services.model.max_model_len, max_request_tokens)
        adds_special_tokens = body.add_special_tokens is not False
        prompts = self.services.inputs.read_prompts(
            body.input,
            adds_special_tokens,
            "input",
            may_be_cut=body.truncate_prompt_tokens is not None,
        )
        return [self._fit(prompt, body, limit) for prompt in prompts]

    def _check_dimensions(self, body: EmbeddingBody) -> None:
        size = self.services.model.hidden_size
        if body.dimensions not in (None, size):
            raise InvalidRequest(
                f"dimensions must be {size or 'left out'}: the vectors of this model are not made to "
                f"be shortened, and {body.dimensions} was asked for",
                "dimensions",
            )

    def _fit(self, prompt: Prompt, body: EmbeddingBody, limit: ContextLimit) -> Prompt:
        keep = body.truncate_prompt_tokens
        if keep is not None:
            most = limit.num_tokens if keep == -1 else keep
            prompt = truncated(prompt, most, self.services.model.max_model_len)
        limit.check_prompt(len(prompt.token_ids), "input")
        return prompt

    def _hashes(self, prompt: Prompt, sketch: GenerationRequest) -> list[bytes]:
        pooling = sketch.sampling.pooling
        # The mean needs every token computed: an engine that has a part of the prompt is no better.
        if pooling is not None and pooling.pooling is Pooling.MEAN:
            return []
        return hash_blocks(
            prompt.token_ids, self.services.config.engine.block_size, sketch.cache_salt
        )


def _sampling(body: EmbeddingBody) -> SamplingParams:
    pooling = Pooling.LAST if body.pooling == "last" else Pooling.MEAN
    return SamplingParams(
        max_tokens=0, pooling=PoolingParams(pooling, normalize=body.normalize is not False)
    )
