"""Everything that may stand in the place of one statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .calls import call_rewrites, missing_arguments, wrapped_rewrites
from .constants import Constants
from .forms import form_rewrites
from .names import name_rewrites
from .numbers import number_rewrites
from .operators import operator_rewrites
from .spots import Rewrite, spots_of
from .statements import statement_rewrites
from .suspects import Suspect

MOST_FACTORS = 12
# What does more than compute is left alone: files, processes, the network.
ACTING = frozenset(
    ["open", "write", "write_text", "write_bytes", "save", "save_file", "save_pretrained", "savez", "dump", "remove",
     "unlink", "rmtree", "rename", "move", "copyfile", "mkdir", "makedirs", "system", "Popen", "check_call",
     "check_output", "exec", "eval", "kill", "urlopen", "urlretrieve", "request", "post", "push_to_hub",
     "snapshot_download", "hf_hub_download", "exit", "_exit", "setattr"]
)  # fmt: skip


def rewrites_of(suspect: Suspect, constants: Constants, names: dict[str, Any]) -> Iterator[Rewrite]:
    """`constants`: those of the reference's code and settings; `names`: of the statement's module."""
    statement = suspect.statement
    if _acts(statement.node):
        return
    spots = spots_of(statement)
    yield from number_rewrites(statement, spots, constants)
    yield from operator_rewrites(statement, spots)
    yield from call_rewrites(statement, spots)
    yield from missing_arguments(statement, spots, suspect.values, names)
    yield from name_rewrites(statement, spots, suspect.values, suspect.source)
    yield from form_rewrites(statement, spots, suspect.values, suspect.source)
    yield from statement_rewrites(statement)
    yield from wrapped_rewrites(statement, spots, constants.numbers[:MOST_FACTORS], _functions(suspect))


def _acts(node: ast.stmt) -> bool:
    """True for a statement that does more than compute: files, processes, the network are left alone."""
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    called = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}
    return bool(called & ACTING)


def _functions(suspect: Suspect) -> dict[str, ast.expr]:
    """Functions by their names, as the file calls them anywhere."""
    calls = [n for n in ast.walk(suspect.source.tree) if isinstance(n, ast.Call)]
    named = {n.func.attr: n.func for n in calls if isinstance(n.func, ast.Attribute) and _is_module(n.func.value)}
    if any(isinstance(n, ast.Name) and n.id == "torch" for n in ast.walk(suspect.source.tree)):
        for name in ("exp", "log", "sqrt", "square", "sigmoid", "tanh", "round", "abs"):
            named.setdefault(name, ast.Attribute(ast.Name("torch", ast.Load()), name, ast.Load()))
    return named  # type: ignore[return-value]


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "np", "math", "numpy")
