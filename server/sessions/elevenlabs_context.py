"""A context of an ElevenLabs socket: a text that grows, and what was made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from server.schemas.elevenlabs_socket import DEFAULT_SCHEDULE
from server.sessions.char_times import CharClock
from server.sessions.utterance import AudioPiece, Utterance
from server.speech_plan import SessionPlan

# A piece of audio that is of no sentence in particular.
NO_SPAN = (0, 0)


@dataclass(slots=True, eq=False)
class Context:
    """``is_started``: the engine has its text. ``is_flushed``: all of it was asked to be spoken."""

    name: str | None
    utterance: Utterance
    plan: SessionPlan
    clock: CharClock
    schedule: tuple[float, ...] = DEFAULT_SCHEDULE
    num_cuts: int = 0
    is_started: bool = False
    is_flushed: bool = False

    @property
    def index(self) -> int:
        return self.utterance.index

    @property
    def speed(self) -> float:
        return float(self.plan.prompt["speed"])

    def is_cut_wanted(self, num_new_chars: int, now: float, *, is_triggered: bool) -> bool:
        """Whether an unfinished sentence should be begun, if a clause of it has ended.

        Only while the listener has little ahead: a sentence sounds best in one piece.
        """
        utterance = self.utterance
        num_unsettled = utterance.text.num_chars + num_new_chars - utterance.clauses.num_settled
        enough = self.schedule[min(self.num_cuts, len(self.schedule) - 1)]
        is_due = is_triggered or num_unsettled >= enough
        return is_due and utterance.would_run_dry(now, self.plan.source_rate)

    def take_audio(self, piece: AudioPiece, now: float) -> None:
        self.utterance.take_audio(piece, now)
        sentence = None if piece.span == NO_SPAN else (*piece.span, piece.ends)
        self.clock.add(piece.words, piece.num_samples, sentence)


@dataclass(slots=True)
class ContextTable:
    """A connection's contexts: those that take text by name, and all that are not over."""

    num_contexts: int = 0
    open: dict[str | None, Context] = field(default_factory=dict)
    live: dict[int, Context] = field(default_factory=dict)

    def begin(self, name: str | None, plan: SessionPlan) -> Context:
        utterance = Utterance(self.num_contexts)
        context = Context(name, utterance, plan, CharClock(utterance.text, pads=True))
        self.num_contexts += 1
        self.open[name] = self.live[context.index] = context
        return context

    def close(self, context: Context) -> None:
        """It takes no more text; its name may be used again."""
        if self.open.get(context.name) is context:
            del self.open[context.name]

    def find_ending(self, name: str | None) -> Context | None:
        """The last context of that name that takes no more text and is still spoken."""
        for context in reversed(self.live.values()):
            if context.name == name and self.open.get(name) is not context:
                return context
        return None

    def remove(self, context: Context) -> None:
        self.close(context)
        del self.live[context.index]
