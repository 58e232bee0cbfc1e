"""DiffusionPipeline: a tree of blocks, the components that it uses, and the classic face that both are given.

There is one class: the call signature, the help text and the schema follow from the blocks, and a pipeline put together
by hand (`blocks.init_pipeline()`) is the same thing as one loaded by its published name.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack, cast

import torch

from .. import files
from ..blocks import foreign
from ..blocks import index as index_files
from ..blocks import schema as faces
from ..blocks.assembly import Assembly
from ..blocks.calling import prepare_run
from ..blocks.compose import Block
from ..blocks.events import Event
from ..blocks.index import library_and_class
from ..blocks.output import PipelineOutput
from ..blocks.params import ComponentSpec
from ..blocks.progress import BarSettings, ProgressBars
from ..blocks.run import Run
from ..configuration import FrozenDict, describe_type
from ..errors import InputError, LoadError, OutlineError, UnknownNameError, close_to
from ..files import HUB_ARGUMENTS
from ..loaders.header import ENDINGS, is_checkpoint
from ..schedulers.exchange import check_assigned
from ..schedulers.scheduling import SchedulerMixin
from . import callbacks, saving, sharing
from .adapters import Adapters, LoraMixin
from .corrections import Correction, corrected
from .finding import pipeline_class
from .handwork import HandworkMixin
from .image_prompts import ImagePromptMixin
from .inventory import InventoryMixin
from .loading import check_known, dtype_for, understood
from .offload import Offload
from .ranks import RanksMixin
from .single_file import open_index, take_file_options
from .speed import SpeedMixin
from .switches import SwitchesMixin
from .words import Words, WordsMixin

logger = logging.getLogger(__name__)
# components that the field's constructors take: None for one that a pipeline does not have is nothing
NEVER_HAD = (
    *["safety_checker", "feature_extractor", "image_encoder", "add_watermarker", "watermarker"],
    *["controlnet", "adapter"],
)
NOT_KEPT = ("_lock", "_runs", "_bars", "_current")  # by a copy or a pickle: each has its own


class _DerivedCall:
    """`__call__`, with the signature and the documentation that the blocks give it."""

    def __get__(self, pipe: DiffusionPipeline | None, owner: type[DiffusionPipeline]) -> Callable[..., PipelineOutput]:
        def __call__(*args: Any, **kwargs: Any) -> Any:
            run = owner._run_to_the_end if pipe is None else pipe._run_to_the_end
            return run(*args, **kwargs)

        if pipe is not None:
            __call__.__signature__, __call__.__doc__ = pipe.__signature__, pipe.__doc__  # type: ignore[attr-defined]
        elif (blocks := owner.default_tree()) is not None:
            assembly = Assembly.of(blocks, face=owner.face)
            __call__.__signature__ = faces.call_signature(assembly, bound=False)  # type: ignore[attr-defined]
            __call__.__doc__ = faces.help_text(inspect.cleandoc(owner.__doc__ or ""), assembly)
        return __call__


class DiffusionPipeline(
    LoraMixin, WordsMixin, ImagePromptMixin, InventoryMixin, RanksMixin, SpeedMixin, SwitchesMixin, HandworkMixin
):
    """Blocks and their components, callable. Weights are shared by all runs; whatever changes belongs to one run."""

    corrections: ClassVar[tuple[Correction, ...]] = ()  # of old configs, when a pipeline is made
    index_names: ClassVar[tuple[str, ...]] = ()  # further class names in index files that mean this class
    pairs_for_callbacks: ClassVar[bool] = True  # see callbacks.PAIRED
    _optional_components: ClassVar[list[str]] = []  # those that scripts may set to None

    __call__ = _DerivedCall()

    def __init__(
        self, *, blocks: Block | None = None, given: Iterable[str] = (), name_or_path: str | None = None, **parts: Any
    ) -> None:
        self._components: dict[str, Any] = {}
        self._unloaded: dict[str, ComponentSpec] = {}  # where components come from that no run has needed yet
        self._located: dict[str, ComponentSpec] = {}  # where those came from that were loaded
        self._outlines: dict[str, Any] = {}  # of components that are not loaded
        self._load_options: dict[str, Any] = {}
        self._from_index: set[str] = set()  # components that were loaded from where the index says
        self._index_class = type(self).__name__  # the name under which an index file knows it
        self._modular_index = False  # whether it was loaded by a modular index, or as one: then it is saved with one
        self._absent: list[str] = []  # components that the index named and this pipeline does not have
        self._elsewhere: dict[str, saving.StoredPart] = {}  # those whose classes are another library's, and not given
        self._config: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._runs: set[Run] = set()
        self._current = callbacks.CurrentRun()
        self._offload: Offload | None = None
        self._adapters = Adapters()
        self._words = Words()
        self._bars = ProgressBars()
        self.name_or_path = name_or_path
        self.variant: str | None = None  # of the files that the components were loaded from
        self.loads_when_looked_at = True
        self.file_options: dict[str, Any] = {}  # what was said about a single file (family, prediction_type …)
        self.given_processors: dict[str, Any] = {}  # of pictures, in the place of those that blocks make
        self.check_finite = True
        tree = self.default_tree() if blocks is None else blocks
        if tree is None:
            raise InputError(
                f"{type(self).__name__} has no blocks of its own: give blocks=, or load a folder with from_pretrained."
            )
        self._assemble(tree, given)
        self.update_components(**self._corrected(parts))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in NOT_KEPT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        fresh = threading.RLock(), set[Run](), ProgressBars(), callbacks.CurrentRun()
        self.__dict__.update(state, **dict(zip(NOT_KEPT, fresh, strict=True)))

    @property
    def folder_defaults(self) -> dict[str, Any]:
        """Arguments that this name, the folder's index or the speed suggests for calls that do not give them."""
        settings = {name for spec in self._specs.values() for name in self.face.settings(spec)}
        of_name = {name: value for name, value in self.face.defaults.items() if name not in settings}
        return {**of_name, **self._config.get(index_files.DEFAULTS, {}), **self.speed_defaults}

    def __repr__(self) -> str:
        lines = [
            f"  {name}: {type(component).__name__ if component is not None else 'none'}"
            for name, component in self._components.items()
        ]
        return "\n".join([f"{type(self).__name__} of {type(self.blocks).__name__}", *lines])

    # ---- runs ----

    def run(self, *args: Any, **inputs: Any) -> Run:
        """A run that is checked and not started: `run.result()`, `for event in run`, `run.interrupt()`."""
        return prepare_run(self, args, inputs)

    def _run_to_the_end(self, *args: Any, **inputs: Any) -> Any:
        run = self.run(*args, **inputs)
        bars = self._bars.for_run()
        run.observers.append(bars)
        try:
            return run.result()
        finally:
            bars.close()

    def run_part(self, only: Collection[str], **inputs: Any) -> Run:
        """A run of some of the outermost blocks: the others run elsewhere, and what they make is given to it."""
        return prepare_run(self, (), inputs, only)

    def stream(self, *args: Any, **inputs: Any) -> Iterator[Event]:
        """The events of a run as they happen; the last one carries the output."""
        return iter(self.run(*args, **inputs))

    def interrupt(self) -> int:
        """Stop every run of this pipeline at its next boundary; how many there were. Call it from any thread."""
        with self._lock:
            runs = list(self._runs)
        for run in runs:
            run.interrupt()
        return len(runs)

    def run_begins(self, run: Run) -> None:
        self.ranks_agree(run)
        with self._lock:
            self.use_lora_scale(run.state.values)
            self._runs.add(run)
        self._current.begins(run)

    def run_ends(self, run: Run) -> None:
        self._current.ends()
        with self._lock:
            self._runs.discard(run)
            if not self._runs:
                self._adapters.rescale(1.0)

    def callback_names(self, names: Iterable[str]) -> set[str]:
        """What a callback can ask for in a run with these values."""
        return callbacks.known_names(set(names))

    def shown_to_callback(self, run: Run, names: Iterable[str], values: Any) -> dict[str, Any]:
        """Values as a callback sees them."""
        return callbacks.all_shown(run, names, values)

    def taken_from_callback(self, run: Run, changed: Mapping[str, Any], values: Any) -> dict[str, Any]:
        """What a callback returned, under the names that the blocks know."""
        return callbacks.all_taken(changed, values)

    def set_progress_bar_config(self, **settings: Unpack[BarSettings]) -> None:
        """`disable=True` is quiet, `desc=` names the bar, `leave=False` removes it at the end."""
        self._bars.configure(**settings)

    # ---- components ----

    @property
    def config(self) -> FrozenDict:
        """The values that belong to the pipeline rather than to a call, and the library and class of each component."""
        loaded = [name for name, spec in self._specs.items() if spec.default_creation_method == "from_pretrained"]
        held = {name: self._components.get(name) for name in loaded}
        named = {name: part for name, part in held.items() if part is not None or name in self._absent}
        return FrozenDict({**{name: tuple(library_and_class(part)) for name, part in named.items()}, **self._config})

    def update_components(self, **parts: Any) -> None:
        """Give components, or config values, by their names."""
        for name, part in parts.items():
            if name in self._specs:
                self._set_component(name, part)
            elif name in self._config:
                self._config[name] = part
            elif part is not None or name not in NEVER_HAD:
                raise UnknownNameError(
                    f"component or config of {type(self).__name__}", name, [*self._specs, *self._config]
                )

    def _corrected(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        owner = type(self).__name__
        return {name: corrected(owner, name, part, self.corrections) for name, part in parts.items()}

    def _set_component(self, name: str, component: Any) -> None:
        spec = self._specs[name]
        if isinstance(component, (list, tuple)):
            component = spec.gathered(component)
        component = foreign.adopted(spec, component)
        plain = getattr(component, "_orig_mod", component)  # torch.compile wraps
        if component is not None and not spec.takes(type(plain)):
            wanted = describe_type(spec.type_hint)
            raise InputError(f"Component {name!r} wants {wanted}, got {foreign.shown(plain, wanted)}.")
        with self._lock:
            self._unloaded.pop(name, None)
            self._outlines.pop(name, None)
            self._from_index.discard(name)
            self._elsewhere.pop(name, None)
            self._components[name] = component
            self._note_place(name, component)
            if spec.default_creation_method == "from_config":
                self._describe()

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__
        if name in held.get("_components", {}):
            return self.held(name) if self.loads_when_looked_at else held["_components"][name]
        if name in held.get("_config", {}):
            return held["_config"][name]
        if "_current" in held and held["_current"].tells(name):
            return held["_current"].tell(name)
        raise AttributeError(
            f"{type(self).__name__} has no {name!r}; its components: {', '.join(held.get('_components', ())) or 'none'}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if "_assembly" in self.__dict__ and name in self._specs:
            if isinstance(value, SchedulerMixin) and isinstance(self.held(name), SchedulerMixin):
                check_assigned(self.held(name), value)
            self._set_component(name, value)
        elif name in self.__dict__.get("_config", {}):
            self._config[name] = value
        elif name in callbacks.SETTABLE:
            self._current.set(name, value)
        elif value is None and name in NEVER_HAD:
            pass  # one that this pipeline does not have is none already
        elif "_assembly" in self.__dict__ and not hasattr(self, name) and close_to(name, self._specs):
            raise UnknownNameError("component", name, self._specs)
        else:
            super().__setattr__(name, value)

    def held(self, name: str) -> Any:
        """A component, loaded now if it was not yet; None where the pipeline has none."""
        return self._load(name) if name in self._unloaded else self._components[name]

    def _load(self, name: str, **more: Any) -> Any:
        with self._lock:
            spec = self._unloaded.get(name)
            if spec is not None:
                dtype = dtype_for(name, self._load_options.get("dtype"))
                loaded = spec.load(**{**self._load_options, **more, "dtype": dtype})
                where = spec.pretrained_model_name_or_path
                logger.info("Loaded %s as %s from %s.", name, type(loaded).__name__, where)
                self._set_component(name, corrected(type(self).__name__, name, loaded, self.corrections))
                self._from_index.add(name)
                self._located[name] = spec
                self._speed_up(self._components[name])
            return self._components[name]

    def load_components(
        self,
        names: str | Iterable[str] | None = None,
        *,
        workflow: str | None = None,
        dtype: torch.dtype | str | dict[str, torch.dtype] | None = None,
        torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = None,
        config: str | Path | None = None,
        trust_remote_code: bool = False,
        **options: Any,
    ) -> None:
        """Load now what would be loaded when a run first needs it: everything, the named ones, or a workflow's.

        `config=` is the folder that says what a single file is; `trust_remote_code` is told to classes of another
        library that load a component of this pipeline's own folder, and means nothing to Lockstep's.
        """
        self._load_options |= understood(options)
        check_known("load_components", options, ["names", "workflow", "dtype", "config"])
        wanted = dtype if dtype is not None else torch_dtype
        self._load_options |= {} if wanted is None else {"dtype": wanted}
        names = [names] if isinstance(names, str) else names
        if names is not None and workflow is not None:
            raise InputError("load_components wants 'names' or 'workflow', not both: a workflow names its components.")
        if workflow is not None:
            names = [spec.name for spec in self.blocks.get_workflow(workflow).expected_components]
        chosen = list(self._unloaded) if names is None else list(names)
        for name in chosen:
            if name not in self._specs:
                raise UnknownNameError("component", name, self._specs)
        for name in sorted(chosen, key=self._has_weights):  # what is wrong with a small file is told before gigabytes
            trusted = True if trust_remote_code and self._is_own(name) else None
            self._load(name, config=config, trust_remote_code=trusted)

    def _has_weights(self, name: str) -> bool:
        hint = self._specs[name].type_hint
        return not isinstance(hint, type) or issubclass(hint, torch.nn.Module)

    def outline(self, name: str) -> Any:
        """A component without its weights: what its class and config tell; None where the pipeline has none."""
        with self._lock:
            spec, component = self._unloaded.get(name), self._components.get(name)
            if spec is not None:
                if name not in self._outlines:
                    self._outlines[name] = spec.load_outline(**self._load_options)
                return self._outlines[name]
        plain: Any = getattr(component, "_orig_mod", component)
        return type(plain).outline(plain.config) if hasattr(plain, "outline") else component

    def without_memory(self, name: str) -> Any:
        """A component as far as it can be had without its weights: a model's layers on `meta`, settings as they are."""
        stored = self._unloaded.get(name)
        if stored is None or not stored.has_weights:
            return self.outline(name) if stored is not None else self._components.get(name)
        if not hasattr(stored.type_hint, "on_meta"):
            raise OutlineError(f"Of {name!r} ({describe_type(stored.type_hint)}) nothing is known before it is loaded.")
        known = f"{name} on meta"
        if known not in self._outlines:
            self._outlines[known] = stored.type_hint.on_meta(self.outline(name).config)
        return self._outlines[known]

    def require_components(self, needed: Mapping[str, tuple[ComponentSpec, str]]) -> None:
        """Load what the blocks of a run need; refuse a run that needs what is not there."""
        for name, (spec, user) in needed.items():
            if spec.outline:
                component = self._unloaded.get(name) or self._components.get(name)
            else:
                component = self._load(name) if name in self._unloaded else self._components.get(name)
            if component is None and not spec.optional:
                raise InputError(
                    f"Block {user} needs the component {name!r} ({describe_type(spec.type_hint)}), which this pipeline "
                    "does not have. "
                    f"Give it: pipe.{name} = …, or {name}=… when you load the pipeline."
                )

    # ---- disk ----

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        blocks: Block | None = None,
        given: Iterable[str] = (),
        load: bool = True,
        workflow: str | None = None,
        dtype: torch.dtype | str | dict[str, torch.dtype] | None = None,
        torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = None,
        device: torch.device | str | None = None,
        variant: str | None = None,
        **parts_and_hub: Any,
    ) -> Self:
        """A pipeline from a folder or hub id, by its (modular_)model_index.json, or from a single file.

        The index names the class. Components and config values can be given by name in place of the stored ones (None
        leaves one away). `workflow=` loads only what that workflow uses and `load=False` nothing; the rest is loaded
        when a run first needs it.
        """
        hub = {key: parts_and_hub.pop(key) for key in list(parts_and_hub) if key in HUB_ARGUMENTS}
        file_options = take_file_options(name_or_path, parts_and_hub)
        managed = {name: parts_and_hub.pop(name, None) for name in ("components_manager", "collection")}
        told = understood(parts_and_hub)
        device = told.pop("device", None) if device is None else device
        found = open_index(name_or_path, file_options, hub, cls)
        owner = cls if cls is not DiffusionPipeline or blocks is not None else pipeline_class(found)
        if blocks is None and saving.has_own_blocks(owner, found.class_name, found.blocks_name):
            blocks = found.blocks_class()
        pipe = owner(blocks=blocks, given=given, name_or_path=str(name_or_path))
        pipe._load_options = {"dtype": dtype if dtype is not None else torch_dtype, **told, "device": device, **hub}
        pipe.variant, pipe.file_options = variant, file_options
        pipe.manage(**managed)
        pipe._take_index(found, variant, left_out=parts_and_hub)
        known = {name: part for name, part in parts_and_hub.items() if part is not None or name not in pipe._absent}
        pipe.update_components(**pipe._corrected(known))
        if load or workflow:
            pipe.load_components(workflow=workflow)
        return cast(Self, pipe)

    @classmethod
    def from_pipe(cls, pipe: Any, **changes: Any) -> Self:
        """The components of another pipeline under this name; what is named in `changes` takes their place.

        Models are shared, not copied, with the LoRAs that are merged into them.
        """
        made = cls(
            blocks=pipe.blocks if cls is DiffusionPipeline else None, name_or_path=getattr(pipe, "name_or_path", None)
        )
        return sharing.take_components(made, pipe, changes)

    @classmethod
    def from_single_file(cls, path: str | Path, **options: Any) -> Self:
        """A pipeline from one checkpoint file, which is recognised by its tensors; takes what `from_pretrained` takes.

        `config=` is a folder with the configs and tokenizers to use, `family=` and `prediction_type=` say what no
        tensor tells, and `allow_pickle=True` reads a .ckpt, .pt or .bin (tensors alone; nothing in it is run).
        """
        if not is_checkpoint(path):
            raise InputError(f"from_single_file wants a checkpoint file ({', '.join(ENDINGS)}), got {str(path)!r}.")
        return cls.from_pretrained(path, **options)

    def _take_index(self, found: index_files.Index, variant: str | None, left_out: Iterable[str]) -> None:
        """Note where every component is; refuse an index that lacks one that the blocks cannot do without."""
        self._config |= found.configs
        self._modular_index |= found.blocks_name is not None
        self._index_class = found.class_name if found.class_name in self.index_names else type(self).__name__
        self._absent = [name for name, entry in found.entries.items() if entry[1] is None or name not in self._specs]
        for name, spec in self._specs.items():
            if name in left_out:
                continue
            if spec.by_behaviour and found.entries.get(name, [None, None])[1]:
                self._elsewhere[name] = saving.StoredPart(found.source, name, found.entries[name])
                continue
            located = found.locate(spec)
            if located is not None:
                self._unloaded[name] = (
                    located if located.variant or not variant else located.located(found.source, variant=variant)
                )
            elif spec.default_creation_method == "from_pretrained" and not spec.optional and name not in self._unloaded:
                raise LoadError(
                    f"{type(self).__name__} needs the component {name!r} ({describe_type(spec.type_hint)}), but the "
                    f"index of {found.source!r} "
                    f"has only: {', '.join(found.entries)}. Give it: from_pretrained(…, {name}=…)."
                )

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        modular: bool | None = None,
        variant: str | None = None,
        max_shard_size: int | str | None = None,
        safe_serialization: bool = True,
        overwrite_modular_index: bool = True,
        push_to_hub: bool = False,
        **hub: Any,
    ) -> None:
        """Write every component and the index; `modular` adds modular_model_index.json (as hand-made ones do), which
        names this folder for each of them, or with `overwrite_modular_index=False` the places where they came from.

        All of it is written beside the folder first: where a disk is full, nothing has changed.
        """
        self.load_components()
        given = {"variant": variant, "max_shard_size": max_shard_size, "safe_serialization": safe_serialization}
        options = {name: value for name, value in given.items() if value is not None}
        repo = hub.get("repo_id", Path(folder).name) if push_to_hub else str(folder)
        places = saving.places_of(self, repo, variant, overwrite_modular_index)
        saving.written_beside(Path(folder), lambda beside: saving.write_parts(self, beside, modular, options, places))
        if push_to_hub:
            files.upload(Path(folder), hub.pop("repo_id", Path(folder).name), **hub)
