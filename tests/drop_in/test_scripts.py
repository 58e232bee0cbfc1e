"""Scripts as people have them, run as they are and with the import line changed: the same picture, within 1 of 255.

A script finds its models in `folders` (by kind) and leaves its pictures in `pictures`; `net(kind)` and `start()` stand
for what a script would download.
"""

import functools
import re
from pathlib import Path

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import lockstep
from pipelines import tiny, tiny_adapters
from pipelines.test_against_diffusers import mask, picture

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
OTHERS = {"diffusers": diffusers, "lockstep": lockstep}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("drop_in")
    made = {kind: tiny.save_folder(root / kind, kind) for kind in ("sd1", "sd2", "xl", "refiner")}
    for kind in ("sd1", "xl"):
        net = lockstep.ControlNetModel.from_unet(
            tiny.unet(xl=kind == "xl"), conditioning_embedding_out_channels=(8, 16)
        )
        made[f"{kind}_net"] = root / f"{kind}_net"
        tiny.randomize(net, 9).save_pretrained(made[f"{kind}_net"])
    made |= {task: tiny.save_one_task(root / task, task) for task in tiny.ONE_TASK}
    made |= {"lora": save_loras(root / "lora"), "ip_adapter": save_ip_adapter(root / "ip_adapter", made["sd1"])}
    return {name: str(folder) for name, folder in made.items()}


def save_loras(folder):
    """Two LoRAs over layers that they share and layers that they do not."""
    folder.mkdir()
    for seed, (name, parts) in enumerate({"pixels": ("to_q", "to_v"), "toys": ("to_q", "to_out.0")}.items()):
        generator, tensors = torch.Generator().manual_seed(seed), {}
        for path, layer in tiny.unet().named_modules():
            if isinstance(layer, torch.nn.Linear) and path.endswith(parts):
                shapes = {"lora_A": (2, layer.in_features), "lora_B": (layer.out_features, 2)}
                for half, shape in shapes.items():
                    tensors[f"unet.{path}.{half}.weight"] = torch.randn(shape, generator=generator) * 0.4
        save_file(tensors, folder / f"{name}.safetensors")
    return folder


def save_ip_adapter(folder, home):
    """An IP-Adapter in the published layout."""
    unet = diffusers.UNet2DConditionModel.from_pretrained(home, subfolder="unet")
    tiny_adapters.image_encoder().save_pretrained(folder / "models" / "image_encoder")
    save_file(tiny_adapters.flat(tiny_adapters.ip_adapter(unet, "plus")), folder / "models" / "plus.safetensors")
    return folder


def run(script, library, folders):
    """The pictures of a script, as floats from 0 to 1."""
    text = script.read_text()
    changed = re.sub(r"^from diffusers import", f"from {library} import", text, flags=re.MULTILINE)
    assert changed != text or library == "diffusers", "a script imports by one line"
    scope = {"folders": folders, "start": functools.partial(picture, 1), "edges": picture(3), "mask": mask()}
    torch.manual_seed(0)
    exec(compile(changed, str(script), "exec"), scope)
    found = scope["pictures"]
    if isinstance(found, torch.Tensor):
        return found.permute(0, 2, 3, 1).float().numpy()
    as_array = (np.asarray(one, dtype=np.float32) / (255 if isinstance(one, Image.Image) else 1) for one in found)
    return np.stack(list(as_array))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:In CPU autocast", "ignore:Already")  # theirs
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_same_picture(script, folders):
    ours, theirs = (run(script, library, folders) for library in ("lockstep", "diffusers"))
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1.01 / 255


def test_there_are_twenty():
    assert len(SCRIPTS) >= 20
