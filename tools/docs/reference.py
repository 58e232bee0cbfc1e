"""The reference, from the code: every public name with its arguments, its methods and its sentence, grouped by room."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import lockstep

FEW = 5  # so many arguments are read as a line; more of them as a table


@dataclass(frozen=True)
class Group:
    """A page of the reference: the public names of some modules, or of rooms that have an `__all__`."""

    page: str
    title: str
    about: str
    modules: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()

    def names(self) -> dict[str, str]:
        """Name -> where it is imported from."""
        own = {
            name: "lockstep"
            for name, module in lockstep._WHERE.items()
            if any(module == place or module.startswith(f"{place}.") for place in self.modules)
        }
        for room in self.rooms:
            listed = importlib.import_module(f"lockstep.{room}").__all__
            own |= {name: f"lockstep.{room}" for name in listed if name not in own}
        return own


GROUPS = (  # page, title, sentence, modules, rooms
    Group("pipelines", "Pipelines", "Called with a prompt; the tables are the inputs of the call.", ("pipelines",)),
    Group("models", "Models", "Tensors to tensors, one model one file.", ("models", "tokenizers", "images")),
    Group("schedulers", "Schedulers", "How the noise falls.", ("schedulers",), ("schedulers",)),
    Group("guiders", "Guiders", "How predictions combine: [write one](../guiders.md).", ("guiders",), ("guiders",)),
    Group("blocks", "Blocks", "What pipelines are made of: [write a block](../blocks.md).", ("blocks",), ("blocks",)),
    Group("attention", "Attention", "One function, and the backends behind it.", ("attention",), ("attention",)),
    Group("media", "Media", "[Pictures and videos](../media.md), written and read back.", (), ("media",)),
    Group("parity", "Parity", "[Are two implementations the same](../parity.md), and why not.", (), ("parity",)),
    Group("ranks", "Ranks", "[One model over several processes](../distributed.md#one-large-model).", ("parallel",)),
    Group("files", "Files and configuration", "Configs, and checkpoints of others.", ("configuration", "loaders")),
)  # fmt: skip


def pages() -> dict[str, str]:
    """Every page of the reference: its name in the folder -> Markdown."""
    made = {"index.md": index_page()}
    for group in GROUPS:
        parts = [f"# {group.title}\n{group.about}"]
        parts += [entry(name, place, group.page) for name, place in sorted(group.names().items())]
        made[f"{group.page}.md"] = "\n\n".join(parts) + "\n"
    made["errors.md"] = errors_page()
    return made


def index_page() -> str:
    """The list of all names."""
    lines = [
        "# Public names",
        "Made from the code when the site is built. `from lockstep import X` for what stands under `lockstep`; rooms",
        "are modules (`from lockstep.parity import compare`). `import lockstep` imports no torch.",
    ]
    for group in GROUPS:
        lines += ["", f"## [{group.title}]({group.page}.md)"]
        for place in dict.fromkeys(group.names().values()):
            links = [f"[`{n}`]({group.page}.md#{anchor(n, p)})" for n, p in sorted(group.names().items()) if p == place]
            lines += ["", f"`{place}`: " + ", ".join(links)]
    own = ", ".join(f"[`{name}`](errors.md)" for name, module in lockstep._WHERE.items() if module == "errors")
    return "\n".join(
        [*lines, "", "## [Errors](errors.md)", "", f"`lockstep.errors` has one tree; `lockstep`: {own}", ""]
    )


def errors_page() -> str:
    """The tree that the module draws, and a sentence for each."""
    from lockstep import errors

    tree = inspect.getdoc(errors) or ""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    own = [kind for kind in kinds if kind.__module__ == errors.__name__]
    rows = [f"| `{kind.__name__}` | {sentence(kind)} |" for kind in own]
    return "\n".join(["# Errors", "```text", tree, "```", "", "| error | means |", "|---|---|", *rows, ""])


def anchor(name: str, place: str) -> str:
    return f"{place}.{name}".lower().replace(".", "-")


def entry(name: str, place: str, page: str) -> str:
    """One public name."""
    thing = getattr(importlib.import_module(place), name)
    parts = [f"## {name} {{#{anchor(name, place)}}}", f'<p class="place">{kind_of(thing)} · {source(thing, place)}</p>']
    if inspect.isclass(thing):
        parts += [described(thing), *made_with(thing), *methods(thing, page)]
    elif inspect.isroutine(thing):
        parts += [f"```python\n{name}{call_line(inspect.signature(thing))}\n```", described(thing)]
    else:
        parts += [f"`{plain_value(thing)}`"]
    return "\n\n".join(part for part in parts if part)


def kind_of(thing: Any) -> str:
    if inspect.isclass(thing):
        return "error" if issubclass(thing, Exception) else "class"
    if inspect.isroutine(thing):
        return "function"
    return "type" if hasattr(thing, "__args__") else "value"


def source(thing: Any, place: str) -> str:
    module = getattr(thing, "__module__", None) or place
    return f"<code>{module if module.startswith('lockstep') else place}</code>"


def described(thing: Any) -> str:
    """The docstring; what a dataclass writes for itself is none."""
    own = thing.__doc__ if not inspect.isclass(thing) else vars(thing).get("__doc__")
    text = inspect.cleandoc(own or "")
    return "" if text.startswith(f"{getattr(thing, '__name__', '')}(") else as_markdown(text)


def as_markdown(text: str) -> str:
    """A docstring; what is drawn in it (indented lines) stays as it is drawn."""
    return text.replace("<", "&lt;") if "\n    " not in text else f"```text\n{text}\n```"


def sentence(thing: Any) -> str:
    text = inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def made_with(kind: type) -> list[str]:
    """The inputs of a pipeline's call, or the arguments that a class is made with."""
    from lockstep import DiffusionPipeline

    if issubclass(kind, DiffusionPipeline) and getattr(kind, "default_blocks", None) is not None:
        return inputs_of_the_call(kind)
    if issubclass(kind, Enum):
        return ["One of " + ", ".join(f"`{one.name}`" for one in kind) + "."]
    if issubclass(kind, (Exception, DiffusionPipeline)) or not inspect.isfunction(kind.__init__):
        return []
    return arguments(kind.__name__, inspect.signature(kind))


def inputs_of_the_call(kind: type) -> list[str]:
    rows = []
    for one in kind().schema()["inputs"]:
        default = "*required*" if one["required"] else f"`{one['default']!r}`" if one["default"] is not None else ""
        kinds = cell(one["type"]) if one["type"] else ""
        rows.append(f"| `{one['name']}` | {kinds} | {default} | {' '.join(one['description'].split())} |")
    return ["\n".join(["| input | type | default | meaning |", "|---|---|---|---|", *rows])] if rows else []


def arguments(name: str, signature: inspect.Signature) -> list[str]:
    """A line where it is short, else a table."""
    given = [p for p in signature.parameters.values() if p.name != "self"]
    if not given:
        return []
    if len(given) <= FEW:
        return [f"```python\n{name}{call_line(signature)}\n```"]
    rows = [f"| `{shown_name(p)}` | {cell(annotation(p.annotation))} | {cell(default(p))} |" for p in given]
    return ["\n".join(["| argument | type | default |", "|---|---|---|", *rows])]


def call_line(signature: inspect.Signature) -> str:
    """The signature as one reads it, an argument a line where it is long."""
    words, seen_star = [], False
    for p in signature.parameters.values():
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not seen_star:
            words.append("*")
        seen_star = seen_star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        kind, value = annotation(p.annotation), default(p)
        words.append(shown_name(p) + (f": {kind}" if kind else "") + (f" = {value}" if value else ""))
    returned = annotation(signature.return_annotation)
    end = f" -> {returned}" if returned not in ("", "None") else ""
    line = f"({', '.join(words)}){end}"
    return line if len(line) <= 90 else "(\n    " + ",\n    ".join(words) + f",\n){end}"


def shown_name(p: inspect.Parameter) -> str:
    return {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name


def annotation(kind: Any) -> str:
    """A type by its short name."""
    if kind is inspect.Parameter.empty:
        return ""
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z_])", "", text)


def default(p: inspect.Parameter) -> str:
    return "" if p.default is p.empty else plain_value(p.default)


def plain_value(value: Any) -> str:
    """A value without the address of the object."""
    text = getattr(value, "__name__", None) or repr(value)
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("<factory>", "…")


def cell(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def methods(kind: type, page: str) -> list[str]:
    """The class's own public methods with their sentences, and whom it has the rest from."""
    rows = []
    for name, member in vars(kind).items():
        call = getattr(member, "__func__", member)
        call = member.fget if isinstance(member, property) else call
        if name.startswith("_") or not inspect.isfunction(call) or not call.__doc__:
            continue
        shown = name if isinstance(member, property) else f"{name}()"
        rows.append(f"| `{shown}` | {sentence(call)} |")
    table = ["\n".join(["| method | does |", "|---|---|", *rows])] if rows else []
    public = [base for base in kind.__mro__[1:] if base.__name__ in lockstep._WHERE]
    links = [f"[`{base.__name__}`]({page_of(base.__name__)}#{anchor(base.__name__, 'lockstep')})" for base in public]
    return [*table, *([f"Has besides what these have: {', '.join(links)}."] if links else [])]


def page_of(name: str) -> str:
    return next((f"{group.page}.md" for group in GROUPS if name in group.names()), "errors.md")
