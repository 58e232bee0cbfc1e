"""Qwen's tokenizer since Qwen2: byte-level BPE of words, single digits and runs of signs; nothing around a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from .bpe_files import read_bpe, write_bpe
from .special_tokens import SpecialTokens
from .tokenizer import Settings, Tokenizer, read_backend_file

NUM_BYTES = 256
PIECES = "|".join(
    [
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)",  # contractions
        r"[^\r\n\p{L}\p{N}]?\p{L}+",  # a word, with the sign or space before it
        r"\p{N}",  # a digit
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",  # signs, with the space before them and the line's end after them
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


class Qwen2Tokenizer(Tokenizer):
    """The words alone; who speaks in a chat is told by marks inside of the text (`chat_text`)."""

    eos_token: str
    pad_token: str
    eos_token_id: int
    pad_token_id: int
    default_tokens: ClassVar[dict[str, str]] = dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>")

    @classmethod
    def from_vocabulary(
        cls, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], **settings: Unpack[Settings]
    ) -> Qwen2Tokenizer:
        """Build from a vocabulary and its merges in order of rank."""
        return cls(qwen2_backend(dict(vocab), [tuple(pair) for pair in merges]), **settings)

    @classmethod
    def read_backend(cls, folder: Path, special: SpecialTokens) -> tokenizers.Tokenizer:
        if (folder / "tokenizer.json").is_file():
            return read_backend_file(folder / "tokenizer.json")
        marks = len(special.contents()) + len(special.added) + len(cls.default_tokens)
        return read_bpe(folder, "Qwen", qwen2_backend, NUM_BYTES + marks)

    def save_pretrained(self, folder: str | Path) -> None:
        super().save_pretrained(folder)
        write_bpe(self.backend, Path(folder))


def qwen2_backend(vocab: Any, merges: Any) -> tokenizers.Tokenizer:
    """Merging of bytes, from paths or from values, and everything around it: normal form, pieces, bytes."""
    backend = tokenizers.Tokenizer(models.BPE(vocab, merges, continuing_subword_prefix="", end_of_word_suffix=""))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return backend


def chat_text(words: str) -> str:
    """What a person says in a chat, and the mark at which the answer begins."""
    return f"<|im_start|>user\n{words}<|im_end|>\n<|im_start|>assistant\n"
