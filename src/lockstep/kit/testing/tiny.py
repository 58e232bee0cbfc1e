"""The parts of a tiny pipeline that every family shares, with random weights that are the same each time."""

from __future__ import annotations

from ...models.autoencoders.autoencoder_kl import AutoencoderKL
from ...models.text_encoders.clip import CLIPTextModel
from ...tokenizers import CLIPTokenizer
from .closeness import randomized

BYTES = 2 * 256  # alone, and at the end of a word


def tokenizer() -> CLIPTokenizer:
    """A tokenizer that knows every byte and no word: to learn words breaks ties in another order each time."""
    return CLIPTokenizer.train(["a"], vocab_size=BYTES + 2)


def text_encoder(words: CLIPTokenizer, width: int = 16) -> CLIPTextModel:
    """CLIP's text model for that tokenizer."""
    count = len(words)
    made = CLIPTextModel(
        vocab_size=count,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=77,
        bos_token_id=count - 2,
        eos_token_id=count - 1,
        pad_token_id=count - 1,
    )
    return randomized(made, 1)


def autoencoder(latent_channels: int = 4) -> AutoencoderKL:
    """An autoencoder whose latents have two pixels along a side."""
    made = AutoencoderKL(
        latent_channels=latent_channels,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        sample_size=16,
    )
    return randomized(made, 3)
