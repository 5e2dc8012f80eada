"""Passages through ``AsyncLLM``: checks, submission, tokens as they come, aborts."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from engine.errors import InvalidRequestError, StageFailedError, VoxloomError
from engine.pipeline import LlmConfig
from worker.failures import one_line
from worker.vllm.adapter import Burst, FinishReason, Passage, Row
from worker.vllm.cache_layout import CacheLayout, ask_cache_layout
from worker.vllm.loras import Loras
from worker.vllm.progress import Progress
from worker.vllm.row_marks import GROUP_SIZE, GroupMark, make_extra_args
from worker.vllm.sampling import MAX_GUIDANCE_SCALE, TokenSampling, refuse_penalties
from worker.vllm.states import StateInbox, States

if TYPE_CHECKING:
    from vllm import SamplingParams as VllmSampling
    from vllm.outputs import RequestOutput
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.output_processor import RequestOutputCollector

_SEED_MASK = 2**63 - 1
_WARM_UP_TOKENS = 8
_WARM_UP_TOKEN = 1
_WARM_UP_GRAMMAR = "start: /[a-z]*/\n"


@dataclass(frozen=True, slots=True)
class Submission:
    """How a passage is submitted. ``prefix`` are tokens that it already has, of a replay."""

    request_id: str
    passage: Passage
    seed: int
    priority: int = 0
    prefix: Sequence[int] = ()
    alone: bool = False
    trace_headers: dict[str, str] | None = None
    lora: str | None = None


class TokenEngine:
    """For one event loop. ``llm`` is what ``engine`` was launched with."""

    def __init__(self, engine: AsyncLLM, llm: LlmConfig) -> None:
        self._engine = engine
        self._has_tokenizer = llm.tokenizer is not None
        config = engine.vllm_config
        self.max_model_len = int(config.model_config.max_model_len)
        self._num_blocks = int(config.cache_config.num_gpu_blocks)
        self._num_batched_tokens = int(config.scheduler_config.max_num_batched_tokens)
        self._loras = Loras(llm.loras)
        self._ids = itertools.count()
        self._max_num_seqs = llm.max_num_seqs
        self._progress = Progress()
        self._layout: CacheLayout | None = None
        self._inbox = StateInbox() if llm.tell_states else None

    @property
    def silent_s(self) -> float:
        """For how long vLLM has said nothing although somebody waits for tokens."""
        return self._progress.silent_s

    @property
    def is_dead(self) -> bool:
        return bool(self._engine.errored)

    async def prepare(self) -> None:
        """To be called once, before anything is submitted.

        Asks how the cache is divided, loads the LoRAs, has the states told, if they are, and warms
        up. Raises ``ConfigError``.
        """
        self._layout = await ask_cache_layout(self._engine)
        await self._loras.load(self._engine)
        if self._inbox is not None:
            await self._engine.collective_rpc("tell_states_to", args=(self._inbox.address,))
        await self._warm_up(None)
        if self._has_tokenizer:
            # Of a tokenizer that no grammar can be made for, the request that needs one hears.
            with contextlib.suppress(VoxloomError):
                await self._warm_up(_WARM_UP_GRAMMAR)

    async def _warm_up(self, grammar: str | None) -> None:
        """Decode a few tokens: what is loaded or allocated at first use should delay nobody.

        The first grammar has vLLM read the whole vocabulary.
        """
        num_tokens = _WARM_UP_TOKENS
        sampling = TokenSampling(max_tokens=num_tokens, seed=0, ignore_eos=True, grammar=grammar)
        prompt = [_WARM_UP_TOKEN] * min(num_tokens, self.max_model_len // 2)
        passage = Passage(number=0, rows=(Row(None, prompt),), sampling=sampling, sink=_Nowhere())
        decoding = await self.submit(Submission("warm-up", passage, seed=0))
        while (await decoding.next()).finish_reason is None:
            pass

    async def submit(self, submission: Submission) -> Decoding:
        """Start a passage. Raises a ``VoxloomError`` for what cannot be decoded."""
        from vllm.exceptions import VLLMClientError

        max_tokens = self._check(submission)
        lora = self._loras.find(submission.lora)
        inbox = self._inbox if submission.passage.wants_states else None
        decoding = Decoding(self._engine, self._progress, inbox)
        group_id = f"{submission.request_id}.{next(self._ids)}"
        row_ids = [f"{group_id}.{number}" for number in range(len(submission.passage.rows))]
        try:
            if inbox is not None:
                decoding.open_states(group_id, submission)
            for number, row in enumerate(submission.passage.rows):
                params = self._params(submission, number, max_tokens, group_id)
                prompt = self._prompt(row, submission.prefix)
                decoding.collectors.append(
                    await self._engine.add_request(
                        row_ids[number],
                        prompt,
                        params,
                        lora_request=lora,
                        priority=submission.priority,
                        trace_headers=submission.trace_headers or None,
                    )
                )
        except BaseException as error:
            await decoding.abort()
            # By its name, too: a row that was cancelled on its way in has no collector.
            await self._engine.abort(row_ids)
            if isinstance(error, VLLMClientError):
                raise InvalidRequestError(one_line(error)) from error
            raise
        return decoding

    def shutdown(self) -> None:
        self._engine.shutdown(timeout=0)
        if self._inbox is not None:
            self._inbox.shutdown()

    # --- checks ----------------------------------------------------------------------------------

    def _check(self, submission: Submission) -> int:
        """Raise for what vLLM, or guidance, cannot do; the number of tokens still to be made."""
        passage = submission.passage
        roles = [row.role for row in passage.rows]
        if not roles or roles[0] is not None or len(roles) > GROUP_SIZE:
            raise StageFailedError(
                f"a passage has the request's own row and at most one more, got roles {roles}"
            )
        longest = max(len(row.prompt_token_ids) for row in passage.rows)
        if longest == 0 or longest >= self.max_model_len:
            raise InvalidRequestError(
                f"input makes a prompt of {longest} tokens; the model reads 1 to "
                f"{self.max_model_len - 1}",
                param="input",
            )
        limit = min(passage.sampling.max_tokens, self.max_model_len - longest)
        if passage.sampling.stop and not self._has_tokenizer:
            raise InvalidRequestError("stop needs a model with a tokenizer", param="stop")
        if len(roles) == GROUP_SIZE:
            self._check_group(passage, limit)
        return max(1, limit - len(submission.prefix))

    def _check_group(self, passage: Passage, max_tokens: int) -> None:
        scale = passage.guidance_scale
        if not (math.isfinite(scale) and 0 <= scale <= MAX_GUIDANCE_SCALE):
            raise InvalidRequestError(
                f"guidance_scale must be from 0 to {MAX_GUIDANCE_SCALE:g}, got {scale!r}",
                param="guidance_scale",
            )
        refuse_penalties(passage.sampling)
        if passage.sampling.grammar is not None:
            raise StageFailedError("a guided passage cannot be held to a grammar")
        if self._max_num_seqs < GROUP_SIZE:
            raise StageFailedError(
                f"a guided passage takes {GROUP_SIZE} rows; this stage has max_num_seqs "
                f"{self._max_num_seqs}"
            )
        assert self._layout is not None, "prepare was called"
        if self._layout.other_kinds:
            raise StageFailedError(
                "guidance needs a model whose cache is keys and values of tokens; this one has "
                + ", ".join(self._layout.other_kinds)
            )
        sizes = [len(row.prompt_token_ids) + max_tokens for row in passage.rows]
        num_blocks = sum(self._layout.num_blocks(size) for size in sizes)
        # vLLM keeps one block for itself. A group that was preempted comes back in one step.
        if num_blocks > self._num_blocks - 1 or sum(sizes) > self._num_batched_tokens:
            raise StageFailedError(
                f"a guided passage of up to {sum(sizes)} tokens needs max_num_batched_tokens of as"
                f" many and a KV cache of {num_blocks + 1} blocks; this stage has "
                f"{self._num_batched_tokens} and {self._num_blocks}"
            )

    # --- vLLM's parameters -----------------------------------------------------------------------

    def _prompt(self, row: Row, prefix: Sequence[int]) -> Any:
        """vLLM's own form of a prompt, which skips its tokenizer and its checks of text."""
        token_ids = [*row.prompt_token_ids, *prefix]
        if row.embedded is None:
            return {"type": "token", "prompt_token_ids": token_ids}
        if self._inbox is None:
            raise StageFailedError("a prompt with embeddings needs llm.tell_states")
        import torch

        config = self._engine.vllm_config.model_config
        embeddings = torch.zeros(len(token_ids), config.get_hidden_size(), dtype=config.dtype)
        positions = torch.from_numpy(row.embedded.positions.copy())
        embeddings[positions] = torch.from_numpy(row.embedded.embeddings.copy()).to(config.dtype)
        is_token = torch.ones(len(token_ids), dtype=torch.bool)
        is_token[positions] = False
        return {
            "type": "embeds",
            "prompt_embeds": embeddings,
            "prompt_token_ids": token_ids,
            "is_token_ids": is_token.tolist(),
        }

    def _params(
        self, submission: Submission, number: int, max_tokens: int, group_id: str
    ) -> VllmSampling:
        from vllm.sampling_params import RequestOutputKind

        from worker.vllm.checked_sampling import CheckedSampling, hold_to

        passage = submission.passage
        sampling = passage.sampling
        mark = None
        if len(passage.rows) == GROUP_SIZE:
            mark = GroupMark(group_id, number, passage.guidance_scale, passage.plausible_nats)
        num_had = len(submission.prefix)
        return CheckedSampling(
            max_tokens=max_tokens,
            min_tokens=min(max(0, sampling.min_tokens - num_had), max_tokens),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            seed=_seed(sampling, submission.seed, num_had),
            stop=list(sampling.stop) or None,
            stop_token_ids=list(sampling.stop_token_ids) or None,
            ignore_eos=sampling.ignore_eos,
            logit_bias=dict(sampling.logit_bias) or None,
            allowed_token_ids=list(sampling.allowed_token_ids) or None,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            repetition_penalty=sampling.repetition_penalty,
            structured_outputs=hold_to(sampling.grammar),
            detokenize=passage.wants_text or bool(sampling.stop),
            output_kind=RequestOutputKind.FINAL_ONLY if number else RequestOutputKind.DELTA,
            extra_args=make_extra_args(
                mark,
                alone=submission.alone,
                num_resumed=num_had if sampling.grammar else 0,
                untold=number > 0 or not passage.wants_states,
            ),
        )


class _Nowhere:
    def feed(self, burst: Burst) -> None:
        return None


@dataclass(frozen=True, slots=True)
class NewTokens:
    """Tokens that have come since the last ones; ``finish_reason`` with the last of all."""

    token_ids: list[int]
    text: str
    finish_reason: FinishReason | None
    states: States | None = None

    def split(self, num_prompt: int) -> tuple[NewTokens, NewTokens]:
        """The first of several tokens, with the prompt's states, and the others."""
        assert self.states is not None, "states are told"
        prompt, rest = self.states.split(num_prompt)
        return (
            NewTokens(self.token_ids[:1], self.text, None, prompt),
            NewTokens(self.token_ids[1:], "", self.finish_reason, rest),
        )


class Decoding:
    """A passage that vLLM decodes. Read with ``next`` until ``finish_reason``, or ``abort``."""

    def __init__(
        self, engine: AsyncLLM, progress: Progress, inbox: StateInbox | None = None
    ) -> None:
        self._engine = engine
        self._progress = progress
        self._inbox = inbox
        self._token_ids: list[int] = []
        self._is_over = False
        self._states_id = ""
        self._num_prompt = 0
        self._held: NewTokens | None = None
        self.collectors: list[RequestOutputCollector] = []

    def open_states(self, group_id: str, submission: Submission) -> None:
        """Keep what is told of the passage's own row, which is about to be submitted."""
        assert self._inbox is not None, "states are told"
        self._states_id = f"{group_id}.0"
        self._num_prompt = len(submission.passage.rows[0].prompt_token_ids)
        self._num_prompt += len(submission.prefix)
        self._inbox.open(self._states_id)

    async def next(self) -> NewTokens:
        """All tokens that have come and were not read yet; waits for one at least.

        With states the first one comes by itself, with the prompt's. Raises ``StageFailedError`` if
        vLLM gave up the passage or its rows do not agree.
        """
        if self._held is not None:
            held, self._held = self._held, None
            return held
        own = self.collectors[0]
        with self._progress:
            output = cast("RequestOutput", own.get_nowait() or await own.get())
        completion = output.outputs[0]
        token_ids = list(completion.token_ids)
        reason = completion.finish_reason
        if reason not in (None, "stop", "length"):
            self._is_over = True
            raise StageFailedError(f"vLLM gave up this request: {reason}")
        self._token_ids += token_ids
        states = await self._take_states()
        if reason is not None:
            await self._finish(is_stop_text=isinstance(completion.stop_reason, str))
        # As text: to put the types together takes longer than all of this.
        reason = cast("FinishReason | None", reason)
        new = NewTokens(token_ids, completion.text, reason, states)
        if states is None or states.first_position > 0 or len(token_ids) == 1:
            return new
        first, self._held = new.split(self._num_prompt)
        return first

    async def _take_states(self) -> States | None:
        """What was run over for the tokens so far: the newest of them was not read yet."""
        if self._inbox is None:
            return None
        end = self._num_prompt + len(self._token_ids) - 1
        with self._progress:
            return await self._inbox.take(self._states_id, end)

    async def abort(self) -> None:
        """Free what the passage has in vLLM; harmless when it has ended."""
        self._close_states()
        if self._is_over or not self.collectors:
            return
        self._is_over = True
        await self._engine.abort([c.request_id for c in self.collectors], internal=True)

    def _close_states(self) -> None:
        if self._inbox is not None:
            self._inbox.close(self._states_id)

    async def _finish(self, *, is_stop_text: bool) -> None:
        self._close_states()
        if is_stop_text:
            # A stop string is found in this process: the partner has not heard of it.
            await self.abort()
            return
        for collector in self.collectors[1:]:
            partner = cast("RequestOutput", collector.get_nowait() or await collector.get())
            if list(partner.outputs[0].token_ids) != self._token_ids:
                self._is_over = True
                raise StageFailedError("the rows of a guided passage took different tokens")
        self._is_over = True


def _seed(sampling: TokenSampling, seed: int, num_had: int) -> int | None:
    """The same for all rows of a group; another one behind the prefix of a replay.

    None where nothing is drawn.
    """
    if sampling.temperature == 0:
        return None
    return ((seed if sampling.seed is None else sampling.seed) + num_had) & _SEED_MASK
