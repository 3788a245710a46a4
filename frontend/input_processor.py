"""Bodies to requests: rendered, tokenized, checked against the model's limits, hashed."""

import random
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from cluster.config import ClusterConfig
from cluster.errors import InvalidRequest, ModelNotFound
from cluster.wire.block_hash import hash_blocks
from cluster.wire.ids import new_request_id
from cluster.wire.sampling import SamplingParams
from frontend.context_limit import ContextLimit
from frontend.dead_ends import refuse_dead_ends
from frontend.model_info import ModelInfo
from frontend.openai.limits import MAX_RANK
from frontend.openai.messages import template_messages
from frontend.openai.schemas import (
    ChatBody,
    CompletionBody,
    GenerationBody,
    TokenizeCompletionBody,
)
from frontend.openai.unsupported import refuse_unsupported
from frontend.output_processor import OutputOptions
from frontend.prompts import Prompt, check_users_texts, read_prompts, truncated
from frontend.request import GenerationRequest
from frontend.request_limits import RequestLimits
from frontend.sampling_resolver import SamplingResolver, ignores_eos, requested_max_tokens
from frontend.structured.answer_grammar import answer_grammar, grammar_obstacle
from frontend.structured.grammars import json_schema_grammar
from frontend.tokenizer import Tokenizer
from frontend.tools.forced_calls import forced_calls_schema
from frontend.tools.message_format import PLAIN, MessageFormat, MessageFormats
from frontend.tools.tool_use import NO_TOOLS, ToolUse, read_tool_use

DEFAULT_COMPLETION_TOKENS = 16


class RoutedBody(Protocol):
    """What a body says of when and where it is served, whatever API it is of."""

    priority: int | None
    data_parallel_rank: int | None


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is known of an HTTP request beside its body."""

    arrived_at: float
    """On the monotonic clock."""
    pinned_rank: int | None = None
    traceparent: str = ""
    tenant: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """Everything that a client's request asks of the engines, and of the form of the answer."""

    response_id: str
    model: str
    prompts: list[Prompt]
    num_choices: int
    """Per prompt; choice i of prompt p is request p × num_choices + i."""
    requests: list[GenerationRequest]
    options: OutputOptions
    message_format: MessageFormat = PLAIN

    def prompt_of(self, index: int) -> Prompt:
        """The prompt that the request at `index` continues."""
        return self.prompts[index // self.num_choices]


class InputProcessor:
    """Pure but for fresh ids and seeds. Its work is heavy: run it in worker threads."""

    def __init__(self, config: ClusterConfig, model: ModelInfo, tokenizer: Tokenizer) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._limits = RequestLimits.of(config.frontend)
        self._formats = MessageFormats(config.frontend, tokenizer)
        self._longest_prompt = ContextLimit.of(model.max_model_len, None)
        self._block_size = config.engine.block_size
        eos = dict.fromkeys(model.eos_token_ids)
        if tokenizer.eos_token_id is not None:
            eos[tokenizer.eos_token_id] = None
        self._eos_token_ids = frozenset(eos)
        seed = config.model.seed
        seeds = random.SystemRandom() if seed is None else random.Random(seed)
        self._sampling = SamplingResolver(model, list(eos), seeds)
        self._grammar_obstacle = grammar_obstacle(tokenizer, self._eos_token_ids)

    def sketch(self, body: RoutedBody, arrival: Arrival) -> GenerationRequest:
        """What is known of a body's requests before its prompt is tokenized."""
        return GenerationRequest(
            "", [], [], SamplingParams(), arrival.arrived_at, body.priority or 0,
            pinned_rank=_pinned_rank(body, arrival), traceparent=arrival.traceparent,
            session=arrival.session, tenant=arrival.tenant,
        )  # fmt: skip

    def prepare_chat(
        self, body: ChatBody, arrival: Arrival, max_request_tokens: int | None
    ) -> PreparedRequest:
        """The requests of a chat body. Raises RequestError naming what is wrong."""
        self._limits.check(body)
        tool_use = read_tool_use(body)
        sampling = self._check(body, tool_use)
        limit = None if body.truncate_prompt_tokens is not None else self._longest_prompt
        text, token_ids = self._chat_prompt(body, tool_use, limit)
        form = self._formats.of(body, tool_use, text, is_constrained=bool(sampling.grammar))
        prompts = [Prompt(text, token_ids)]
        return self._prepare("chatcmpl", body, arrival, max_request_tokens, sampling, prompts, form)

    def prepare_completion(
        self, body: CompletionBody, arrival: Arrival, max_request_tokens: int | None
    ) -> PreparedRequest:
        """The requests of a completion body. Raises RequestError naming what is wrong."""
        self._limits.check(body)
        sampling = self._check(body)
        adds_special_tokens = body.add_special_tokens is not False
        cuts = body.truncate_prompt_tokens is not None
        prompts = self.read_prompts(body.prompt, adds_special_tokens, "prompt", may_be_cut=cuts)
        return self._prepare("cmpl", body, arrival, max_request_tokens, sampling, prompts)

    def read_prompts(
        self, value: str | list[Any], add_special_tokens: bool, field: str, *, may_be_cut: bool
    ) -> list[Prompt]:
        """The prompts in this field, tokenized. Raises InvalidRequest naming it if there are none."""
        self._limits.check_prompts(value, field)
        limit = None if may_be_cut else self._longest_prompt
        prompts = read_prompts(value, self._tokenizer, add_special_tokens, field, limit)
        for prompt in prompts:
            self._sampling.check_token_ids(prompt.token_ids, field)
        return prompts

    def tokenize(self, body: ChatBody | TokenizeCompletionBody) -> list[int]:
        """The tokens that the same prompt would have in a request."""
        self.check_model(body.model)
        self._limits.check(body)
        if isinstance(body, TokenizeCompletionBody):
            return self._tokenizer.encode(body.prompt, body.add_special_tokens is not False)
        return self._chat_prompt(body, read_tool_use(body))[1]

    def detokenize(self, token_ids: list[int]) -> str:
        """The text of the tokens, special ones spelled out."""
        self._sampling.check_token_ids(token_ids, "tokens")
        return self._tokenizer.decode(token_ids, skip_special_tokens=False)

    def check_model(self, name: str | None) -> None:
        """Raises ModelNotFound if another model is asked for."""
        if name is not None and name != self._model.name:
            raise ModelNotFound(f"The model `{name}` does not exist.", "model")

    def _chat_prompt(
        self, body: ChatBody, tool_use: ToolUse, limit: ContextLimit | None = None
    ) -> tuple[str, list[int]]:
        """The rendered text of a conversation, and its tokens."""
        template = self._tokenizer.chat_template
        if template is None:
            raise InvalidRequest("this model has no chat template; use /v1/completions", "messages")
        if body.chat_template is not None:
            raise InvalidRequest("templates are not taken from requests", "chat_template")
        continues = bool(body.continue_final_message)
        if continues and body.add_generation_prompt:
            raise InvalidRequest(
                "continue_final_message and add_generation_prompt exclude each other",
                "continue_final_message",
            )
        messages = template_messages(body.messages)
        if limit is not None:
            check_users_texts(messages, self._tokenizer, limit)
        text = template.render(
            messages,
            add_generation_prompt=not continues and body.add_generation_prompt is not False,
            continue_final_message=continues,
            tools=tool_use.for_template(),
            variables=_template_variables(body),
        )
        if limit is not None:
            limit.check_text(self._tokenizer.least_tokens(text), "messages")
        return text, self._tokenizer.encode(text, bool(body.add_special_tokens))

    def _check(self, body: GenerationBody, tool_use: ToolUse = NO_TOOLS) -> SamplingParams:
        """What can be known before the prompt is tokenized, the cheapest first."""
        self.check_model(body.model)
        refuse_unsupported(body)
        if body.stream_options is not None and not body.stream:
            raise InvalidRequest("stream_options needs stream to be true", "stream_options")
        return self._sampling.resolve(body, self._grammar(body, tool_use))

    def _grammar(self, body: GenerationBody, tool_use: ToolUse) -> str:
        """What the answer must be; calls that are forced leave no room for any other form."""
        schema = forced_calls_schema(tool_use)
        if schema is None:
            return answer_grammar(body, self._grammar_obstacle)
        if self._grammar_obstacle:
            raise InvalidRequest(
                f"tool_choice must be none or auto: {self._grammar_obstacle}", "tool_choice"
            )
        return json_schema_grammar(schema, tool_use.param)

    def _prepare(
        self,
        kind: str,
        body: GenerationBody,
        arrival: Arrival,
        max_request_tokens: int | None,
        sampling: SamplingParams,
        prompts: list[Prompt],
        message_format: MessageFormat = PLAIN,
    ) -> PreparedRequest:
        num_choices = 1 if body.n is None else body.n
        self._limits.check_choices(num_choices, len(prompts))
        limit = ContextLimit.of(self._model.max_model_len, max_request_tokens)
        asked, _ = requested_max_tokens(body)
        options = self._options(body, sampling.grammar, is_prompt_only=asked == 0)
        if message_format.shows_special_tokens:
            options = replace(options, skip_special_tokens=False)
        sampling = msgspec.structs.replace(sampling, bad_words=self._bad_words(body))
        refuse_dead_ends(sampling, self._model.vocab_size)
        prompts = [self._truncate(prompt, body, limit) for prompt in prompts]
        response_id = new_request_id(kind)
        requests: list[GenerationRequest] = []
        for prompt in prompts:
            sampling = self._fit(sampling, prompt, body, limit)
            hashes = hash_blocks(prompt.token_ids, self._block_size, body.cache_salt or "")
            for choice in range(num_choices):
                requests.append(
                    GenerationRequest(
                        request_id=f"{response_id}-{len(requests)}",
                        prompt_token_ids=prompt.token_ids,
                        block_hashes=hashes,
                        sampling=msgspec.structs.replace(sampling, choice=choice),
                        arrived_at=arrival.arrived_at,
                        priority=body.priority or 0,
                        cache_salt=body.cache_salt or "",
                        pinned_rank=_pinned_rank(body, arrival),
                        traceparent=arrival.traceparent,
                        session=arrival.session,
                        tenant=arrival.tenant,
                    )
                )
        return PreparedRequest(
            response_id,
            self._model.name,
            prompts,
            num_choices,
            requests,
            options,
            message_format,
        )

    def _options(self, body: GenerationBody, grammar: str, is_prompt_only: bool) -> OutputOptions:
        return OutputOptions(
            stops=_stop_strings(body),
            include_stop_in_text=bool(body.include_stop_str_in_output),
            skip_special_tokens=body.skip_special_tokens is not False,
            min_tokens=body.min_tokens or 0,
            silent_stop_ids=frozenset() if ignores_eos(body, grammar) else self._eos_token_ids,
            is_prompt_only=is_prompt_only,
        )

    def _bad_words(self, body: GenerationBody) -> list[list[int]]:
        """Each word's tokens at the start of a text and, if they differ, after a space (as vLLM does)."""
        sequences: list[list[int]] = []
        for word in body.bad_words or []:
            bare = self._tokenizer.encode(word.lstrip(), add_special_tokens=False)
            if not bare:
                raise InvalidRequest("bad_words must not contain an empty word", "bad_words")
            spaced = self._tokenizer.encode(" " + word.lstrip(), add_special_tokens=False)
            sequences.append(bare)
            if len(spaced) == len(bare) and spaced[0] != bare[0]:
                sequences.append(spaced)
        return sequences

    def _truncate(self, prompt: Prompt, body: GenerationBody, limit: ContextLimit) -> Prompt:
        keep = body.truncate_prompt_tokens
        if keep is None:
            return prompt
        if keep == -1:
            asked, _ = requested_max_tokens(body)
            keep = limit.num_tokens - max(asked or 1, 1)
        return truncated(prompt, keep, self._model.max_model_len)

    def _fit(
        self, sampling: SamplingParams, prompt: Prompt, body: GenerationBody, limit: ContextLimit
    ) -> SamplingParams:
        asked, _ = requested_max_tokens(body)
        is_chat = isinstance(body, ChatBody)
        default = self._model.defaults.max_new_tokens if is_chat else DEFAULT_COMPLETION_TOKENS
        max_tokens = limit.max_tokens(
            len(prompt.token_ids),
            # An engine makes one token at least; `is_prompt_only` drops it.
            max(asked, 1) if asked is not None else None,
            default,
            "messages" if is_chat else "prompt",
        )
        if sampling.min_tokens > max_tokens:
            raise InvalidRequest(
                f"min_tokens must be at most max_tokens ({max_tokens}), not {sampling.min_tokens}",
                "min_tokens",
            )
        return msgspec.structs.replace(sampling, max_tokens=max_tokens)


def _template_variables(body: ChatBody) -> dict[str, Any]:
    named = {"documents": body.documents, "reasoning_effort": body.reasoning_effort}
    given = {name: value for name, value in named.items() if value is not None}
    return given | (body.chat_template_kwargs or {})


def _stop_strings(body: GenerationBody) -> list[str]:
    return [body.stop] if isinstance(body.stop, str) else body.stop or []


def _pinned_rank(body: RoutedBody, arrival: Arrival) -> int | None:
    rank = arrival.pinned_rank if body.data_parallel_rank is None else body.data_parallel_rank
    if rank is not None and not 0 <= rank <= MAX_RANK:
        raise InvalidRequest(f"data_parallel_rank: there is no engine {rank}", "data_parallel_rank")
    return rank
