"""Where the reference library keeps its names: a script's import lines work here with their first word changed.

A place is a row of the table, not a file: `from lockstep.utils import load_image` finds `lockstep.media.handy`'s.
Packages that are there under the same name (`lockstep.models`) give the public names that are defined in them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = __package__
MEDIA = dict.fromkeys(
    ("export_to_gif", "export_to_video", "load_image", "load_video", "make_image_grid"), "media.handy"
)
BLOCKS = dict.fromkeys(
    (
        "AutoPipelineBlocks", "BlockState", "ComponentSpec", "ConditionalPipelineBlocks", "ConfigSpec", "InputParam",
        "LoopSequentialPipelineBlocks", "ModularPipelineBlocks", "OutputParam", "PipelineState",
        "SequentialPipelineBlocks",
    ),
    "blocks",
)  # fmt: skip
PROCESSORS = {
    "Attention": ("models.unets.unet_2d_blocks", "Attention"),
    "AttnProcessor": ("models.unets.unet_2d_blocks", "AttnProcessor"),
    "AttnProcessor2_0": ("models.unets.unet_2d_blocks", "AttnProcessor"),
}
# place -> name -> the module that has it (with its name there, where that is another one)
PLACES: dict[str, dict[str, str | tuple[str, str]]] = {
    "utils": {**MEDIA, "BaseOutput": ("outputs", "Output")},
    "utils.export_utils": {**MEDIA},
    "utils.loading_utils": {**MEDIA},
    "utils.outputs": {"BaseOutput": ("outputs", "Output")},
    "utils.torch_utils": {"randn_tensor": "blocks.randomness"},
    "image_processor": {"IPAdapterMaskProcessor": "images", "VaeImageProcessor": "images"},
    "configuration_utils": dict.fromkeys(("ConfigMixin", "FrozenDict", "register_to_config"), "configuration"),
    "modular_pipelines": {**BLOCKS, "ComponentsManager": "pipelines.manager", "ModularPipeline": "pipelines.modular"},
    "models.attention_processor": {**PROCESSORS},
    "models.modeling_utils": {"ModelMixin": "models.modeling"},
    "schedulers.scheduling_utils": {"SchedulerMixin": "schedulers.scheduling", "SchedulerOutput": "schedulers"},
    "pipelines.pipeline_utils": {"DiffusionPipeline": "pipelines.pipeline"},
    "pipelines.stable_diffusion.pipeline_stable_diffusion": {
        "StableDiffusionPipeline": "pipelines.stable_diffusion.pipeline",
        "rescale_noise_cfg": "guiders.guidance",
    },
}
# places of the reference with nothing here to give, and what to do instead
ABSENT = {
    "callbacks": "A callback is a function (pipe, step, timestep, values) -> values: `callback_on_step_end=`.",
    "hooks": "Guiders reach into layers by themselves; offloading is `enable_model_cpu_offload` and its relatives.",
    "optimization": "torch.optim.lr_scheduler has them; `lockstep train lora` brings its own.",
    "training_utils": "Lockstep trains LoRAs by `lockstep train lora`; the reference's helpers work with its models.",
    "video_processor": "Videos are taken and given by the pipelines; `lockstep.media` reads and writes them.",
}


class Places(MetaPathFinder, Loader):
    """Finds the places of the table, after everything that is a file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = fullname.removeprefix(f"{PACKAGE}.")
        if place == fullname:
            return None
        if place in ABSENT:
            raise ModuleNotFoundError(f"{fullname} is not part of Lockstep. {ABSENT[place]}", name=fullname)
        inside = any(other.startswith(f"{place}.") for other in PLACES)
        return ModuleSpec(fullname, self, is_package=inside) if place in PLACES or inside else None

    def exec_module(self, module: ModuleType) -> None:
        names = PLACES.get(module.__name__.removeprefix(f"{PACKAGE}."), {})
        vars(module)["__all__"] = sorted(names)
        vars(module)["__getattr__"] = lambda name: _given(module.__name__, name, names)


def _given(place: str, name: str, names: dict[str, str | tuple[str, str]]) -> Any:
    if name in names:
        home = names[name]
        module, own = (home, name) if isinstance(home, str) else home
        return getattr(importlib.import_module(f"{PACKAGE}.{module}"), own)
    if name.startswith("__"):
        raise AttributeError(name)
    from .errors import no_such_name

    raise AttributeError(no_such_name(place, name, names))


def public_names(package: str) -> Callable[[str], Any]:
    """A package's `__getattr__`: the public names that are defined in its room (`lockstep.pipelines` and below)."""

    def given(name: str) -> Any:
        where = vars(sys.modules[PACKAGE])["_WHERE"]
        room = f"{package.split('.')[1]}."
        names = {public: home for public, home in where.items() if f"{home}.".startswith(room)}
        return _given(package, name, names)

    return given
