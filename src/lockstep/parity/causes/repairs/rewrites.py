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
from .sources import is_library
from .spots import Rewrite, spots_of
from .statements import statement_rewrites
from .suspects import Suspect

MOST_FACTORS, MOST_OF_ONE = 12, 600  # of the reference's numbers, of one statement's rewrites
# What does more than compute, whatever it is called on; and what does so for these modules alone.
ACTING = frozenset(
    ["write", "write_text", "write_bytes", "save_file", "save_pretrained", "savez", "unlink", "rmtree", "rename",
     "copyfile", "mkdir", "makedirs", "Popen", "check_call", "check_output", "urlopen", "urlretrieve", "push_to_hub",
     "snapshot_download", "hf_hub_download", "_exit"]
)  # fmt: skip
ACTING_OF = {
    "os": ("remove", "system", "kill", "rmdir", "replace"),
    "shutil": ("move", "copy", "copytree"),
    "sys": ("exit",),
    "subprocess": ("run", "call"),
    "torch": ("save",),
    "np": ("save",),
    "pickle": ("dump",),
    "json": ("dump",),
    "requests": ("get", "post", "put", "request", "delete"),
    "httpx": ("get", "post", "put", "request", "delete"),
}
ACTING_NAMES = ("exec", "eval", "exit", "quit", "input")


def rewrites_of(suspect: Suspect, constants: Constants, names: dict[str, Any]) -> list[Rewrite]:
    """What porters do often first, of a long line not everything.

    `constants`: those of the reference's code and settings; `names`: of the statement's module.
    """
    return sorted(_all_of(suspect, constants, names), key=lambda rewrite: rewrite.rank)[:MOST_OF_ONE]


def _all_of(suspect: Suspect, constants: Constants, names: dict[str, Any]) -> Iterator[Rewrite]:
    statement = suspect.statement
    if acts(statement.node):
        return
    spots = spots_of(statement)
    yield from number_rewrites(statement, spots, constants)
    yield from operator_rewrites(statement, spots)
    yield from call_rewrites(statement, spots)
    yield from missing_arguments(statement, spots, suspect.values, names)
    yield from name_rewrites(statement, spots, suspect.values)
    yield from form_rewrites(statement, spots, suspect.values, suspect.source)
    yield from statement_rewrites(statement)
    yield from wrapped_rewrites(statement, spots, constants.numbers[:MOST_FACTORS], _functions(suspect))


def acts(node: ast.stmt) -> bool:
    """True for a statement that does more than compute: files that are written, processes, the network."""
    return any(_is_acting(call) for call in ast.walk(node) if isinstance(call, ast.Call))


def _is_acting(call: ast.Call) -> bool:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
    if name == "open":
        modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        return any(not isinstance(mode, ast.Constant) or bool(set("wax+") & set(str(mode.value))) for mode in modes)
    return (
        name in ACTING or name in ACTING_OF.get(owner, ()) or (isinstance(function, ast.Name) and name in ACTING_NAMES)
    )


def _functions(suspect: Suspect) -> dict[str, ast.expr]:
    """Functions by their names, as the file calls them anywhere."""
    calls = [n for n in ast.walk(suspect.source.tree) if isinstance(n, ast.Call)]
    named = {n.func.attr: n.func for n in calls if isinstance(n.func, ast.Attribute) and is_library(n.func.value)}
    if any(isinstance(n, ast.Name) and n.id == "torch" for n in ast.walk(suspect.source.tree)):
        for name in ("exp", "log", "sqrt", "square", "sigmoid", "tanh", "round", "abs"):
            named.setdefault(name, ast.Attribute(ast.Name("torch", ast.Load()), name, ast.Load()))
    return named  # type: ignore[return-value]
