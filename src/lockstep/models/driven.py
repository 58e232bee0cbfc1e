"""A model whose calls an engine computes: a class that it takes and gives back, after each graph was compared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from ..errors import UnsupportedError
from ..notes import say_once
from ..outputs import Output
from .accelerated import EXACT
from .bf16_layers import BOUND
from .engines import ENGINES, Engine, Runner, weights_digest
from .examples import Call
from .graphs import GivenCall, entrance, recording, unwatched
from .origin import weights_state

Tensor = torch.Tensor
CURRENT = ("current",)  # the state of a copy whose weights are those that the graphs are for
FLOOR = 1e-5  # relative L2 to torch that a graph may have at "exact"


@dataclass
class Drive:
    """An engine at work for one model: its graphs by the shape of a call, and how exact each was found to be."""

    engine: Engine
    level: str
    bound: float
    plain: type[nn.Module]
    output: type[Output]
    weights: str
    state: tuple[Any, ...]
    graphs: dict[tuple[Any, ...], Runner | None] = field(default_factory=dict)
    error: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """What a manifest says of it: `exact@openvino`."""
        return f"{self.level}@{self.engine.name}"

    def __str__(self) -> str:
        return f"{self.level}: by {self.engine.name} (relative L2 of the whole model to torch's: {self.error:.1e})"

    def __getstate__(self) -> dict[str, Any]:
        """Without what was compiled: a copy makes its graphs when it is called, or reads them from the disk."""
        return {**self.__dict__, "graphs": {}, "lock": None, "engine": self.engine.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=threading.Lock(), engine=ENGINES[state["engine"]])

    def graph(self, model: nn.Module, call: GivenCall) -> Runner | None:
        """The graph for a call, made and compared now if it is new; None where torch has to compute it."""
        with self.lock:
            if call.shape not in self.graphs:
                self.graphs[call.shape] = self._made(model, call)
            return self.graphs[call.shape]

    def graph_if_any(self, model: nn.Module, call: GivenCall) -> Runner | None:
        """The same; where no graph can be made of a shape, torch computes it from now on, and that is told."""
        try:
            if any(one.numel() == 0 for one in call.tensors):
                raise UnsupportedError("nothing is in it")
            return self.graph(model, call)
        except Exception as problem:  # another library's converter may raise anything
            first = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200].rstrip(".")
            shapes = ", ".join(str(list(one.shape)) for one in call.tensors)
            say_once(
                f"{self.engine.name} has no graph for a call of {self.plain.__name__} with {shapes} ({first}): torch "
                "computes it."
            )
            self.graphs[call.shape] = None
            return None

    def _made(self, model: nn.Module, call: GivenCall) -> Runner | None:
        model.__class__ = self.plain  # what is traced is the model itself
        try:
            with torch.no_grad(), unwatched(model):
                exact = getattr(model, entrance(model))(*call.given, **call.named, return_dict=False)[0]
                run = self.engine.run(model, call, self.level, self.weights)
                error = float((run(call.tensors) - exact).norm() / exact.norm().clamp_min(1e-30))
        finally:
            model.__class__ = driven_class(self.plain)
        if not error <= self.bound:
            say_once(
                f"{self.engine.name} computes {self.plain.__name__} with a relative L2 of {error:.1e} to torch, more "
                f"than {self.bound:.0e}, so torch computes calls of this shape."
            )
            return None
        self.error = max(self.error, error)
        return run


def _fits(model: nn.Module, call: GivenCall, devices: tuple[str, ...]) -> bool:
    """Is this a call for a graph: on a device that the engine has, no gradient, nothing watching from inside?"""
    tensors = call.tensors
    if torch.is_grad_enabled() and any(one.requires_grad for one in (*tensors, *model.parameters())):
        return False
    others = [one for one in (*call.given, *call.named.values()) if isinstance(one, (dict, list, tuple))]
    return not others and all(one.device.type in devices and one.dtype != torch.bfloat16 for one in tensors)


def _by_engine(method: str) -> Callable[..., Any]:
    def run(self: Any, *given: Any, return_dict: bool = True, **named: Any) -> Any:
        drive: Drive = self._drive
        call, runner = GivenCall(given, named), None
        if _fits(self, call, drive.engine.devices):
            if drive.state == weights_state(self):
                runner = drive.graph_if_any(self, call)
            else:
                say_once(
                    f"The weights of {drive.plain.__name__} have changed since it was accelerated: torch computes."
                )
        if runner is None:
            return getattr(drive.plain, method)(self, *given, **named, return_dict=return_dict)
        result = runner(call.tensors)
        return drive.output(result) if return_dict else (result,)

    return run


def _reduced(self: Any, protocol: Any) -> Any:
    """As a class that has no name of its own is copied and pickled: by the one that it was made for."""
    drive: Drive = self._drive
    whole: Any = drive.plain.__reduce_ex__(self, protocol)
    copied = replace(drive, graphs={}, state=CURRENT if drive.state == weights_state(self) else ())
    return _made_driven, (drive.plain,), {**whole[2], "_drive": copied, "_acceleration": copied}, *whole[3:]


def _made_driven(plain: type[nn.Module]) -> nn.Module:
    kind = driven_class(plain)
    return kind.__new__(kind)


def _restored(self: Any, state: dict[str, Any]) -> None:
    state["_drive"].plain.__setstate__(self, state)
    if self._drive.state == CURRENT:
        self._drive.state = weights_state(self)


_CLASSES: dict[type[nn.Module], type[nn.Module]] = {}


def driven_class(plain: type[nn.Module]) -> type[nn.Module]:
    """The class of a model that an engine computes: under the same name, so that files and messages stay."""
    if plain not in _CLASSES:
        method = "decode" if hasattr(plain, "decode") else "forward"
        inside = {method: _by_engine(method), "__module__": plain.__module__, "__qualname__": plain.__qualname__}
        inside |= {"__reduce_ex__": _reduced, "__setstate__": _restored}
        _CLASSES[plain] = type(plain.__name__, (plain,), inside)
    return _CLASSES[plain]


def drive(model: nn.Module, engine: Engine, level: str, call: Call, bound: float | None = None) -> Drive:
    """Let an engine compute a model, after one call has shown that it does so as exactly as it has to."""
    engine.check(level)
    with torch.no_grad(), recording(model) as calls:
        call(model)
    given, result = calls[0]
    if not isinstance(result, Output) or len(result.keys()) != 1:
        raise UnsupportedError(f"{type(model).__name__} gives more than one tensor, which an engine cannot.")
    most = FLOOR if level == EXACT else BOUND if bound is None else bound
    plain = type(model)
    made = Drive(engine, level, most, plain, type(result), weights_digest(model), weights_state(model))
    model.__dict__["_drive"] = made
    try:
        exact = made.graph(model, given) is not None
    except BaseException:
        undrive(model)
        raise
    if not exact:
        undrive(model)
        raise UnsupportedError(f"{engine.name} does not compute {plain.__name__} as exactly as {level!r} asks for.")
    return made


def undrive(model: nn.Module) -> None:
    """Torch computes it again."""
    made = model.__dict__.pop("_drive", None)
    if made is not None:
        model.__class__ = made.plain
