"""`check_family`: the whole checklist of an integration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from . import reading, registered
from .finding import Finding
from .reading import Rule
from .source import Family


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
    """Rule -> what breaks it, in the order of the checklist; `tell` is told which rule comes now."""
    found: dict[str, list[Finding]] = {}
    for name, rule in rules(run).items():
        tell(name)
        found[name] = [one if one.rule else replace(one, rule=name) for one in rule(family)]
    return found
