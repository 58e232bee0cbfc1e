"""CLIP's tokenizer (arXiv:2103.00020, 2.4): lower-cased byte-level BPE whose words end in `</w>`."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from ..errors import InputError
from .bpe_files import read_bpe, write_bpe
from .special_tokens import SPECIAL_NAMES, SpecialTokens
from .tokenizer import Settings, Tokenizer, read_backend_file

END_OF_WORD = "</w>"
NUM_BYTES = 512  # alone and at the end of a word
WORDS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"  # marks and contractions
    r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"  # letters, single digits, anything else that is not space
)


class CLIPTokenizer(Tokenizer):
    """`<|startoftext|> words <|endoftext|>`, at most 77 tokens in the published models."""

    bos_token: str
    eos_token: str
    unk_token: str
    pad_token: str
    bos_token_id: int
    eos_token_id: int
    unk_token_id: int
    pad_token_id: int
    default_tokens: ClassVar[dict[str, str]] = {
        "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
    }
    default_max_length = 77

    @classmethod
    def from_vocabulary(
        cls, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], **settings: Unpack[Settings]
    ) -> CLIPTokenizer:
        """Build from a vocabulary and its merges in order of rank."""
        model = bpe(dict(vocab), [tuple(pair) for pair in merges], cls.default_tokens["unk_token"])
        return cls(clip_backend(model), **settings)

    @classmethod
    def published(cls, **settings: Any) -> CLIPTokenizer:
        """The tokenizer of the published models, whose vocabulary is in the package; settings name the pad token."""
        roles = {name: settings.pop(name) for name in SPECIAL_NAMES if name in settings}
        merges = published_merges()
        marks = [cls.default_tokens["bos_token"], cls.default_tokens["eos_token"]]
        tokens = [*clip_alphabet(), *(a + b for a, b in merges), *marks]
        vocab = {token: index for index, token in enumerate(tokens)}
        return cls.from_vocabulary(vocab, merges, special_tokens=SpecialTokens(named=roles), **settings)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, **settings: Unpack[Settings]) -> CLIPTokenizer:
        """Learn merges from texts until there are `vocab_size` tokens or nothing is left to merge.

        Every byte stays a token, alone and at the end of a word, so that no text is unknown.
        """
        alphabet = clip_alphabet()
        if vocab_size < len(alphabet) + 2:
            raise InputError(
                f"A CLIP vocabulary has at least {len(alphabet) + 2} tokens (bytes and marks), got {vocab_size}."
            )
        backend = clip_backend(models.BPE(end_of_word_suffix=END_OF_WORD))
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, end_of_word_suffix=END_OF_WORD, initial_alphabet=alphabet[:256], show_progress=False
        )
        backend.train_from_iterator(texts, trainer)
        merges = [tuple(pair) for pair in json.loads(backend.to_str())["model"]["merges"]]
        room = vocab_size - len(alphabet) - 2
        merges = merges[:room]
        marks = [cls.default_tokens["bos_token"], cls.default_tokens["eos_token"]]
        tokens = list(dict.fromkeys([*alphabet, *(a + b for a, b in merges), *marks]))
        return cls.from_vocabulary({token: index for index, token in enumerate(tokens)}, merges, **settings)

    @classmethod
    def read_backend(cls, folder: Path, special: SpecialTokens) -> tokenizers.Tokenizer:
        if (folder / "tokenizer.json").is_file():
            return read_backend_file(folder / "tokenizer.json")
        unknown = str(special.named.get("unk_token", cls.default_tokens["unk_token"]))
        marks = len(special.contents()) + len(special.added) + len(cls.default_tokens)
        return read_bpe(folder, "CLIP", lambda *pair: clip_backend(bpe(pair[0], pair[1], unknown)), NUM_BYTES + marks)

    def post_process(self) -> None:
        if self.backend.post_processor is None:
            self.backend.post_processor = processors.RobertaProcessing(
                (self.eos_token, self.eos_token_id),
                (self.bos_token, self.bos_token_id),
                trim_offsets=False,
                add_prefix_space=False,
            )

    def save_pretrained(self, folder: str | Path) -> None:
        super().save_pretrained(folder)
        self.save_vocabulary(folder)

    def save_vocabulary(self, folder: str | Path) -> None:
        """Write `vocab.json` and `merges.txt` alone."""
        write_bpe(self.backend, Path(folder))

    def clean_up(self, text: str) -> str:
        return text.replace(END_OF_WORD, " ").strip()


def published_merges() -> list[tuple[str, str]]:
    """CLIP's merges in order of rank (openai/CLIP, MIT License: see NOTICE beside the file)."""
    text = lzma.decompress((Path(__file__).parent / "clip_merges.txt.xz").read_bytes()).decode("utf-8")
    return [(first, second) for first, second in (line.split() for line in text.splitlines())]


def bpe(vocab: Any, merges: Any, unk_token: str) -> models.BPE:
    """CLIP's merging of bytes, from paths or from values."""
    return models.BPE(
        vocab, merges, continuing_subword_prefix="", end_of_word_suffix=END_OF_WORD, fuse_unk=False, unk_token=unk_token
    )


def clip_backend(model: models.BPE) -> tokenizers.Tokenizer:
    """Everything around the merges: normal form, one space, lower case; words; bytes."""
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return backend


def clip_alphabet() -> list[str]:
    """The 256 bytes as printable characters, alone and at the end of a word, in the published vocabulary's order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [chr(256 + i) for i in range(256 - len(printable))]
    characters = [chr(code) for code in printable] + others
    return characters + [character + END_OF_WORD for character in characters]
