"""LoRA on a model by itself: against the reference on the same weights, and beside what a pipeline has merged."""

import json
import logging

import diffusers
import peft
import pytest
import torch

import lockstep
from lockstep.errors import InputError, UnknownNameError, UnsupportedError, WeightsError
from pipelines import tiny

SAMPLE = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
TEXT = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1))


def unet():
    return tiny.unet(4)


def settings(**changes):
    return peft.LoraConfig(
        **{"r": 3, "lora_alpha": 6, "target_modules": ["to_q", "to_k", "to_out.0"], "init_lora_weights": False}
        | changes
    )


@torch.no_grad()
def predict(model):
    return model(SAMPLE, 7, TEXT[..., : model.config.cross_attention_dim]).sample


def close(a, b):
    return torch.linalg.norm(a - b) <= 1e-5 * torch.linalg.norm(b)


@pytest.fixture
def pair(tmp_path):
    """Our model and the reference's, with one and the same adapter."""
    ours = unet().eval()
    ours.save_pretrained(tmp_path / "unet")
    theirs = diffusers.UNet2DConditionModel.from_pretrained(tmp_path / "unet").eval()
    torch.manual_seed(0)
    ours.add_adapter(settings())
    ours.save_lora_adapter(tmp_path / "lora")
    theirs.load_lora_adapter(tmp_path / "lora", prefix=None, adapter_name="default", use_safetensors=True)
    return ours, theirs, tmp_path


def test_an_adapter_computes_what_the_references_does_at_every_strength(pair):
    ours, theirs, _ = pair
    plain = unet().eval()
    assert close(predict(ours), predict(theirs))
    assert not close(predict(ours), predict(plain))
    for weights in (0.3, [2.0], {"down": 0.5, "mid": 0.1, "up": {"block_1": 0.7}}):
        ours.set_adapters("default", weights)
        theirs.set_adapters(["default"], weights)
        assert close(predict(ours), predict(theirs))
    for step in ("disable_lora", "enable_lora", "fuse_lora", "unfuse_lora"):
        for model in (ours, theirs):
            getattr(model, step)()
        assert close(predict(ours), predict(theirs)), step
    ours.disable_lora()
    assert close(predict(ours), predict(plain))
    ours.unload_lora()
    assert close(predict(ours), predict(plain))
    assert list(ours.state_dict()) == list(plain.state_dict())


def test_files_go_back_and_forth_and_the_model_is_saved_without_its_adapters(pair):
    ours, theirs, folder = pair
    theirs.save_lora_adapter(folder / "theirs")
    second = unet().eval()
    second.load_lora_adapter(folder / "theirs", prefix=None)
    assert second.active_adapters() == ["default_0"]
    assert close(predict(second), predict(ours))
    ours.save_pretrained(folder / "again")
    assert torch.equal(predict(lockstep.UNet2DConditionModel.from_pretrained(folder / "again")), predict(unet().eval()))
    older = {f"unet.{k.replace('lora_A', 'lora.down').replace('lora_B', 'lora.up')}": v for k, v in
             peft.get_peft_model_state_dict(ours).items()}  # fmt: skip
    third = unet().eval()
    third.load_lora_adapter(older, prefix="unet", metadata={f"unet.{k}": v for k, v in settings().to_dict().items()})
    assert close(predict(third), predict(ours))


def test_several_adapters_are_weighted_deleted_and_swapped(pair):
    ours, _, folder = pair
    once = predict(ours)
    torch.manual_seed(1)
    ours.add_adapter(settings(r=2), "second")
    ours.set_adapters(["default", "second"], [1.0, 0.0])
    assert close(predict(ours), once)
    ours.delete_adapters("second")
    ours.set_adapter("default")
    assert close(predict(ours), once)
    ours.load_lora_adapter(folder / "lora", prefix=None, adapter_name="default", hotswap=True)
    assert close(predict(ours), once)
    for wrong, error in (
        (lambda: ours.set_adapters("secnd"), UnknownNameError),
        (lambda: ours.set_adapters(["default"], [1.0, 2.0]), InputError),
        (lambda: ours.add_adapter(settings()), InputError),
        (lambda: ours.add_adapter({"r": 3}), InputError),
        (lambda: ours.save_lora_adapter(folder, "secnd"), UnknownNameError),
        (lambda: ours.save_lora_adapter(folder, safe_serialization=False), UnsupportedError),
        (lambda: ours.load_lora_adapter(folder / "lora", prefix=None, use_safetensors=False), UnsupportedError),
        (lambda: ours.load_lora_adapter({"x.lora_B.weight": torch.ones(2, 1)}, prefix=None), WeightsError),
        (lambda: ours.load_lora_adapter(folder / "lora", prefix=None, metadata={"rank": 3}), TypeError),
        (lambda: unet().set_adapters("default"), InputError),
    ):
        with pytest.raises(error):
            wrong()


def test_nothing_under_a_prefix_is_said(pair, caplog):
    ours, _, folder = pair
    with caplog.at_level(logging.WARNING):
        ours.load_lora_adapter(folder / "lora", prefix="transformer", adapter_name="other")
    assert "No LoRA keys associated to UNet2DConditionModel" in caplog.text
    assert "other" not in ours.lora_configs


def test_trained_layers_are_the_adapters_alone(pair):
    ours, _, _ = pair
    ours.requires_grad_(False)
    ours.set_adapter("default")
    ours(SAMPLE, 7, TEXT[..., : ours.config.cross_attention_dim]).sample.square().mean().backward()
    trained = [name for name, p in ours.named_parameters() if p.grad is not None]
    assert trained
    assert all(".lora_" in name for name in trained)


def test_a_model_answers_for_what_its_pipeline_merged(tmp_path, pair):
    ours, _, _ = pair
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(tiny.save_folder(tmp_path / "sd1"))
    plain = predict(pipe.unet)
    layers = {f"unet.{k}": v for k, v in peft.get_peft_model_state_dict(ours).items()}
    lora = tmp_path / "merged.safetensors"
    metadata = {"lora_adapter_metadata": json.dumps({"unet.lora_alpha": 6, "unet.r": 3})}
    lockstep.models.weights.save_tensors(layers, lora, metadata)
    pipe.load_lora_weights(lora, adapter_name="style")
    full = predict(pipe.unet)
    assert not close(full, plain)
    pipe.unet.disable_lora()
    assert torch.equal(predict(pipe.unet), plain)
    pipe.unet.enable_lora()
    assert torch.equal(predict(pipe.unet), full)
    pipe.unet.set_adapters(["style"], [0.0])
    assert torch.equal(predict(pipe.unet), plain)
    assert pipe.describe_adapters()[0]["strength"] == 0.0
    pipe.set_adapters("style", 1.0)
    assert torch.equal(predict(pipe.unet), full)
    assert "in_component" not in pipe.describe_adapters()[0]
    with pytest.raises(UnsupportedError, match="style"):
        pipe.unet.delete_adapters("style")
    with pytest.raises(InputError, match="LoRA is named by"):
        pipe.load_lora_weights(None)
