"""T5's tokenizer (arXiv:1910.10683): SentencePiece unigrams whose words begin with `▁`, and `</s>` at the end.

The pipeline is the one that `tokenizer.json` describes, to the letter. transformers 5 replaces it by one of its own in
`T5Tokenizer` (its `PreTrainedTokenizerFast` does not), which differs in two places: U+0085 is a space there, and a word
glued to a special token (`</s>hello`) gets a `▁` of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Unpack

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from .. import files
from ..errors import InputError, NotFoundError
from .sentencepiece import SentencePieceModel, read_sentencepiece
from .special_tokens import SpecialTokens
from .tokenizer import Settings, Tokenizer, read_backend_file

CLEANED = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
           (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"))  # fmt: skip


class T5Tokenizer(Tokenizer):
    """`words </s>`, padded with `<pad>`."""

    eos_token: str
    unk_token: str
    pad_token: str
    eos_token_id: int
    unk_token_id: int
    pad_token_id: int
    default_tokens: ClassVar[dict[str, str]] = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

    @classmethod
    def from_vocabulary(cls, pieces: list[tuple[str, float]], **settings: Unpack[Settings]) -> T5Tokenizer:
        """Build from pieces with their log probabilities; `<pad>`, `</s>` and `<unk>` are among them."""
        names = [piece for piece, _ in pieces]
        missing = [token for token in cls.default_tokens.values() if token not in names]
        if missing:
            raise InputError(f"A T5 vocabulary has the pieces <pad>, </s> and <unk>; {', '.join(missing)} is missing.")
        return cls(t5_backend(models.Unigram(pieces, unk_id=names.index("<unk>")), prepend_scheme="first"), **settings)

    @classmethod
    def read_backend(cls, folder: Path, special: SpecialTokens) -> tokenizers.Tokenizer:
        if (folder / "tokenizer.json").is_file():
            return read_backend_file(folder / "tokenizer.json")
        if (folder / "spiece.model").is_file():
            return backend_from_sentencepiece(read_sentencepiece(folder / "spiece.model"), cls.read_config(folder))
        raise NotFoundError(
            f"A T5 tokenizer is a tokenizer.json or a spiece.model; {folder} has neither. "
            f"There: {files.listing(folder)}."
        )

    def post_process(self) -> None:
        if self.backend.post_processor is None:
            end = (self.eos_token, self.eos_token_id)
            self.backend.post_processor = processors.TemplateProcessing(single=["$A", end[0]], special_tokens=[end])

    def clean_up(self, text: str) -> str:
        if self.config.get("clean_up_tokenization_spaces"):
            for spaced, close in CLEANED:
                text = text.replace(spaced, close)
        return text


def t5_backend(model: models.Unigram, prepend_scheme: str, charsmap: bytes = b"") -> tokenizers.Tokenizer:
    """Everything around the pieces: SentencePiece's own normal form, single spaces, and `▁` for a space."""
    backend = tokenizers.Tokenizer(model)
    spaces = [normalizers.Replace(Regex(" +$"), ""), normalizers.Replace(Regex(" {2,}"), "▁")]
    backend.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), *spaces] if charsmap else spaces)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepend_scheme)
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return backend


def backend_from_sentencepiece(model: SentencePieceModel, config: dict[str, Any]) -> tokenizers.Tokenizer:
    """A `spiece.model` with T5's sentinels `<extra_id_99>` … `<extra_id_0>` behind its own pieces."""
    sentinels = [(f"<extra_id_{i}>", 0.0) for i in reversed(range(config.get("extra_ids", 100)))]
    known = {piece for piece, _ in model.pieces}
    pieces = [*model.pieces, *(sentinel for sentinel in sentinels if sentinel[0] not in known)]
    unigram = models.Unigram(pieces, unk_id=model.unk_id, byte_fallback=model.byte_fallback)
    backend = t5_backend(unigram, "always" if config.get("legacy", True) else "first", model.charsmap)
    marks = [tokenizers.AddedToken(name, normalized=False, special=True) for name, _ in sentinels]
    backend.add_special_tokens(marks)
    return backend
