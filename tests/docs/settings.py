"""What a reader of a page has before the first line: tiny models under the names of the page, pictures, other files.

`INSTEAD` has what a test says in place of a page's own words, where those would take minutes: sizes, counts of steps.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import lockstep
from docs.pages import ROOT, blocks
from lockstep.loaders.convert import convert
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.autoencoders.autoencoder_kl_map import autoencoder_rows
from pipelines import tiny, tiny_adapters, tiny_ltx_video, tiny_qwen_image, tiny_video, tiny_z_image

SMALL_VIDEO = "--num-frames 5 --height 16 --width 16 --steps 2"
INSTEAD = {
    "README.md": [
        ("--seed 7 -n 4", "--seed 7 -n 4 --steps 2"),
        ("--model ./Wan2.1-T2V-1.3B", f"--model ./Wan2.1-T2V-1.3B {SMALL_VIDEO}"),
    ],
    "docs/media.md": [
        ('"waves" -m ./video-model', f'"waves" -m ./video-model {SMALL_VIDEO}'),
        ('"waves at night" -m ./video-model', '"waves at night" -m ./video-model --height 16 --width 16 --steps 2'),
        ("num_frames=17", "num_frames=5, height=16, width=16, num_inference_steps=2"),
    ],
    "docs/lora.md": [  # folders, whose configs say what the shapes of tiny models do not
        ("merge sd15.safetensors styled.safetensors", "merge emoji styled"),
        ("extract base.safetensors tuned.safetensors", "extract base tuned"),
    ],
    "docs/checkpoints.md": [  # a file without a vocabulary has the published one, which no tiny model has
        ('generate "a fox" --model old.ckpt', "inspect old.ckpt"),
    ],
    "docs/video.md": [
        ("--num-frames 81 --height 480 --width 832", SMALL_VIDEO),
        ("--strength 0.7", "--strength 0.7 --height 16 --width 16 --steps 2"),
        ('"waves", output_type', '"waves", num_frames=5, height=16, width=16, num_inference_steps=2, output_type'),
        ("num_frames=321, frames_per_chunk=81, overlap_frames=17",
         "num_frames=13, frames_per_chunk=9, overlap_frames=5, height=16, width=16, num_inference_steps=2"),
    ],
    "docs/z_image.md": [("num_inference_steps=9", "num_inference_steps=2, height=32, width=32")],
    "docs/qwen_image.md": [
        ('negative_prompt=" ", num_inference_steps=50).images[0]\n',
         'negative_prompt=" ", num_inference_steps=2, height=32, width=32).images[0]\n'),
        ("num_inference_steps=50).images[0].save", "num_inference_steps=2, max_area=4096).images[0].save"),
    ],
    "docs/ltx_video.md": [
        ("num_frames=161, frame_rate=25, num_inference_steps=50",
         "num_frames=9, height=32, width=64, num_inference_steps=2"),
        ("frame_index=152", "frame_index=8"),
        ("num_frames=161, num_inference_steps=40", "num_frames=9, height=32, width=64, num_inference_steps=2"),
    ],
}  # fmt: skip


def picture(path, seed=0, size=16):
    values = torch.randint(0, 256, (size, size, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    Image.fromarray(values.numpy()).save(path)


def the_readme(folder):
    tiny.save_folder(folder / "sd15")
    (folder / "stable-diffusion-v1-5").symlink_to("sd15")
    convert(folder / "sd15", folder / "sd15.safetensors")
    tiny_video.save_wan(folder / "Wan2.1-T2V-1.3B")
    unet = lockstep.UNet2DConditionModel.from_pretrained(folder / "sd15", subfolder="unet")
    small = {"conditioning_embedding_out_channels": (8, 16)}
    lockstep.ControlNetModel.from_unet(unet, **small).save_pretrained(folder / "canny")
    ip_adapter(folder, folder)
    for number, name in enumerate(("edges", "photo")):
        picture(folder / f"{name}.png", number)
    return two_models(folder)


def ip_adapter(folder, target):
    import diffusers

    unet = diffusers.UNet2DConditionModel.from_pretrained(folder / "sd15", subfolder="unet")
    tiny_adapters.image_encoder().save_pretrained(target / "image_encoder")
    for kind, name in (("plain", "ip-adapter_sd15"), ("plus", "ip-adapter-plus_sd15")):
        save_file(tiny_adapters.flat(tiny_adapters.ip_adapter(unet, kind)), target / f"{name}.safetensors")


def two_models(folder):
    """reference.py and port.py of the page about parity, and the README's names for them."""
    for block in blocks("docs/parity.md")[:2]:
        name, _, code = block.code.partition("\n")
        (folder / name.removeprefix("# ")).write_text(code, encoding="utf-8")
    names = {}
    exec(compile((folder / "reference.py").read_text(), "reference.py", "exec"), names)
    functional = names["F"]

    class Faulty(names["Block"]):
        def forward(self, x):
            hidden, gate = self.proj(self.norm(x)).chunk(2, dim=-1)
            return x + self.out(hidden * functional.gelu(gate, approximate="tanh"))

    (model, _), (port, _) = names["build"](), names["build"]()
    for block in port.blocks:
        block.__class__ = Faulty
    inputs = {"x": torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(1))}
    for side in (model, port):
        side.requires_grad_(False)
    return {"reference_model": model, "my_port": port, "inputs": inputs}


def adapters(folder):
    from pipelines.test_t2i_adapters import original

    tiny.save_folder(folder / "stable-diffusion-v1-5")
    (folder / "sd15").symlink_to("stable-diffusion-v1-5")
    tiny_adapters.t2i_adapter().save_pretrained(folder / "t2i-adapter-canny")
    sketch = tiny.randomize(lockstep.T2IAdapter(channels=(8, 16)), 1)
    save_file(original(sketch), folder / "t2iadapter_sketch.safetensors")
    (folder / "IP-Adapter" / "models").mkdir(parents=True)
    ip_adapter(folder, folder / "IP-Adapter" / "models")
    for number, name in enumerate(("edges", "photo")):
        picture(folder / f"{name}.png", number)
    for name, box in (("left", (0, 0, 8, 16)), ("right", (8, 0, 16, 16))):
        half = Image.new("RGB", (16, 16))
        half.paste((255, 255, 255), box)
        half.save(folder / f"{name}.png")


def candle(folder):
    from fixtures.candle.make_weights import values

    there = ROOT / "tests" / "fixtures" / "candle"
    shapes = json.loads((there / "manifest_unet_tiny.json").read_text())
    (folder / "unet_tiny").mkdir()
    tensors = {name: torch.from_numpy(values(name, shape)) for name, shape in shapes.items()}
    save_file(tensors, folder / "unet_tiny" / "diffusion_pytorch_model.safetensors")
    config = json.loads((there / "configs.json").read_text())["unet_tiny"]
    (folder / "unet_tiny" / "config.json").write_text(json.dumps(config))
    for name in ("unet_tiny.trace.safetensors", "inputs_unet_tiny.safetensors"):
        shutil.copy(there / name, folder)


def checkpoints(folder):
    import gguf

    model = tiny.save_folder(folder / "stable-diffusion-v1-5")
    (folder / "model").symlink_to("stable-diffusion-v1-5")
    convert(model, folder / "model.safetensors")
    convert(tiny.save_folder(folder / "v2", "sd2"), folder / "v2.safetensors")
    stored = load_file(folder / "model.safetensors")
    torch.save({"state_dict": stored}, folder / "old.ckpt")
    save_file(a_vae_as_published(), folder / "sdxl_vae.safetensors")
    writer = gguf.GGUFWriter(folder / "model.gguf", "sd1")
    for name, x in stored.items():
        if name.startswith("model.diffusion_model."):
            writer.add_tensor(name.removeprefix("model.diffusion_model."), x.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def a_vae_as_published():
    """As narrow as a VAE can be whose config is told by its shapes, by the original's names."""
    sizes = {"block_out_channels": (32,) * 4, "layers_per_block": 2, "latent_channels": 4}
    kinds = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    model = lockstep.AutoencoderKL(**sizes, **kinds)
    tensors, made = model.state_dict(), {}
    for move in WeightMap(autoencoder_rows(model.config)).plan(tensors, True).moves:
        made |= dict(zip(move.targets, move.apply([tensors[name] for name in move.sources]), strict=True))
    return {name: tensor.contiguous() for name, tensor in made.items()}


def lora(folder):
    emoji = Path(lockstep.__file__).parent / "embedded" / "emoji"
    (folder / "emoji").symlink_to(emoji)
    shutil.copytree(tiny.save_folder(folder / "base"), folder / "tuned")
    unet = lockstep.UNet2DConditionModel.from_pretrained(emoji, subfolder="unet")
    layer = next(name for name, _ in unet.named_modules() if name.endswith("attn1.to_q"))
    rows, columns = unet.get_submodule(layer).weight.shape
    save_file(
        {f"unet.{layer}.lora_A.weight": torch.randn(4, columns), f"unet.{layer}.lora_B.weight": torch.randn(rows, 4)},
        folder / "thing.safetensors",
    )
    stored = folder / "tuned" / "unet" / "diffusion_pytorch_model.safetensors"
    tuned = load_file(stored)
    save_file({name: x + 0.01 * name.endswith("attn1.to_q.weight") for name, x in tuned.items()}, stored)


def video(folder):
    for name in ("Wan2.1-T2V-1.3B", "video-model"):
        tiny_video.save_wan(folder / name)


def frameworks(folder):
    """The writers, the UNet of the examples as a graph and as weights, and the trace of one port of it."""
    shutil.copytree(ROOT / "examples" / "writers", folder, dirs_exist_ok=True)
    for words in (
        ["reference.py", "."],
        ["port_onnx.py", "tiny.onnx"],
        ["port_mlx.py", "tiny.safetensors", "port.safetensors"],
    ):
        subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)


def parity(folder):
    first = tiny.save_folder(folder / "tiny-sd")
    shutil.copytree(first, folder / "tiny-sd-eps")
    config = folder / "tiny-sd-eps" / "unet" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"norm_eps": 1e-6}))


def qwen_image(folder):
    tiny_qwen_image.save_qwen_image(folder / "Qwen-Image")
    tiny_qwen_image.save_qwen_image_edit(folder / "Qwen-Image-Edit")


def ltx_video(folder):
    for name, version in (("LTX-Video", "0.9.0"), ("LTX-Video-0.9.5", "0.9.5")):
        tiny_ltx_video.save_ltx(folder / name, version)
    for name in ("first.png", "last.png"):
        Image.new("RGB", (64, 32), "navy").save(folder / name)


SETTINGS = {
    "README.md": the_readme,
    "docs/index.md": two_models,
    "docs/adapters.md": adapters,
    "docs/candle.md": candle,
    "docs/checkpoints.md": checkpoints,
    "docs/lora.md": lora,
    "docs/media.md": video,
    "docs/video.md": video,
    "docs/layer-guidance.md": video,
    "docs/z_image.md": lambda folder: tiny_z_image.save_z_image(folder / "Z-Image-Turbo") and None,
    "docs/qwen_image.md": qwen_image,
    "docs/ltx_video.md": ltx_video,
    "docs/parity.md": parity,
    "docs/porting-frameworks.md": frameworks,
}


def set_up(page, folder):
    """The names that the page's Python has from the start, when its folder is ready."""
    (folder / "examples").symlink_to(ROOT / "examples")
    return SETTINGS.get(page, lambda folder: {})(folder) or {}
