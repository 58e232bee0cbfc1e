"""A pipeline's index file: which class it is, which components it has, and where they are.

`model_index.json` names a class and a subfolder per component; `modular_model_index.json` gives each component its own
place to load from. Both are the field's formats.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import __version__, files
from ..configuration import ConfigMixin, describe_type
from ..errors import FileFormatError, LoadError, NotFoundError, UnknownNameError
from ..extensions import brought
from ..guiders import BaseGuidance
from ..schedulers import SchedulerMixin
from .block import ModularPipelineBlocks
from .params import PLACE, ComponentSpec, public_class

PACKAGE = __package__.partition(".")[0]
LIBRARIES = ("diffusers", "transformers", PACKAGE)  # whose classes an index names by what Lockstep has for them
CLASSIC, MODULAR = "model_index.json", "modular_model_index.json"
OWN = "_lockstep_components"  # components that the field's classic pipelines do not take (guiders)
DEFAULTS = "_lockstep_defaults"  # arguments of a call that suit this model best, where the caller gives none
OLD_NAMES = {"CLIPFeatureExtractor": "CLIPImageProcessor"}  # of classes, in old index files


@dataclass
class Index:
    """What an index file says."""

    source: str
    class_name: str | None = None
    blocks_name: str | None = None
    entries: dict[str, list[Any]] = field(default_factory=dict)  # component -> [library, class, place]
    configs: dict[str, Any] = field(default_factory=dict)

    def blocks_class(self) -> Any:
        """The blocks that the index names, where they are Lockstep's own."""
        if self.blocks_name is None:
            return None
        try:
            found = public_class(self.blocks_name, f"the blocks of {self.source}")
        except UnknownNameError:
            found = None
        if found is None or not issubclass(found, ModularPipelineBlocks) or not getattr(found, "block_classes", True):
            raise LoadError(
                f"{self.source!r} was saved with the blocks {self.blocks_name}, which are not part of Lockstep. Give "
                f"them: from_pretrained(…, blocks={self.blocks_name}())."
            ) from None
        return found

    def locate(self, spec: ComponentSpec) -> ComponentSpec | None:
        """The spec with the class and the place that the index names; None where the index has none for it."""
        entry = self.entries.get(spec.name)
        if entry is None or entry[1] is None or spec.by_behaviour:
            return None
        named = entry[1].removesuffix("Fast").removesuffix("Pil")
        named = OLD_NAMES.get(named, named)
        found = spec.class_named(named)
        if found is None and entry[0] not in LIBRARIES:
            found = imported_class(entry[0], entry[1], spec) or brought_component(entry[1])
        found = found or public_class(named, f"component {spec.name!r} in {self.source}")
        if not spec.takes(found):
            raise LoadError(
                f"Component {spec.name!r} wants {describe_type(spec.type_hint)}, but the index in {self.source!r} "
                f"says {entry[1]}."
            )
        place = {"subfolder": spec.name} if len(entry) < 3 else {key: entry[2].get(key) for key in PLACE}
        source = place.pop("pretrained_model_name_or_path", None)
        if source is None or self._has_its_own(source, place.get("subfolder")):
            source = self.source
        return replace(spec, type_hint=found, **place).located(source)

    def _has_its_own(self, source: str, subfolder: str | None) -> bool:
        """Whether a part that is said to be on some disk is beside the index: a folder that was moved or copied."""
        return subfolder is not None and Path(source).is_absolute() and (Path(self.source) / subfolder).is_dir()


def read_index(source: str | Path, **hub: Any) -> Index:
    """The index of a folder or hub id; the modular one where there is one."""
    problems = []
    for name in (MODULAR, CLASSIC):
        try:
            path = files.resolve_file(source, name, **hub)
        except NotFoundError as problem:
            problems.append(problem)
            continue
        return parse_index(str(source), path, files.read_json(path))
    raise NotFoundError(f"{str(source)!r} is not a pipeline: it has neither {CLASSIC} nor {MODULAR}. {problems[-1]}")


def parse_index(source: str, path: Path, content: Mapping[str, Any]) -> Index:
    """The content of an index file."""
    for key in ("_class_name", "_blocks_class_name"):
        if not isinstance(content.get(key), str | None):
            raise FileFormatError(
                f"{path}: {key!r} wants the name of a class, got {content[key]!r}. Code that comes with a folder is "
                "not run here: load it with the class that it is made for."
            )
    index = Index(source, content.get("_class_name"), content.get("_blocks_class_name"))
    own = content.get(OWN) or {}
    for name, value in {**content, **own}.items():
        is_component = (
            isinstance(value, list) and len(value) in (2, 3) and all(v is None or isinstance(v, str) for v in value[:2])
        )
        if name == DEFAULTS and isinstance(value, dict):
            index.configs[name] = value
        if name.startswith("_"):
            continue
        if is_component and (len(value) == 2 or isinstance(value[2], dict)):
            index.entries[name] = value
        else:
            index.configs[name] = value
    if not index.entries:
        raise FileFormatError(
            f'{path} names no components; an entry looks like "unet": ["diffusers", "UNet2DConditionModel"].'
        )
    return index


def write_classic(
    folder: Path, class_name: str, components: Mapping[str, Any], own: Mapping[str, Any], configs: Mapping[str, Any]
) -> None:
    """`model_index.json`: what the field's pipelines load."""
    entries = {name: library_and_class(component) for name, component in components.items()}
    content = {**_head(class_name), **entries, **configs}
    if own:
        content[OWN] = {name: library_and_class(component) for name, component in own.items()}
    _write(folder / CLASSIC, content)


def write_modular(
    folder: Path,
    class_name: str,
    blocks_name: str,
    components: Mapping[str, Any],
    configs: Mapping[str, Any],
    places: Mapping[str, Mapping[str, str | None]],
) -> None:
    """`modular_model_index.json`: every component with its place."""
    entries = {}
    for name, component in components.items():
        pair = library_and_class(component)
        entries[name] = [*pair, {**places[name], "type_hint": pair} if component is not None else {}]
    _write(folder / MODULAR, {**_head(class_name), "_blocks_class_name": blocks_name, **entries, **configs})


def _head(class_name: str) -> dict[str, Any]:
    return {"_class_name": class_name, "_diffusers_version": "0.42.1", "_lockstep_version": __version__}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    files.write_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def library_and_class(component: Any) -> list[str | None]:
    """The pair by which an index names a class: of the field's, by the library that has it there (text encoders and
    tokenizers stand under transformers); of anybody else's, by its module."""
    if component is None:
        return [None, None]
    component = getattr(component, "_orig_mod", component)
    kind = type(getattr(component, "model", component) if hasattr(component, "wraps") else component)
    own, *rooms = kind.__module__.split(".")
    if own == "transformers" or (own == PACKAGE and {"text_encoders", "tokenizers"} & set(rooms)):
        library = "transformers"
    else:
        library = "diffusers" if own in (PACKAGE, "diffusers") else kind.__module__
    return [getattr(kind, "index_library", library), kind.__name__]


def imported_class(module: str | None, name: str, spec: ComponentSpec) -> type | None:
    """A class of somebody else's that an index names by its module: a relative of what the spec wants.

    A file must not choose the code that runs. So the module has to be imported already and to define the class (what
    a module would import when it is asked for a name, it is not asked for); the class is made from one that the spec
    names, and is loaded as Lockstep loads: from a config and tensors.
    """
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    if not isinstance(found, type) or found.__module__ != module or not issubclass(found, ConfigMixin):
        return None
    return found if spec.names_classes and spec.takes(found) else None


def brought_component(name: str) -> type | None:
    """A scheduler or a guider that an installed package declares under the name of its class."""
    wanted = {"scheduler": SchedulerMixin, "guider": BaseGuidance}
    found = (brought(kind, name, base) for kind, base in wanted.items())
    return next((kind for kind in found if kind is not None), None)
