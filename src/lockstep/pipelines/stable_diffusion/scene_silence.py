"""Which words of a sentence are not about what is shown: wishes, purposes, times, comparisons, and what must not be."""

from __future__ import annotations

from collections.abc import Sequence, Set

from . import scene_languages as further

PURPOSE = frozenset(("for", "about", "from", "during", "because")) | further.PURPOSE
NOT = frozenset(
    ("without", "not", "don't", "dont", "never", "except", "instead", "no", "isn't", "minus", "unlike")
) | further.NOT  # fmt: skip
ENDS = frozenset(  # of a purpose
    (
        ",", ";", ".", "!", "?", ":", "-", "and", "&", "+", "but", "with", "on", "in", "next", "beside", "under", "i",
        "please", "draw", "make", "show", "just", "und", "et", "y", "e", "aber", "mais", "pero", "ma", "mas", "mit",
        "avec", "con", "com", "auf", "sur", "sobre", "su", "em", "neben", "bitte",
    )
)  # fmt: skip
WISHERS = frozenset(("i", "we", "you", "they", "he", "she", "would", "i'd", "we'd", "you'd", "really", "also", "do"))
WISHES = frozenset(("love", "like", "need", "want", "wish", "fancy", "drink", "watch", "cook", "kiss", "wave"))
TIMES = frozenset(
    (
        "day", "days", "morning", "evening", "night", "afternoon", "midnight", "noon", "monday", "tuesday", "wednesday",
        "thursday", "friday", "saturday", "sunday", "weekend", "birthday", "christmas", "halloween", "easter", "summer",
        "winter", "spring", "autumn", "home", "work", "breakfast", "lunch", "dinner", "party", "school", "weather",
        "tag", "morgen", "abend", "nacht", "matin", "soir", "nuit", "noche", "mañana", "tarde", "notte", "sera",
        "mattina", "noite", "manhã",
    )
)  # fmt: skip
AT_TIMES = frozenset(("on", "at", "in", "by", "am", "im", "bei", "la", "le", "de", "di", "à", "alla", "por"))
TIME_WORDS = 4  # between "on" and "morning"
COMPARING = (
    ("shaped", "like"), ("looks", "like"), ("look", "like"), ("looking", "like"), ("shape", "of"), ("style", "of"),
    ("made", "of"), ("made", "out"), ("made", "from"), ("full", "of"), ("filled", "with"), ("covered", "in"),
    ("covered", "with"), ("big", "as"), ("small", "as"), ("dreaming", "of"), ("thinking", "of"),
)  # fmt: skip
DEPICTING = frozenset(
    (
        "painting", "sketch", "portrait", "illustration", "cartoon", "sticker", "logo", "artwork", "clipart", "symbol",
        "sign", "photograph", "bild", "quadro", "foto",
    )
)  # fmt: skip
OUT = ("eyes", "heart", "hearts", "lungs", "head", "brains")  # what somebody cries or laughs out or off


def silent_in(tokens: Sequence[str], named: Set[int] = frozenset()) -> tuple[set[int], set[int]]:
    """The positions of tokens that are about something else than the picture, and of those that must not be in it; a
    word within a name (`named`) says nothing by itself."""
    about: set[int] = set()
    denied: set[int] = set()
    portuguese = bool(further.PORTUGUESE & set(tokens))
    for at, token in enumerate(tokens):
        pair = (token, *tokens[at + 1 : at + 2])
        if at in named and token not in TIMES:
            continue
        if token == "about" and at and tokens[at - 1] in ("what", "how"):
            continue
        if token in PURPOSE or pair in COMPARING:
            about |= until_end(tokens, at + (1 if token in PURPOSE else 2), at)
        elif token in NOT and not (token == "no" and portuguese):
            denied |= until_end(tokens, at + 1, at)
        elif token in TIMES:
            about |= time_before(tokens, at, named)
        elif token in WISHES and at and (tokens[at - 1] in WISHERS or wished(tokens, at)):
            about.add(at)
        elif is_depicting(pair) or pair == ("clip", "art") or (token in OUT and pair[1:] in (("out",), ("off",))):
            about |= {at, at + 1}
    return about, denied


def is_depicting(pair: tuple[str, ...]) -> bool:
    """ "a painting of"."""
    return pair[0] in DEPICTING and bool(pair[1:]) and (pair[1] == "of" or pair[1] in further.OF)


def until_end(tokens: Sequence[str], start: int, first: int) -> set[int]:
    """The positions up to where a phrase ends."""
    end = next((at for at in range(start, len(tokens)) if tokens[at] in ENDS), len(tokens))
    return set(range(first, end))


def time_before(tokens: Sequence[str], at: int, named: Set[int]) -> set[int]:
    """ "on a cold morning": from the "on"."""
    for start in range(at - 1, max(-1, at - 1 - TIME_WORDS), -1):
        if tokens[start] in AT_TIMES and start not in named and not (start == 0 and tokens[start] in ("la", "le")):
            return set(range(start, at + 1))
        if tokens[start] in ENDS:
            break
    return set()


def wished(tokens: Sequence[str], at: int) -> bool:
    """ "to watch": what somebody does; "next to" is a place."""
    return tokens[at - 1] == "to" and not (at > 1 and tokens[at - 2] in ("next", "close", "near"))
