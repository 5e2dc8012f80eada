"""The words that ``styles.py`` knows."""

from __future__ import annotations

AXES = ("rate", "pitch", "liveliness")


def _listed(words: str) -> list[str]:
    return words.split()


_RATE = {
    2: "fast faster fastest quick quicker quickest quickly rapid rapidly swift swiftly speedy "
    "hasty hastily hurried hurriedly hurry rush rushed rushing",
    1: "brisk briskly snappy",
    -1: "unhurried unhurriedly measured deliberate deliberately patient patiently",
    -2: "slow slower slowest slowly leisurely drawl drawling",
}
_PITCH = {
    2: "highest shrill squeaky falsetto piping childlike",
    1: "bright brighter brightly",
    -1: "dark darker mellow",
    -2: "deep deeper deepest deeply bass baritone gravelly gruff booming lowest",
}
_LIVELINESS = {
    2: "lively livelier expressive expressively animated vivid vividly dramatic dramatically "
    "theatrical melodic singsong varied",
    1: "engaging engaged emphatic emphatically",
    -1: "evenly steady steadily restrained understated subdued",
    -2: "monotone monotonous monotonously flat flatly flatter robotic robotically deadpan "
    "expressionless emotionless mechanical wooden toneless lifeless",
}


def _by_word(axis: str, words: dict[int, str]) -> dict[str, tuple[str, int]]:
    return {word: (axis, level) for level, line in words.items() for word in line.split()}


DIRECT = _by_word("rate", _RATE) | _by_word("pitch", _PITCH) | _by_word("liveliness", _LIVELINESS)
"""Words about one axis: which one, and the level."""

_MOODS: dict[tuple[int, int, int], str] = {
    (1, 1, 2): "excited excitedly exciting enthusiastic enthusiastically thrilled ecstatic hyper "
    "energetic energetically exuberant",
    (0, 1, 1): "happy happily cheerful cheerfully joyful joyfully upbeat bubbly playful playfully "
    "cheery merry delighted friendly",
    (1, 0, 1): "angry angrily furious urgent urgently passionate passionately nervous nervously "
    "anxious anxiously impatient impatiently intense",
    (0, 1, 2): "surprised amazed astonished amused",
    (-1, 0, -1): "calm calmer calmly relaxed relaxing soothing soothingly gentle gently peaceful "
    "peacefully tranquil serene meditative hypnotic quiet quietly",
    (0, -1, -1): "serious seriously solemn solemnly grave gravely formal formally authoritative "
    "stern sternly professional",
    (-1, -1, -1): "sad sadly sorrowful melancholy melancholic gloomy mournful depressed tired "
    "tiredly weary wearily sleepy sleepily bored mysterious ominous",
    (0, -1, 0): "confident confidently warm warmly",
}
MOODS = {word: levels for levels, line in _MOODS.items() for word in line.split()}
"""Words that mean several axes: levels of rate, pitch and liveliness."""

DEGREES = {
    **dict.fromkeys(
        _listed(
            "very really extremely super so too highly incredibly especially much ultra "
            "exceptionally totally completely"
        ),
        1,
    ),
    **dict.fromkeys(_listed("slightly somewhat mildly bit little subtly moderately"), 0),
    "less": -1,
}
"""1: a level more; 0: slightly, whatever the word; -1: the opposite, slightly."""

NEGATIONS = frozenset(_listed("not don't dont never no without avoid isn't doesn't nor neither"))

DIRECTIONS = {
    **dict.fromkeys(_listed("high higher increase increased raise raised raising boost more"), 2),
    **dict.fromkeys(
        _listed("low lower lowered lowering decrease decreased reduce reduced drop dropping"), -2
    ),
}
PITCH_DIRECTIONS = frozenset(_listed("high higher low lower raised lowered"))
"""Those that mean pitch where no other noun follows."""

AXIS_NOUNS = {
    **dict.fromkeys(_listed("rate pace speed tempo"), "rate"),
    **dict.fromkeys(_listed("pitch register"), "pitch"),
    **dict.fromkeys(
        _listed(
            "energy liveliness intonation expression expressiveness inflection variation enthusiasm"
        ),
        "liveliness",
    ),
}

OTHER_NOUNS = frozenset(_listed("volume loudness"))
"""What a direction may be about that is no axis: it means nothing then."""

LINKS = frozenset(_listed("is level levels should be stays to"))
"""Words between an axis and what is said of it: "energy level: high", "the pace should be low"."""

PHRASES = {
    "a bit": "slightly",
    "a little": "slightly",
    "a little bit": "slightly",
    "a touch": "slightly",
    "kind of": "slightly",
    "a lot": "very",
    "a lot of": "more",
    "lots of": "more",
    "plenty of": "more",
    "not only": "also",
    "pitch range": "variation",
    "pitch variation": "variation",
    "as fast as possible": "fastest",
    "as slowly as possible": "slowest",
    "as slow as possible": "slowest",
    "as quickly as possible": "fastest",
    "at all": "at",
    "do not": "not",
    "high pitched": "shrill",
    "low pitched": "deep",
    "matter of fact": "evenly",
    "slow down": "slow",
    "speed up": "fast",
    "sped up": "fast",
    "take your time": "unhurried",
    "up tempo": "fast",
    "full of energy": "energetic",
    "full of life": "lively",
    "up beat": "upbeat",
}
"""Several words that are read as one; hyphens count as spaces."""

FILLERS = frozenset(
    _listed(
        """
        a about all also always am an and any are as at be been being but by can clear clearly
        could delivery english everything fairly feel feeling for from give given had has have her
        his i if in into is it its just keep kind language level like make making manner me mood
        most must my narrator natural naturally need neutral none normal normally of on one or our
        out own paced person please pretty quite rather read reader reading relatively say saying
        sentence should sound sounding sounds speak speaker speaking speech spoken standard stay
        still style such talk talking tell text than that the their them then there these they
        this those through throughout to tone tones try up use using usual usually voice voiced
        voices was way we well were what when where which while who will with word words would
        you your yourself
        """
    )
)
"""Words that mean nothing here, and are expected."""
