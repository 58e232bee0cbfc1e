"""What a type checker has to know of one pipeline class: its components, how it is made and called, what it gives."""

from __future__ import annotations

import functools
import inspect
import operator
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from ..configuration import ConfigMixin
from ..files import HubArguments
from .assembly import Assembly
from .events import Event
from .output import PipelineOutput
from .params import ComponentSpec, ConfigSpec
from .run import Run
from .schema import annotation, option_defaults, option_types
from .stub_types import Types, as_argument

# which part of a result's type each `output_type` stands for
FORMS: dict[str, type] = {"pil": list, "np": np.ndarray, "pt": torch.Tensor, "latent": torch.Tensor}
DECIDING = ("output_type", "return_dict", "output")  # the inputs that decide on the type of what a call gives
WIDTH = 116  # of the lines that several declarations share
OTHER_TYPE = "# type: ignore[assignment, unused-ignore]  # where the class that it is made from has another one"
NO_OTHER_NAME = "# type: ignore[assignment, misc]  # every name is declared: another one is a mistake"

Table = Literal["Inputs", "Parts"]  # what is given by name: to a call, or to the class


class PipelineFace:
    """The typed face of one pipeline class, written line by line."""

    def __init__(self, kind: Any, hints: Types, pipelines: Sequence[type] = ()) -> None:
        self.kind, self.hints, self.pipelines = kind, hints, pipelines
        self.assembly = Assembly.of(kind.default_tree(), face=kind.face)
        self.short = kind.__name__.removesuffix("Pipeline")
        made_from = [base for base in kind.__mro__[1:] if hasattr(base, "default_tree") and base.default_tree()]
        self.family = PipelineFace(made_from[-1], hints, pipelines) if made_from else None

    def helpers(self) -> list[str]:
        """What stands before the class: the inputs and parts that it takes by name, and the forms of its results."""
        hub = self.hints.named(HubArguments.__module__, HubArguments.__name__)
        return [
            *(self._outputs() if self._owner_of_outputs() is self else ()),
            *self._table("Inputs"),
            *self._table("Parts"),
            *(f"class {self._helper('PartsAndHub')}({self._helper('Parts')}, {hub}, total=False): ...", ""),
        ]

    def _table(self, table: Table) -> list[str]:
        """The names and types of what is given by name; what a whole family takes stands in the family's module."""
        typed, shared = self.hints.named("typing", "TypedDict"), self._shared(table)
        own = {name: text for name, text in self._given(table).items() if name not in shared}
        base = self._helper(f"Shared{table}", self.family) if shared else typed
        lines = [f"class {self._helper(table)}({base}, total=False):", *self._entries(own), ""]
        if shared and self.family is None:
            lines = [f"class {base}({typed}, total=False):", *self._entries(shared), "", *lines]
        return lines

    def _helper(self, table: str, owner: PipelineFace | None = None) -> str:
        """The name of a helper class; one of another module has to be imported from there."""
        owner = owner or self
        name = f"_{owner.short}{table}"
        return self.hints.named(owner.kind.__module__, name) if owner.kind.__module__ != self.kind.__module__ else name

    def _given(self, table: Table) -> dict[str, str]:
        """Name -> type and default of what is given by name: to a call, or to the class."""
        if table == "Parts":
            return self._parts()
        by_hand = self._by_hand()
        return {name: text for name, text in self._inputs().items() if name not in by_hand}

    def _shared(self, table: Table) -> dict[str, str]:
        """What all pipelines made from one class take by name, in the same way: it is written once."""
        if self.family is not None:
            shared = self.family._shared(table)
            return shared if shared.items() <= self._given(table).items() else {}
        shared, made_of_it = self._given(table), [kind for kind in self.pipelines if kind in _derived(self.kind)]
        for kind in made_of_it:
            taken = PipelineFace(kind, Types())._given(table)
            shared = {name: text for name, text in shared.items() if taken.get(name) == text}
        return shared if made_of_it else {}

    def _owner_of_outputs(self) -> PipelineFace:
        """The class that first gave the same results."""
        same = self.family and self.family._results() == self._results()
        return self.family if self.family and same else self

    def _results(self) -> dict[str | None, dict[str, str]]:
        """Each form of the results: their names and types."""
        return {
            form: {str(param.name): self.hints.text(_in_form(param.type_hint, form)) for param in self.assembly.result}
            for form in self._forms()
        }

    def _entries(self, named: dict[str, str]) -> list[str]:
        """Names and types; what has no default has to be given."""
        written = []
        for name, text in named.items():
            kind, _, default = text.partition(" = ")
            written.append(f"{name}: {kind if default else self.hints.named('typing', 'Required') + f'[{kind}]'}")
        return packed(written)

    def _outputs(self) -> list[str]:
        """A class for each form that the results can have."""
        base = self.hints.named(PipelineOutput.__module__, PipelineOutput.__name__)
        never = f"__getattr__: {self.hints.named('typing', 'ClassVar')}[None]  {NO_OTHER_NAME}"
        fields = {
            form: "; ".join(f"{name}: {kind}" for name, kind in found.items())
            for form, found in self._results().items()
        }
        return [*(f"class {self._helper(_output(form))}({base}): {own}; {never}" for form, own in fields.items()), ""]

    def members(self) -> list[str]:
        """What stands in the class besides its own methods."""
        inherited = self.family._attributes() if self.family else {}
        own = {name: text for name, text in self._attributes().items() if inherited.get(name) != text}
        never = f"{self.hints.named('typing', 'ClassVar')}[None]"
        lines = [] if self.family else [f"    __getattr__: {never}; __setattr__: {never}  {NO_OTHER_NAME}"]
        lines.append(self._method("__init__", self._declared(self.kind.__init__), "Parts", "None"))
        for name, gives in (("run", Run), ("stream", Iterator[Event])):
            lines.append(self._method(name, self._by_hand(), "Inputs", self.hints.text(gives)))
        loading = self._declared(self.kind.from_pretrained)
        lines.append("    @classmethod")
        lines.append(self._method("from_pretrained", loading, "PartsAndHub", self.hints.text(typing.Self)))
        lines += self._calls()
        new = [f"{name}: {text}" for name, text in own.items() if name not in inherited]
        other = [f"    {name}: {text}  {OTHER_TYPE}" for name, text in own.items() if name in inherited]
        return lines + (packed(new) if new else []) + other

    def _attributes(self) -> dict[str, str]:
        """Name -> type of the components and config values that a pipeline has."""
        configs = self.assembly.root.expected_configs
        return {
            **{spec.name: self.hints.text(_component_type(spec)) for spec in self.assembly.specs.values()},
            **{config.name: self.hints.text(_config_type(config)) for config in configs},
        }

    def _parts(self) -> dict[str, str]:
        """Name -> type of the components and config values that a pipeline can be given."""
        parts = {name: f"{self.hints.text(_given_type(spec))} = ..." for name, spec in self.assembly.specs.items()}
        configs = self.assembly.root.expected_configs
        return parts | {one.name: f"{self.hints.text(_config_type(one))} = ..." for one in configs}

    def _calls(self) -> list[str]:
        """One overload for each thing that a call can give."""
        anything = self.hints.text(Any)
        whole = {"return_dict": "Literal[True] = True", "output": "None = None"}
        owner = self._owner_of_outputs()
        calls = [(self._chosen(form) | whole, self._helper(_output(form), owner)) for form in self._forms()]
        calls += [
            ({"return_dict": "Literal[False]", "output": "None = None"}, f"tuple[{anything}, ...]"),
            ({"return_dict": "bool = True", "output": "list[str]"}, f"dict[str, {anything}]"),
            ({"return_dict": "bool = True", "output": "str"}, anything),
        ]
        overloaded = f"    @{self.hints.named('typing', 'overload')}"
        return [
            line
            for special, gives in calls
            for line in (overloaded, self._method("__call__", self._by_hand() | special, "Inputs", gives))
        ]

    def _by_hand(self) -> dict[str, str]:
        """The inputs that are written out in every method: those that need no name, and those that decide."""
        inputs = self._inputs()
        written = [*list(inputs)[: self._by_position()], *(name for name in DECIDING if name in inputs)]
        return {name: inputs[name] for name in written}

    def _inputs(self) -> dict[str, str]:
        """Name -> type and default of everything that a call takes."""
        found = {}
        for place, param in enumerate(self.assembly.shown()):
            # a required argument after one that may be left out is written with a default (see call_signature)
            written = param.required and place >= len(self.kind.face.positional)
            default = "" if written else f" = {'...' if param.required else repr(param.default)}"
            found[str(param.name)] = f"{self.hints.text(as_argument(annotation(param)))}{default}"
        for name, default in option_defaults().items():
            shown = repr(default) if default is None or isinstance(default, (bool, int, str)) else "..."
            found[name] = f"{self.hints.text(self._option_type(name))} = {shown}"
        return found

    def _option_type(self, name: str) -> Any:
        workflows = tuple(self.assembly.root.available_workflows)
        return Literal[workflows] | None if name == "workflow" and workflows else option_types()[name]

    def _forms(self) -> list[str | None]:
        """The values of `output_type` that differ in what they give; None where a pipeline has no such choice."""
        choice = next((param.type_hint for param in self.assembly.inputs if param.name == "output_type"), None)
        named = [form for form in FORMS if form in typing.get_args(choice)]
        return [form for k, form in enumerate(named) if FORMS[form] not in [FORMS[one] for one in named[:k]]] or [None]

    def _chosen(self, form: str | None) -> dict[str, str]:
        """`output_type` in the overload of a form."""
        if form is None:
            return {}
        param = next(param for param in self.assembly.inputs if param.name == "output_type")
        same = tuple(one for one in typing.get_args(param.type_hint) if FORMS.get(one) is FORMS[form])
        return {
            "output_type": self.hints.text(Literal[same]) + (f" = {param.default!r}" if param.default in same else "")
        }

    def _declared(self, function: Any) -> dict[str, str]:
        """The named parameters of a method, as it declares them."""
        types_of, found = typing.get_type_hints(function), {}
        for name, parameter in inspect.signature(function).parameters.items():
            if name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
                hint = self._option_type(name) if name == "workflow" else types_of[name]
                found[name] = self.hints.text(hint) + ("" if parameter.default is parameter.empty else " = ...")
        return found

    def _method(self, name: str, parameters: dict[str, str], table: str, gives: str) -> str:
        """One method; what may be given by position is the first input of a call, and the folder."""
        written = [f"{parameter}: {text}" for parameter, text in parameters.items()]
        written.insert({"__init__": 0, "from_pretrained": 1}.get(name, self._by_position()), "*")
        rest = f"**{table[:1].lower()}{table[1:]}: {self.hints.named('typing', 'Unpack')}[{self._helper(table)}]"
        owner = "cls" if name == "from_pretrained" else "self"
        return f"    def {name}({', '.join([owner, *written, rest])}) -> {gives}: ..."

    def _by_position(self) -> int:
        """How many inputs of a call may be given without their names."""
        return max(len(self.kind.face.positional), 1)


def packed(declarations: Iterable[str]) -> list[str]:
    """The body of a class: as many declarations in a line as there is room for."""
    lines: list[str] = []
    for declaration in declarations:
        if lines and len(lines[-1]) + len(declaration) < WIDTH:
            lines[-1] += f"; {declaration}"
        else:
            lines.append(f"    {declaration}")
    return lines or ["    ..."]


def _derived(kind: type) -> set[type]:
    """All classes that are made from one."""
    children: list[type] = kind.__subclasses__()
    return {one for child in children for one in (child, *_derived(child))}


def _output(form: str | None) -> str:
    """What the class of results in a form is called."""
    return f"{'' if form is None else form.capitalize()}Output"


def _in_form(hint: Any, form: str | None) -> Any:
    """The members of a result's type that an `output_type` gives; the whole type where they cannot be told apart."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()
    chosen = [member for member in members if form and (typing.get_origin(member) or member) is FORMS[form]]
    return functools.reduce(operator.or_, chosen) if chosen else hint


def _component_type(spec: ComponentSpec) -> Any:
    """The type of a component; where a spec creates its default itself, any class of the same family fits."""
    if spec.default_creation_method == "from_config" and isinstance(spec.type_hint, type):
        return [base for base in spec.type_hint.__mro__ if base not in (object, ConfigMixin)][-1]
    return Any if spec.type_hint is None else spec.type_hint


def _given_type(spec: ComponentSpec) -> Any:
    """What can be given for a component: None leaves it away, and several become one where a class gathers them."""
    kind = _component_type(spec)
    members = typing.get_args(kind)
    single = tuple(member for member in members if not getattr(member, "gathers_several", False))
    several: Any = Sequence[functools.reduce(operator.or_, single)] if len(single) < len(members) else None  # type: ignore[misc]
    return kind | several | None


def _config_type(config: ConfigSpec) -> Any:
    if config.type_hint is not None:
        return config.type_hint
    return Any if config.default is None else type(config.default)
