"""A checked tree of blocks and everything that follows from it. An edited pipeline takes another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ..errors import WiringError
from .compose import CompositeBlocks, SequentialPipelineBlocks, default_name
from .face import PLAIN, Face
from .params import ComponentSpec, InputParam, OutputParam
from .plan import Plan
from .user_inputs import user_inputs
from .wiring import Flow, check_wiring
from .workflows import workflow_flows


@dataclass(frozen=True)
class Assembly:
    """The tree, what flows through it, what a caller gives and gets, and the components that it uses."""

    root: CompositeBlocks
    given: tuple[str, ...]
    flow: Flow
    workflows: Mapping[str, Flow]
    inputs: list[InputParam]
    result: list[OutputParam]
    specs: Mapping[str, ComponentSpec]
    players: Mapping[str, list[str]]  # role -> the components that play it, in the order of the blocks
    face: Face = PLAIN

    @classmethod
    def of(cls, blocks: Any, given: Iterable[str] = (), face: Face = PLAIN) -> Self:
        """Check a tree (or a single block) and assemble it."""
        root = blocks() if isinstance(blocks, type) else blocks
        if not isinstance(root, CompositeBlocks) or root.kind != "sequence":
            root = SequentialPipelineBlocks({default_name(root): root})
        flow = check_wiring(root, given)
        result = _result(root)
        for param in result:
            if param.name not in flow.made:
                problem = f"{type(root).__name__} gives {param.name!r} as its result, but none of its blocks makes it."
                raise WiringError(problem)
        specs = {spec.name: spec for spec in root.expected_components}
        workflows = workflow_flows(root, given)
        inputs = face.shown(user_inputs(flow))
        return cls(root, tuple(given), flow, workflows, inputs, result, specs, _players(flow), face)

    def shown(self, parts: Iterable[Any] | None = None) -> list[InputParam]:
        """The inputs with what runs where the caller gives nothing: a guider's scale is a setting of the guider.

        `parts` are the components that a pipeline has made itself; without them they are as their specs make them.
        """
        made = self.made() if parts is None else parts
        settings = {name: getattr(part, name, None) for part in made for name in getattr(part, "config", {})}
        return [
            replace(param, default=settings.get(str(param.name))) if param.default is None else param
            for param in self.inputs
        ]

    def made(self) -> list[Any]:
        """The components that a pipeline makes itself, by its face."""
        own = [spec for spec in self.specs.values() if spec.default_creation_method == "from_config"]
        return [spec.create(**self.face.settings(spec)) for spec in own]

    def workflow_of(self, plan: Plan) -> str | None:
        """The name of the workflow that takes the branches of a plan."""
        return next((name for name, flow in self.workflows.items() if flow.choices == plan.flow.choices), None)


def _players(flow: Flow) -> dict[str, list[str]]:
    players: dict[str, dict[str, None]] = {}
    for block in (visit.place.block for visit in flow.leaves):
        for declared, used in zip(block.expected_components, block.used_components, strict=True):
            if declared.role:
                players.setdefault(declared.name, {})[used.name] = None
    return {role: list(names) for role, names in players.items()}


def _result(root: CompositeBlocks) -> list[OutputParam]:
    """What a tree gives: what it declares, else what its last block makes."""
    if root.result is not None:
        return root.result
    parts = list(root.sub_blocks.values())
    return parts[-1].outputs if parts else []
