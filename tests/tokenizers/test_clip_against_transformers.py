"""CLIP's tokenizer beside transformers' one: the same tokens for 10,000 awkward texts, and files that go both ways."""

import json
import os
from pathlib import Path

import pytest
import transformers

from awkward_texts import assert_same_tokens, awkward_texts, plain_texts
from lockstep.tokenizers import CLIPTokenizer

TEXTS = awkward_texts(10_000)
FILLED = {"padding": "max_length", "truncation": True, "max_length": 77}
PLAIN = {"lstrip": False, "rstrip": False, "single_word": False}
# How published folders name their special tokens: SD 1.5, SDXL's second tokenizer, FLUX, nothing at all, an inversion.
LAYOUTS = {
    "old": {
        "tokenizer_config.json": {
            "bos_token": {"__type": "AddedToken", "content": "<|startoftext|>", "normalized": True, **PLAIN},
            "eos_token": {"__type": "AddedToken", "content": "<|endoftext|>", "normalized": True, **PLAIN},
            "unk_token": {"__type": "AddedToken", "content": "<|endoftext|>", "normalized": True, **PLAIN},
            "pad_token": "<|endoftext|>",
            "model_max_length": 77,
            "do_lower_case": True,
            "tokenizer_class": "CLIPTokenizer",
        },
        "special_tokens_map.json": {
            "bos_token": {"content": "<|startoftext|>", "normalized": True, **PLAIN},
            "eos_token": {"content": "<|endoftext|>", "normalized": True, **PLAIN},
            "unk_token": {"content": "<|endoftext|>", "normalized": True, **PLAIN},
            "pad_token": "<|endoftext|>",
        },
    },
    "pad_with_exclamation_mark": {
        "tokenizer_config.json": {"pad_token": "!", "model_max_length": 77},
        "special_tokens_map.json": {
            "bos_token": {"content": "<|startoftext|>", "normalized": True, **PLAIN},
            "eos_token": {"content": "<|endoftext|>", "normalized": True, **PLAIN},
            "unk_token": {"content": "<|endoftext|>", "normalized": True, **PLAIN},
            "pad_token": "!",
        },
    },
    "new": {
        "tokenizer_config.json": {
            "added_tokens_decoder": {
                "1198": {"content": "<|startoftext|>", "normalized": True, "special": True, **PLAIN},
                "1199": {"content": "<|endoftext|>", "normalized": False, "special": True, **PLAIN},
            },
            "bos_token": "<|startoftext|>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
            "unk_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": True,
            "model_max_length": 77,
        }
    },
    "bare": {},
    "inversion": {
        "tokenizer_config.json": {"model_max_length": 77},
        "added_tokens.json": {"<cat-toy>": 1200, "mars": 1201},
    },
}


@pytest.fixture(scope="module")
def trained():
    return CLIPTokenizer.train(plain_texts(3000), 1200)


@pytest.fixture(scope="module", params=LAYOUTS)
def folder(request, trained, tmp_path_factory):
    """A small vocabulary as vocab.json and merges.txt, with one of the layouts of special tokens."""
    path = tmp_path_factory.mktemp(request.param)
    trained.save_pretrained(path)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (path / name).unlink()
    for name, value in LAYOUTS[request.param].items():
        (path / name).write_text(json.dumps(value))
    return path


def test_same_tokens(folder):
    ours, theirs = CLIPTokenizer.from_pretrained(folder), transformers.CLIPTokenizer.from_pretrained(folder)
    texts = TEXTS if folder.name.startswith("old") else TEXTS[:1500]
    assert_same_tokens(ours, theirs, texts, **FILLED)
    assert_same_tokens(ours, theirs, TEXTS[:600])
    assert_same_tokens(ours, theirs, TEXTS[:100], padding=True)
    assert_same_tokens(ours, theirs, TEXTS[:600], add_special_tokens=False)


def test_same_settings_and_special_tokens(folder):
    ours, theirs = CLIPTokenizer.from_pretrained(folder), transformers.CLIPTokenizer.from_pretrained(folder)
    assert ours.added_tokens_decoder == theirs.added_tokens_decoder
    assert len(ours) == len(theirs)
    for name in ("bos_token", "eos_token", "unk_token", "pad_token", "cls_token"):
        assert getattr(ours, name) == getattr(theirs, name), name
        assert getattr(ours, f"{name}_id") == getattr(theirs, f"{name}_id"), name
    assert ours.all_special_ids == theirs.all_special_ids
    for text in TEXTS[:300]:
        assert ours.tokenize(text) == theirs.tokenize(text), repr(text)


def test_same_text_back(folder):
    ours, theirs = CLIPTokenizer.from_pretrained(folder), transformers.CLIPTokenizer.from_pretrained(folder)
    rows = ours(TEXTS[:600]).input_ids
    for skip in (False, True):
        assert ours.batch_decode(rows, skip) == theirs.batch_decode(rows, skip_special_tokens=skip)


@pytest.mark.parametrize("kept", ["tokenizer.json", "vocab.json"])
def test_what_we_save_transformers_loads(folder, kept, tmp_path):
    ours = CLIPTokenizer.from_pretrained(folder)
    ours.save_pretrained(tmp_path)
    if kept == "vocab.json":
        (tmp_path / "tokenizer.json").unlink()
    texts = TEXTS[:600]
    assert_same_tokens(ours, transformers.CLIPTokenizer.from_pretrained(tmp_path), texts, **FILLED)
    assert_same_tokens(ours, CLIPTokenizer.from_pretrained(tmp_path), texts, **FILLED)
    assert isinstance(transformers.AutoTokenizer.from_pretrained(tmp_path), transformers.CLIPTokenizer)


def test_what_transformers_saves_we_load(folder, tmp_path):
    theirs = transformers.CLIPTokenizer.from_pretrained(folder)
    theirs.save_pretrained(tmp_path)
    assert_same_tokens(CLIPTokenizer.from_pretrained(tmp_path), theirs, TEXTS[:600], **FILLED)


def test_left_side(trained, tmp_path):
    trained.save_pretrained(tmp_path)
    sides = {"padding_side": "left", "truncation_side": "left"}
    ours = CLIPTokenizer.from_pretrained(tmp_path, **sides)
    theirs = transformers.CLIPTokenizer.from_pretrained(tmp_path, **sides)
    assert_same_tokens(ours, theirs, TEXTS[:600], padding="max_length", truncation=True, max_length=12)


def test_added_tokens(trained, tmp_path):
    trained.save_pretrained(tmp_path)
    ours, theirs = CLIPTokenizer.from_pretrained(tmp_path), transformers.CLIPTokenizer.from_pretrained(tmp_path)
    assert ours.add_tokens(["<cat>", "astronaut"]) == theirs.add_tokens(["<cat>", "astronaut"]) == 2
    assert ours.add_tokens("<cat>") == 0
    assert_same_tokens(ours, theirs, ["a <cat> on", "A<CAT>b", "an ASTRONAUT rides", *TEXTS[:600]])
    ours.save_pretrained(tmp_path / "again")
    assert_same_tokens(CLIPTokenizer.from_pretrained(tmp_path / "again"), theirs, ["a <cat> on", "an ASTRONAUT rides"])
    assert_same_tokens(transformers.CLIPTokenizer.from_pretrained(tmp_path / "again"), ours, ["a <cat> on"])


PUBLISHED = Path(os.environ.get("LOCKSTEP_PUBLISHED", "published"))


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="LOCKSTEP_PUBLISHED names no folder with published tokenizers")
def test_published_tokenizers():
    """With a folder of downloaded models in LOCKSTEP_PUBLISHED: every CLIP tokenizer in it."""
    configs = PUBLISHED.glob("*/tokenizer*/tokenizer_config.json")
    folders = sorted(p.parent for p in configs if "CLIP" in json.loads(p.read_text())["tokenizer_class"])
    assert folders
    for path in folders:
        ours, theirs = CLIPTokenizer.from_pretrained(path), transformers.CLIPTokenizer.from_pretrained(path)
        assert_same_tokens(ours, theirs, TEXTS, **FILLED)
