"""The words of a text as the names of things have them: without marks, endings and slips of the pen."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set

from ...tokenizers.known_words import slips_of

TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")
ELISION = re.compile(r"\b(l|d|j|un|all|dell|sull|nell|dall)['’](?=\w)")
VARIATIONS = re.compile("[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")  # how an emoji is shown, and the skin's colours
TIMES = re.compile(r"\b(\d+)\s?[x×]\s+(?=\w)")
TIMES_BEHIND = re.compile(r"^(.*\w)\s+[x×]\s?(\d+)\W*$")
LEAST = 5  # letters of a word that may be mistaken by one of them
LEAST_EXCHANGED = 4  # the same where two of them changed places


def tokens_of(text: str) -> list[str]:
    """Words and marks; articles that lost their vowel stand alone, and counts before what they count."""
    plain = VARIATIONS.sub("", text.lower().replace("’", "'"))
    plain = TIMES_BEHIND.sub(r"\2 \1", TIMES.sub(r"\1 ", plain))
    return TOKEN.findall(ELISION.sub(r"\1 ", plain))


def as_names_are_spelled(
    tokens: Sequence[str],
    names: Set[tuple[str, ...]],
    spelled: Set[str],
    understood: Callable[[str], bool],
    least: int = LEAST,
) -> list[str]:
    """The tokens with possessives, hyphens and spaces as the names have them, and slips of the pen put right."""
    found: list[str] = []
    for at, token in enumerate(tokens):
        if (token in spelled and ("'" not in token or is_within(tokens, at, names))) or understood(token):
            found.append(token)
            continue
        parts = tuple(re.split("['-]", token))
        if token.endswith("'s"):
            found.append(token[:-2])
        elif len(parts) > 1 and (parts in names or (parts[-1:] in names and understood(parts[0]))):
            found.extend(parts)
        elif len(parts) > 1:
            found.append(token)
        else:
            found.extend(apart(token, names) or [meant(token, spelled, least) or token])
    return together(found, names)


def is_within(tokens: Sequence[str], at: int, names: Set[tuple[str, ...]]) -> bool:
    """Whether a token belongs to a name of up to four words."""
    windows = ((start, start + size) for size in range(1, 5) for start in range(max(0, at - size + 1), at + 1))
    return any(tuple(tokens[start:end]) in names for start, end in windows)


def apart(token: str, names: Set[tuple[str, ...]]) -> tuple[str, ...]:
    """The two words of a name that was written as one."""
    cuts = ((token[:at], token[at:]) for at in range(3, len(token) - 2))
    return next((parts for parts in cuts if parts in names), ())


def together(tokens: Sequence[str], names: Set[tuple[str, ...]]) -> list[str]:
    """Names of one word that were written as two."""
    found: list[str] = []
    for token in tokens:
        pair = (found[-1], token) if found else ()
        if pair and min(map(len, pair)) > 2 and pair not in names and ("".join(pair),) in names:
            found[-1] += token
        else:
            found.append(token)
    return found


def meant(word: str, spelled: Set[str], least: int) -> str | None:
    """The word of a name that has one slip of the pen less."""
    if len(word) < min(least, LEAST_EXCHANGED + least - LEAST) or not word.isalpha():
        return None
    exchanged, others = slips_of(word)
    longer = [slip for slip in others if len(word) >= least and len(slip) >= LEAST - 1 and slip[0] == word[0]]
    return next((slip for slip in (*exchanged, *longer) if slip in spelled), None)
