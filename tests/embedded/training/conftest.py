"""A whole work folder in miniature: drawn pictures, concepts, items, tokenizer, a teacher and latents."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.torch import save_file

from lockstep.embedded.training.data.concepts import Concept, save_concepts
from lockstep.embedded.training.data.items import build_items
from lockstep.embedded.training.settings import AutoencoderSettings, DiffusionSettings
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from lockstep.training.settings import build_settings

STYLES = ("3d", "flat")
NAMES = ("dog", "cat", "star", "heart", "boat", "tree")


def draw(seed: int) -> np.ndarray:
    """A disc of one colour with a stripe through it, on nothing."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:128, :128]
    picture = np.full((128, 128, 4), (255, 255, 255, 0), np.uint8)
    disc = (rows - 64) ** 2 + (columns - 64) ** 2 < rng.integers(30, 58) ** 2
    picture[disc] = (*rng.integers(0, 256, 3), 255)
    picture[disc & (abs(columns - rng.integers(40, 90)) < 6)] = (*rng.integers(0, 256, 3), 255)
    return picture


def save_standalone_teacher(folder):
    """A random autoencoder as the two standalone files that TAESD is published as."""
    model = AutoencoderTiny(
        encoder_block_out_channels=(8,) * 4,
        decoder_block_out_channels=(8,) * 4,
        num_encoder_blocks=(1, 1, 1, 1),
        num_decoder_blocks=(1, 1, 1, 1),
    )
    encoder = {name.removeprefix("layers."): value for name, value in model.encoder.state_dict().items()}
    decoder = {}
    for name, value in model.decoder.state_dict().items():
        index, _, rest = name.removeprefix("layers.").partition(".")
        decoder[f"{int(index) + 1}.{rest}"] = value
    folder.mkdir(parents=True)
    save_file(encoder, folder / "taesd_encoder.safetensors")
    save_file(decoder, folder / "taesd_decoder.safetensors")


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    import torch

    from lockstep.embedded.training.latents import encode_latents
    from lockstep.embedded.training.tokenizer import train_tokenizer

    torch.manual_seed(0)
    work = tmp_path_factory.mktemp("work")
    concepts = [
        Concept(f"{index:x}", "", [name], ["count"], 1 if index < 4 else 2, name, "things", "things", [])
        for index, name in enumerate(NAMES)
    ]
    save_concepts(work, concepts)
    rows = [(concept.code, style) for style in STYLES for concept in concepts]
    (work / "pictures").mkdir()
    np.save(work / "pictures/rgba.npy", np.stack([draw(index) for index in range(len(rows))]))
    records = [
        {"index": index, "concept": code, "style": style, "licence": "none", "source": "drawn here", "natural": None}
        for index, (code, style) in enumerate(rows)
    ]
    (work / "pictures/table.json").write_text(
        json.dumps({"inputs": {style: f"{style}-drawn-once" for style in STYLES}, "pictures": records})
    )
    build_items(work)
    train_tokenizer(work)
    save_standalone_teacher(work / "teacher")
    encode_latents(work, work / "teacher")
    return work


def to_toml(settings) -> str:
    """Settings as TOML text: tables of plain values, which JSON writes the same way."""
    plain, tables = [], []
    for name, value in dataclasses.asdict(settings).items():
        if isinstance(value, dict):
            lines = [f"{key} = {inline(item)}" for key, item in value.items()]
            tables += [f"[{name}]", *lines]
        else:
            plain.append(f"{name} = {inline(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def inline(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {inline(item)}' for key, item in value.items()) + " }"
    return json.dumps(value)


@pytest.fixture(scope="session")
def as_toml():
    return to_toml


@pytest.fixture(scope="session")
def settings() -> DiffusionSettings:
    return build_settings(DiffusionSettings, json.loads(json.dumps(TINY)), "tiny")


@pytest.fixture(scope="session")
def autoencoder_settings() -> AutoencoderSettings:
    return build_settings(AutoencoderSettings, json.loads(json.dumps(TINY_AUTOENCODER)), "tiny")


MIXTURE = {
    "styles": {"3d": 0.5, "flat": 0.5},
    "kinds": {"base": 0.6, "colour": 0.2, "background": 0.2},
    "mirrored": 0.2,
    "beyond_core": 0.2,
}
TINY = {
    "batch_size": 4,
    "word_vectors": 0.0,
    "unet": {
        "sample_size": 16,
        "block_out_channels": [16, 32],
        "layers_per_block": 1,
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
        "cross_attention_dim": 16,
        "attention_head_dim": 2,
        "norm_num_groups": 8,
        "in_channels": 4,
        "out_channels": 4,
        "resnet_time_scale_shift": "scale_shift",
        "addition_embed_type": "text",
        "addition_embed_type_num_heads": 2,
    },
    "text_encoder": {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 88,
    },
    "scheduler": {
        "beta_schedule": "squaredcos_cap_v2", "rescale_betas_zero_snr": True, "timestep_spacing": "trailing",
        "prediction_type": "v_prediction", "clip_sample": False, "steps_offset": 1,
    },
    "optimizer": {"warmup_steps": 2},
    "mixture": MIXTURE,
    "cadence": {"evaluate_steps": 1000, "log_steps": 1},
    "evaluation": {"loss_items": 8, "retrieval_items": 4, "steps": 2,
        "prompts": ["a dog", "a red cat on a blue background"]},
}  # fmt: skip
TINY_AUTOENCODER = {
    "batch_size": 4,
    "decoder_steps": 4,
    "encoder_steps": 4,
    "held_out": 4,
    "held_out_share": 0.2,
    "model": {
        "encoder_block_out_channels": [8, 8, 8, 8], "decoder_block_out_channels": [8, 8, 8, 8],
        "num_encoder_blocks": [1, 1, 1, 1], "num_decoder_blocks": [1, 1, 1, 1],
    },
    "mixture": MIXTURE,
}  # fmt: skip
