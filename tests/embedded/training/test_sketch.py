"""The text encoder that sketches: before its first step, on the way, and in the UNet's training."""

import dataclasses

import pytest
import torch

from lockstep.embedded.training.diffusion import train_diffusion
from lockstep.embedded.training.settings import DiffusionSettings, SketchSettings
from lockstep.embedded.training.sketch import SketchTraining, train_sketch
from lockstep.embedded.training.sketch_head import SketchHead
from lockstep.embedded.training.sketch_reading import ReadingLoss, standing_at, write_reading
from lockstep.embedded.training.sketch_start import in_fields, principal_components, write_sketches
from lockstep.errors import ConfigError
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.training.checkpoint import load_checkpoint
from lockstep.training.loop import Run
from lockstep.training.settings import build_settings

TEXT_ENCODER = {
    "hidden_size": 464, "intermediate_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 8,
    "max_position_embeddings": 88,
}  # fmt: skip
SETTINGS = {
    "seed": 1, "steps": 3, "batch_size": 4, "plain_captions": 1.0, "stranger_share": 0.0,
    "text_encoder": TEXT_ENCODER,
    "optimizer": {"learning_rate": 1e-4, "weight_decay": 0.0},
    "mixture": {"styles": {"flat": 0.5, "3d": 0.5}, "kinds": {"base": 1.0}, "mirrored": 0.0, "beyond_core": 0.3},
    "cadence": {"evaluate_steps": 100},
    "evaluation": {"loss_items": 4, "prompts": ["a dog", "a cat, flat style"]},
}  # fmt: skip


@pytest.fixture
def settings():
    return build_settings(SketchSettings, SETTINGS, "here")


def test_components_hold_latents_that_lie_in_a_plane():
    torch.manual_seed(0)
    latents = (torch.randn(9, 4) @ torch.randn(4, 2 * 12) + 3).unflatten(1, (2, 12))
    codes, components, mean = principal_components(latents, torch.rand(9) + 0.5, torch.tensor([0.7, 0.3]), rank=4)
    torch.testing.assert_close(torch.einsum("cr,rsv->csv", codes, components) + mean, latents, rtol=1e-4, atol=1e-4)


def test_fields_are_laid_out_as_the_head_reads_them():
    latents = torch.randn(2, 4, 16, 16)
    head = SketchHead(64, fields=4)
    torch.nn.init.eye_(head.out.weight)
    torch.nn.init.zeros_(head.out.bias)
    squares = in_fields(latents, 4).unflatten(1, (16, 64))
    with torch.no_grad():
        assert head(torch.cat([torch.zeros(2, 24, 64), squares], dim=1)).equal(latents)


def test_things_are_sketched_in_each_style_before_the_first_step(work, settings):
    training = SketchTraining(work, settings, Run(work / "runs/begun"), work / "teacher")
    torch.manual_seed(0)
    names, styles, latents = ["dog", "cat", "star", "boat"], ["3d", "flat"], 0.8 * torch.randn(4, 2, 4, 16, 16)
    modules, tokenizer = training.trainee.modules, training.data.tokenizer
    write_sketches(
        modules["text_encoder"], modules["sketch"], tokenizer, names, latents, torch.ones(4), dict.fromkeys(styles, 0.5)
    )
    with torch.no_grad():
        for number, words in enumerate(("a {}", "a {}, flat style")):
            drawn = training.sketch(modules, [words.format(name) for name in names])
            assert (drawn - latents[:, number]).square().mean() < 0.03
        nothing = training.sketch(modules, [""])
    assert (nothing[0] - latents[:, 0].mean(0)).square().mean() < 0.05  # what they have in common


def test_sizes_that_cannot_hold_sketches_are_refused(work, settings):
    narrow = dataclasses.replace(settings, text_encoder={**TEXT_ENCODER, "num_attention_heads": 4})
    with pytest.raises(ConfigError, match="want 8 heads, 1024 units"):
        SketchTraining(work, narrow, Run(work / "runs/narrow"), work / "teacher")
    narrow = dataclasses.replace(settings, text_encoder={**TEXT_ENCODER, "hidden_size": 256})
    with pytest.raises(ConfigError, match="width of 256 has no room"):
        SketchTraining(work, narrow, Run(work / "runs/narrow"), work / "teacher")


def test_the_unet_goes_on_with_words_that_stay(work, settings):
    train_sketch(work, settings, run_name="sketched", teacher_folder=work / "teacher")
    assert (work / "runs/sketched/sheets/0000003.png").is_file()
    unet = {
        "sample_size": 16, "in_channels": 4,
        "block_out_channels": [16, 16], "layers_per_block": 1, "cross_attention_dim": 464,
        "attention_head_dim": 2, "norm_num_groups": 8,
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
        "addition_embed_type": "text", "addition_embed_type_num_heads": 2,
    }  # fmt: skip
    names = ("text_encoder", "mixture", "optimizer", "cadence", "batch_size")
    further = {"unet": unet, "frozen_words": True, **{name: SETTINGS[name] for name in names}}
    further = build_settings(DiffusionSettings, further, "here")
    train_diffusion(work, further, run_name="drawn", teacher_folder=work / "teacher", sketch="sketched", steps=2)
    drawn = stored(work, "drawn")
    assert_words(drawn, stored(work, "sketched"))
    assert not drawn["weights.unet.conv_in.weight"].equal(drawn["average.unet.conv_in.weight"])

    train_sketch(work, settings, run_name="sketched longer", teacher_folder=work / "teacher", steps=1)
    train_diffusion(
        work, further, run_name="drawn on", teacher_folder=work / "teacher",
        start_from="drawn", sketch="sketched longer", steps=3,
    )  # fmt: skip
    after = stored(work, "drawn on")
    assert_words(after, stored(work, "sketched longer"))
    looks = [name for name in after if name.startswith("weights.unet.") and "attn2" in name]
    assert looks
    assert all((after[name] - drawn[name]).abs().max() < 0.01 for name in looks)


def stored(work, run):
    return load_checkpoint(work / "runs" / run / "checkpoint.safetensors")[0]


def assert_words(drawn, sketched):
    words = [name for name in drawn if name.startswith("weights.text_encoder.")]
    assert words
    assert all(drawn[name].equal(sketched[name.replace("weights.", "average.")]) for name in words)


def test_a_unet_looks_at_its_own_field_before_the_first_step():
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, block_out_channels=(64, 64), layers_per_block=1,
        cross_attention_dim=48, attention_head_dim=2, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    head, latents, times = SketchHead(48, fields=4, shape=(4, 8, 8)), torch.randn(24, 4, 8, 8), torch.full((24,), 900)
    hidden = torch.cat([0.05 * torch.randn(24, 6, 48), torch.eye(16, 48).repeat(24, 1, 1)], dim=1)

    def draw():
        unet(latents, times, encoder_hidden_states=hidden)

    layer = unet.mid_block.attentions[0].transformer_blocks[0].attn2
    before = looked_at_own(layer, draw, hidden)
    write_reading(unet, head, draw, hidden)
    after = looked_at_own(layer, draw, hidden)
    assert before < 0.1 < 0.4 < after
    read = layer.to_v.weight[:16] @ hidden[0].T
    torch.testing.assert_close(read, head.out.weight @ hidden[0].T)


@torch.no_grad()
def looked_at_own(layer, draw, hidden):
    """How much of its attention the first head has for the field that it stands in, on a map as large as the sketch."""
    seen = []
    handle = layer.to_q.register_forward_hook(lambda _, __, out: seen.append(out))
    draw()
    handle.remove()
    width = seen[0].shape[-1] // layer.heads
    scores = seen[0][..., :width] @ layer.to_k(hidden)[..., :width].mT / width**0.5
    return scores.softmax(-1)[:, :, -16:].diagonal(dim1=1, dim2=2).mean().item()


def test_finer_maps_read_their_own_latents_and_are_told_where_to_look():
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, block_out_channels=(64, 64), layers_per_block=1,
        cross_attention_dim=48, attention_head_dim=4, norm_num_groups=8, only_cross_attention=(True, False),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    head, latents, times = SketchHead(48, fields=4, shape=(4, 8, 8)), torch.randn(24, 4, 8, 8), torch.full((24,), 900)
    hidden = torch.cat([torch.randn(1, 6, 48), torch.eye(16, 48)[None]], dim=1).repeat(24, 1, 1)
    reading = ReadingLoss(unet, fields=4)

    def draw():
        unet(latents, times, encoder_hidden_states=hidden)

    write_reading(unet, head, draw, hidden)
    layer = unet.up_blocks[-1].attentions[-1].transformer_blocks[0].attn2
    optimizer = torch.optim.Adam(unet.parameters(), lr=1e-3)
    losses = []
    for _ in range(12):
        draw()
        losses.append(reading.take())
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    write_reading(unet, head, draw, hidden)
    with torch.no_grad():
        told, values = head(hidden[:1])[0], layer.to_v(hidden[0]).unflatten(-1, (4, 16))
        own, within = standing_at(8, 4)
        read = values[6 + own, within, :4]  # the head of the place within the field
    torch.testing.assert_close(read.T.unflatten(-1, (8, 8)), told, rtol=1e-2, atol=1e-2)
    assert values[0].abs().max() < 0.02  # the first mark tells nothing
