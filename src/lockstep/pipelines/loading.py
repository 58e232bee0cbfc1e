"""Arguments of `from_pretrained` that scripts carry along: translated, passed over with a line, or refused by name."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import InputError, UnknownNameError, UnsupportedError
from ..models.modeling import check_always
from ..notes import say_once

# argument -> why it has nothing to do
PASSED_OVER = {
    "proxies": "the hub's own library reads the proxies of the environment (HTTPS_PROXY)",
    "mirror": "the hub's own library reads its address from the environment (HF_ENDPOINT)",
    "resume_download": "downloads are always resumed",
    "max_memory": "a pipeline is on one device",
    "offload_folder": "weights are mapped from their files",
    "offload_state_dict": "weights are mapped from their files",
    "disable_mmap": "weights are always mapped from their files",
    "low_cpu_mem_usage": "models are always built without memory of their own",
}
# argument -> what to do instead
REFUSED = {
    "custom_pipeline": "code from elsewhere is not run; put blocks together, or import the class that has them",
    "custom_revision": "code from elsewhere is not run",
    "trust_remote_code": "code from elsewhere is not run",
    "quantization_config": "give a model that is quantized already as a component",
    "provider": "ONNX pipelines are not offered",
    "sess_options": "ONNX pipelines are not offered",
    "output_loading_info": "what does not fit is an error, not a report",
    "from_flax": "flax files are not read",
}
SPREAD = ("balanced", "auto", "balanced_low_0", "sequential")


def understood(options: dict[str, Any]) -> dict[str, Any]:
    """Take out the arguments that are no components; what they say of the device, and of the files to read."""
    for name in [name for name in REFUSED if name in options]:
        if options.pop(name) not in (None, False):
            raise UnsupportedError(f"from_pretrained({name}=…) cannot be had: {REFUSED[name]}.")
    device = device_of(options.pop("device_map", None))
    if options.get("low_cpu_mem_usage") is not False:
        for name in [name for name in PASSED_OVER if name in options]:
            if options.pop(name) is not None and name != "low_cpu_mem_usage":
                say_once(f"from_pretrained({name}=…) changes nothing: {PASSED_OVER[name]}.")
    said = {name: options[name] for name in ("allow_pickle", "use_safetensors") if options.get(name) is not None}
    check_always(options)
    return said if device is None else {**said, "device": device}


def check_known(owner: str, options: dict[str, Any], known: list[str]) -> None:
    """Refuse what is left of some options."""
    for name in options:
        raise UnknownNameError(f"argument of {owner}", name, known)


def device_of(device_map: Any) -> str | None:
    """The one device that a map names."""
    if device_map is None or isinstance(device_map, (int, torch.device)):
        return None if device_map is None else str(torch.device(device_map))
    if isinstance(device_map, dict):
        places = {str(place) for place in device_map.values()}
        if len(places) == 1:
            return places.pop()
        raise UnsupportedError(
            f"device_map spreads the components over {', '.join(sorted(places))}: a pipeline is on one device here. "
            "Give one, or pipe.enable_model_cpu_offload()."
        )
    if device_map in SPREAD:
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
        say_once(f"device_map={device_map!r}: a pipeline is on one device here, {found}.")
        return str(found)
    if not isinstance(device_map, str):
        raise InputError(f"device_map wants 'cpu', 'cuda', 'balanced' or a device, got {device_map!r}.")
    return device_map


def dtype_for(name: str, dtype: Any) -> Any:
    """The dtype of a component: of all of them, or of a table with 'default'."""
    return dtype.get(name, dtype.get("default")) if isinstance(dtype, dict) else dtype
