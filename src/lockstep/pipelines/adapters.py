"""LoRA on a pipeline: changes are merged into the weights, so a run costs what it cost before.

The original weights stay where they were (memory-mapped), so that other strengths are merged from them anew, and
unloading or unfusing brings them back to the last bit. Merged values go to the place where the last ones were: a
compiled model stays compiled whichever LoRA is in it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from ..errors import InputError, LockstepError, NonFiniteError, UnknownNameError, UnsupportedError, WeightsError
from ..files import HubArguments
from ..loaders.embeddings import read_words
from ..loaders.lora import METADATA, WEIGHTS_NAME, Lora, LoraReport, Place, check_fetching, find_lora, read_lora
from ..loaders.lora_algorithms import Change, merged_weight
from ..models.lora_layers import Strength, as_placed, check_parts, check_strength, strength_at
from ..models.weights import save_tensors

Strengths = dict[tuple[str, str], Strength]  # (component, name): of a LoRA in a model


class LoraModels(Mapping[str, nn.Module]):
    """The models of a pipeline by name, each loaded when it is asked for."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._names = pipe.model_names

    def __getitem__(self, name: str) -> nn.Module:
        if name not in self._names:
            raise KeyError(name)
        return getattr(model := self._pipe.held(name), "_orig_mod", model)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # without loading it

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class MergedInto:
    """The LoRAs of a pipeline as one of its models sees them: their strengths in that model alone."""

    def __init__(self, adapters: Adapters, component: str) -> None:
        self.adapters, self.component = adapters, component

    def names(self) -> list[str]:
        return [name for name, lora in self.adapters.loras.items() if self.component in lora.components]

    def set_strengths(self, strengths: Mapping[str, Strength]) -> None:
        self.adapters.set_strengths({(self.component, name): value for name, value in strengths.items()})

    def enable(self, on: bool) -> None:
        self.adapters.enable([self.component], on)

    def published(self, name: str) -> dict[str, Tensor]:
        return self.adapters.published(name, self.component)


class Adapters:
    """The LoRA files of a pipeline, their strengths, and the weights as they were without them."""

    def __init__(self) -> None:
        self.loras: dict[str, Lora] = {}
        self.strengths: Strengths = {}
        self.fused: Strengths = {}  # what is in the weights until it is unfused, whatever becomes of the strengths
        self.left_out: set[str] = set()  # components in which none is used
        self.scale = 1.0  # of the run that is under way
        self._fused_loras: dict[str, Lora] = {}
        self._originals: dict[Place, tuple[nn.Module, nn.Parameter]] = {}
        self._changed: dict[str, Any] = {}  # the models, by component, that hear from it

    def add(self, name: str, lora: Lora, models: Mapping[str, nn.Module], strength: Strength = 1.0) -> None:
        """Take a LoRA in, or another one in the place of the one that has this name."""
        for component, path in lora.changes:
            layer, _, kind = path.rpartition(".")
            module = models[component].get_submodule(layer)
            self._originals.setdefault((component, path), (module, getattr(module, kind)))
        for component in lora.components:
            self._changed[component] = models[component]
            self._changed[component].merged_loras = MergedInto(self, component)
            self.strengths.setdefault((component, name), strength)
        gone = [place for place in self.strengths if place[1] == name and place[0] not in lora.components]
        self.strengths = {place: value for place, value in self.strengths.items() if place not in gone}
        self.loras[name] = lora
        self.apply()

    def remove(self, names: Sequence[str]) -> None:
        """Let LoRAs go; what is fused of them stays in the weights."""
        for name in names:
            del self.loras[name]
        self.strengths = {place: value for place, value in self.strengths.items() if place[1] not in names}
        self.apply()
        for component in self._changed.keys() - self.by_component():
            self._changed.pop(component).merged_loras = None

    def set_strengths(self, strengths: Strengths) -> None:
        self.strengths |= strengths
        self.apply()

    def enable(self, components: Sequence[str], on: bool) -> None:
        self.left_out = self.left_out - set(components) if on else self.left_out | set(components)
        self.apply()

    def rescale(self, scale: float) -> None:
        if scale != self.scale:
            self.scale = scale
            self.apply()

    # ---- fusing ----

    def fuse(self, names: Sequence[str], components: Sequence[str], scale: float, safe: bool) -> None:
        """Fix what these LoRAs add now, times a scale."""
        fixed: Strengths = {}
        for name in names:
            for component in self.loras[name].components:
                if component in components and (component, name) not in self.fused:
                    fixed[component, name] = scaled(self.strengths[component, name], scale)
        self.fused |= fixed
        self._fused_loras |= {name: self.loras[name] for _, name in fixed}
        self.apply()
        broken = [path for path in self._originals if not torch.isfinite(self._now(path)).all()] if safe else []
        if broken:
            self.unfuse([component for component, _ in fixed])
            raise NonFiniteError(f"Fusing would make NaN or Inf in {broken[0]}; nothing was fused.")

    def unfuse(self, components: Sequence[str]) -> None:
        """Take out again what was fused."""
        self.fused = {place: value for place, value in self.fused.items() if place[0] not in components}
        self._fused_loras = {name: lora for name, lora in self._fused_loras.items() if name in self.fused_names}
        self.apply()

    @property
    def fused_names(self) -> list[str]:
        return list(dict.fromkeys(name for _, name in self.fused))

    # ---- merging ----

    @torch.no_grad()
    def apply(self) -> None:
        """Every touched weight from its original; those that nothing changes any more get the original itself."""
        for place, (module, original) in list(self._originals.items()):
            kind = place[1].rpartition(".")[2]
            now: nn.Parameter = getattr(module, kind)
            changes = self._changes(place)
            if not changes:
                setattr(module, kind, as_placed(original, now))
            else:
                merged = merged_weight(original, changes).to(now.device, now.dtype)
                if now is original:
                    setattr(module, kind, nn.Parameter(merged, requires_grad=now.requires_grad))
                else:
                    now.copy_(merged)
            if not any(place in lora.changes for lora in (*self.loras.values(), *self._fused_loras.values())):
                del self._originals[place]

    def _changes(self, place: Place) -> list[tuple[Change, float]]:
        """What a parameter gets of every LoRA, at which strength."""
        component, path = place
        found: list[tuple[Change, float]] = []
        for name, lora in {**self._fused_loras, **self.loras}.items():
            fixed = self.fused.get((component, name))
            strength = strength_at(path, fixed if fixed is not None else self.strength(component, name))
            fixed_lora = self._fused_loras[name] if fixed is not None else lora
            found += [(change, strength) for change in fixed_lora.changes.get(place, ()) if strength]
        return found

    def strength(self, component: str, name: str) -> Strength:
        """How much of a LoRA a component gets now."""
        if component in self.left_out:
            return 0.0
        return scaled(self.strengths.get((component, name), 0.0), self.scale)

    def _now(self, place: Place) -> Tensor:
        module, _ = self._originals[place]
        return getattr(module, place[1].rpartition(".")[2])

    # ---- telling ----

    def active(self) -> list[str]:
        """The LoRAs with a strength other than 0 somewhere."""
        used = [name for (component, name), value in self.strengths.items() if value and component not in self.left_out]
        return list(dict.fromkeys(used))

    def by_component(self) -> dict[str, list[str]]:
        components = dict.fromkeys(component for component, _ in self.strengths)
        return {one: [name for component, name in self.strengths if component == one] for one in components}

    def published(self, name: str, component: str) -> dict[str, Tensor]:
        """The tensors of a LoRA in one model, as a file has them."""
        tensors: dict[str, Tensor] = {}
        for (owner, path), changes in self.loras[name].changes.items():
            layer, _, kind = path.rpartition(".")
            for change in changes if owner == component else ():
                try:
                    made = {"diff_b": change.tensors["diff"]} if kind == "bias" else change.published()
                except WeightsError as problem:
                    raise UnsupportedError(f"The LoRA {name!r} cannot be written: {problem} ({path}).") from None
                tensors |= {f"{layer}.{ending}": tensor for ending, tensor in made.items()}
        return tensors

    def describe(self) -> list[dict[str, Any]]:
        """For the manifest: which files, at which strength."""
        known = {**self._fused_loras, **self.loras}.items()
        return [self._described(name, lora) for name, lora in known if not lora.comes_with_adapter]

    def _described(self, name: str, lora: Lora) -> dict[str, Any]:
        fixed = {component: value for (component, one), value in self.fused.items() if one == name}
        others = {c: fixed[c] if c in fixed else self.strength(c, name) for c in sorted(lora.components)}
        first = next(iter(others.values()))
        same = isinstance(first, float) and all(value == first for value in others.values())
        told = {"file": lora.source, "sha256": lora.sha256, "strength": first if same else 1.0, "name": name}
        return told if same else {**told, "in_component": others}


def scaled(strength: Strength, scale: float) -> Strength:
    """A strength, or every one of its parts, times a number."""
    if isinstance(strength, Mapping):
        return {key: scaled(value, scale) for key, value in strength.items()}
    if isinstance(strength, (list, tuple)):
        return [scaled(value, scale) for value in strength]
    return (1.0 if strength is None else float(strength)) * scale


class LoraMixin:
    """`load_lora_weights` and its relatives, for `DiffusionPipeline`."""

    _adapters: Adapters

    def load_lora_weights(
        self,
        name_or_path: str | Path | Mapping[str, Tensor],
        adapter_name: str | None = None,
        hotswap: bool = False,
        *,
        weight_name: str | None = None,
        strength: float = 1.0,
        component: str | None = None,
        load_into_transformer_2: bool = False,
        **hub: Unpack[HubArguments],
    ) -> LoraReport:
        """Add a LoRA or a relative of it: a safetensors file, a folder, a hub id, or tensors by name.

        Layers of the denoiser go to `component` where a pipeline has several (two experts), else to the first one;
        `load_into_transformer_2=True` is the published way to say `component="transformer_2"`.
        `hotswap=True` puts it in the place of the adapter that has this name. What of the file has no place in this
        pipeline is told; a file of which nothing has one is refused.
        """
        self._require_no_run("load a LoRA")
        adapters = self._adapters
        name = adapter_name or next(n for n in (f"default_{k}" for k in range(10**6)) if n not in adapters.loras)
        if hotswap:
            self._require_adapters([name])
            self._require_not_fused([name])
        elif name in adapters.loras:
            raise InputError(f"There is an adapter {name!r} already. Choose another adapter_name, or delete it first.")
        check_strength(strength)
        models = LoraModels(self)
        component = "transformer_2" if load_into_transformer_2 else component
        if component is not None and component not in models:
            raise UnknownNameError("component", component, models)
        check_fetching("load_lora_weights", hub)
        first = next(iter(self.assembly.players.get("denoiser", [])), None)  # type: ignore[attr-defined]
        given = name_or_path if isinstance(name_or_path, Mapping) else find_lora(name_or_path, weight_name, **hub)
        lora = read_lora(given, models, component or first, instead_of=first)
        if hotswap:
            self._words.remove(None, list(self._words.vocabularies.values()), owner=name)  # type: ignore[attr-defined]
        adapters.add(name, lora, models, float(strength))
        self._add_words(name, lora)
        if lora.report.left or not lora.report.has_effect:
            warnings.warn(str(lora.report), stacklevel=2)
        return lora.report

    def set_adapters(
        self, adapter_names: str | Sequence[str], adapter_weights: Strength | Sequence[Strength] = None
    ) -> None:
        """Use these LoRAs at these strengths, and no other.

        A strength is a number, or a dict: `{"unet": {"down": 0.5, "up": {"block_1": [0.2, 1.0, 1.0]}}, "text_encoder":
        0.3}`; what it does not name has 1.
        """
        self._require_no_run("change adapters")
        chosen = [adapter_names] if isinstance(adapter_names, str) else list(adapter_names)
        self._require_adapters(chosen)
        self._require_not_fused(chosen)
        strengths = check_strengths(chosen, adapter_weights)
        wanted: Strengths = {}
        for component, name in self._adapters.strengths:
            value = strengths.get(name, 0.0)
            if isinstance(value, Mapping):
                self._require_components(name, value)
                value = value.get(component, 1.0)
            wanted[component, name] = value
        self._adapters.set_strengths(wanted)

    def delete_adapters(self, adapter_names: str | Sequence[str]) -> None:
        """Remove LoRAs; the others stay."""
        self._require_no_run("delete adapters")
        chosen = [adapter_names] if isinstance(adapter_names, str) else list(adapter_names)
        self._require_adapters(chosen)
        self._adapters.remove(chosen)
        for name in chosen:
            self._words.remove(None, list(self._words.vocabularies.values()), owner=name)  # type: ignore[attr-defined]

    def unload_lora_weights(self) -> None:
        """Remove every LoRA: the weights are what they were, to the last bit (or with what was fused into them)."""
        self.delete_adapters(list(self._adapters.loras))

    def disable_lora(self) -> None:
        """Compute as if there were no LoRA, until `enable_lora`."""
        self._require_no_run("disable adapters")
        self._adapters.enable(list(self._adapters.by_component()), False)

    def enable_lora(self) -> None:
        """Use the LoRAs again."""
        self._require_no_run("enable adapters")
        self._adapters.enable(list(self._adapters.left_out), True)

    def fuse_lora(
        self,
        components: Sequence[str] | None = None,
        lora_scale: float = 1.0,
        safe_fusing: bool = False,
        adapter_names: Sequence[str] | None = None,
    ) -> None:
        """Fix the LoRAs in the weights: they stay when adapters are unloaded, until `unfuse_lora`."""
        self._require_no_run("fuse adapters")
        check_strength(lora_scale)
        names = list(adapter_names) if adapter_names is not None else self._adapters.active()
        self._require_adapters(names)
        if not names:
            warnings.warn("There is no LoRA to fuse: nothing was changed.", stacklevel=2)
        self._adapters.fuse(names, components or list(self._adapters.by_component()), lora_scale, safe_fusing)

    def unfuse_lora(self, components: Sequence[str] | None = None) -> None:
        """Take out again what was fused: the weights are what they were before, to the last bit."""
        self._require_no_run("unfuse adapters")
        if not self._adapters.fused:
            warnings.warn("There is no fused LoRA: nothing was changed.", stacklevel=2)
        self._adapters.unfuse(components or [component for component, _ in self._adapters.fused])

    @property
    def fused_loras(self) -> set[str]:
        """The LoRAs that are fused."""
        return set(self._adapters.fused_names)

    @property
    def num_fused_loras(self) -> int:
        return len(self.fused_loras)

    def get_active_adapters(self) -> list[str]:
        """The LoRAs with a strength other than 0."""
        return self._adapters.active()

    def get_list_adapters(self) -> dict[str, list[str]]:
        """Component -> the LoRAs that change it."""
        return self._adapters.by_component()

    def enable_lora_hotswap(self, target_rank: int = 128, check_compiled: str = "error") -> None:
        """Nothing: every LoRA, of whatever rank, is swapped in without compiling again."""

    @classmethod
    def save_lora_weights(
        cls,
        save_directory: str | Path,
        *,
        is_main_process: bool = True,
        weight_name: str | None = None,
        safe_serialization: bool = True,
        **layers: Mapping[str, object] | None,
    ) -> None:
        """Write layers of a training as one file: `unet_lora_layers=`, `text_encoder_lora_layers=` and so on.

        `unet_lora_adapter_metadata=` and its like are the settings that they were made with.
        """
        tensors: dict[str, Any] = {}
        settings: dict[str, Any] = {}
        for key, given in layers.items():
            component, _, kind = key.partition("_lora_")
            if kind not in ("layers", "adapter_metadata"):
                known = ["unet_lora_layers", "text_encoder_lora_layers", "transformer_lora_layers"]
                raise UnknownNameError("argument of save_lora_weights", key, known)
            named = {f"{component}.{name}": value for name, value in (given or {}).items()}
            (tensors if kind == "layers" else settings).update(named)
        if not tensors:
            raise InputError(
                "Give the layers to write, unet_lora_layers=…; a loaded LoRA is saved by save_lora_adapter."
            )
        if is_main_process:
            _write(save_directory, weight_name, tensors, settings, safe_serialization)

    def save_lora_adapter(
        self, save_directory: str | Path, adapter_name: str | None = None, *, weight_name: str | None = None
    ) -> None:
        """Write a LoRA that is loaded as one file, by the published names whatever dialect it came in."""
        loaded = self._adapters.loras
        name = adapter_name or (next(iter(loaded)) if len(loaded) == 1 else None)
        if name is None:
            raise InputError(f"Say which LoRA to write: adapter_name= one of {', '.join(loaded) or 'none'}.")
        self._require_adapters([name])
        tensors = {
            f"{component}.{key}": tensor
            for component in loaded[name].components
            for key, tensor in self._adapters.published(name, component).items()
        }
        _write(save_directory, weight_name, tensors, {}, True)

    def describe_adapters(self) -> list[dict[str, Any]]:
        """Files, hashes and strengths, for the manifest."""
        return self._adapters.describe()

    def use_lora_scale(self, values: Mapping[str, Any]) -> None:
        """Merge for a run as its `…attention_kwargs={"scale": …}` asks; refused while another runs otherwise."""
        scale = lora_scale_of(values)
        if not self._adapters.loras or scale == self._adapters.scale:
            return
        if self._runs:  # type: ignore[attr-defined]
            raise InputError(
                f"The attention's 'scale' is {scale:g}, and a run with {self._adapters.scale:g} is under way: "
                "both use the same weights. Wait for it, or use another pipeline."
            )
        self._adapters.rescale(scale)

    def _add_words(self, name: str, lora: Lora) -> None:
        """The words of a textual inversion that came with a LoRA; one that cannot be added is told in its report."""
        for token, vectors in lora.words.items():
            try:
                words = read_words({token: vectors})
                self._words.add(words, self._vocabularies(), owner=name)  # type: ignore[attr-defined]
            except LockstepError as problem:
                lora.report.leave(f"its word cannot be added ({problem})", [token])

    def _require_adapters(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._adapters.loras:
                raise UnknownNameError("adapter", name, self._adapters.loras)

    def _require_not_fused(self, names: Sequence[str]) -> None:
        fixed = [name for name in names if name in self._adapters.fused_names]
        if fixed:
            raise InputError(f"The adapter {fixed[0]!r} is fused into the weights: call unfuse_lora() first.")

    def _require_components(self, name: str, strengths: Mapping[str, Any]) -> None:
        known = self._adapters.loras[name].components
        models = LoraModels(self)
        for component, parts in strengths.items():
            if component not in models:
                raise UnknownNameError(f"component in the strengths of {name!r}", component, known)
            if isinstance(parts, Mapping):
                check_parts(parts, [path for path, _ in models[component].named_parameters()])

    def _require_no_run(self, what: str) -> None:
        if self._runs:  # type: ignore[attr-defined]
            raise InputError(f"Cannot {what} while a run of this pipeline is under way: its weights would change.")


def _write(
    folder: str | Path, weight_name: str | None, tensors: dict[str, Tensor], settings: dict[str, Any], safe: bool
) -> None:
    if not safe:
        raise UnsupportedError("Lockstep writes safetensors only: a pickle can run code where it is read.")
    if Path(folder).is_file():
        raise InputError(f"A LoRA wants a folder to be written to, but {folder} is a file.")
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()}
    metadata = {"format": "pt"} | ({METADATA: json.dumps(plain, indent=2, sort_keys=True)} if plain else {})
    save_tensors(tensors, Path(folder) / (weight_name or WEIGHTS_NAME), metadata)


def lora_scale_of(values: Mapping[str, Any]) -> float:
    """The factor that a call asks for on top of all strengths."""
    names = ("cross_attention_kwargs", "joint_attention_kwargs", "attention_kwargs")
    scale = next((values[name]["scale"] for name in names if "scale" in (values.get(name) or {})), 1.0)
    check_strength(scale)
    return float(scale)


def check_strengths(names: list[str], weights: Any) -> dict[str, Strength]:
    """One strength for each adapter."""
    if len(set(names)) < len(names):
        raise InputError(f"An adapter is named twice: {', '.join(names)}. Give each of them once, with its strength.")
    values = list(weights) if isinstance(weights, (list, tuple)) else [weights] * len(names)
    if len(values) != len(names):
        raise InputError(f"Wanted one strength for each of the adapters {', '.join(names)}, got {weights!r}.")
    strengths = {name: 1.0 if value is None else value for name, value in zip(names, values, strict=True)}
    for value in strengths.values():
        check_strength(value)
    return strengths
