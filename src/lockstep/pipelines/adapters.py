"""LoRA on a pipeline: the additions are merged into the weights, so a run costs what it cost before.

The original weights stay where they were (memory-mapped), so that other strengths are merged from them anew, and
unloading brings them back to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from torch import Tensor, nn

from ..errors import InputError, UnknownNameError
from ..files import HubArguments
from ..loaders.lora import Lora, Place, find_lora, merged_weight, read_lora


class LoraModels(Mapping[str, nn.Module]):
    """The models of a pipeline by name, each loaded when it is asked for."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._names = pipe.model_names

    def __getitem__(self, name: str) -> nn.Module:
        if name not in self._names:
            raise KeyError(name)
        model = getattr(self._pipe, name)
        return getattr(model, "_orig_mod", model)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class MergedInto:
    """The LoRAs of a pipeline as one of its models sees them: their strengths in that model alone."""

    def __init__(self, adapters: Adapters, component: str) -> None:
        self.adapters, self.component = adapters, component

    def names(self) -> list[str]:
        layers = ((name, place) for name, lora in self.adapters.loras.items() for place in lora.layers)
        return list(dict.fromkeys(name for name, place in layers if place[0] == self.component))

    def set_strengths(self, strengths: Mapping[str, float]) -> None:
        self.adapters.in_component |= {(self.component, name): value for name, value in strengths.items()}
        self.adapters.apply()

    def enable(self, on: bool) -> None:
        left_out = self.adapters.left_out
        self.adapters.left_out = left_out - {self.component} if on else left_out | {self.component}
        self.adapters.apply()


class Adapters:
    """The LoRA files of a pipeline, their strengths, and the weights as they were without them."""

    def __init__(self) -> None:
        self.loras: dict[str, Lora] = {}
        self.strengths: dict[str, float] = {}
        self.in_component: dict[tuple[str, str], float] = {}  # (component, name): where a model was asked for another
        self.left_out: set[str] = set()  # components in which none is used
        self._originals: dict[Place, tuple[nn.Module, Tensor]] = {}

    def add(self, name: str, lora: Lora, models: Mapping[str, nn.Module]) -> None:
        for component, layer in lora.layers:
            module = models[component].get_submodule(layer)
            self._originals.setdefault((component, layer), (module, module.weight))  # type: ignore[arg-type]
        for component in {component for component, _ in lora.layers}:
            setattr(models[component], "merged_loras", MergedInto(self, component))  # noqa: B010 - no model need have it
        self.loras[name], self.strengths[name] = lora, 1.0

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            del self.loras[name], self.strengths[name]
        self.in_component = {place: value for place, value in self.in_component.items() if place[1] not in names}

    def apply(self) -> None:
        """Every touched weight from its original; those that nothing adds to any more get the original itself."""
        for place, (module, original) in list(self._originals.items()):
            additions = [
                (layer, self.strength(place[0], name))
                for name, lora in self.loras.items()
                for layer in lora.layers.get(place, ())
                if self.strength(place[0], name) != 0
            ]
            now: Tensor = module.weight  # type: ignore[assignment]
            weight = merged_weight(original, additions) if additions else original
            module.weight = nn.Parameter(weight.to(now.device, now.dtype), requires_grad=now.requires_grad)
            if not any(place in lora.layers for lora in self.loras.values()):
                del self._originals[place]

    def strength(self, component: str, name: str) -> float:
        """How much of a LoRA a component gets."""
        return 0.0 if component in self.left_out else self.in_component.get((component, name), self.strengths[name])

    def set_strengths(self, strengths: Mapping[str, float]) -> None:
        """These, in every component."""
        self.strengths = {name: strengths.get(name, 0.0) for name in self.loras}
        self.in_component.clear()

    def forget(self) -> None:
        """The weights stay as they are now."""
        for kept in (self.loras, self.strengths, self.in_component, self._originals):
            kept.clear()

    def describe(self) -> list[dict[str, Any]]:
        """For the manifest: which files, at which strength."""
        return [self._described(name, lora) for name, lora in self.loras.items()]

    def _described(self, name: str, lora: Lora) -> dict[str, Any]:
        told = {"file": lora.source, "sha256": lora.sha256, "strength": self.strengths[name], "name": name}
        components = {component for component, _ in lora.layers}
        others = {c: self.strength(c, name) for c in sorted(components)}
        same = all(value == self.strengths[name] for value in others.values())
        return told if same else {**told, "in_component": others}


class LoraMixin:
    """`load_lora_weights` and its relatives, for `DiffusionPipeline`."""

    _adapters: Adapters

    def load_lora_weights(
        self,
        name_or_path: str | Path,
        *,
        adapter_name: str | None = None,
        weight_name: str | None = None,
        strength: float = 1.0,
        component: str | None = None,
        **hub: Unpack[HubArguments],
    ) -> None:
        """Add a LoRA: a safetensors file, a folder or a hub id, in the dialects of peft, diffusers and kohya.

        Layers of the denoiser go to `component` where a pipeline has several (two experts), else to the first one.
        """
        self._require_no_run("load a LoRA")
        adapters = self._adapters
        name = adapter_name or next(n for n in (f"default_{k}" for k in range(10**6)) if n not in adapters.loras)
        if name in adapters.loras:
            raise InputError(f"There is an adapter {name!r} already. Choose another adapter_name, or delete it first.")
        check_strengths([name], strength)
        models = LoraModels(self)
        denoisers = self.assembly.players.get("denoiser", [])  # type: ignore[attr-defined]
        if component is not None and component not in models:
            raise UnknownNameError("component", component, models)
        denoiser = component or next(iter(denoisers), None)
        adapters.add(name, read_lora(find_lora(name_or_path, weight_name, **hub), models, denoiser), models)
        adapters.strengths[name] = float(strength)
        adapters.apply()

    def set_adapters(self, names: str | Sequence[str], weights: float | Sequence[float] | None = None) -> None:
        """Use these LoRAs at these strengths, and no other."""
        self._require_no_run("change adapters")
        chosen = [names] if isinstance(names, str) else list(names)
        self._require_adapters(chosen)
        strengths = check_strengths(chosen, weights)
        self._adapters.set_strengths(strengths)
        self._adapters.apply()

    def delete_adapters(self, names: str | Sequence[str]) -> None:
        """Remove LoRAs; the others stay."""
        self._require_no_run("delete adapters")
        chosen = [names] if isinstance(names, str) else list(names)
        self._require_adapters(chosen)
        self._adapters.remove(chosen)
        self._adapters.apply()

    def unload_lora_weights(self) -> None:
        """Remove every LoRA: the weights are what they were, to the last bit."""
        self.delete_adapters(list(self._adapters.loras))

    def fuse_lora(self) -> None:
        """Make what is merged now the model's own: the originals are let go, and unloading is no longer possible."""
        self._require_no_run("fuse adapters")
        self._adapters.forget()

    def get_active_adapters(self) -> list[str]:
        """The LoRAs with a strength other than 0."""
        return [name for name, strength in self._adapters.strengths.items() if strength]

    def describe_adapters(self) -> list[dict[str, Any]]:
        """Files, hashes and strengths, for the manifest."""
        return self._adapters.describe()

    def _require_adapters(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._adapters.loras:
                raise UnknownNameError("adapter", name, self._adapters.loras)

    def _require_no_run(self, what: str) -> None:
        if self._runs:  # type: ignore[attr-defined]
            raise InputError(f"Cannot {what} while a run of this pipeline is under way: its weights would change.")


def check_strengths(names: list[str], weights: Any) -> dict[str, float]:
    """One strength for each adapter."""
    values = [1.0] * len(names) if weights is None else weights
    if isinstance(values, (int, float)):
        values = [values] * len(names)
    if len(values) != len(names) or not all(isinstance(v, (int, float)) and abs(v) < float("inf") for v in values):
        raise InputError(f"Wanted one finite number for each of the adapters {', '.join(names)}, got {weights!r}.")
    return {name: float(value) for name, value in zip(names, values, strict=True)}
