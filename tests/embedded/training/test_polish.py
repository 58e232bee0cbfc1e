"""The last stage: what learns, what stays, and what is exported."""

import pytest
import torch

import lockstep
from lockstep.embedded.training.autoencoder import build_autoencoder
from lockstep.embedded.training.diffusion import build_models
from lockstep.embedded.training.export import export_upon, write_folder
from lockstep.embedded.training.polish import PolishTraining, deepened, train_polish
from lockstep.embedded.training.settings import PolishSettings
from lockstep.errors import ConfigError
from lockstep.training.loop import Run
from lockstep.training.settings import build_settings
from lockstep.training.trainee import Trainee

SETTINGS = {
    "seed": 1, "steps": 4, "batch_size": 4, "judged": 2, "decay_share": 0.5,
    "unet_parts": ["up_blocks.1", "conv_out"],
    "optimizer": {"learning_rate": 1e-3, "weight_decay": 0.0},
    "mixture": {"styles": {"flat": 0.5, "3d": 0.5}, "kinds": {"base": 1.0}, "mirrored": 0.0, "beyond_core": 0.3},
    "cadence": {"evaluate_steps": 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def released(work, settings, autoencoder_settings, tmp_path_factory):
    """A folder as the export writes it, of fresh weights."""
    models = {**build_models(settings, work / "tokenizer"), "vae": build_autoencoder(autoencoder_settings)}
    torch.manual_seed(3)
    torch.nn.init.normal_(models["unet"].conv_out.weight, std=0.05)
    target = tmp_path_factory.mktemp("released") / "model"
    return write_folder(target, models, work / "tokenizer", settings.scheduler, "float32", 40.0)


def polish_settings(released, **more):
    before = lockstep.AutoencoderTiny.from_pretrained(released / "vae").config.num_decoder_blocks
    blocks = [count + 1 for count in before[:-1]] + [before[-1]]
    return build_settings(PolishSettings, {**SETTINGS, "decoder_blocks": blocks, **more}, "here")


def test_a_deeper_decoder_begins_as_the_one_before(released):
    vae = lockstep.AutoencoderTiny.from_pretrained(released / "vae", dtype=torch.float32)
    before = list(vae.config.num_decoder_blocks)
    deeper = deepened(vae, [before[0] + 2, *(count + 1 for count in before[1:-1]), before[-1]])
    latents = torch.randn(2, 4, 16, 16)
    with torch.no_grad():
        assert len(list(deeper.decoder.layers)) > len(list(vae.decoder.layers))
        torch.testing.assert_close(deeper.decoder(latents), vae.decoder(latents), rtol=0, atol=1e-5)
    for wrong in ([*before[:-1], before[-1] + 1], before[:-1], [before[0] - 1, *before[1:]]):
        with pytest.raises(ConfigError, match="decoder_blocks wants at least"):
            deepened(vae, wrong)


def test_its_latents_are_those_that_the_sampler_gives(work, released, tmp_path):
    """The way of a training step is the pipeline's own, step for step."""
    training = PolishTraining(work, polish_settings(released), Run(tmp_path / "run"), released)
    pipe = lockstep.DiffusionPipeline.from_pretrained(released, dtype="float32")
    noise = torch.randn(1, 4, 16, 16)
    options = {"num_inference_steps": 2, "guidance_scale": 1.0, "read_scenes": False, "output_type": "latent"}
    wanted = pipe("a dog", latents=noise, **options).images
    with torch.no_grad():
        torch.testing.assert_close(
            training.sampled(noise, training.texts.hidden(["a dog"]), 2), wanted, rtol=2e-2, atol=2e-2
        )


def test_pictures_come_nearer_and_only_what_learns_changes(work, released, tmp_path):
    training = PolishTraining(work, polish_settings(released), Run(tmp_path / "run"), released)
    assert isinstance(training.trainee, Trainee)
    before = {name: value.clone() for name, value in training.unet.state_dict().items()}

    def loss() -> float:
        with torch.no_grad():
            return sum(training.loss_at(step).item() for step in range(100, 104))

    at_first = loss()
    for step in range(30):
        training.trainee.learn(training.loss_at(step), 2e-3)
    assert loss() < 0.9 * at_first
    changed = {name for name, value in training.unet.state_dict().items() if not value.equal(before[name])}
    assert changed
    assert all(name.startswith(("up_blocks.1.", "conv_out.")) for name in changed)


def test_a_run_and_its_export_upon_the_released_model(work, released, tmp_path, as_toml):
    settings = polish_settings(released)
    train_polish(work, settings, released, settings_text=as_toml(settings))
    target = export_upon(work, tmp_path / "again", released, run_name="polish", dtype="float32")
    before, after = (
        lockstep.DiffusionPipeline.from_pretrained(folder, dtype="float32") for folder in (released, target)
    )
    assert list(after.vae.config.num_decoder_blocks) == settings.decoder_blocks
    old, new = before.unet.state_dict(), after.unet.state_dict()
    assert not new["conv_out.weight"].equal(old["conv_out.weight"])
    assert new["conv_in.weight"].equal(old["conv_in.weight"])
    assert after("a dog", seed=1, num_inference_steps=2).images[0].size == (128, 128)


def test_parts_that_the_unet_does_not_have_are_refused(work, released, tmp_path):
    with pytest.raises(ConfigError, match="no part 'up_blocks.9'"):
        PolishTraining(work, polish_settings(released, unet_parts=["up_blocks.9"]), Run(tmp_path / "run"), released)
