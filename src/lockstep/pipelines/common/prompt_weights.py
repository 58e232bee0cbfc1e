"""Weights inside prompts: what `(red:1.5)` and `red++` mean, as texts with numbers (rules: docs/prompt-weights.md).

Reading a prompt knows no tokenizer; `weighted_text.py` makes embeddings of what is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, UnknownNameError, UnsupportedError
from ...notes import say_once

A1111_STEP = 1.1  # a pair of round brackets; square ones divide by it
COMPEL_UP, COMPEL_DOWN = 1.1, 0.9  # a plus, a minus
LOOKS_WEIGHTED = re.compile(
    r"(?<!\\)\([^()]*:\s*\d*\.?\d+\s*\)|(?<!\\)\(\([^()]+\)\)|(?<!\\)\[\[[^\[\]]+\]\]"  # (a:1.5) ((a)) [[a]]
    r"|[\w)](\+\+|--)(?=[\s,.)]|$)|(?<!\\)\([^()]+\)\d*\.\d+|\"\s*\)\.(and|blend)\("  # a++ (a)1.5 (…).and()
)


@dataclass(frozen=True)
class Fragment:
    """A piece of a text with one weight."""

    text: str
    weight: float = 1.0


Group = tuple[Fragment, ...]  # what stands in a row; a group begins a new piece
Text = tuple[Group, ...]


@dataclass(frozen=True)
class Reading:
    """A prompt as it was meant: a text, or several that are mixed (`blend`) or put side by side (`and`)."""

    texts: tuple[Text, ...]
    how: str = "text"
    weights: tuple[float, ...] = (1.0,)


def read_prompt(prompt: str, form: str | None) -> Reading:
    """A prompt read in a form; without one it is what it is, brackets included."""
    if form is None:
        return Reading((((Fragment(prompt),),),))
    if form not in FORMS:
        raise UnknownNameError("prompt_weighting", form, FORMS)
    return FORMS[form](prompt)


def note_weights(prompts: Iterable[Any]) -> None:
    """A prompt that looks weighted, where nobody asked for weights, is told once: brackets are read as words."""
    texts = [text for value in prompts for text in ([value] if isinstance(value, str) else value or ())]
    found = next((match[0] for text in texts if (match := LOOKS_WEIGHTED.search(text))), None)
    if found is not None:
        say_once(
            f"The prompt has {found!r}, which is read as plain words. prompt_weighting='a1111' (or 'compel') reads it "
            "as a weight."
        )


# ---- (red:1.5), ((red)), [red], \( \), BREAK ----

A1111_TOKENS = re.compile(r"\\[()\[\]\\]|[()\[\]]|\bBREAK\b|:\s*[+-]?\d*\.?\d+\s*\)|[^\\()\[\]:B]+|.", re.DOTALL)
EDITING = re.compile(r"(?<!\\)\[[^\[\]]*:[^\[\]]*:?\s*\d*\.?\d+\s*\]|(?<!\\)\[[^\[\]]*\|[^\[\]]*\]")


def read_a1111(prompt: str) -> Reading:
    """Round brackets raise, square ones lower, a number says by how much; brackets that stay open reach to the end."""
    if EDITING.search(prompt):
        raise UnsupportedError(
            f"{EDITING.search(prompt)[0]!r} changes the prompt while the picture is made, which is not offered; "  # type: ignore[index]
            "write \\[ and \\] for brackets that are words."
        )
    found: list[list[list[Any]]] = [[]]  # groups of [text, weight]
    open_round: list[tuple[int, int]] = []
    open_square: list[tuple[int, int]] = []

    def here() -> tuple[int, int]:
        return len(found) - 1, len(found[-1])

    def multiply(begin: tuple[int, int], factor: float) -> None:
        group, index = begin
        for number in range(group, len(found)):
            for entry in found[number][index if number == group else 0 :]:
                entry[1] *= factor

    for match in A1111_TOKENS.finditer(prompt):
        word = match[0]
        if len(word) == 2 and word[0] == "\\":
            found[-1].append([word[1], 1.0])
        elif word == "(":
            open_round.append(here())
        elif word == "[":
            open_square.append(here())
        elif word[0] == ":" and len(word) > 1 and open_round:
            multiply(open_round.pop(), float(word[1:-1]))
        elif word == ")" and open_round:
            multiply(open_round.pop(), A1111_STEP)
        elif word == "]" and open_square:
            multiply(open_square.pop(), 1 / A1111_STEP)
        elif word == "BREAK":
            found.append([])
        else:
            found[-1].append([word, 1.0])
    for begin in open_round:
        multiply(begin, A1111_STEP)
    for begin in open_square:
        multiply(begin, 1 / A1111_STEP)
    return Reading((tuple(_joined(Fragment(text, weight) for text, weight in group) for group in found),))


# ---- red++, (red)1.5, ("a", "b").blend(0.7, 0.3) ----

COMPEL_SEVERAL = re.compile(
    r'\s*\(\s*("(?:[^"\\]|\\.)*"(?:\s*,\s*"(?:[^"\\]|\\.)*")+)\s*\)\.(\w+)\((.*)\)\s*', re.DOTALL
)
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
COMPEL_WEIGHT = re.compile(r"\++|-+(?!\w)|\d+\.?\d*|\.\d+")
COMPEL_WORD = re.compile(r"(?:\\.|[^\s()\\+-]|[+-](?=\w))+")


def read_compel(prompt: str) -> Reading:
    """A sign or number behind a word or a bracket is its weight; several quoted texts are mixed or put side by side."""
    several = COMPEL_SEVERAL.fullmatch(prompt)
    if several is None:
        swap = re.search(r"\)\.(\w+)\(", prompt)
        if swap is not None:
            raise UnsupportedError(f"'.{swap[1]}(' in the middle of a prompt is not offered; .and() and .blend() are.")
        return Reading((_compel_text(prompt),))
    how, given = several[2], [word.strip() for word in several[3].split(",") if word.strip()]
    if how not in ("and", "blend"):
        raise UnsupportedError(f"'.{how}(…)' is not offered; .and() and .blend() are.")
    normalised = "no_normalize" not in given
    try:
        weights = [float(word) for word in given if word != "no_normalize"]
    except ValueError:
        raise InputError(f".{how}(…) takes a number for each text, got {several[3]!r}.") from None
    texts = QUOTED.findall(several[1])
    weights = weights or [1.0] * len(texts)
    if len(weights) != len(texts):
        raise InputError(f".{how}(…) takes a number for each of {len(texts)} texts, got {len(weights)}.")
    if how == "blend" and normalised:
        if not sum(weights):
            raise InputError(".blend(…) has weights that add up to 0; say no_normalize, or give others.")
        weights = [weight / sum(weights) for weight in weights]
    return Reading(tuple(_compel_text(text) for text in texts), how, tuple(weights))


def _compel_text(text: str) -> Text:
    fragments, position = _compel_group(text, 0, 1.0, 0)
    assert position == len(text)
    return (_joined(iter(fragments)),)


def _compel_group(text: str, position: int, weight: float, depth: int) -> tuple[list[Fragment], int]:
    """The fragments up to the bracket that closes this depth."""
    found: list[Fragment] = []
    while position < len(text):
        character = text[position]
        if character == "(":
            inner, end = _compel_group(text, position + 1, 1.0, depth + 1)
            factor, position = _compel_factor(text, end)
            found += [Fragment(one.text, one.weight * factor) for one in inner]
        elif character == ")" and depth:
            return [Fragment(one.text, one.weight * weight) for one in found], position + 1
        else:
            word = COMPEL_WORD.match(text, position)
            if word is None:
                found.append(Fragment(character))
                position += 1
                continue
            factor, position = _compel_factor(text, word.end(), signs_only=True)
            found.append(Fragment(re.sub(r"\\(.)", r"\1", word[0]), factor))
    if depth:
        raise InputError(f"A bracket of the prompt {text!r} is not closed. Write \\( for a bracket that is a word.")
    return [Fragment(one.text, one.weight * weight) for one in found], position


def _compel_factor(text: str, position: int, signs_only: bool = False) -> tuple[float, int]:
    match = COMPEL_WEIGHT.match(text, position)
    if match is None or (signs_only and match[0][0] not in "+-"):
        return 1.0, position
    if match[0][0] in "+-":
        step = COMPEL_UP if match[0][0] == "+" else COMPEL_DOWN
        return step ** len(match[0]), match.end()
    return float(match[0]), match.end()


def _joined(fragments: Iterable[Fragment] | Iterator[Fragment]) -> Group:
    """Neighbours of one weight as one fragment."""
    joined: list[Fragment] = []
    for one in fragments:
        if joined and joined[-1].weight == one.weight:
            joined[-1] = Fragment(joined[-1].text + one.text, one.weight)
        else:
            joined.append(one)
    return tuple(joined)


FORMS = {"a1111": read_a1111, "compel": read_compel}
