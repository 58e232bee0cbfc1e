"""Textual inversion on a pipeline: words that a file brings, in its tokenizers and text encoders.

The vocabulary and the table of embeddings are made anew from what they were whenever words come or go, so that a
pipeline without them is the pipeline that it was, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from .. import files
from ..errors import InputError, NotFoundError, UnknownNameError, WeightsError
from ..files import HubArguments
from ..loaders.embeddings import NAMES, WIDTHS, Word, WordFile, read_words
from ..models.lora_layers import as_placed
from ..notes import say_once
from ..tokenizers import Tokenizer

Source = str | Path | Mapping[str, Tensor] | Tensor


@dataclass(eq=False)
class Vocabulary:
    """A tokenizer and its text encoder, as they were and with the words that were added."""

    name: str  # of the encoder's component
    tokenizer: Any
    encoder: Any
    backend: str = ""
    table: nn.Parameter | None = None
    words: dict[str, Tensor] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return int(self.encoder.get_input_embeddings().weight.shape[1])

    def check(self, word: Word) -> None:
        """Refuse a word that is there already, or whose vectors are of another width."""
        if word.vectors.shape[1] != self.width:
            made_for = WIDTHS.get(word.vectors.shape[1], "another model")
            raise WeightsError(
                f"The word {word.token!r} has vectors of width {word.vectors.shape[1]} ({made_for}); {self.name} wants "
                f"{self.width}. Take an embedding that was made for this model."
            )
        known = self.tokenizer.get_vocab()
        taken = next((token for token in tokens_of(word.token, len(word.vectors)) if token in known), None)
        if taken is not None:
            raise InputError(
                f"The word {taken!r} is in the vocabulary of {self.name} already. Choose another one: "
                "token='<my-word>', or unload_textual_inversion it first."
            )

    @torch.no_grad()
    def apply(self) -> None:
        """The vocabulary and the table from what they were, and the words behind them."""
        embedding = self.encoder.get_input_embeddings()
        if self.table is None:
            self.backend, self.table = self.tokenizer.backend.to_str(), embedding.weight
        self.tokenizer.restore(self.backend)
        rows: dict[int, Tensor] = {}
        for token, vectors in self.words.items():
            names = tokens_of(token, len(vectors))
            self.tokenizer.add_tokens(names)
            ids = [self.tokenizer.convert_tokens_to_ids(name) for name in names]
            rows |= dict(zip(ids, vectors, strict=True))
            self.tokenizer.expansions[token] = names
        if not rows:
            embedding.weight = as_placed(self.table, embedding.weight)
        else:
            now, missing = embedding.weight, max(rows) + 1 - len(self.table)
            table = self.table.detach().to(now.device, now.dtype)
            table = torch.cat([table, table.new_zeros(max(missing, 0), self.width)])
            for row, vector in rows.items():
                table[row] = vector.to(table)
            embedding.weight = nn.Parameter(table, requires_grad=now.requires_grad)
        embedding.num_embeddings = len(embedding.weight)


def tokens_of(token: str, count: int) -> list[str]:
    """One token for each vector: `word`, `word_1`, `word_2` …"""
    return [token, *(f"{token}_{k}" for k in range(1, count))]


@dataclass(eq=False)
class AddedWords:
    """The words of one file, as they were added."""

    file: WordFile
    owner: str | None  # the LoRA that they came with
    places: list[tuple[Vocabulary, str]]


class Words:
    """The textual inversions of a pipeline."""

    def __init__(self) -> None:
        self.vocabularies: dict[int, Vocabulary] = {}  # by the tokenizer
        self.added: list[AddedWords] = []

    def vocabulary(self, name: str, tokenizer: Any, encoder: Any) -> Vocabulary:
        return self.vocabularies.setdefault(id(tokenizer), Vocabulary(name, tokenizer, encoder))

    def add(self, file: WordFile, known: Sequence[Vocabulary], owner: str | None = None) -> None:
        """Add every word of a file to the encoder that it is for; all of them or none."""
        places = [(self._chosen(word, known), word) for word in file.words]
        for vocabulary, word in places:
            vocabulary.check(word)
        for vocabulary, word in places:
            vocabulary.words[word.token] = word.vectors
            vocabulary.apply()
        self.added.append(AddedWords(file, owner, [(vocabulary, word.token) for vocabulary, word in places]))
        heard = {vocabulary.name for vocabulary, _ in places}
        silent = [one.name for one in known if one.name not in heard]
        if silent and len(known) > 1:
            said = ", ".join(sorted({word.token for word in file.words}))
            say_once(f"{said}: {' and '.join(sorted(heard))} knows it now, {', '.join(silent)} reads it as plain text.")

    @staticmethod
    def _chosen(word: Word, known: Sequence[Vocabulary]) -> Vocabulary:
        """The encoder that a word is for: the one it names, or the first of its width."""
        fitting = [one for one in known if one.width == word.vectors.shape[1]]
        named = [one for one in known if one.name == word.encoder]
        if word.encoder is not None and not named and len(known) > 1:
            raise WeightsError(f"The word {word.token!r} is for {word.encoder}, which this pipeline does not have.")
        return (named or fitting or list(known))[0]

    def remove(self, tokens: Iterable[str] | None, known: Sequence[Vocabulary], owner: str | None = None) -> None:
        """Take words out: these, all of a LoRA's, or all."""
        wanted = None if tokens is None else set(tokens)
        for entry in list(self.added):
            gone = [
                (vocabulary, token)
                for vocabulary, token in entry.places
                if vocabulary in known and (wanted is None or token in wanted) and owner in (None, entry.owner)
            ]
            for vocabulary, token in gone:
                del vocabulary.words[token]
                vocabulary.apply()
            entry.places = [place for place in entry.places if place not in gone]
            if not entry.places:
                self.added.remove(entry)

    def describe(self) -> list[dict[str, Any]]:
        """For the manifest: which files, by which words (those of a LoRA come with it)."""
        return [
            {"file": entry.file.source, "sha256": entry.file.sha256, "tokens": sorted({t for _, t in entry.places})}
            for entry in self.added
            if entry.owner is None
        ]


class WordsMixin:
    """`load_textual_inversion` and its relatives, for `DiffusionPipeline`."""

    _words: Words

    def load_textual_inversion(
        self,
        pretrained_model_name_or_path: Source | Sequence[Source],
        token: str | Sequence[str | None] | None = None,
        tokenizer: Tokenizer | None = None,
        text_encoder: nn.Module | None = None,
        *,
        weight_name: str | None = None,
        allow_pickle: bool = False,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        force_download: bool = False,
        hf_token: str | bool | None = None,
    ) -> None:
        """Teach the tokenizer and the text encoder words of a file, a folder, a hub id, a dict or a tensor.

        The word is called as the file says or as the file is called; `token=` calls it otherwise. A .pt or .bin is
        read only with `allow_pickle=True` (tensors alone; nothing in it is run).
        """
        self._require_no_run("load a textual inversion")  # type: ignore[attr-defined]
        given = pretrained_model_name_or_path
        sources: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
        tokens: list[Any] = list(token) if isinstance(token, (list, tuple)) else [token]
        if len(tokens) > 1 and len(sources) == 1 and isinstance(sources[0], Tensor):
            sources = list(sources[0])  # a row for each word
        tokens = tokens * len(sources) if tokens == [None] else tokens
        if len(tokens) != len(sources):
            raise InputError(f"Wanted a token for each of {len(sources)} embeddings, got {len(tokens)}.")
        known = self._vocabularies(tokenizer, text_encoder)
        hub: HubArguments = {"revision": revision, "cache_dir": cache_dir, "force_download": force_download}
        hub |= {"local_files_only": local_files_only, "token": hf_token}
        for source, called in zip(sources, tokens, strict=True):
            found = source if isinstance(source, (Mapping, Tensor)) else find_words(source, weight_name, **hub)
            self._words.add(read_words(found, called, allow_pickle), known)

    def unload_textual_inversion(
        self,
        tokens: str | Sequence[str] | None = None,
        tokenizer: Tokenizer | None = None,
        text_encoder: nn.Module | None = None,
    ) -> None:
        """Take words out again, or all of them; vocabulary and weights are what they were, to the last bit."""
        self._require_no_run("unload a textual inversion")  # type: ignore[attr-defined]
        wanted = [tokens] if isinstance(tokens, str) else tokens
        known = self._vocabularies(tokenizer, text_encoder)
        there = [token for vocabulary in known for token in vocabulary.words]
        for token in wanted or ():
            if token not in there:
                raise UnknownNameError("word of a textual inversion", token, there)
        self._words.remove(wanted, known)

    def maybe_convert_prompt(self, prompt: str | Sequence[str], tokenizer: Tokenizer) -> str | list[str]:
        """A prompt with each word of several vectors written out; the tokenizer does so by itself."""
        if isinstance(prompt, str):
            return tokenizer.expanded(prompt)
        return [tokenizer.expanded(text) for text in prompt]

    def describe_words(self) -> list[dict[str, Any]]:
        """Files, hashes and words, for the manifest."""
        return self._words.describe()

    def _vocabularies(self, tokenizer: Any = None, text_encoder: Any = None) -> list[Vocabulary]:
        """The tokenizers with their encoders: the ones given, or all that the pipeline has."""
        if (tokenizer is None) != (text_encoder is None):
            raise InputError("Give the tokenizer and the text encoder that belong together, or neither of them.")
        pairs = []
        for name in self.component_names:  # type: ignore[attr-defined]
            encoder_name = name.replace("tokenizer", "text_encoder")
            if not name.startswith("tokenizer") or encoder_name not in self.component_names:  # type: ignore[attr-defined]
                continue
            own, encoder = self.held(name), self.held(encoder_name)  # type: ignore[attr-defined]
            if own is not None and encoder is not None and (tokenizer is None or own is tokenizer):
                pairs.append(self._words.vocabulary(encoder_name, own, getattr(encoder, "_orig_mod", encoder)))
        if not pairs:
            raise InputError("A textual inversion needs a tokenizer and a text encoder, which this pipeline has not.")
        return pairs


def find_words(name_or_path: Any, weight_name: str | None, **hub: Unpack[HubArguments]) -> Path:
    """The file itself, or the one in a folder or on the hub."""
    if not isinstance(name_or_path, (str, Path)) or not str(name_or_path):
        raise InputError(f"An embedding is a file, a folder, a hub id, a dict or a tensor, got {name_or_path!r}.")
    path = Path(name_or_path)
    if path.is_file():
        return path
    names = [weight_name] if weight_name else list(NAMES)
    if path.is_dir():
        there = [path / name for name in names if (path / name).is_file()]
        there = there or sorted([] if weight_name else path.glob("*.safetensors"))
        if len(there) >= 1 and (weight_name or len(there) == 1 or there[0].name in NAMES):
            return there[0]
        raise NotFoundError(f"{path} has no {' or '.join(names)}; there: {files.listing(path)}. Pass weight_name=….")
    if path.suffix and not files.looks_like_hub_id(str(name_or_path)):
        raise NotFoundError(f"There is no embedding file {path}.")
    return files.resolve_file(name_or_path, names[0], **hub)
