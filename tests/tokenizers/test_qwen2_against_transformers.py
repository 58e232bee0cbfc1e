"""Qwen's tokenizer beside transformers' on the same files."""

import json
import os
from pathlib import Path

import pytest
import transformers

from awkward_texts import assert_same_tokens, awkward_texts
from lockstep.errors import FileFormatError, NotFoundError
from lockstep.tokenizers import Qwen2Tokenizer
from lockstep.tokenizers.qwen2 import chat_text
from pipelines import tiny_z_image

TEXTS = awkward_texts(3000)
FILLED = {"padding": "max_length", "truncation": True, "max_length": 48}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("qwen")
    tiny_z_image.qwen_tokenizer().save_pretrained(path)
    return path


def test_same_tokens(folder):
    ours, theirs = (kind.from_pretrained(folder) for kind in (Qwen2Tokenizer, transformers.Qwen2Tokenizer))
    assert_same_tokens(ours, theirs, TEXTS, **FILLED)
    assert_same_tokens(ours, theirs, TEXTS[:1000])
    assert_same_tokens(ours, theirs, [chat_text(text) for text in TEXTS[:500]])
    rows = ours(TEXTS[:1000]).input_ids
    for skip in (False, True):
        assert ours.batch_decode(rows, skip) == theirs.batch_decode(rows, skip_special_tokens=skip)


def test_vocabulary_and_merges_alone(folder, tmp_path):
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    ours = Qwen2Tokenizer.from_pretrained(tmp_path)
    assert_same_tokens(ours, Qwen2Tokenizer.from_pretrained(folder), TEXTS)
    assert_same_tokens(ours, transformers.Qwen2Tokenizer.from_pretrained(tmp_path), TEXTS[:500])


def test_what_transformers_saves_we_load(folder, tmp_path):
    theirs = transformers.Qwen2Tokenizer.from_pretrained(folder)
    theirs.save_pretrained(tmp_path)
    assert_same_tokens(Qwen2Tokenizer.from_pretrained(tmp_path), theirs, TEXTS[:500], **FILLED)


def test_a_chat_is_what_the_template_says(folder):
    theirs = transformers.Qwen2Tokenizer.from_pretrained(folder)
    for text in ("a red cat", "", "two\nlines ", "<|im_end|> inside"):
        said = [{"role": "user", "content": text}]
        wanted = theirs.apply_chat_template(said, tokenize=False, add_generation_prompt=True, enable_thinking=True)
        assert chat_text(text) == wanted


def test_files_that_are_not_whole(folder, tmp_path):
    (tmp_path / "vocab.json").write_bytes((folder / "vocab.json").read_bytes())
    with pytest.raises(NotFoundError, match=r"merges\.txt is missing"):
        Qwen2Tokenizer.from_pretrained(tmp_path)
    lines = (folder / "merges.txt").read_text().splitlines()
    (tmp_path / "merges.txt").write_text("\n".join(lines[: len(lines) // 2]))
    with pytest.raises(FileFormatError, match="cut off"):
        Qwen2Tokenizer.from_pretrained(tmp_path)


PUBLISHED = Path(os.environ.get("LOCKSTEP_PUBLISHED", "published"))


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="LOCKSTEP_PUBLISHED names no folder with published tokenizers")
def test_published_tokenizers():
    """With a folder of downloaded models in LOCKSTEP_PUBLISHED: every Qwen tokenizer in it."""
    configs = PUBLISHED.glob("*/tokenizer*/tokenizer_config.json")
    folders = sorted(p.parent for p in configs if "Qwen2" in json.loads(p.read_text())["tokenizer_class"])
    assert folders
    for path in folders:
        ours, theirs = (kind.from_pretrained(path) for kind in (Qwen2Tokenizer, transformers.Qwen2Tokenizer))
        assert_same_tokens(ours, theirs, [*TEXTS, *map(chat_text, TEXTS[:300])])
