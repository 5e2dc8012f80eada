"""What a language-model stage asks of a model family: text in, prompts out, tokens to payloads.

A stage with ``stage_type: llm`` names in ``model`` a function ``load(context: StageContext) ->
LlmAdapter``, and under ``llm`` the checkpoint that vLLM runs. The adapter lives in the worker
process beside vLLM's front end; it is light, and needs neither torch nor vllm.

    StageRequest, its CFG companions ──open──> PassageSource
    StageUpdate, StageInteraction ──update, interact──> PassageSource ──take──> Passage
    Passage ──its rows, as prompts──> vLLM ──tokens──> Passage.sink ──feed──> payloads

A request is decoded as passages, one after the other; each is one request of vLLM or, where it is
guided, a group of two. While one decodes, the next is taken and submitted, so that its prompt is
read in time.

Positions in the output of such a stage are counted in tokens: those of the parent's rows, in order,
the one that ends a passage included. A payload covers the tokens since the payload before it.

A request that is replayed after the loss of its replica is opened again with the same inputs, from
``request.first_unit`` on. Its passages are taken again: those that had ended are dropped, and the
sink of the one that was open is fed the tokens it had, at once, and what it returns for them is
dropped; then vLLM goes on behind them. So

- what a source yields must depend on its inputs and their order alone, never on when they came;
- what a sink has returned after n tokens must not depend on how they were cut into bursts;
- whatever else must not repeat (a noise seed) is to be made from the request's seed and
  ``Passage.number``.

The stage after this one gets each payload as one input. It is asked to hold back this stage at
``max_pending_units`` of them: that must be more than the payloads of two passages where the next
stage can only be done with whole ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.messages import Payload, StageInteraction, StageRequest, StageUpdate
from worker.vllm.sampling import TokenSampling
from worker.vllm.states import Floats, States

FinishReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a prompt holds instead of some of its tokens.

    ``positions`` int64 [n] in the prompt, rising; ``embeddings`` float32 [n, width of the model].
    """

    positions: NDArray[np.int64]
    embeddings: Floats


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt of a passage. ``role`` None is the request's own, else its companion's role.

    Tokens at the places of ``embedded`` are placeholders; it needs ``llm.tell_states``.
    """

    role: str | None
    prompt_token_ids: Sequence[int]
    embedded: Embedded | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    """Tokens of a passage, as they came: one or more, all of them new.

    ``position`` is where the first of them is in the request's output, in tokens. ``text`` is what
    they add to the passage's text, where ``Passage.wants_text``; "" in a replay (``is_replay``:
    these tokens were made before their replica was lost). ``finish_reason``
    is set with the last tokens: ``stop`` at a stop token (which is among the tokens) or a stop
    string (which is not in the text), ``length`` at ``max_tokens`` or the model's length.

    ``states``, where the model tells them (``llm.tell_states``) and the passage wants them, are
    those of the positions that were run over for these tokens: with a passage's first tokens the
    whole prompt (and the prefix of a replay), and each token but the newest. None in a replay.
    """

    position: int
    token_ids: Sequence[int]
    text: str = ""
    finish_reason: FinishReason | None = None
    states: States | None = None
    is_replay: bool = False


class TokenSink(Protocol):
    """Turns the tokens of one passage into payloads for the next stage, or for the caller."""

    def feed(self, burst: Burst) -> Payload | None:
        """The payload that these tokens complete, if any: arrays, numbers, text, lists, dicts.

        Called on the worker's event loop, for every burst of one or a few tokens: some tens of
        microseconds. A ``engine.errors.VoxloomError`` fails this request with its message
        (``StageFailedError`` for tokens that are wrong, too few or without end); what was returned
        before has been sent.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One piece of a request's text, ready to be decoded.

    One row decodes by itself. Two rows, the request's own (``role`` None) and a companion's, are
    guided: both take the token that is sampled from ``u + guidance_scale * (c - u)``, where c are
    the logits of the request's own row and u those of the companion's. A request with a companion
    must have its row in every passage. ``number`` counts the passages of the request from 0 on,
    whatever was replayed: the source starts at ``request.first_passage``. ``plausible_nats``
    leaves a guided passage only tokens whose log probability in the request's own row is at most so
    much below the likeliest one's (Li et al. 2023, "Contrastive decoding"): a high scale otherwise
    raises tokens that are wrong in both rows. ``lora`` is a name declared under ``llm.loras``; None
    is that which the caller asked for, if any. ``wants_states``: the sink reads ``Burst.states``,
    where the model tells them.
    """

    number: int
    rows: tuple[Row, ...]
    sampling: TokenSampling
    sink: TokenSink
    guidance_scale: float = 1.0
    plausible_nats: float | None = None
    lora: str | None = None
    wants_text: bool = False
    wants_states: bool = True


class PassageSource(Protocol):
    """The inputs of one request on their way to passages.

    All methods are called one at a time: ``take`` on a thread, the others on the event loop. An
    exception fails this request; a ``engine.errors.VoxloomError`` says why to the client.
    """

    def update(self, update: StageUpdate) -> None:
        """One more input of a resumable request; after one that is ``final`` none follows."""
        ...

    def interact(self, interaction: StageInteraction) -> None:
        """A flush, or an update of the voice, in its place among the inputs."""
        ...

    def take(self) -> Passage | None:
        """The next passage; None if there is none before the next input, or none at all.

        Reads no further than it must: a book starts as soon as its first sentence is found.
        """
        ...

    def closing(self) -> Payload | None:
        """What the next stage is told behind the last passage, such as warnings; None: nothing.

        Called once, when no input follows and all passages have been decoded.
        """
        ...

    @property
    def is_empty(self) -> bool:
        """Nothing of the inputs so far is left, not even the start of a sentence.

        A replay may then begin with the next input.
        """
        ...


class LlmAdapter(Protocol):
    """A model family's side of a language-model stage."""

    def open(self, request: StageRequest, companions: Mapping[str, StageRequest]) -> PassageSource:
        """The passages of a request; ``companions`` by role, all of its group.

        ``request.prompt`` is input 0, read already; with ``request.first_unit`` above 0 it only
        says how to speak. Called on the event loop: what takes time belongs into ``take``. A
        ``VoxloomError`` refuses the request.
        """
        ...

    def model_files(self) -> Sequence[Path]:
        """Files beside the checkpoint that decide what the sinks return, for the fingerprint."""
        ...


@runtime_checkable
class FitsPrompts(Protocol):
    """An adapter that must know how long its prompts may be."""

    def set_max_model_len(self, max_model_len: int) -> None:
        """How many tokens a row may have, its answer among them. Called before ``open`` is."""
        ...
