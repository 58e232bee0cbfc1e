"""The trained vocabulary, read by transformers' CLIPTokenizer from either of the two layouts that it takes."""

import shutil

import numpy as np
import pytest

from lockstep.embedded.training.tokenizer import encode_batch, load_tokenizer
from lockstep.tokenizers import CLIPTokenizer

TEXTS = [
    "a red heart",
    "A Dog, 3d style on a blue background",
    "a slice of pizza",
    "an unheard-of xylophonist, naïve café! 12",
    "日本 🍌",
    "  two  spaces ",
    "",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    captions = [
        f"a {colour} {name}, {style} style"
        for colour in ("red", "blue")
        for name in ("heart", "dog")
        for style in ("3d", "flat")
    ]
    folder = tmp_path_factory.mktemp("tokenizer")
    CLIPTokenizer.train(captions * 20, 600, model_max_length=24).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("layout", ["tokenizer.json", "vocab.json"])
def test_same_ids(folder, layout, tmp_path):
    from transformers import CLIPTokenizer as Reference

    kept = tmp_path / "kept"
    shutil.copytree(folder, kept)
    if layout == "vocab.json":
        (kept / "tokenizer.json").unlink()
    reference, ours = Reference.from_pretrained(kept), load_tokenizer(kept)
    for text in TEXTS:
        assert ours.encode(text).ids == reference(text).input_ids, text
    padded = reference(TEXTS, padding="max_length", max_length=8, truncation=True).input_ids
    assert encode_batch(ours, TEXTS, length=8).tolist() == padded


def test_words_of_captions_are_single_tokens_and_nothing_is_unknown(folder):
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode("heart").tokens == ["<|startoftext|>", "heart</w>", "<|endoftext|>"]
    assert tokenizer.decode(tokenizer.encode("xylophonist").ids).replace("</w>", "") == "xylophonist"


def test_a_cut_text_keeps_its_end(folder):
    rows = encode_batch(load_tokenizer(folder), ["a very very very long text " * 10], length=10)
    end = load_tokenizer(folder).token_to_id("<|endoftext|>")
    assert rows.shape == (1, 10)
    assert rows[0, -1] == end
    assert (rows[0, :-1] != end).all()
    assert rows.dtype == np.int64
