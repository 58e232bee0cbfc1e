"""The lines of docs/adapters.md run, in a folder that has the files that they name."""

import re
from pathlib import Path

import diffusers
from PIL import Image
from safetensors.torch import save_file

import lockstep
from pipelines import tiny, tiny_adapters
from pipelines.test_against_diffusers import picture
from pipelines.test_t2i_adapters import original

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"


def test_the_snippets_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny.save_folder(Path("stable-diffusion-v1-5"))
    tiny_adapters.t2i_adapter().save_pretrained("t2i-adapter-canny")
    sketch = tiny.randomize(lockstep.T2IAdapter(channels=(8, 16)), 1)
    save_file(original(sketch), "t2iadapter_sketch.safetensors")
    unet = diffusers.UNet2DConditionModel.from_pretrained("stable-diffusion-v1-5", subfolder="unet")
    tiny_adapters.image_encoder().save_pretrained("IP-Adapter/models/image_encoder")
    for kind, name in (("plain", "ip-adapter_sd15"), ("plus", "ip-adapter-plus_sd15")):
        sections = tiny_adapters.ip_adapter(unet, kind)
        save_file(tiny_adapters.flat(sections), f"IP-Adapter/models/{name}.safetensors")
    for number, name in enumerate(("edges", "photo")):
        picture(number).save(f"{name}.png")
    for name, box in (("left", (0, 0, 8, 16)), ("right", (8, 0, 16, 16))):
        half = Image.new("RGB", (16, 16))
        half.paste((255, 255, 255), box)
        half.save(f"{name}.png")
    names = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(snippet, names)
    assert names["sketch"].config.channels == (8, 16)
    assert names["pipe"].unet.image_projections is None
