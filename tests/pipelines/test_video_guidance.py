"""Guiders that reach into layers, and LoRAs for one of two experts, on video models."""

import pytest
import torch
from PIL import Image

import lockstep
from lockstep.errors import InputError, UnknownNameError
from pipelines import tiny_video

CALL = {"prompt": "a cat", "height": 16, "width": 16, "num_frames": 5, "num_inference_steps": 3, "seed": 1,
        "output_type": "latent", "max_sequence_length": 12}  # fmt: skip
SKIP = {"skip_layer_guidance_layers": [1], "skip_layer_guidance_start": 0.0, "skip_layer_guidance_stop": 0.9}


def pipeline(kind):
    pipe = lockstep.WanPipeline(**tiny_video.parts(kind))
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.mark.parametrize("kind", ["text", "experts"])
def test_layers_of_one_expert_and_of_two_are_skipped(kind):
    pipe = pipeline(kind)
    plain = pipe(**CALL).frames
    pipe.guider = lockstep.SkipLayerGuidance(guidance_scale=5.0, **SKIP)
    assert not torch.equal(pipe(**CALL).frames, plain)


def test_a_layer_that_the_model_does_not_have_is_told_before_anything_runs(monkeypatch):
    pipe = pipeline("text")
    pipe.guider = lockstep.SkipLayerGuidance(guidance_scale=5.0, **{**SKIP, "skip_layer_guidance_layers": [7]})
    monkeypatch.setattr(pipe.text_encoder, "forward", lambda *_, **__: pytest.fail("a model ran"))
    with pytest.raises(InputError, match="7"):
        pipe(**CALL)


def test_a_guider_of_edited_pictures_is_told_before_anything_runs(monkeypatch):
    pipe = pipeline("text")
    pipe.guider = lockstep.TextAndImageGuidance()
    monkeypatch.setattr(pipe.text_encoder, "forward", lambda *_, **__: pytest.fail("a model ran"))
    with pytest.raises(InputError, match="with and without the picture that is edited"):
        pipe(**CALL)


def lora(layer="transformer.blocks.0.attn1.to_q"):
    width = 24
    return {f"{layer}.lora_A.weight": torch.randn(2, width), f"{layer}.lora_B.weight": torch.randn(width, 2)}


def test_a_lora_for_the_second_expert_changes_the_second_alone():
    pipe = pipeline("experts")
    before = [
        pipe.transformer.blocks[0].attn1.to_q.weight.clone(),
        pipe.transformer_2.blocks[0].attn1.to_q.weight.clone(),
    ]
    pipe.load_lora_weights(lora(), adapter_name="high")
    assert pipe.get_list_adapters() == {"transformer": ["high"]}
    pipe.delete_adapters("high")
    pipe.load_lora_weights(lora(), adapter_name="low", load_into_transformer_2=True)
    assert pipe.get_list_adapters() == {"transformer_2": ["low"]}
    assert torch.equal(pipe.transformer.blocks[0].attn1.to_q.weight, before[0])
    assert not torch.equal(pipe.transformer_2.blocks[0].attn1.to_q.weight, before[1])


def test_an_argument_that_means_nothing_is_refused():
    with pytest.raises(UnknownNameError, match="load_into_transformer_2"):
        pipeline("experts").load_lora_weights(lora(), load_into_transformer2=True)
    pipeline("experts").load_lora_weights(lora(), low_cpu_mem_usage=True)


@pytest.mark.parametrize("ratio", ["x", 2.0, -1.0, float("nan")])
def test_a_boundary_that_is_none_is_told_before_anything_runs(ratio, monkeypatch):
    pipe = lockstep.WanPipeline(**{**tiny_video.parts("experts"), "boundary_ratio": ratio})
    monkeypatch.setattr(pipe.text_encoder, "forward", lambda *_, **__: pytest.fail("a model ran"))
    with pytest.raises(InputError, match="from 0 to 1"):
        pipe(**CALL)


@pytest.mark.parametrize(("kind", "both"), [("image", True), ("first and last", False)])
def test_a_last_frame_is_for_models_that_were_taught_it(kind, both, monkeypatch):
    pipe = lockstep.WanImageToVideoPipeline(**tiny_video.parts(kind))
    monkeypatch.setattr(pipe.text_encoder, "forward", lambda *_, **__: pytest.fail("a model ran"))
    picture = Image.new("RGB", (16, 16))
    with pytest.raises(InputError, match="This denoiser was taught"):
        pipe(**CALL, image=picture, last_image=picture if both else None)


def test_the_scale_of_a_call_is_that_of_the_strength():
    pipe = pipeline("text")
    torch.manual_seed(0)
    pipe.load_lora_weights(lora(), adapter_name="a")
    scaled = pipe(**CALL, attention_kwargs={"scale": 0.25}).frames
    pipe.set_adapters("a", 0.25)
    assert torch.equal(pipe(**CALL).frames, scaled)


def test_a_callback_sees_and_sets_the_rows_with_the_prompt_alone():
    seen = []

    def halve(pipe, step, t, values):
        seen.append(len(values["prompt_embeds"]))
        return {"prompt_embeds": values["prompt_embeds"] * 0.5}

    pipe = pipeline("text")
    wanted = {"callback_on_step_end": halve, "callback_on_step_end_tensor_inputs": ["prompt_embeds"]}
    changed = pipe(**CALL, **wanted).frames
    assert seen == [1, 1, 1]
    assert not torch.equal(pipe(**CALL).frames, changed)
