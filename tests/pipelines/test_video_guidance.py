"""Guiders that reach into layers, and LoRAs for one of two experts, on video models."""

import pytest
import torch

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


def test_a_layer_that_the_model_does_not_have_is_told_before_anything_runs():
    pipe = pipeline("text")
    pipe.guider = lockstep.SkipLayerGuidance(guidance_scale=5.0, **{**SKIP, "skip_layer_guidance_layers": [7]})
    pipe.text_encoder.forward = lambda *_, **__: pytest.fail("a model ran")
    with pytest.raises(InputError, match="7"):
        pipe(**CALL)


def test_a_guider_of_edited_pictures_is_told_before_anything_runs():
    pipe = pipeline("text")
    pipe.guider = lockstep.TextAndImageGuidance()
    pipe.text_encoder.forward = lambda *_, **__: pytest.fail("a model ran")
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
