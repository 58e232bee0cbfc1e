"""The leaf: one named operation with declared inputs, outputs and components."""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from .. import files
from ..errors import ConfigError, UnsupportedError, WiringError
from .documentation import documented
from .params import ComponentSpec, ConfigSpec, InputParam, OutputParam, public_class, resolve_params
from .randomness import count_samples
from .requirements import requirements_of, tell_missing
from .state import BlockState, BlockView, checked_in, checked_out

BLOCKS = "modular_config.json"  # what says which blocks a folder has
LOOP_ARGUMENTS = ("i", "t", "k")  # what a block inside a loop may ask for: index, item, count


class ModularPipelineBlocks:
    """One step of a pipeline. A subclass declares what it reads, makes and uses, and defines `__call__`.

    Declarations are class attributes or properties; strings in them are names of the vocabulary. A block holds nothing
    of a run, so that one instance serves many threads.
    """

    kind: ClassVar[str] = "leaf"
    model_name: ClassVar[str | None] = None  # the family that the block belongs to
    pipeline_class_name: ClassVar[str] = "DiffusionPipeline"
    checkpoint_name: ClassVar[str | None] = None  # an alias for "after this block" in `checkpoints=`
    upcast_on_nonfinite: ClassVar[tuple[str, ...]] = ()  # components to try again in fp32 when an output is NaN or Inf

    inputs: list[Any] = []  # InputParams, or names of the vocabulary
    outputs: list[Any] = []  # OutputParams, or names of the vocabulary
    intermediate_outputs: list[Any] = []
    expected_components: list[ComponentSpec] = []
    expected_configs: list[ConfigSpec] = []
    roles: Mapping[str, ComponentSpec] = {}  # role -> the component that plays it here and in the blocks inside
    _cast: Mapping[str, ComponentSpec] = {}  # the roles of the blocks around

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__
        if "intermediate_outputs" in own and "outputs" not in own and cls.kind == "leaf":
            cls.outputs = own["intermediate_outputs"]  # the wider ecosystem's name for what a block makes
        for name, resolve in (("inputs", _inputs), ("outputs", _outputs), ("intermediate_outputs", _outputs)):
            if name in cls.__dict__:
                setattr(cls, name, _resolved(cls.__dict__[name], resolve, cls.__name__))
        if cls.kind == "leaf" and "outputs" in own:
            cls.intermediate_outputs = cls.__dict__["outputs"]

    if TYPE_CHECKING:
        __call__: Callable[..., Any]  # of (components: ComponentsView, state: BlockView) and, in a loop, i, t or k
    else:

        def __call__(self, components, state):
            raise UnsupportedError(f"{type(self).__name__} does not define __call__(self, components, state).")

    def check(self, components: Any, inputs: Any) -> None:
        """Refuse inputs that cannot work. Called for every planned block before any model runs (LATER: not made)."""

    def count_samples(self, values: Mapping[str, Any]) -> int:
        """How many samples a call with these inputs makes; each gets a generator of its own."""
        return count_samples(values)

    def unneeded(self, inputs: Any) -> Collection[str]:
        """Optional components that a call with these inputs does without: they are not loaded for it."""
        return ()

    @property
    def description(self) -> str:
        """The first line of the docstring."""
        return inspect.cleandoc(type(self).__doc__ or "").partition("\n")[0]

    @property
    def doc(self) -> str:
        """What the block takes, in the manner of the field's docstrings."""
        return documented(self)

    @property
    def input_names(self) -> list[str]:
        return [param.name for param in self.inputs if param.name]

    @property
    def output_names(self) -> list[str]:
        return [param.name for param in self.outputs]

    @property
    def cast(self) -> dict[str, ComponentSpec]:
        """Role -> the component that plays it in this block: its own word counts more than those around it."""
        return {**self._cast, **self.roles}

    def playing(self, roles: Mapping[str, ComponentSpec]) -> Self:
        """This block as it stands inside blocks that say who plays which role."""
        if not roles:
            return self
        twin = copy.copy(self)
        twin._cast = {**roles, **self._cast}
        return twin

    def played(self, specs: list[ComponentSpec]) -> list[ComponentSpec]:
        """Specs, with every role replaced by the component that plays it; a role that nobody plays stays one."""
        cast = self.cast
        return [spec.played_by(cast[spec.name]) if spec.role and spec.name in cast else spec for spec in specs]

    @property
    def used_components(self) -> list[ComponentSpec]:
        """The components that this block reaches, under their own names."""
        return self.played(self.expected_components)

    @property
    def own_components(self) -> list[ComponentSpec]:
        """The same without those of blocks inside."""
        return self.used_components

    @property
    def component_names(self) -> list[str]:
        return [spec.name for spec in self.used_components]

    @property
    def loaded_names(self) -> list[str]:
        """The components that it uses with their weights."""
        return [spec.name for spec in self.used_components if not spec.outline]

    def names_of(self, names: Collection[str]) -> list[str]:
        """Components by their own names, where they may be named by their roles."""
        return [self.cast[name].name if name in self.cast else name for name in names]

    @property
    def required_inputs(self) -> list[str]:
        return [param.name for param in self.inputs if param.name and param.required]

    @property
    def loop_arguments(self) -> tuple[str, ...]:
        """Which of i, t and k this block's `__call__` asks for."""
        return _loop_arguments(type(self))  # type: ignore[arg-type]

    def get_block_state(self, state: BlockView | BlockState) -> BlockState:
        """A free working copy of this block's inputs, for blocks written in that style."""
        return checked_out(state, self) if isinstance(state, BlockView) else state

    def set_block_state(self, state: BlockView | BlockState, block_state: BlockState) -> None:
        """Write the working copy back."""
        if isinstance(state, BlockView):
            checked_in(state, self, block_state)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write which blocks these are: their class, which has to be public or imported where they are loaded, and
        the packages that they want."""
        kind = type(self)
        content: dict[str, Any] = {"_class_name": kind.__name__}
        if kind.__module__.partition(".")[0] != __package__.partition(".")[0]:
            own = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
            content["auto_map"] = {"ModularPipelineBlocks": own}  # where other libraries look for it
        wanted = requirements_of(self)
        if wanted:
            content["requirements"] = wanted
            tell_missing(wanted)
        files.write_text(Path(folder) / BLOCKS, json.dumps(content, indent=2) + "\n")

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, trust_remote_code: bool = False, **hub: Unpack[files.HubArguments]
    ) -> ModularPipelineBlocks:
        """The blocks that a folder names: this class, one that is imported, or one of Lockstep's.

        Code that comes with a folder is not run, whatever `trust_remote_code` says: import the class before.
        """
        content = files.read_json(files.resolve_file(folder, BLOCKS, **hub))
        name = content.get("_class_name")
        tell_missing(content.get("requirements") or {})
        waiting: list[type[ModularPipelineBlocks]] = [cls]
        while waiting:
            kind = waiting.pop()
            if kind.__name__ == name:
                return kind()
            waiting += kind.__subclasses__()
        if trust_remote_code:
            raise UnsupportedError(
                f"The blocks in {folder} are {name}, which is not imported here, and code from elsewhere is not run: "
                "import the class, then load."
            )
        found: ModularPipelineBlocks = public_class(str(name), f"the blocks in {folder}")()
        return found

    def init_pipeline(self, pretrained_model_name_or_path: str | None = None, **options: Any) -> Any:
        """A pipeline that runs this block: `given=[…]` names tensors that the caller gives."""
        pipeline = public_class(self.pipeline_class_name, f"the pipeline of {type(self).__name__}")
        if pretrained_model_name_or_path is None:
            shared = {name: options.pop(name, None) for name in ("components_manager", "collection")}
            made = pipeline(blocks=self, **options)
            made.manage(**shared)
            return made
        made = pipeline.from_pretrained(pretrained_model_name_or_path, blocks=self, load=False, **options)
        made.is_modular()
        return made

    def __repr__(self) -> str:
        reads, makes = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"<{type(self).__name__}: {reads or 'nothing'} -> {makes or 'nothing'}>"


@functools.cache
def _loop_arguments(block: type[ModularPipelineBlocks]) -> tuple[str, ...]:
    names = tuple(inspect.signature(block.__call__).parameters)[3:]
    for name in names:
        if name not in LOOP_ARGUMENTS:
            raise WiringError(
                f"{block.__name__}.__call__ asks for {name!r}. A block is called with (components, state) and, "
                "inside a loop, with i (index), t (item) or k (count)."
            )
    return names


def _inputs(declared: Any, block: str) -> list[InputParam]:
    return resolve_params(InputParam, declared, block)


def _outputs(declared: Any, block: str) -> list[OutputParam]:
    return resolve_params(OutputParam, declared, block)


def _resolved(declared: Any, resolve: Callable[[Any, str], list[Any]], block: str) -> Any:
    """A declaration with its strings looked up: a list at once, a property each time it is read."""
    if isinstance(declared, property):
        read = declared.fget
        if read is None:
            raise ConfigError(f"{block} declares a property that cannot be read.")
        return property(lambda self: resolve(read(self), block), doc=declared.__doc__)
    return resolve(declared, block)
