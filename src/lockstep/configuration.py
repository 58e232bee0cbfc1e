"""Configurations: what a model or scheduler was built with, as a frozen dict that goes to JSON and back.

`@register_to_config` on an `__init__` records its arguments in `self.config`. The annotations of the `__init__` are the
schema: a value of another type is refused by name, and a key that the `__init__` does not know is kept (so that a file
survives a round trip) and reported by `unknown_config_keys`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, Union

from . import __version__, files
from .errors import ConfigError, UnsupportedError

Init = TypeVar("Init", bound=Callable[..., None])
DEFAULTED = "_use_default_values"  # the key under which a config says which of its values nobody gave


class FrozenDict(dict[str, Any]):
    """A dict that cannot change after it was made and whose keys are attributes too."""

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise ConfigError(
            "A config cannot be changed in place: it says what the object was built with. "
            "Build another one with `from_config(config, name=value)`, or call `register_to_config(name=value)`."
        )

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"This config has no {name!r}; it has: {', '.join(sorted(self))}.") from None

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return type(self), (dict(self),)

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return self


def register_to_config(init: Init) -> Init:
    """Record the arguments of `__init__` (defaults included) in `self.config` before it runs."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as problem:
            raise ConfigError(
                f"{type(self).__name__}: {problem}. It takes: {', '.join(list(signature.parameters)[1:])}."
            ) from None
        given = set(bound.arguments)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        check_types(type(self).__name__, arguments, config_types(type(self)))
        defaulted = [name for name in arguments if name not in given]
        if defaulted and getattr(self, "marks_defaults", False):
            arguments[DEFAULTED] = defaulted
        if not hasattr(self, "_config"):  # a subclass that registers first keeps its own view
            object.__setattr__(self, "_config", FrozenDict(arguments))
        init(self, *args, **kwargs)

    return typing.cast(Init, recorded)


def with_defaults(init: Init, **defaults: Any) -> Init:
    """The `__init__` of a class, registered, for a subclass that differs in the defaults of its config alone."""
    signature = inspect.signature(init)
    changed = [p.replace(default=defaults.get(p.name, p.default)) for p in signature.parameters.values()]

    @functools.wraps(init)
    def inherited(self: Any, *args: Any, **values: Any) -> None:
        init(self, *args, **{**defaults, **values})

    inherited.__signature__ = signature.replace(parameters=changed)  # type: ignore[attr-defined]
    return typing.cast(Init, inherited)


class ConfigMixin:
    """Gives a class `config`, `from_config`, `load_config` and `save_config`."""

    config_name: ClassVar[str] = "config.json"
    ignored_config_keys: ClassVar[frozenset[str]] = frozenset()
    marks_defaults: ClassVar[bool] = False  # for classes that take each other's configs: a default does not carry over
    _config: FrozenDict

    @property
    def config(self) -> FrozenDict:
        """What this object was built with."""
        return self._config

    def register_to_config(self, **values: Any) -> None:
        """Replace some recorded values; the rest stays."""
        object.__setattr__(self, "_config", FrozenDict({**getattr(self, "_config", {}), **values}))

    @property
    def unknown_config_keys(self) -> list[str]:
        """Keys that came with the file and that this class does not use."""
        known = {*config_defaults(type(self)), *self.ignored_config_keys}
        return [key for key in self._config if key not in known and not key.startswith("_")]

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | str | Path, **overrides: Any) -> typing.Self:
        """Build from a config (a mapping, or a folder or file that has one) with some values replaced."""
        if not isinstance(config, Mapping):
            path = cls.config_path(config)
            with naming_config(path):
                return cls.from_config(files.read_json(path), **overrides)
        values, known = dict(config), config_defaults(cls)
        unknown = sorted(set(overrides) - set(known))
        if unknown:
            raise ConfigError(f"{cls.__name__} has no config value {unknown[0]!r}. It has: {', '.join(known)}.")
        defaulted = values.pop(DEFAULTED, ())
        if not isinstance(defaulted, (list, tuple)):
            raise ConfigError(f"{cls.__name__}: config value {DEFAULTED!r} wants a list of names, got {defaulted!r}.")
        values = {**{key: value for key, value in values.items() if key not in defaulted}, **overrides}
        built = cls(**{key: value for key, value in values.items() if key in known})
        kept = {key: value for key, value in values.items() if key not in known and key not in cls.ignored_config_keys}
        built.register_to_config(**{key: value for key, value in kept.items() if not key.startswith("_")})
        return built

    @classmethod
    def load_config(
        cls, name_or_path: str | Path, *, subfolder: str | None = None, **hub: typing.Unpack[files.HubArguments]
    ) -> dict[str, Any]:
        """Read the config of a local folder, a file, or a hub id."""
        return files.read_json(cls.config_path(name_or_path, subfolder=subfolder, **hub))

    @classmethod
    def config_path(
        cls, name_or_path: str | Path, *, subfolder: str | None = None, **hub: typing.Unpack[files.HubArguments]
    ) -> Path:
        """The config file of a local folder or hub id, or the file itself where one is named."""
        if isinstance(name_or_path, (str, Path)) and Path(name_or_path).is_file():
            return Path(name_or_path)
        return files.resolve_file(name_or_path, cls.config_name, subfolder=subfolder, **hub)

    @classmethod
    def class_name_in_config(cls) -> dict[str, Any]:
        """The keys that say which class a config belongs to."""
        return {"_class_name": cls.__name__, "_diffusers_version": "0.42.1", "_lockstep_version": __version__}

    def config_to_json(self) -> str:
        values = {**self.class_name_in_config(), **self._config}
        values.pop(DEFAULTED, None)
        return json.dumps(values, indent=2, sort_keys=True, default=_to_json) + "\n"

    def save_config(self, folder: str | Path) -> Path:
        """Write `config_name` into the folder."""
        path = Path(folder) / self.config_name
        files.write_text(path, self.config_to_json())
        return path


@contextlib.contextmanager
def naming_config(path: Path) -> Iterator[None]:
    """Within the block, an error about a config says which file the config came from."""
    try:
        yield
    except (ConfigError, UnsupportedError) as problem:
        raise type(problem)(f"{problem} (Read from {path}.)") from problem.__cause__


def _to_json(value: Any) -> Any:
    if isinstance(value, Path):
        return value.as_posix()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ConfigError(f"A config value of type {type(value).__name__} cannot be written as JSON: {value!r}.")


def _config_defaults(cls: Any) -> dict[str, Any]:
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    named = (p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return {p.name: p.default for p in named}


def _config_types(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(inspect.unwrap(cls.__init__))


# name -> default of every config value that a class takes (`inspect.Parameter.empty` where there is none)
config_defaults: Callable[[Any], dict[str, Any]] = functools.cache(_config_defaults)
# name -> annotation of every config value that a class takes
config_types: Callable[[Any], dict[str, Any]] = functools.cache(_config_types)


def check_types(owner: str, values: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse the first value whose type is not the annotated one."""
    for name, value in values.items():
        if name in wanted and not fits(value, wanted[name]):
            raise ConfigError(
                f"{owner}: config value {name!r} wants {describe_type(wanted[name])}, got {type(value).__name__} "
                f"{value!r}."
            )


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value that came from JSON or from a caller is of the annotated type (an int is a float; a list is a
    tuple)."""
    if annotation is Any:
        return True
    if annotation is None or annotation is type(None):
        return value is None
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return any(fits(value, choice) for choice in arguments)
    if origin is Literal:
        return value in arguments
    if origin in (tuple, list):
        items = [a for a in arguments if a is not Ellipsis]
        return isinstance(value, (list, tuple)) and all(any(fits(v, a) for a in items) for v in value)
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # NaN is no setting
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is not None:
        return isinstance(value, origin)
    return isinstance(value, annotation) if isinstance(annotation, type) else True


def describe_type(annotation: Any) -> str:
    """An annotation as a person would say it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is type(None):
        return "null"
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(choice) for choice in arguments)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if origin in (tuple, list):
        return "a list of " + " or ".join(dict.fromkeys(describe_type(a) for a in arguments if a is not Ellipsis))
    return getattr(annotation, "__name__", str(annotation))
