"""Special and added tokens: which ones a folder's files name, with which flags, and in which order they are added.

The order matters: of two entries for one text the later one wins, flags included. `tokenizer_config.json` with
`added_tokens_decoder` is the whole truth where it exists; older folders spread it over `special_tokens_map.json` and
`added_tokens.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from .. import files
from ..errors import ConfigError, FileFormatError

SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass
class SpecialTokens:
    """`named` by role, `extra` without one, and `added` tokens with the ids that the file gives them."""

    named: dict[str, str | AddedToken] = field(default_factory=dict)
    extra: list[str | AddedToken] = field(default_factory=list)
    added: dict[int, AddedToken] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, config: Mapping[str, Any], changes: Mapping[str, str]) -> SpecialTokens:
        """What the files of a folder say, with some roles given to other tokens."""
        values = dict(config)
        if "added_tokens_decoder" in values:
            added = _added_tokens(folder / "tokenizer_config.json", values["added_tokens_decoder"])
        else:
            values |= _read_optional(folder / "special_tokens_map.json")
            added = _old_added_tokens(folder / "added_tokens.json", values)
        values |= changes
        by_content = {token.content: token for token in added.values()}
        named = {}
        for name in SPECIAL_NAMES:
            token = token_from_json(name, values.get(name))
            if token is not None:
                named[name] = by_content.get(str(token), token)
        extra = values.get("extra_special_tokens") or values.get("additional_special_tokens") or []
        if isinstance(extra, dict):  # newer files name them by role
            extra = list(extra.values())
        if not isinstance(extra, list):
            raise ConfigError(f"additional_special_tokens has to be a list of tokens, got {extra!r}.")
        tokens = (token_from_json("additional_special_tokens", token) for token in extra)
        return cls(named, [by_content.get(str(token), token) for token in tokens if token is not None], added)

    def with_defaults(self, defaults: Mapping[str, str]) -> SpecialTokens:
        """The same, with a family's tokens for the roles that nothing fills."""
        named = {**defaults, **self.named}
        return SpecialTokens({name: named[name] for name in SPECIAL_NAMES if name in named}, self.extra, self.added)

    def add_to(self, backend: tokenizers.Tokenizer) -> None:
        """Make the backend split texts at these tokens."""
        for index, token in sorted(self.added.items()):
            backend.add_tokens([token])
            got = backend.token_to_id(token.content)
            if got != index:
                raise FileFormatError(
                    f"The tokenizer's files give the added token {token.content!r} the id {index}, but after the "
                    f"vocabulary of {backend.get_vocab_size(False)} tokens it becomes {got}. "
                    "The files do not belong together."
                )
        known = {token.content for token in backend.get_added_tokens_decoder().values()}
        for special in (*self.named.values(), *self.extra):
            if str(special) not in known:
                backend.add_tokens([_special(special)])

    def contents(self) -> list[str]:
        """The texts of all special tokens, each once."""
        return list(dict.fromkeys(str(token) for token in (*self.named.values(), *self.extra)))

    def to_json(self, added: Mapping[int, AddedToken]) -> dict[str, Any]:
        """What `special_tokens_map.json` says."""
        flags = {token.content: token for token in added.values()}
        values: dict[str, Any] = {
            name: {key: value for key, value in token_to_json(flags[str(token)]).items() if key != "special"}
            for name, token in self.named.items()
        }
        return {**values, "additional_special_tokens": [str(t) for t in self.extra]} if self.extra else values


def token_from_json(name: str, value: Any) -> str | AddedToken | None:
    """A token as a config writes it: a text, or a text with flags."""
    if value is None or isinstance(value, (str, AddedToken)):
        return value
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        flags = {key: value[key] for key in FLAGS if isinstance(value.get(key), bool)}
        return AddedToken(value["content"], **{**flags, "special": True})
    raise ConfigError(f"Config value {name!r} wants a token (a text, or an object with 'content'), got {value!r}.")


def token_to_json(token: AddedToken) -> dict[str, Any]:
    """A token with its flags."""
    return {"content": token.content, **{flag: getattr(token, flag) for flag in FLAGS}}


def _special(token: str | AddedToken) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(token, special=True)
    token.special = True
    return token


def _read_optional(path: Path) -> dict[str, Any]:
    return files.read_json(path) if path.is_file() else {}


def _added_tokens(path: Path, entries: Any) -> dict[int, AddedToken]:
    try:
        return {
            int(index): AddedToken(**{k: entry[k] for k in ("content", *FLAGS) if k in entry})
            for index, entry in entries.items()
        }
    except (AttributeError, TypeError, ValueError, KeyError) as problem:
        raise FileFormatError(
            f"{path}: 'added_tokens_decoder' has to map ids to tokens with flags: {problem}."
        ) from None


def _old_added_tokens(path: Path, values: Mapping[str, Any]) -> dict[int, AddedToken]:
    """`added_tokens.json`: text -> id, without flags; normalized unless the token has a special role."""
    entries = _read_optional(path)
    bad = [text for text, index in entries.items() if isinstance(index, bool) or not isinstance(index, int)]
    if bad:
        raise FileFormatError(f"{path} has to map tokens to ids, but {bad[0]!r} has {entries[bad[0]]!r}.")
    special = {str(token_from_json(name, values.get(name)) or "") for name in SPECIAL_NAMES}
    return {
        index: AddedToken(text, normalized=text not in special, special=text in special)
        for text, index in entries.items()
    }
