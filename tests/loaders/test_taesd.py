"""The standalone TAESD files: their names, their sizes, and the published weights on a photograph."""

import os
from pathlib import Path

import diffusers
import pytest
import torch
from safetensors.torch import save_file

from helpers import assert_close, slow
from lockstep.errors import FileFormatError, NotFoundError, WeightsError
from lockstep.loaders.taesd import load_taesd
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny


def write_standalone(model, folder):
    """The model in the dialect of the standalone files: the decoder counts its clamp as layer 0."""
    for part, shift in (("encoder", 0), ("decoder", 1)):
        tensors = {}
        for name, tensor in getattr(model, part).layers.state_dict().items():
            index, rest = name.split(".", 1)
            tensors[f"{int(index) + shift}.{rest}"] = tensor.contiguous()
        save_file(tensors, folder / f"taesd_{part}.safetensors")
    return folder / "taesd_encoder.safetensors", folder / "taesd_decoder.safetensors"


@pytest.mark.parametrize(
    "config",
    [
        {"encoder_block_out_channels": (8,) * 4, "decoder_block_out_channels": (12,) * 4, "latent_channels": 16},
        {
            "encoder_block_out_channels": (8,) * 3,
            "decoder_block_out_channels": (8,) * 3,
            "num_encoder_blocks": (2, 0, 1),
            "num_decoder_blocks": (1, 0, 2),
        },
    ],
    ids=["sixteen channels", "other depths"],
)
def test_sizes_are_read_off_the_tensors(config, tmp_path):
    model = AutoencoderTiny(**config)
    loaded = load_taesd(*write_standalone(model, tmp_path))
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert load_taesd(*write_standalone(model, tmp_path), dtype="bfloat16").dtype == torch.bfloat16


def test_files_that_are_something_else(tmp_path):
    model = AutoencoderTiny(encoder_block_out_channels=(8,) * 4, decoder_block_out_channels=(8,) * 4)
    encoder, decoder = write_standalone(model, tmp_path)
    with pytest.raises(NotFoundError, match="nowhere.safetensors"):
        load_taesd(encoder, tmp_path / "nowhere.safetensors")
    with pytest.raises(WeightsError, match="begins at 1 and a decoder that begins at 0"):
        load_taesd(decoder, encoder)
    model.save_pretrained(tmp_path / "folder")
    with pytest.raises(WeightsError, match="from_pretrained"):
        load_taesd(tmp_path / "folder" / "diffusion_pytorch_model.safetensors", decoder)
    encoder.write_bytes(encoder.read_bytes()[:-4])
    with pytest.raises(FileFormatError, match="cut off"):
        load_taesd(encoder, decoder)


@pytest.mark.parametrize("side", [256, pytest.param(512, marks=slow)])
def test_published_weights_on_a_photograph(side):
    """madebyollin/taesd; set LOCKSTEP_TAESD to the folder that has the two files."""
    folder = Path(os.environ.get("LOCKSTEP_TAESD", "nowhere"))
    if not (folder / "taesd_encoder.safetensors").is_file():
        pytest.skip("the published TAESD weights are not here: set LOCKSTEP_TAESD to their folder")
    from skimage import data

    model = load_taesd(folder / "taesd_encoder.safetensors", folder / "taesd_decoder.safetensors")
    reference = diffusers.AutoencoderTiny().eval()
    reference.load_state_dict(model.state_dict())
    photograph = torch.tensor(data.astronaut()[:side, :side]).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.no_grad():
        latents = model.encode(photograph).latents
        assert_close(latents, reference.encode(photograph).latents)
        picture = model.decode(latents).sample
        assert_close(picture, reference.decode(latents).sample)
        assert_close(model(photograph).sample, reference(photograph).sample)
    mean_square = ((picture.clamp(-1, 1) - photograph) / 2).square().mean()
    assert -10 * torch.log10(mean_square) >= 24


def test_a_tiny_autoencoder_is_written_to_a_folder_and_back(tmp_path):
    from lockstep.loaders.convert import convert

    model = AutoencoderTiny(encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8),
                                     num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1))  # fmt: skip
    model.save_pretrained(tmp_path / "tiny")
    convert(tmp_path / "tiny", tmp_path / "tiny.safetensors")
    convert(tmp_path / "tiny.safetensors", tmp_path / "again")
    again = AutoencoderTiny.from_pretrained(tmp_path / "again")
    single = AutoencoderTiny.from_single_file(tmp_path / "tiny.safetensors")
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
        assert torch.equal(single.state_dict()[name], tensor), name
