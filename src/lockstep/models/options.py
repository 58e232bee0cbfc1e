"""Options of `from_pretrained` that other libraries have: what they mean here, or why they cannot be had."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import InputError, UnsupportedError
from ..notes import say_once

ALLOW_PICKLE = "LOCKSTEP_ALLOW_PICKLE"  # set to 1: allow_pickle=True for scripts that shall not be changed
# What other libraries have a switch for and what is the same here either way: (its value here, why)
NO_EFFECT: dict[str, tuple[Any, str]] = {
    "low_cpu_mem_usage": (True, "models are always built without memory"),
    "disable_mmap": (False, "files are mapped, and read once"),
    "offload_state_dict": (False, "no second copy of the weights is ever made"),
    "offload_folder": (None, "nothing is put aside on disk: the weights are mapped from their own file"),
    "max_memory": (None, "a model is on one device"),
    "use_flashpack": (False, "safetensors are mapped already"),
    "resume_download": (None, "downloads always go on where they stopped"),
}
NOT_HERE = {
    "proxies": "set HTTPS_PROXY in the environment, which the hub's client reads",
    "quantization_config": "weights are computed in floating point",
    "ignore_mismatched_sizes": "weights that do not fit are always refused",
    "output_loading_info": "a model that was loaded has no missing and no further tensors",
    "parallel_config": "a loaded pipeline is spread over ranks by pipe.enable_parallelism(ParallelConfig(…))",
}
LOADING_ARGUMENTS = (
    *["subfolder", "variant", "dtype", "torch_dtype", "device", "device_map", "use_safetensors", "allow_pickle"],
    *NO_EFFECT,
    *NOT_HERE,
)


def check_always(options: dict[str, Any]) -> None:
    """Take out the options of other libraries that this one has no use for; refuse what would change the result."""
    chosen_files(options)
    take_known_elsewhere(options)


def take_known_elsewhere(options: dict[str, Any]) -> None:
    """Take out what other libraries have a switch for: accepted with a line where it changes nothing, else refused."""
    for name in options.keys() & NO_EFFECT.keys():
        if options.pop(name) not in (None, *NO_EFFECT[name][:1]):
            say_once(f"{name} changes nothing: {NO_EFFECT[name][1]}.")
    for name in options.keys() & NOT_HERE.keys():
        value = options.pop(name)
        if value is not None and value is not False:
            raise UnsupportedError(f"{name}={value!r} cannot be had: {NOT_HERE[name]}.")


def chosen_files(options: dict[str, Any]) -> tuple[bool, bool]:
    """Whether to look for safetensors, and for pickles: `use_safetensors=False` wants those, `allow_pickle` either."""
    use_safetensors, allow_pickle = options.pop("use_safetensors", None), options.pop("allow_pickle", False)
    if use_safetensors and allow_pickle:
        raise InputError("use_safetensors=True and allow_pickle=True contradict each other. Leave one out.")
    everywhere = not use_safetensors and os.environ.get(ALLOW_PICKLE) == "1"
    return use_safetensors is not False, bool(allow_pickle) or everywhere or use_safetensors is False


def chosen_device(device: torch.device | str | int | None, device_map: Any) -> torch.device | str | int | None:
    """The one device of a device map; a model is not spread over several."""
    if isinstance(device_map, Mapping):
        places = set(device_map.values())
        if len(places) != 1:
            raise UnsupportedError(
                f"device_map names {len(places)} places, and a model is on one. Give device=…; a pipeline's "
                "enable_model_cpu_offload moves whole models."
            )
        device_map = places.pop()
    if device_map is None:
        return device
    if device is not None and device != device_map:
        raise InputError(f"device and device_map name two places, got {device!r} and {device_map!r}.")
    if device_map in ("auto", "balanced", "balanced_low_0", "sequential"):
        return torch.accelerator.current_accelerator() or "cpu"
    return device_map
