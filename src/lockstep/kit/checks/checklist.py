"""`check_family`: the whole checklist of an integration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from . import reading, registered
from .finding import Finding
from .reading import Rule
from .source import Family

FOR = {  # rule -> what it is for; all others are for everything
    "layer calls are visible in forward": {"model"},
    "forward is torch alone": {"model"},
    "attention is dispatched": {"model"},
    "processors are declared": {"model"},
    "models are tested by the mixins": {"model"},
    "the mixins pass": {"model"},
    "pipelines stand alone": {"pipeline"},
    "blocks read only what they declare": {"pipeline"},
    "the proof is fresh": {"model", "pipeline"},
    "schedulers and guiders pass their tests": {"scheduler", "guider"},
}


def rules(run: bool = True) -> dict[str, Rule]:
    """Every rule by its name; without `run` those that need nothing but the files."""
    found = {**reading.RULES, **registered.RULES}
    if run:
        from . import running  # needs torch; the others do not

        found |= running.RULES
    return found


def check_family(
    family: Family, run: bool = True, tell: Callable[[str], None] = lambda rule: None
) -> dict[str, list[Finding]]:
    """Rule -> what breaks it, of the rules that are for it, in their order; `tell` is told which rule comes now."""
    found: dict[str, list[Finding]] = {}
    for name, rule in rules(run).items():
        tell(name)
        if not_for(name, family):
            continue
        found[name] = [one if one.rule else replace(one, rule=name) for one in rule(family)]
    return found


def not_for(rule: str, family: Family) -> str:
    """Why a rule says nothing of this family: `not for a scheduler`; empty where it is for it."""
    applies = rule not in FOR or FOR[rule] & set(family.kinds)
    return "" if applies else f"not for a {' and '.join(family.kinds)}"
