"""A pipeline's tree of blocks: edited, described, drawn."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..blocks import schema as faces
from ..blocks.assembly import Assembly
from ..blocks.block import ModularPipelineBlocks
from ..blocks.compose import Block, CompositeBlocks
from ..blocks.face import Face
from ..blocks.params import ComponentSpec, InputParam, OutputParam, public_class

if TYPE_CHECKING:
    from .pipeline import DiffusionPipeline


class TreeMixin:
    """The blocks of a pipeline, and what follows from them."""

    default_blocks: ClassVar[Block | None] = None  # the class (or tree) of blocks that a subclass gives a face to
    default_blocks_name: ClassVar[str | None] = None  # the same by its public name
    face: ClassVar[Face] = Face()  # how its arguments are called, where they are not the inputs themselves
    _assembly: Assembly
    _components: dict[str, Any]
    _config: dict[str, Any]
    _unloaded: dict[str, ComponentSpec]

    @classmethod
    def default_tree(cls) -> ModularPipelineBlocks | None:
        """A tree of this class's own blocks."""
        blocks = cls.default_blocks
        if blocks is None and cls.default_blocks_name:
            blocks = public_class(cls.default_blocks_name, f"the blocks of {cls.__name__}")
        return blocks() if isinstance(blocks, type) else blocks

    def _assemble(self, blocks: Any, given: Iterable[str]) -> None:
        """Take a tree; a run that is under way keeps the one that it started with."""
        assembly = Assembly.of(blocks, given, self.face)
        for config in assembly.root.expected_configs:
            self._config.setdefault(config.name, config.default)
        for name, spec in assembly.specs.items():
            if name not in self._components:
                made_here = spec.default_creation_method == "from_config"
                self._components[name] = spec.create(**self.face.settings(spec)) if made_here else None
                if not made_here and spec.pretrained_model_name_or_path is not None:
                    self._unloaded[name] = spec  # the block says itself where it is
        self._assembly = assembly
        self._describe()

    def _describe(self) -> None:
        """Signature and help, with what runs where a call gives nothing."""
        self.__signature__ = faces.call_signature(self._assembly, self._made())
        self.__doc__ = faces.help_text(self._title(), self._assembly, self._made())

    def _made(self) -> list[Any]:
        """The components that the pipeline makes itself, or what has taken their place."""
        specs = self._assembly.specs.items()
        return [self._components[name] for name, spec in specs if spec.default_creation_method == "from_config"]

    def _title(self) -> str:
        """What the pipeline is, in a line: the blocks' words where it has no class of its own."""
        has_own = type(self).default_tree() is not None
        return inspect.cleandoc(type(self).__doc__ or "") if has_own else self._assembly.root.description

    @property
    def assembly(self) -> Assembly:
        """The checked tree and what follows from it."""
        return self._assembly

    @property
    def blocks(self) -> CompositeBlocks:
        """The tree of blocks."""
        return self._assembly.root

    @property
    def _specs(self) -> Mapping[str, ComponentSpec]:
        return self._assembly.specs

    @property
    def component_names(self) -> Iterable[str]:
        return self._specs.keys()

    @property
    def component_specs(self) -> Mapping[str, ComponentSpec]:
        return MappingProxyType(dict(self._specs))

    def insert_block(
        self, path: str, block: Block, *, after: str | None = None, before: str | None = None, index: int | None = None
    ) -> DiffusionPipeline:
        """Put a block into the tree: `pipe.insert_block("denoise.log", Log, after="predict")`.

        It is the same pipeline that comes back, typed by what is still known of it: it may take other inputs now.
        """
        self._assemble(self.blocks.inserted(path, block, after=after, before=before, index=index), self._assembly.given)
        return cast("DiffusionPipeline", self)

    def replace_block(self, path: str, block: Block) -> DiffusionPipeline:
        """Put another block at a path."""
        self._assemble(self.blocks.replaced(path, block), self._assembly.given)
        return cast("DiffusionPipeline", self)

    def remove_block(self, path: str) -> DiffusionPipeline:
        """Take a block out of the tree."""
        self._assemble(self.blocks.removed(path), self._assembly.given)
        return cast("DiffusionPipeline", self)

    @property
    def available_workflows(self) -> list[str]:
        return self.blocks.available_workflows

    @property
    def inputs(self) -> list[InputParam]:
        """What a call takes, besides the options of a run."""
        return self._assembly.shown(self._made())

    def result_params(self) -> list[OutputParam]:
        """What a call gives."""
        return self._assembly.result

    def input_limits(self) -> dict[str, dict[str, int]]:
        """Limits of inputs that follow from the models: input -> what JSON schema calls them."""
        return {}

    def schema(self) -> dict[str, Any]:
        """Inputs, results, workflows and components as JSON; reads no weights."""
        return faces.json_schema(self)

    def draw(self) -> str:
        """The dataflow as text."""
        return self.blocks.draw()

    def mermaid(self) -> str:
        """The dataflow as a Mermaid diagram."""
        return self.blocks.mermaid()
