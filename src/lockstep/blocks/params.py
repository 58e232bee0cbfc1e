"""What a block declares: the values it reads and makes, the components and configs it needs."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_origin

import numpy as np
import torch

from ..configuration import ConfigMixin, FrozenDict, describe_type, fits
from ..errors import ConfigError, InputError, LoadError, UnknownNameError, WiringError
from .vocabulary import VOCABULARY

LIMITS = ("minimum", "maximum", "multiple_of")
LIBRARIES = ("diffusers", "transformers")  # whose components can be taken over
PLACE = ("pretrained_model_name_or_path", "subfolder", "variant", "revision")
TRUST = ("trust_remote_code",)  # an option of other libraries: no code from elsewhere is run here
OF_WEIGHTS = ("dtype", "device", "allow_pickle", "use_safetensors")  # options of loading that weights alone have


@dataclass(frozen=True)
class InputParam:
    """A value that a block reads. Without a name but with `kwargs_type` it stands for every value of that group."""

    name: str | None = None
    type_hint: Any = None
    default: Any = None
    required: bool = False
    description: str = ""
    kwargs_type: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    multiple_of: int | None = None
    media: str | None = None  # the kind of media whose files can stand for it
    defaults_by_block: Mapping[str, Any] | None = None  # branch -> its default, where branches do not agree on one
    given: bool | None = None  # True: a person gives it; False: a block has to make it; None: see `made_by_block`
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)

    @classmethod
    def template(cls, template_name: str, note: str | None = None, **overrides: Any) -> Self:
        """The vocabulary's entry, with some fields replaced."""
        value = _look_up(template_name)
        fields_of_value = {
            "type_hint": value.type_hint,
            "default": value.default,
            "required": value.required,
            "media": value.media,
            **value.range,
        }
        description = f"{value.description} ({note})" if note else value.description
        return cls(**{"name": template_name, "description": description, **fields_of_value, **overrides})

    @property
    def made_by_block(self) -> bool:
        """Whether a block upstream has to make it: so for a required tensor, unless `given` says otherwise."""
        return not self.given if self.given is not None else self.required and _is_tensor(self.type_hint)

    def check(self, value: Any, block: str) -> None:
        """Refuse a value of another type or outside the limits."""
        if value is None and not self.required:
            return
        for number in value if isinstance(value, (list, tuple)) else [value]:
            self._check_limits(number, block)
        if self.type_hint is not None and not _accepts(value, self.type_hint):
            raise InputError(
                f"{self.name!r} (read by {block}) wants {describe_type(self.type_hint)}, got {describe_value(value)}."
            )

    def _check_limits(self, number: Any, block: str) -> None:
        if not isinstance(number, (int, float, np.number)):
            return
        wanted = [self._limit(limit, number) for limit in LIMITS]
        if any(wanted) or not math.isfinite(number):
            rule = " and ".join(filter(None, wanted)) or "a finite number"
            raise InputError(f"{self.name!r} (read by {block}) has to be {rule}, got {number!r}.")

    def _limit(self, limit: str, number: Any) -> str:
        """The rule that a number breaks, in words, or nothing."""
        bound = getattr(self, limit)
        if bound is None:
            return ""
        if limit == "minimum":
            return f"at least {bound}" if number < bound else ""
        if limit == "maximum":
            return f"at most {bound}" if number > bound else ""
        down = int(number) // bound * bound
        near = f"{down} or {down + bound} are" if down > 0 else f"{bound} is"
        return f"a multiple of {bound} ({near} near)" if number % bound else ""


@dataclass(frozen=True)
class OutputParam:
    """A value that a block makes; `may_be_infinite` keeps the non-finite guard away (masks with -inf)."""

    name: str
    type_hint: Any = None
    description: str = ""
    kwargs_type: str | None = None
    may_be_infinite: bool = False
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)

    @classmethod
    def template(cls, template_name: str, note: str | None = None, **overrides: Any) -> Self:
        """The vocabulary's entry, with some fields replaced."""
        value = _look_up(template_name)
        # what a person may give as a list (timesteps, sigmas), a block makes as a tensor
        hint = torch.Tensor if template_name in ("timesteps", "sigmas") else value.type_hint
        description = f"{value.description} ({note})" if note else value.description
        base = {"name": template_name, "type_hint": hint, "description": description, "kwargs_type": value.group}
        return cls(**{**base, **overrides})


def needs(*names: str) -> list[InputParam]:
    """Required inputs by name: `inputs = [*needs("latents", "timesteps"), "eta"]`. Tensors have to be made upstream."""
    grids = (
        "timesteps",
        "sigmas",
    )  # a person may give a list where a block takes it; what a later block needs was made
    given = {name: False if name in grids else None for name in names}
    return [InputParam.template(name, required=True, default=None, given=given[name]) for name in names]


def resolve_params(kind: type[InputParam] | type[OutputParam], declared: Iterable[Any], block: str) -> list[Any]:
    """A block's declaration as params: strings are names of the vocabulary."""
    params = [kind.template(entry) if isinstance(entry, str) else entry for entry in declared]
    for param in params:
        if not isinstance(param, kind):
            raise ConfigError(
                f"{block} declares {param!r} where a {kind.__name__} or a name of the vocabulary is wanted."
            )
    return params


def _look_up(name: str) -> Any:
    if name not in VOCABULARY:
        advice = f"A value that is this block's own is described inline: InputParam({name!r}, type, description=…)."
        raise UnknownNameError("name of the vocabulary", name, VOCABULARY, advice)
    return VOCABULARY[name]


def _is_tensor(hint: Any) -> bool:
    """Whether only tensors (or lists of them) fit a type hint."""
    if hint in (list, tuple) or get_origin(hint) is Literal:
        return False
    members = [member for member in get_args(hint) if member not in (type(None), ...)]
    return hint is torch.Tensor or (bool(members) and all(_is_tensor(member) for member in members))


def _accepts(value: Any, hint: Any) -> bool:
    return fits(value, hint) or (isinstance(value, np.generic) and fits(value.item(), hint))


def describe_value(value: Any) -> str:
    """A value in an error message: its type, and itself or its shape where that is short."""
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {list(value.shape)}"
    shown = repr(value)
    return f"{type(value).__name__} {shown}" if len(shown) <= 80 else type(value).__name__


@dataclass(frozen=True)
class ConfigSpec:
    """A value that belongs to the pipeline rather than to a call; blocks read it as `components.<name>`."""

    name: str
    default: Any = None
    description: str = ""
    type_hint: Any = None  # where the default does not tell it


@dataclass(frozen=True)
class ComponentSpec:
    """A model, tokenizer, scheduler or guider that a block uses: its class and where it comes from."""

    name: str
    type_hint: Any = None
    description: str = ""
    config: Mapping[str, Any] | None = None
    pretrained_model_name_or_path: str | None = None
    subfolder: str | None = None
    variant: str | None = None
    revision: str | None = None
    default_creation_method: Literal["from_pretrained", "from_config"] = "from_pretrained"
    optional: bool = False
    stateful: bool = False  # every run gets its own deep copy
    outline: bool = False  # the block asks its class and config alone: no weights are loaded for that
    role: bool = False  # the name is a part to play ("denoiser"); the family says which component plays it

    def __post_init__(self) -> None:
        if self.default_creation_method not in ("from_pretrained", "from_config"):
            raise UnknownNameError("creation method", self.default_creation_method, ["from_pretrained", "from_config"])
        if self.config is not None:
            object.__setattr__(self, "config", FrozenDict(self.config))

    def merged(self, other: ComponentSpec) -> ComponentSpec:
        """Two blocks' specs of one component: what one leaves open the other fills in; required wins over optional."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        filled = {name: getattr(other, name) if value in (None, "") else value for name, value in own.items()}
        filled["optional"] = self.optional and other.optional
        filled["stateful"] = self.stateful or other.stateful
        filled["outline"] = self.outline and other.outline
        return ComponentSpec(**filled)

    def played_by(self, part: ComponentSpec) -> ComponentSpec:
        """The component that plays this role, used as the block that has the role uses it."""
        wanted = get_args(self.type_hint) or (self.type_hint,)
        for kind in get_args(part.type_hint) or (part.type_hint,):
            if isinstance(kind, type) and all(isinstance(one, type) and not issubclass(kind, one) for one in wanted):
                raise WiringError(
                    f"The role {self.name!r} wants {describe_type(self.type_hint)}, but {part.name!r}, which plays it, "
                    f"is a {kind.__name__}."
                )
        optional, stateful = self.optional or part.optional, self.stateful or part.stateful
        return replace(part, optional=optional, stateful=stateful, outline=self.outline)

    def takes(self, kind: type) -> bool:
        """Whether a component of this class fits; where a spec creates its default from a config, any of its family."""
        hints = get_args(self.type_hint) or (self.type_hint,)
        known = [hint for hint in hints if isinstance(hint, type) and not chooses(hint)]
        if self.default_creation_method == "from_config":
            known = [base for hint in known for base in hint.__mro__ if base not in (object, ConfigMixin)]
        return not known or issubclass(kind, tuple(known))

    @property
    def names_classes(self) -> bool:
        """Whether it says of which class a component is; one that does not takes any."""
        return any(isinstance(hint, type) for hint in get_args(self.type_hint) or (self.type_hint,))

    @property
    def by_behaviour(self) -> bool:
        """Whether it says what a component does (a protocol), not of which class it is: any library's may fit."""
        return bool(getattr(self.type_hint, "_is_protocol", False))

    def class_named(self, name: str) -> type | None:
        """The class of that name among those that the spec itself names: a family's own need not be public ones."""
        hints = get_args(self.type_hint) or (self.type_hint,)
        return next((hint for hint in hints if isinstance(hint, type) and hint.__name__ == name), None)

    def gathered(self, parts: Iterable[Any]) -> Any:
        """Several components as the one that stands for them, where the spec has a class for that."""
        kind = next((hint for hint in get_args(self.type_hint) if getattr(hint, "gathers_several", False)), None)
        if kind is None:
            raise InputError(f"Component {self.name!r} wants one {describe_type(self.type_hint)}, got several.")
        return kind(parts)

    @property
    def load_id(self) -> str:
        """Its place in one line, as the field writes it; "null" where it has none."""
        place = [getattr(self, name) for name in PLACE]
        return "null" if place[0] is None else "|".join("null" if part is None else str(part) for part in place)

    @staticmethod
    def decode_load_id(load_id: str) -> dict[str, str | None]:
        """The place that such a line tells."""
        parts = [None if part == "null" else part for part in load_id.split("|")]
        return dict(zip(PLACE, parts, strict=False))

    def located(self, source: str, **where: Any) -> ComponentSpec:
        """The same spec with a place to load from."""
        return replace(self, pretrained_model_name_or_path=source, **where)

    def create(self, **overrides: Any) -> Any:
        """Build from the config alone, without weights."""
        if not isinstance(self.type_hint, type):
            raise ConfigError(
                f"Component {self.name!r} wants a class as type_hint to be created, got {self.type_hint!r}."
            )
        config = {**(self.config or {}), **overrides}
        return (
            self.type_hint.from_config(config) if hasattr(self.type_hint, "from_config") else self.type_hint(**config)
        )

    @property
    def has_weights(self) -> bool:
        """Whether it is a model's: a class of layers, or one that loads whatever a folder names."""
        kind = self.type_hint
        return chooses(kind) or (isinstance(kind, type) and issubclass(kind, torch.nn.Module))

    def load_outline(self, **options: Any) -> Any:
        """The component without its weights, from the config at the place that the spec names."""
        if not hasattr(self.type_hint, "outline"):
            return self.load(**options)  # a class that cannot be told from its config
        hub = {key: value for key, value in options.items() if value is not None and key not in OF_WEIGHTS}
        hub |= {"revision": self.revision} if self.revision else {}
        config = self.type_hint.load_config(self.pretrained_model_name_or_path, subfolder=self.subfolder, **hub)
        return self.type_hint.outline(config)

    def load(self, **options: Any) -> Any:
        """Load from the place that the spec names, a folder, hub id or single file.

        dtype, device and variant go to models only, and what says how foreign code is treated to another library alone.
        """
        options = with_one_dtype(options)
        if self.pretrained_model_name_or_path is None:
            raise LoadError(
                f"Component {self.name!r} names no folder or hub id to load from; give it as {self.name}=…."
            )
        if not hasattr(self.type_hint, "from_pretrained"):
            raise LoadError(
                f"Component {self.name!r} cannot be loaded: {describe_type(self.type_hint)} has no from_pretrained."
            )
        is_model = self.has_weights
        of_other = isinstance(self.type_hint, type) and library_of(self.type_hint) is not None
        left = {*(() if is_model else (*OF_WEIGHTS, "force_download")), *(() if of_other else TRUST)}
        options = {key: value for key, value in options.items() if value is not None and key not in left}
        config = options.pop("config", None)
        options |= {"revision": self.revision} if self.revision else {}
        options |= {"variant": self.variant} if self.variant and is_model else {}
        place = self.pretrained_model_name_or_path
        if is_model and Path(place).is_file() and hasattr(self.type_hint, "from_single_file"):
            found = self.type_hint.from_single_file(place, config=config, **options)
        else:
            found = self.type_hint.from_pretrained(place, subfolder=self.subfolder, **options)
        found._diffusers_load_id = self.load_id  # as the field tells where a component is from
        return found


def with_one_dtype(options: dict[str, Any]) -> dict[str, Any]:
    """The older `torch_dtype` under the name `dtype`."""
    if options.get("torch_dtype") is None:
        return {key: value for key, value in options.items() if key != "torch_dtype"}
    if options.get("dtype") is not None:
        raise InputError("You passed both `dtype` and `torch_dtype`, which mean the same. Give `dtype` alone.")
    warnings.warn("`torch_dtype` is the older name: `dtype` says the same.", FutureWarning, stacklevel=3)
    return {**{key: value for key, value in options.items() if key != "torch_dtype"}, "dtype": options["torch_dtype"]}


def library_of(kind: type) -> str | None:
    """The library that a class is of, if it is one of those whose components can be taken over."""
    home = kind.__module__.partition(".")[0]
    return home if home in LIBRARIES else None


def chooses(kind: Any) -> bool:
    """Whether it is a class of another library that loads whatever a folder names (AutoModel), and has no instances."""
    return isinstance(kind, type) and library_of(kind) is not None and kind.__name__.startswith("Auto")


def public_class(name: str, wanted_for: str) -> Any:
    """A class by its public name: the package's list is the only registry, so no file can name other code."""
    package = importlib.import_module(__package__.partition(".")[0])
    found = getattr(package, name, None) if name in package.__all__ else None
    if not isinstance(found, type):
        raise UnknownNameError(f"class (for {wanted_for})", name, package.__all__)
    return found
