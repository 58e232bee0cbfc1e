"""`Tokenizer`: what a tokenizer does with text once its vocabulary is there: encode, truncate, pad, decode, save.

Truncation and padding happen outside of the Rust object, which is therefore never changed by a call: one tokenizer
serves many threads.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypedDict, TypeVar, Unpack, overload

import tokenizers
from tokenizers import AddedToken, Encoding

from .. import files
from ..configuration import naming_config
from ..errors import ConfigError, FileFormatError, InputError, UnknownNameError
from .known_words import FILE_NAME as KNOWN_WORDS
from .known_words import KnownWords
from .special_tokens import SPECIAL_NAMES, SpecialTokens, token_to_json

if TYPE_CHECKING:
    import numpy
    import torch

    Array = numpy.ndarray | torch.Tensor

Ids = TypeVar("Ids")  # a row of ids, rows of them, or a tensor
UNLIMITED = int(1e30)  # what transformers writes for "no maximum length"
SETTINGS = ("model_max_length", "padding_side", "truncation_side")
FILE_NAMES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "spiece.model", KNOWN_WORDS,
)  # fmt: skip


class Tokens(dict[str, Any], Generic[Ids]):
    """What a tokenizer returns: `tokens.input_ids` is `tokens["input_ids"]`, and `model(**tokens)` works."""

    input_ids: Ids
    attention_mask: Ids

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            try:
                return self[name]
            except KeyError:
                raise AttributeError(f"These tokens have no {name!r}; they have: {', '.join(self)}.") from None

    def to(self, device: str | torch.device) -> Tokens[Ids]:
        """The same with its tensors on a device."""
        return Tokens({key: value.to(device) if hasattr(value, "to") else value for key, value in self.items()})


class EncodingOptions(TypedDict, total=False):
    """How texts become rows of ids."""

    padding: bool | str
    truncation: bool | str | None
    max_length: int | None
    return_attention_mask: bool
    return_length: bool
    return_overflowing_tokens: bool
    add_special_tokens: bool


class Settings(TypedDict, total=False):
    """What a tokenizer is made with besides its vocabulary."""

    special_tokens: SpecialTokens | None
    model_max_length: int | float | None
    padding_side: str
    truncation_side: str
    config: dict[str, Any] | None


class LoadingOptions(files.HubArguments, total=False):
    """What may be set otherwise than a tokenizer's files have it, and what the hub takes."""

    model_max_length: int | float
    padding_side: str
    truncation_side: str
    bos_token: str
    eos_token: str
    unk_token: str
    sep_token: str
    pad_token: str
    cls_token: str
    mask_token: str


class Tokenizer:
    """Text to token ids and back."""

    bos_token: str | None
    eos_token: str | None
    unk_token: str | None
    sep_token: str | None
    pad_token: str | None
    cls_token: str | None
    mask_token: str | None
    bos_token_id: int | None
    eos_token_id: int | None
    unk_token_id: int | None
    sep_token_id: int | None
    pad_token_id: int | None
    cls_token_id: int | None
    mask_token_id: int | None
    default_tokens: ClassVar[dict[str, str]] = {}  # special tokens of the family, where a file names none
    default_max_length: ClassVar[int] = UNLIMITED

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special_tokens: SpecialTokens | None = None,
        model_max_length: int | float | None = None,
        padding_side: str = "right",
        truncation_side: str = "right",
        config: dict[str, Any] | None = None,
        known_words: KnownWords | None = None,
    ) -> None:
        self.backend = backend
        self.expansions: dict[str, list[str]] = {}  # words that stand for several tokens
        self.known_words = known_words  # of a small model that tells what it cannot draw
        self.backend.no_truncation()
        self.backend.no_padding()
        self.special = (special_tokens or SpecialTokens()).with_defaults(self.default_tokens)
        self.special.add_to(backend)
        limit = self.default_max_length if model_max_length is None else model_max_length
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or limit < 1:
            raise ConfigError(f"model_max_length has to be a number of tokens, got {limit!r}.")
        for name, side in (("padding_side", padding_side), ("truncation_side", truncation_side)):
            if side not in ("left", "right"):
                raise ConfigError(f"{name} has to be 'left' or 'right', got {side!r}.")
        self.model_max_length = int(limit)
        self.padding_side, self.truncation_side = padding_side, truncation_side
        self.config = dict(config or {})
        self.post_process()

    def post_process(self) -> None:
        """Tell the backend which special tokens surround a text (a file may have done so already)."""

    # -- loading and saving

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, subfolder: str | None = None, **options: Unpack[LoadingOptions]
    ) -> typing.Self:
        """Load from a folder (or a subfolder of it, or a hub id) as transformers saves it."""
        hub: dict[str, Any] = {**options}
        changes = {key: hub.pop(key) for key in list(hub) if key in (*SETTINGS, *SPECIAL_NAMES)}
        patterns = [f"{subfolder}/{name}" if subfolder else name for name in FILE_NAMES]
        unknown = sorted(hub.keys() - files.HUB_ARGUMENTS)
        if unknown:
            known = [*SETTINGS, *SPECIAL_NAMES, *files.HUB_ARGUMENTS, "subfolder"]
            raise UnknownNameError(f"argument of {cls.__name__}.from_pretrained", unknown[0], known)
        folder = files.resolve_folder(name_or_path, subfolder=subfolder, patterns=patterns, **hub)
        config = cls.read_config(folder)
        roles = {key: changes.pop(key) for key in SPECIAL_NAMES if key in changes}
        with naming_config(folder):
            special = SpecialTokens.read(folder, config, roles)
            settings = {key: config[key] for key in SETTINGS if key in config} | changes
            backend, words = cls.read_backend(folder, special), KnownWords.read(folder)
            return cls(backend, special_tokens=special, config=config, known_words=words, **settings)

    @classmethod
    def read_config(cls, folder: Path) -> dict[str, Any]:
        path = folder / "tokenizer_config.json"
        return files.read_json(path) if path.is_file() else {}

    @classmethod
    def read_backend(cls, folder: Path, special: SpecialTokens) -> tokenizers.Tokenizer:
        """The Rust object, from whichever vocabulary files the folder has."""
        raise NotImplementedError

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the vocabulary and the settings as files that transformers loads."""
        folder = Path(folder)
        if folder.is_file():
            raise InputError(f"save_pretrained wants a folder, but {folder} is a file.")
        files.write_text(folder / "tokenizer.json", self.backend.to_str(pretty=True) + "\n")
        config = {
            **{
                key: value
                for key, value in self.config.items()
                if key not in ("name_or_path", "special_tokens_map_file")
            },
            **{name: str(token) for name, token in self.special.named.items()},
            "added_tokens_decoder": {str(i): token_to_json(t) for i, t in self.added_tokens_decoder.items()},
            "model_max_length": self.model_max_length,
            "padding_side": self.padding_side,
            "truncation_side": self.truncation_side,
            "tokenizer_class": type(self).__name__,
        }
        write_json(folder / "tokenizer_config.json", config)
        write_json(folder / "special_tokens_map.json", self.special.to_json(self.added_tokens_decoder))
        if self.known_words:
            self.known_words.save(folder)

    # -- the vocabulary

    def __len__(self) -> int:
        return self.backend.get_vocab_size(with_added_tokens=True)

    @property
    def vocab_size(self) -> int:
        """Number of tokens without the added ones."""
        return self.backend.get_vocab_size(with_added_tokens=False)

    def get_vocab(self) -> dict[str, int]:
        """Token -> id, added tokens included."""
        return self.backend.get_vocab(with_added_tokens=True)

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        return dict(sorted(self.backend.get_added_tokens_decoder().items()))

    @property
    def added_tokens_encoder(self) -> dict[str, int]:
        return {token.content: index for index, token in self.added_tokens_decoder.items()}

    def add_tokens(self, tokens: str | AddedToken | Sequence[str | AddedToken], special_tokens: bool = False) -> int:
        """Add tokens that the text is split at; returns how many were new. The model's embedding has to grow, too."""
        wanted = [tokens] if isinstance(tokens, (str, AddedToken)) else list(tokens)
        before = len(self)
        (self.backend.add_special_tokens if special_tokens else self.backend.add_tokens)(wanted)
        return len(self) - before

    def restore(self, backend: str) -> None:
        """Take back an earlier vocabulary (`backend.to_str()`), without the words that were added since."""
        self.backend, self.expansions = tokenizers.Tokenizer.from_str(backend), {}

    def expanded(self, text: str) -> str:
        """A text in which each word that stands for several tokens is followed by the others: `cat cat_1 cat_2`."""
        several = {self.convert_tokens_to_ids(word): names for word, names in self.expansions.items() if names[1:]}
        if not several:
            return text
        encoding = self.backend.encode(text, add_special_tokens=False)
        for index, (_, end) in reversed(list(zip(encoding.ids, encoding.offsets, strict=True))):
            text = f"{text[:end]} {' '.join(several[index][1:])}{text[end:]}" if index in several else text
        return text

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> int | list[int | None] | None:
        """Ids of tokens (not of text); an unknown one is the unknown token's."""
        if isinstance(tokens, str):
            index = self.backend.token_to_id(tokens)
            return self.unk_token_id if index is None else index
        return [typing.cast("int | None", self.convert_tokens_to_ids(token)) for token in tokens]

    def convert_ids_to_tokens(self, ids: int | Iterable[int]) -> str | list[str | None] | None:
        """Tokens of ids, with the marks of the vocabulary (`</w>`, `▁`)."""
        if isinstance(ids, int):
            return self.backend.id_to_token(ids)
        return [self.backend.id_to_token(int(index)) for index in ids]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> str | int | None:
            """`bos_token`, `eos_token_id` … of the special tokens that the tokenizer has, None for the others."""
            base = name.removesuffix("_id")
            if base not in SPECIAL_NAMES:
                raise AttributeError(f"{type(self).__name__} has no {name!r}.")
            token = self.special.named.get(base)
            if token is None or base == name:
                return None if token is None else str(token)
            return self.backend.token_to_id(str(token))

    @property
    def all_special_tokens(self) -> list[str]:
        return self.special.contents()

    @property
    def all_special_ids(self) -> list[int]:
        vocabulary = self.get_vocab()
        return [vocabulary[token] for token in self.all_special_tokens]

    # -- text to ids

    @overload
    def __call__(
        self, text: str | Sequence[str], *, return_tensors: Literal["pt"], **options: Unpack[EncodingOptions]
    ) -> Tokens[torch.Tensor]: ...
    @overload
    def __call__(
        self, text: str | Sequence[str], *, return_tensors: Literal["np"], **options: Unpack[EncodingOptions]
    ) -> Tokens[numpy.ndarray]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # a text is a sequence of texts, too
        self, text: str, *, return_tensors: None = None, **options: Unpack[EncodingOptions]
    ) -> Tokens[list[int]]: ...
    @overload
    def __call__(
        self, text: Sequence[str], *, return_tensors: None = None, **options: Unpack[EncodingOptions]
    ) -> Tokens[list[list[int]]]: ...
    def __call__(
        self,
        text: str | Sequence[str],
        *,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_attention_mask: bool = True,
        return_length: bool = False,
        return_overflowing_tokens: bool = False,
        add_special_tokens: bool = True,
    ) -> Tokens[Any]:
        """Token ids of one text or several; `padding="max_length"` fills up to `max_length` (default: the model's)."""
        if return_overflowing_tokens:
            raise InputError(
                "return_overflowing_tokens=True is not supported: encode without truncation and cut the ids."
            )
        pad_to, truncate = self._check_padding(padding), self._check_truncation(truncation)
        wants_limit = truncate or pad_to == "max_length"
        limit = self._limit(max_length, add_special_tokens) if wants_limit else None
        texts = [text] if isinstance(text, str) else self._check_texts(text)
        rows = [
            self.backend.post_process(cut, add_special_tokens=add_special_tokens)
            for cut in self._encode(texts, limit if truncate else None, add_special_tokens)
        ]
        lengths = [len(row.ids) for row in rows]
        if pad_to:
            self._pad(rows, limit if limit is not None and pad_to == "max_length" else max(lengths))
        values: dict[str, Any] = {"input_ids": [row.ids for row in rows]}
        if return_attention_mask:
            values["attention_mask"] = [row.attention_mask for row in rows]
        if return_length:
            values["length"] = lengths
        if return_tensors is not None:
            return Tokens(self._to_tensors(values, return_tensors))
        return Tokens({key: value[0] for key, value in values.items()} if isinstance(text, str) else values)

    def tokenize(self, text: str, add_special_tokens: bool = False) -> list[str]:
        """The tokens of a text as the vocabulary writes them."""
        row = self._encode([text] if isinstance(text, str) else self._check_texts([text]), None, False)
        return self.backend.post_process(next(iter(row)), add_special_tokens=add_special_tokens).tokens

    def encode(self, text: str, **options: Unpack[EncodingOptions]) -> list[int]:
        """The ids of one text."""
        return self(text, **options).input_ids

    def _encode(self, texts: list[str], limit: int | None, add_special_tokens: bool) -> Iterator[Encoding]:
        try:
            texts = [self.expanded(text) for text in texts] if self.expansions else texts
            encodings = self.backend.encode_batch(texts, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            broken = next(i for i, text in enumerate(texts) if not _is_unicode(text))
            raise InputError(
                f"Text {broken} is not valid Unicode (it has a lone surrogate): {texts[broken]!r}. "
                "Read it with the right encoding, or replace it by text.encode('utf-8', 'replace').decode()."
            ) from None
        room = None if limit is None else limit - self._num_special(add_special_tokens)
        for encoding in encodings:
            if room is not None and len(encoding.ids) > room:
                encoding.truncate(room, direction=self.truncation_side)
            yield encoding

    def _num_special(self, add_special_tokens: bool) -> int:
        return self.backend.num_special_tokens_to_add(False) if add_special_tokens else 0

    def _pad(self, rows: list[Encoding], length: int) -> None:
        if self.pad_token_id is None:
            raise InputError(
                f"This {type(self).__name__} has no pad_token, so it cannot pad. Load it with pad_token='…'."
            )
        for row in rows:
            row.pad(length, direction=self.padding_side, pad_id=self.pad_token_id, pad_token=self.pad_token)

    def _to_tensors(self, values: dict[str, Any], kind: str) -> dict[str, Any]:
        lengths = sorted({len(row) for row in values["input_ids"]})
        if len(lengths) > 1:
            raise InputError(
                f"Rows of {lengths[0]} to {lengths[-1]} tokens do not make one tensor. "
                "Pass padding=True, or padding='max_length' with truncation=True."
            )
        if kind == "pt":
            import torch

            return {key: torch.tensor(value, dtype=torch.int64) for key, value in values.items()}
        if kind == "np":
            import numpy

            return {key: numpy.array(value, dtype=numpy.int64) for key, value in values.items()}
        raise UnknownNameError("return_tensors", kind, ["pt", "np"], "Leave it out for lists.")

    def _limit(self, max_length: int | None, add_special_tokens: bool) -> int:
        limit = self.model_max_length if max_length is None else max_length
        if isinstance(limit, bool) or not isinstance(limit, int) or limit >= UNLIMITED // 10:
            raise InputError(f"Truncating or padding to a length wants max_length as a number, got {max_length!r}.")
        least = self._num_special(add_special_tokens)
        if limit < max(least, 1):
            raise InputError(f"max_length has to leave room for the {least} special tokens, got {limit}.")
        return limit

    @staticmethod
    def _check_padding(padding: bool | str) -> str | None:
        choices = {True: "longest", False: None, "longest": "longest", "max_length": "max_length", "do_not_pad": None}
        if not isinstance(padding, (bool, str)) or padding not in choices:
            raise UnknownNameError("padding", padding, ["longest", "max_length", "do_not_pad"], "Or True or False.")
        return choices[padding]

    @staticmethod
    def _check_truncation(truncation: bool | str | None) -> bool:
        choices = {
            True: True,
            False: False,
            None: False,
            "longest_first": True,
            "only_first": True,
            "do_not_truncate": False,
        }
        if not isinstance(truncation, (bool, str, type(None))) or truncation not in choices:
            raise UnknownNameError("truncation", truncation, ["longest_first", "do_not_truncate"], "Or True or False.")
        return choices[truncation]

    @staticmethod
    def _check_texts(texts: Any) -> list[str]:
        if not isinstance(texts, (list, tuple)) or not texts:
            raise InputError(f"A tokenizer takes a text or a list of texts, got {texts!r}.")
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"Text {index} has to be a string, got {type(text).__name__} {text!r}.")
        return list(texts)

    # -- ids to text

    def decode(self, ids: int | Sequence[int] | Array, skip_special_tokens: bool = False) -> str:
        """The text of one row of ids."""
        row: Any = ids.tolist() if hasattr(ids, "tolist") else ids
        row = [row] if isinstance(row, int) else row
        if not isinstance(row, (list, tuple)) or not all(isinstance(index, int) and index >= 0 for index in row):
            raise InputError(f"decode takes one row of token ids, got {ids!r}. Several rows go to batch_decode.")
        return self.clean_up(self.backend.decode(list(row), skip_special_tokens))

    def batch_decode(self, rows: Iterable[Sequence[int]] | Array, skip_special_tokens: bool = False) -> list[str]:
        """The texts of several rows of ids."""
        return [self.decode(row, skip_special_tokens) for row in rows]

    def clean_up(self, text: str) -> str:
        """The decoded text without what only the vocabulary needed."""
        return text


def read_backend_file(path: Path) -> tokenizers.Tokenizer:
    """A `tokenizer.json`."""
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as problem:  # the library raises nothing narrower
        files.read_json(path)  # says it better when the file is not even JSON
        raise FileFormatError(f"{path} is not a tokenizer.json that the tokenizers library reads: {problem}.") from None


def write_json(path: Path, value: Any) -> None:
    files.write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
