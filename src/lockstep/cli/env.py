"""`lockstep env`: the machine and the versions, for bug reports and benchmarks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

from .. import __version__
from .console import out, print_json
from .options import Json

PACKAGES = (
    "torch",
    "safetensors",
    "tokenizers",
    "huggingface_hub",
    "numpy",
    "Pillow",
    "peft",
    "transformers",
    "diffusers",
)


def describe_machine() -> dict[str, Any]:
    """What a result or a timing can depend on."""
    import torch

    from .. import kernels
    from ..attention import available_backends
    from ..models.modeling import computes_bf16, resolve_dtype

    devices = [
        "cpu",
        *(["cuda"] if torch.cuda.is_available() else []),
        *(["mps"] if torch.backends.mps.is_available() else []),
    ]
    return {
        "lockstep": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "native bf16": computes_bf16("cpu"),
        "dtype auto": str(resolve_dtype("auto", torch.device("cpu"))).removeprefix("torch."),
        "devices": devices,
        "kernels": kernels.describe(),
        "attention backends": available_backends(),
        "hub offline": os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"),
        **{package: _version(package) for package in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def env(json: Json = False) -> None:
    """Show the machine, its fast dtype, devices, attention backends and versions."""
    from rich.table import Table

    facts = describe_machine()
    if json:
        print_json(facts)
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
        table.add_row(f"[dim]{name}[/]", shown)
    out.print(table)
