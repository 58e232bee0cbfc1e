"""LoRA on a model by itself, as layers that can be trained, weighted and taken out again (arXiv:2106.09685).

The layers are those of the library peft, so that what training scripts do with them (`LoraConfig`,
`get_peft_model_state_dict`) works here. LoRAs that a pipeline has merged into the model's weights answer to the same
names: their strengths in this model alone can be changed here.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import nn

from .. import files
from ..errors import InputError, SettingsError, UnknownNameError, UnsupportedError, WeightsError
from .weights import DTYPES, open_weights, read_tensors, save_tensors

logger = logging.getLogger(__name__)
WEIGHTS_NAME = "pytorch_lora_weights.safetensors"
METADATA = "lora_adapter_metadata"  # JSON of the settings that the layers were made with
PARTS = {"down": r"^down_blocks\.", "up": r"^up_blocks\.", "mid": r"^mid_block\."}
OLDER_NAMES = (  # of files from before peft
    (r"\.processor\.(to_[qkv])_lora\.", r".\1.lora."),
    (r"\.processor\.to_out_lora\.", r".to_out.0.lora."),
    (r"\.lora(_linear_layer)?\.down\.", ".lora_A."),
    (r"\.lora(_linear_layer)?\.up\.", ".lora_B."),
)


Strength = float | Mapping[str, Any] | None  # one number, or one for each part of a model


class MergedLoras(Protocol):
    """The LoRAs that someone else has merged into a model's weights, seen from the model."""

    def names(self) -> list[str]: ...
    def set_strengths(self, strengths: Mapping[str, Strength]) -> None: ...
    def enable(self, on: bool) -> None: ...
    def published(self, name: str) -> dict[str, torch.Tensor]: ...


class LoraLayersMixin(nn.Module):
    """`add_adapter`, `load_lora_adapter` and their relatives, for `ModelMixin`."""

    merged_loras: MergedLoras | None = None  # set by a pipeline that has merged into this model

    @property
    def _unfused(self) -> dict[str, nn.Parameter]:
        """The weights as they were before adapters were fused into them."""
        return self.__dict__.setdefault("_before_fusing", {})

    @property
    def lora_configs(self) -> dict[str, Any]:
        """The settings of the layers that were added, by the adapter's name."""
        return cast("dict[str, Any]", getattr(self, "peft_config", {}))

    def add_adapter(self, adapter_config: Any, adapter_name: str = "default") -> None:
        """Put new layers into the model, as a `peft.LoraConfig` describes them, and use them."""
        peft = import_peft()
        if not isinstance(adapter_config, peft.PeftConfig):
            raise InputError(
                f"add_adapter wants a peft config such as peft.LoraConfig(r=8), got {type(adapter_config).__name__}."
            )
        self._require_free_name(adapter_name)
        adapter_config.base_model_name_or_path = None
        self._inject(adapter_config, adapter_name)
        self.set_adapter(adapter_name)

    def load_lora_adapter(
        self,
        name_or_path_or_tensors: str | Path | Mapping[str, torch.Tensor],
        prefix: str | None = "transformer",
        hotswap: bool = False,
        *,
        adapter_name: str | None = None,
        weight_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Add the layers of a file (or of tensors by name) that begin with `prefix`; with None, all of them.

        `hotswap=True` puts the values in the place of an adapter's that is there, so that a compiled model stays so.
        """
        peft = import_peft()
        tensors, stored = read_layers(name_or_path_or_tensors, weight_name, options)
        metadata = stored if metadata is None else dict(metadata)
        if prefix is not None:
            tensors, metadata = below(prefix, tensors), below(prefix, metadata)
            if not tensors:
                logger.warning(
                    "No LoRA keys associated to %s found with the prefix=%r: nothing was loaded. None takes all.",
                    type(self).__name__,
                    prefix,
                )
                return
        tensors = {published_name(name): tensor for name, tensor in tensors.items()}
        known = self.lora_configs
        name = adapter_name or next(n for n in (f"default_{k}" for k in range(len(known) + 1)) if n not in known)
        config = lora_config(peft, tensors, metadata)
        if hotswap:
            self._swap(name, tensors, config)
            return
        self._require_free_name(name)
        self._require_layers(tensors)
        self._inject(config, name, state_dict=tensors)
        unfit = peft.set_peft_model_state_dict(self, tensors, name)
        told_missing = [key for key in unfit.missing_keys if "lora_" in key and f".{name}." in key]
        for kind, keys in (("unexpected", unfit.unexpected_keys), ("missing", told_missing)):
            if keys:
                logger.warning("Loading adapter weights from state_dict led to %s keys: %s.", kind, ", ".join(keys))

    def save_lora_adapter(
        self,
        folder: str | Path,
        adapter_name: str = "default",
        upcast_before_saving: bool = False,
        safe_serialization: bool = True,
        weight_name: str | None = None,
    ) -> None:
        """Write an adapter's layers, with the settings that they were made with, as one safetensors file."""
        merged = self.merged_loras.names() if self.merged_loras is not None else []
        if adapter_name not in (*self.lora_configs, *merged):
            raise UnknownNameError(
                f"adapter. Adapter name {adapter_name} not found in the model. Known name",
                adapter_name,
                [*self.lora_configs, *merged],
            )
        if not safe_serialization:
            raise UnsupportedError("Lockstep writes safetensors only: a pickle can run code where it is read.")
        if Path(folder).is_file():
            raise InputError(f"save_lora_adapter wants a folder, but {folder} is a file.")
        metadata = {"format": "pt"}
        if adapter_name in self.lora_configs:
            layers = import_peft().get_peft_model_state_dict(self, adapter_name=adapter_name)
            settings = self.lora_configs[adapter_name].to_dict()
            settings = {key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()}
            metadata[METADATA] = json.dumps(settings, indent=2, sort_keys=True)
        else:
            assert self.merged_loras is not None
            layers = self.merged_loras.published(adapter_name)
        if upcast_before_saving:
            layers = {name: tensor.float() for name, tensor in layers.items()}
        save_tensors(layers, Path(folder) / (weight_name or WEIGHTS_NAME), metadata)

    def set_adapter(self, adapter_name: str | Sequence[str]) -> None:
        """Use these adapters, at the strength that they have, and no other."""
        names = self._known_adapters(adapter_name, merged=False)
        for _, layer in self._lora_layers():
            layer.set_adapter(names)

    def set_adapters(self, adapter_names: str | Sequence[str], weights: Strength | Sequence[Strength] = None) -> None:
        """Use these adapters and no other, each at its strength: a number, or a dict with one for each part of it."""
        names = self._known_adapters(adapter_names)
        values = weights if isinstance(weights, (list, tuple)) else [weights] * len(names)
        if len(values) != len(names):
            raise InputError(f"Wanted one weight for each of the adapters {', '.join(names)}, got {weights!r}.")
        strengths = {name: 1.0 if value is None else value for name, value in zip(names, values, strict=True)}
        paths = [path for path, _ in self.named_parameters()]
        for strength in strengths.values():
            if isinstance(strength, Mapping):
                check_parts(strength, paths)
        own = [name for name in names if name in self.lora_configs]
        if self.merged_loras is not None:
            merged = {name: strengths.get(name, 0.0) for name in self.merged_loras.names()}
            self.merged_loras.set_strengths(merged)
        for path, layer in self._lora_layers():
            layer.set_adapter(own)
            for name in own:
                layer.set_scale(name, strength_at(path, strengths[name]))

    def active_adapters(self) -> list[str]:
        """The adapters that are in use."""
        self._known_adapters([], merged=False)
        active: Any = next((layer.active_adapter for _, layer in self._lora_layers()), [])
        return [active] if isinstance(active, str) else list(active)

    def disable_lora(self) -> None:
        """Compute as if there were no adapter, until `enable_lora`."""
        self._enable(False)

    def enable_lora(self) -> None:
        """Use the adapters again."""
        self._enable(True)

    disable_adapters, enable_adapters = disable_lora, enable_lora

    def _enable(self, on: bool) -> None:
        self._known_adapters([])
        if self.merged_loras is not None:
            self.merged_loras.enable(on)
        for _, layer in self._lora_layers():
            layer.enable_adapters(enabled=on)

    def delete_adapters(self, adapter_names: str | Sequence[str]) -> None:
        """Take adapters out; the others stay."""
        for name in self._known_adapters(adapter_names, merged=False):
            for _, layer in self._lora_layers():
                layer.delete_adapter(name)
            del self.lora_configs[name]

    def fuse_lora(
        self, lora_scale: float = 1.0, safe_fusing: bool = False, adapter_names: Sequence[str] | None = None
    ) -> None:
        """Add the adapters into the weights, so that a run costs what it cost without; `safe_fusing` refuses NaN."""
        names = None if adapter_names is None else self._known_adapters(adapter_names, merged=False)
        for path, layer in self._lora_layers():
            base = layer.get_base_layer()
            if path not in self._unfused:
                self._unfused[path] = base.weight
                base.weight = nn.Parameter(base.weight.detach().clone(), requires_grad=base.weight.requires_grad)
            scaling = dict(layer.scaling)
            layer.scale_layer(lora_scale)
            layer.merge(safe_merge=safe_fusing, adapter_names=names)
            layer.scaling.update(scaling)

    def unfuse_lora(self) -> None:
        """Take the adapters out of the weights again: they are what they were, to the last bit."""
        for path, layer in self._lora_layers():
            layer.unmerge()
            if path in self._unfused:
                base = layer.get_base_layer()
                base.weight = as_placed(self._unfused.pop(path), base.weight)

    def unload_lora(self) -> None:
        """Take every adapter's layers out: the model is what it was."""
        for path, layer in self._lora_layers():
            parent, _, last = path.rpartition(".")
            setattr(self.get_submodule(parent), last, layer.get_base_layer())
        self._unfused.clear()
        if "peft_config" in self.__dict__:
            del self.peft_config

    def enable_lora_hotswap(self, target_rank: int = 128, check_compiled: str = "error") -> None:
        """Leave room for ranks up to `target_rank` in the first adapter, so that others can be swapped in later."""
        if check_compiled not in ("error", "warn", "ignore"):
            raise InputError(f"check_compiles should be one of 'error', 'warn', or 'ignore', got {check_compiled!r}.")
        told = "Call `enable_lora_hotswap` before loading the first adapter"
        if self.lora_configs and check_compiled == "error":
            raise RuntimeError(f"{told}.")
        if self.lora_configs and check_compiled == "warn":
            logger.warning("%s to avoid recompilation.", told)

    def _inject(self, config: Any, name: str, **options: Any) -> None:
        with warnings.catch_warnings():  # peft warns of a second adapter, which is what was asked for
            warnings.filterwarnings("ignore", message="Already found a `peft_config`")
            import_peft().inject_adapter_in_model(config, self, adapter_name=name, **options)

    def _swap(self, name: str, tensors: Mapping[str, torch.Tensor], config: Any) -> None:
        from peft.utils.hotswap import check_hotswap_configs_compatible, hotswap_adapter_from_state_dict

        if name not in self.lora_configs:
            raise UnknownNameError("adapter to swap", name, self.lora_configs)
        check_hotswap_configs_compatible(self.lora_configs[name], config)
        named = {re.sub(r"(lora_[AB])\.(weight|bias)$", rf"\1.{name}.\2", key): t for key, t in tensors.items()}
        hotswap_adapter_from_state_dict(model=self, state_dict=named, adapter_name=name, config=config)

    def _lora_layers(self) -> list[tuple[str, Any]]:
        if not self.lora_configs:
            return []
        kind = import_peft().tuners.tuners_utils.BaseTunerLayer
        return [(path, module) for path, module in self.named_modules() if isinstance(module, kind)]

    def _known_adapters(self, names: str | Sequence[str], merged: bool = True) -> list[str]:
        """The names as a list, each of which has to be an adapter of this model."""
        others = self.merged_loras.names() if self.merged_loras is not None else []
        known = [*self.lora_configs, *(others if merged else [])]
        if not known and others:
            raise UnsupportedError(
                f"{type(self).__name__} has only LoRAs that its pipeline merged ({', '.join(others)}): ask that."
            )
        if not known:
            raise InputError("No adapter loaded. Please load an adapter first: add_adapter or load_lora_adapter.")
        chosen = [names] if isinstance(names, str) else list(names)
        for name in chosen:
            if name not in known:
                raise UnknownNameError("adapter", name, known)
        return chosen

    def _require_free_name(self, name: str) -> None:
        if name in self.lora_configs:
            raise InputError(f"There is an adapter {name!r} already. Choose another adapter_name, or delete it first.")

    def _require_layers(self, names: Iterable[str]) -> None:
        """Refuse tensors of which none belongs to a layer of this model."""
        paths = {path.replace(".base_layer", "") for path, _ in self.named_modules()}
        layers = {name.rpartition(".lora_")[0] for name in names if ".lora_" in name}
        if not layers & paths:
            some = next(iter(layers), next(iter(names)))
            raise WeightsError(f"No layer of this {type(self).__name__} is called {some!r}. Made for another model?")


def import_peft() -> Any:
    """The library peft, or an error that says how to get it."""
    try:
        import peft
    except ImportError:
        raise UnsupportedError(
            "LoRA layers on a model by itself are those of peft, which is not installed: "
            "pip install 'lockstep-diffusion[lora]'. A pipeline's load_lora_weights works without it."
        ) from None
    return peft


def read_layers(
    source: str | Path | Mapping[str, torch.Tensor], weight_name: str | None, options: dict[str, Any]
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of a LoRA file, a folder, a hub id or a dict, and the settings in its header."""
    hub = {key: options.pop(key) for key in list(options) if key in files.HUB_ARGUMENTS}
    subfolder = options.pop("subfolder", None)
    if options.pop("use_safetensors", True) is False:
        raise UnsupportedError(
            "use_safetensors=False: LoRA weights are read from safetensors only; convert the pickle."
        )
    for name in options:
        if name not in ("low_cpu_mem_usage", "safe_serialization", "network_alphas", "proxies", "_pipeline"):
            raise UnknownNameError("argument of load_lora_adapter", name, ["low_cpu_mem_usage", "use_safetensors"])
    if options.get("network_alphas"):
        raise UnsupportedError("network_alphas: give the alphas as metadata={'lora_alpha': …}, or in the file.")
    if isinstance(source, Mapping):
        return dict(source), {}
    path = Path(source)
    if not path.is_file():
        path = files.resolve_file(source, weight_name or WEIGHTS_NAME, subfolder=subfolder, **hub)
    stored = open_weights([path])
    dtypes = {name: DTYPES[tensor.info.dtype] for name, tensor in stored.items()}
    metadata = files.read_safetensors_header(path)[1].get(METADATA, "{}")
    return dict(read_tensors(stored, dtypes, torch.device("cpu"))), json.loads(metadata)


def below(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What stands under a prefix, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}


def published_name(name: str) -> str:
    """`….to_q.lora.down.weight` -> `….to_q.lora_A.weight`."""
    for pattern, replacement in OLDER_NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def lora_config(peft: Any, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, Any]) -> Any:
    """The settings that a file says, or those that follow from its tensors: ranks, and whether DoRA or biases."""
    if metadata:
        try:
            return peft.LoraConfig(**metadata)
        except TypeError as problem:
            raise SettingsError(
                f"The `LoraConfig` class could not be instantiated from the metadata: {problem}."
            ) from None
    ranks = {name.rpartition(".lora_")[0]: t.shape[1] for name, t in tensors.items() if name.endswith("lora_B.weight")}
    if not ranks:
        some = next(iter(tensors), None)
        raise WeightsError(f"Wanted LoRA layers ('….lora_A.weight' and '….lora_B.weight'), got {some!r}.")
    usual = Counter(ranks.values()).most_common(1)[0][0]
    others = {f"^{name}": rank for name, rank in ranks.items() if rank != usual}
    return peft.LoraConfig(
        r=usual,
        lora_alpha=usual,
        rank_pattern=others,
        alpha_pattern=others,
        target_modules=sorted(ranks),
        use_dora=any("lora_magnitude_vector" in name for name in tensors),
        lora_bias=any(name.endswith("lora_B.bias") for name in tensors),
    )


def as_placed(original: nn.Parameter, now: torch.Tensor) -> nn.Parameter:
    """A parameter as it was, in the dtype and place that the model has now; itself where it has not moved."""
    if (original.dtype, original.device) == (now.dtype, now.device):
        return original
    return nn.Parameter(original.detach().to(now.device, now.dtype), requires_grad=original.requires_grad)


def strength_at(path: str, strength: Any) -> float:
    """The strength of a layer: the number itself, or that of the part of the model that it is in (1 elsewhere)."""
    if not isinstance(strength, Mapping):
        return 1.0 if strength is None else float(strength)
    places = part_strengths(strength)
    return next((value for pattern, value in places.items() if re.search(pattern, path)), 1.0)


def part_strengths(parts: Mapping[str, Any], before: str = "") -> dict[str, float]:
    """`{"down": {"block_1": 0.5}, "mid": 0.8}` -> a regex of the layers' paths for each, the narrowest first.

    A list under a block has a number for each of its layers: the attention, and the resnet of the same number.
    """
    flat: dict[str, float] = {}
    for key, value in parts.items():
        place = _place(key, before)
        if isinstance(value, Mapping):
            flat |= part_strengths(value, place)
        elif isinstance(value, (list, tuple)):
            flat |= {rf"{place}\w+\.{index}\.": float(one) for index, one in enumerate(value)}
        else:
            flat[place] = float(value)
    return dict(sorted(flat.items(), key=lambda item: -len(item[0])))


def _place(key: str, before: str) -> str:
    """The paths that a key of strengths by parts means, as a regex."""
    block = rf"{before}{key.removeprefix('block_')}\." if key.startswith("block_") else re.escape(key)
    return block if before or key not in PARTS else PARTS[key]


def check_parts(parts: Mapping[str, Any], paths: Sequence[str], before: str = "") -> None:
    """Refuse strengths for parts that a model does not have, or a list of another length than its block."""
    for key, value in parts.items():
        place = _place(key, before)
        if not any(re.search(place, path) for path in paths):
            blocks = sorted(
                {f"block_{m[1]}" for path in paths if before and (m := re.match(rf"{before}(\d+)\.", path))}
            )
            known = blocks or [name for name, start in PARTS.items() if any(re.match(start, path) for path in paths)]
            raise UnknownNameError("part of the model in the strengths", key, known)
        if isinstance(value, Mapping):
            check_parts(value, paths, place)
        elif isinstance(value, (list, tuple)):
            layers = {m[1] for path in paths if (m := re.search(rf"{place}attentions\.(\d+)\.", path))}
            layers = layers or {m[1] for path in paths if (m := re.search(rf"{place}\w+\.(\d+)\.", path))}
            if len(value) != len(layers):
                raise InputError(f"{key!r} has {len(layers)} layers: wanted as many strengths, got {len(value)}.")


def check_strength(strength: Any) -> None:
    """Refuse what is neither a finite number nor numbers by parts."""
    values = strength.values() if isinstance(strength, Mapping) else strength if isinstance(strength, list) else None
    if values is None and not (isinstance(strength, (int, float)) and abs(strength) < float("inf")):
        raise InputError(f"A strength is a finite number, or a dict with one for each part, got {strength!r}.")
    for value in values or ():
        check_strength(value)
