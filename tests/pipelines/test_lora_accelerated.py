"""LoRA and our own kernels together, in either order: the same numbers as torch's kernels give with the LoRA."""

import pytest
import torch
from safetensors.torch import save_file

import lockstep
from helpers import relative_l2
from lockstep import kernels
from pipelines import tiny

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("sd"))


def opened(folder):
    pipe = lockstep.DiffusionPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.fixture(scope="module")
def styles(folder, tmp_path_factory):
    """Two files with changes of matrices, convolutions, norms and of a layer inside the gated ones."""
    unet, made = opened(folder).unet, []
    for seed in (0, 1):
        draw, tensors = torch.Generator().manual_seed(seed), {}
        for name, layer in unet.named_modules():
            if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d)):
                shape = layer.weight.shape
                up = (shape[0], 2, *[1] * (len(shape) - 2))
                tensors[f"unet.{name}.lora_A.weight"] = torch.randn(2, *shape[1:], generator=draw) * 0.1
                tensors[f"unet.{name}.lora_B.weight"] = torch.randn(up, generator=draw) * 0.1
            elif isinstance(layer, torch.nn.GroupNorm):
                tensors[f"unet.{name}.diff"] = torch.randn(layer.weight.shape, generator=draw) * 0.1
                tensors[f"unet.{name}.diff_b"] = torch.randn(layer.bias.shape, generator=draw) * 0.1
        path = tmp_path_factory.mktemp("style") / f"{seed}.safetensors"
        save_file(tensors, path)
        made.append(path)
    return made


def run(pipe):
    return pipe("a red cat", num_inference_steps=2, seed=0, output_type="latent", height=32, width=32).images


@pytest.mark.parametrize("order", ["accelerated first", "LoRA first"])
def test_either_order(folder, styles, order):
    plain, fast = opened(folder), opened(folder)
    base = run(plain)
    if order == "accelerated first":
        fast.accelerate("exact")
        unchanged = run(fast)
    for number, style in enumerate(styles):
        for pipe in (plain, fast):
            pipe.load_lora_weights(style, f"style{number}", strength=0.7)
    if order == "LoRA first":
        fast.accelerate("exact")
    assert "FastLinear" in type(fast.unet.time_embedding.linear_1).__name__
    wanted = run(plain)
    assert relative_l2(wanted, base) > 0.05, "the LoRA does nothing"
    assert 0 < relative_l2(run(fast), wanted) < 1e-5
    for change in (
        lambda pipe: pipe.set_adapters(["style0", "style1"], [0.2, 1.5]),
        lambda pipe: pipe.load_lora_weights(styles[1], "style0", hotswap=True),
        lambda pipe: pipe.disable_lora(),
        lambda pipe: pipe.enable_lora(),
        lambda pipe: pipe.fuse_lora(),
        lambda pipe: pipe.unfuse_lora(),
        lambda pipe: pipe.delete_adapters("style1"),
    ):
        change(plain)
        change(fast)
        assert relative_l2(run(fast), run(plain)) < 1e-5
    plain.unload_lora_weights()
    fast.unload_lora_weights()
    assert torch.equal(run(plain), base)
    if order == "accelerated first":
        assert torch.equal(run(fast), unchanged)
    assert torch.equal(run(fast.accelerate("off")), base)


@pytest.mark.parametrize("order", ["accelerated first", "LoRA first"])
def test_layers_of_peft_in_a_model(folder, styles, order):
    pytest.importorskip("peft")
    from safetensors.torch import load_file

    layers = {name: tensor for name, tensor in load_file(styles[0]).items() if "lora_" in name}
    plain, fast = opened(folder), opened(folder)
    steps = [lambda unet: unet.accelerate("exact"), lambda unet: unet.load_lora_adapter(layers, prefix="unet")]
    for step in steps if order == "accelerated first" else reversed(steps):
        step(fast.unet)
    base = run(plain)
    plain.unet.load_lora_adapter(layers, prefix="unet")
    wanted = run(plain)
    assert relative_l2(wanted, base) > 0.05
    assert 0 < relative_l2(run(fast), wanted) < 1e-5
    fast.unet.unload_lora()
    assert relative_l2(run(fast), base) < 1e-5
