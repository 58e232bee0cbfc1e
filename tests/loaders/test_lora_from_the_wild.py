"""LoRA files that people published, on a full-size Stable Diffusion 1.5 with random weights: all of each is applied,
adds strength · up · down to its layers, and is what the reference adds where it reads the file.

Set LOCKSTEP_LORAS to a folder with `cloneofsimo_disney.safetensors` and `diffusers_old_rank4.safetensors`.
"""

import os
from pathlib import Path

import diffusers
import pytest
import torch
from safetensors.torch import load_file

import lockstep
from helpers import relative_l2
from pipelines import tiny

FOLDER = Path(os.environ.get("LOCKSTEP_LORAS", "nowhere"))
TEXT = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
BLOCKS = [
    *(f"down_blocks.{block}.attentions.{layer}" for block in (0, 1, 2) for layer in (0, 1)),
    *(f"up_blocks.{block}.attentions.{layer}" for block in (1, 2, 3) for layer in (0, 1, 2)),
    "mid_block.attentions.0",
]
ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")


@pytest.fixture(scope="module")
def pipe():
    if not (FOLDER / "cloneofsimo_disney.safetensors").is_file():
        pytest.skip("the published LoRA files are not here: set LOCKSTEP_LORAS to their folder")
    torch.manual_seed(0)
    return lockstep.StableDiffusionPipeline(
        unet=lockstep.UNet2DConditionModel(cross_attention_dim=768),
        text_encoder=lockstep.CLIPTextModel(**TEXT),
        tokenizer=lockstep.CLIPTokenizer.published(),
        vae=tiny.vae(),
        scheduler=lockstep.DDIMScheduler(),
    )


def by_counting(tensors):
    """Layers by their number: the UNet's blocks with the middle last, the text encoder's layers in order."""
    unet = [
        f"{block}.transformer_blocks.0.{layer}"
        for block in BLOCKS
        for layer in (*(f"attn1.{x}" for x in ATTENTION), "ff.net.0.proj", *(f"attn2.{x}" for x in ATTENTION))
    ]
    text = [
        f"text_model.encoder.layers.{layer}.self_attn.{name}_proj"
        for layer in range(12)
        for name in ("k", "v", "q", "out")
    ]
    return {
        (component, layer): tensors[f"{component}:{number}:up"] @ tensors[f"{component}:{number}:down"]
        for component, layers in (("unet", unet), ("text_encoder", text))
        for number, layer in enumerate(layers)
    }


def by_processors(tensors):
    found = {}
    for name in tensors:
        if name.endswith("_lora.up.weight"):
            layer = name.removesuffix("_lora.up.weight").replace(".processor", "").replace("to_out", "to_out.0")
            found["unet", layer] = tensors[name] @ tensors[name.replace(".up.", ".down.")]
    return found


@pytest.mark.parametrize("strength", [1.0, 0.35])
@pytest.mark.parametrize(
    ("name", "products", "count", "changed"),
    [
        ("cloneofsimo_disney", by_counting, 386, 192),
        ("diffusers_old_rank4", by_processors, 256, 128),
    ],
)
def test_every_tensor_is_applied_as_the_formula_says(pipe, name, products, count, changed, strength):
    path = FOLDER / f"{name}.safetensors"
    wanted = products(load_file(path))
    assert len(wanted) == changed
    before = {key: pipe.components[key[0]].get_submodule(key[1]).weight.clone() for key in wanted}
    untouched = pipe.unet.conv_in.weight.clone()
    report = pipe.load_lora_weights(path, strength=strength)
    assert (report.applied, report.total) == (count, count)
    for (component, layer), product in wanted.items():
        exact = before[component, layer].double() + strength * product.double()
        got = pipe.components[component].get_submodule(layer).weight
        assert relative_l2(got, exact) < 1e-6, layer
        assert not torch.equal(got, before[component, layer]), layer
    assert torch.equal(pipe.unet.conv_in.weight, untouched)
    pipe.unload_lora_weights()
    for (component, layer), weight in before.items():
        assert torch.equal(pipe.components[component].get_submodule(layer).weight, weight), layer


@pytest.mark.filterwarnings("ignore")
def test_the_reference_adds_the_same(pipe):
    """The old processors' file, with the prefix without which it finds nothing in it; it never reads the other."""
    path = FOLDER / "diffusers_old_rank4.safetensors"
    pipe.load_lora_weights(path)
    layers = [layer for _, layer in by_processors(load_file(path))]
    ours = {layer: pipe.unet.get_submodule(layer).weight.clone() for layer in layers}
    pipe.unload_lora_weights()
    with torch.device("meta"):
        model = diffusers.UNet2DConditionModel(cross_attention_dim=768)
    model.load_state_dict({name: tensor.clone() for name, tensor in pipe.unet.state_dict().items()}, assign=True)
    theirs = diffusers.StableDiffusionPipeline(
        vae=None, text_encoder=None, tokenizer=None, unet=model, scheduler=None, safety_checker=None,
        feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    theirs.load_lora_weights({f"unet.{name}": tensor for name, tensor in load_file(path).items()})
    theirs.fuse_lora(components=["unet"])
    for layer, weight in ours.items():
        assert relative_l2(weight, theirs.unet.get_submodule(layer).weight) < 1e-6, layer
