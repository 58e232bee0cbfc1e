"""Tiny folders of Z-Image with random weights in the published layout."""

from pathlib import Path

import lockstep
from lockstep.tokenizers.special_tokens import SpecialTokens
from pipelines import tiny, tiny_flow
from tokenizers import AddedToken, pre_tokenizers

CHANNELS = 4
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = (  # what the published template says to one question, with thinking on
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRANSFORMER = {
    "in_channels": CHANNELS, "dim": 24, "n_layers": 2, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2,
    "cap_feat_dim": 16, "axes_dims": (4, 4, 4), "axes_lens": (600, 64, 64),
}  # fmt: skip
ENCODER = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "rope_theta": 1_000_000.0, "max_position_embeddings": 1024,
}  # fmt: skip


def qwen_tokenizer(*more: str) -> lockstep.Qwen2Tokenizer:
    """Bytes, the pairs that make the words of the tests, and marks."""
    tokens, merges = sorted(pre_tokenizers.ByteLevel.alphabet()), []
    for word in tiny.WORDS:
        if not word.isascii():
            continue
        made = "Ġ"
        for letter in word:
            if made + letter not in tokens:
                tokens.append(made + letter)
                merges.append((made, letter))
            made += letter
    marks = {
        len(tokens) + k: AddedToken(mark, special=True, normalized=False) for k, mark in enumerate((*MARKS, *more))
    }
    special = SpecialTokens({"eos_token": MARKS[2], "pad_token": MARKS[0]}, [], marks)
    vocab = {token: index for index, token in enumerate(tokens)}
    return lockstep.Qwen2Tokenizer.from_vocabulary(
        vocab, merges, special_tokens=special, model_max_length=1024, config={"chat_template": CHAT}
    )


def z_image_parts(**changes) -> dict:
    """Components; `changes` are of the scheduler."""
    tokenizer = qwen_tokenizer()
    return {
        "tokenizer": tokenizer,
        "text_encoder": tiny.randomize(lockstep.Qwen3Model(vocab_size=len(tokenizer), **ENCODER), 4),
        "transformer": tiny.randomize(lockstep.ZImageTransformer2DModel(**TRANSFORMER), 2),
        "vae": tiny_flow.vae(channels=CHANNELS),
        "scheduler": lockstep.FlowMatchEulerDiscreteScheduler(**{"shift": 3.0, **changes}),
    }


def save_z_image(folder: Path, **changes) -> Path:
    return tiny_flow.write(folder, "ZImagePipeline", z_image_parts(**changes))
