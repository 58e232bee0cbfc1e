"""CLIP's tokenizer on its own: calls, training, errors, threads, and an import that stays light."""

import concurrent.futures
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from awkward_texts import awkward_texts, plain_texts
from lockstep.errors import ConfigError, FileFormatError, InputError, LockstepError, NotFoundError, UnknownNameError
from lockstep.tokenizers import CLIPTokenizer

BOS, EOS = 798, 799


@pytest.fixture(scope="module")
def tokenizer():
    return CLIPTokenizer.train(plain_texts(2000), 800)


def test_training_is_repeatable_and_covers_every_byte(tokenizer):
    again = CLIPTokenizer.train(plain_texts(2000), 800)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert (len(tokenizer), tokenizer.bos_token_id, tokenizer.eos_token_id) == (800, BOS, EOS)
    for text in awkward_texts(500):
        if "<|" not in text:
            assert EOS not in tokenizer(text).input_ids[1:-1], repr(text)
    assert len(tokenizer("astronaut").input_ids) == 3


def test_bytes_survive(tokenizer):
    text = "ein größeres 猫 🐱 haus"
    assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text


def test_shapes_of_the_answer(tokenizer):
    one = tokenizer("a photo")
    assert (one.input_ids[0], one.input_ids[-1]) == (BOS, EOS)
    assert one.attention_mask == [1] * len(one.input_ids)
    many = tokenizer(["a photo", "an astronaut riding a horse"], padding=True, return_tensors="pt", return_length=True)
    assert many.input_ids.dtype == many.attention_mask.dtype == torch.int64
    assert many.input_ids.shape == many.attention_mask.shape == (2, int(many.length.max()))
    assert many.attention_mask.sum(1).tolist() == many.length.tolist()
    assert isinstance(tokenizer("a", return_tensors="np").input_ids, np.ndarray)
    assert list(tokenizer("a", return_attention_mask=False)) == ["input_ids"]
    assert tokenizer("a photo", add_special_tokens=False).input_ids == one.input_ids[1:-1]
    assert tokenizer.encode("a photo") == one.input_ids
    assert many.to("meta").input_ids.device.type == "meta"
    with pytest.raises(AttributeError, match="input_ids"):
        one.nothing


def test_padding_and_truncation(tokenizer):
    row = tokenizer("word " * 200, padding="max_length", truncation=True).input_ids
    assert (len(row), row[0], row[-1]) == (77, BOS, EOS)
    row = tokenizer("a", padding="max_length", max_length=9)
    assert row.input_ids[2:] == [EOS] * 7
    assert row.attention_mask == [1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert tokenizer("a b c d", truncation=True, max_length=2).input_ids == [BOS, EOS]
    assert len(tokenizer("word " * 200).input_ids) > 77


def test_other_pad_token(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    other = CLIPTokenizer.from_pretrained(tmp_path, pad_token="!", model_max_length=5)
    assert other("a", padding="max_length").input_ids == [
        BOS,
        *tokenizer("a").input_ids[1:],
        other.pad_token_id,
        other.pad_token_id,
    ]
    assert other.pad_token_id == tokenizer.convert_tokens_to_ids("!") != EOS


def test_tokens_and_ids(tokenizer):
    tokens = tokenizer.tokenize("a photo")
    assert all(token.endswith("</w>") for token in tokens)
    ids = tokenizer.convert_tokens_to_ids(tokens)
    assert tokenizer.convert_ids_to_tokens(ids) == tokens
    assert tokenizer.convert_tokens_to_ids("no such token") == EOS
    assert tokenizer.decode(torch.tensor(ids)) == "a photo"
    assert tokenizer.batch_decode(torch.tensor([ids, ids])) == ["a photo"] * 2


def test_threads_do_not_disturb_each_other(tokenizer):
    texts = awkward_texts(300)
    wanted = {
        n: [tokenizer(t, padding="max_length", truncation=True, max_length=n).input_ids for t in texts] for n in (5, 77)
    }

    def run(length):
        return [tokenizer(t, padding="max_length", truncation=True, max_length=length).input_ids for t in texts]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for length, rows in zip([5, 77] * 8, pool.map(run, [5, 77] * 8), strict=True):
            assert rows == wanted[length]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t(None), InputError, ["text", "None"]),
        (lambda t: t([]), InputError, ["list of texts"]),
        (lambda t: t(["a", 3]), InputError, ["Text 1", "int"]),
        (lambda t: t(["a", "b\ud800"]), InputError, ["Text 1", "surrogate"]),
        (lambda t: t("a", padding="maximum"), UnknownNameError, ["padding", "max_length"]),
        (lambda t: t("a", padding=[]), UnknownNameError, ["padding", "max_length"]),
        (lambda t: t("a", truncation="maybe"), UnknownNameError, ["truncation", "maybe"]),
        (lambda t: t.decode("a"), InputError, ["one row of token ids", "'a'"]),
        (lambda t: t.decode([-1]), InputError, ["one row of token ids", "-1"]),
        (lambda t: t.decode([[1]]), InputError, ["batch_decode"]),
        (lambda t: t("a", truncation=True, max_length=1), InputError, ["max_length", "2 special", "got 1"]),
        (lambda t: t("a", truncation=True, max_length="77"), InputError, ["max_length", "'77'"]),
        (lambda t: t("a", return_tensors="tf"), UnknownNameError, ["tf", "pt"]),
        (lambda t: t(["a", "a b c"], return_tensors="pt"), InputError, ["3 to 5", "padding"]),
        (lambda t: t("a", return_overflowing_tokens=True), InputError, ["return_overflowing_tokens"]),
        (lambda t: CLIPTokenizer.train(["a"], 100), InputError, ["514", "100"]),
    ],
)
def test_bad_calls(tokenizer, call, error, words):
    with pytest.raises(error) as caught:
        call(tokenizer)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def damaged(tokenizer, folder, name, text):
    tokenizer.save_pretrained(folder)
    if name in ("vocab.json", "merges.txt"):
        (folder / "tokenizer.json").unlink()
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "error", "words"),
    [
        ("tokenizer.json", "{", FileFormatError, ["tokenizer.json", "JSON"]),
        ("tokenizer.json", "{}", FileFormatError, ["tokenizer.json"]),
        ("vocab.json", "[1]", FileFormatError, ["vocab.json"]),
        ("vocab.json", '{"a": "b"}', FileFormatError, ["vocab.json"]),
        ("merges.txt", "one two three\n", FileFormatError, ["merges.txt"]),
        ("merges.txt", "notintable alsonot\n", FileFormatError, ["merges.txt"]),
        ("merges.txt", "#version: 0.2\ni n\n", FileFormatError, ["merges.txt", "800 tokens", "1 merges", "cut off"]),
        ("merges.txt", None, NotFoundError, ["merges.txt", "missing", "vocab.json"]),
        ("tokenizer_config.json", "[]", FileFormatError, ["tokenizer_config.json"]),
        ("tokenizer_config.json", '{"model_max_length": "long"}', ConfigError, ["model_max_length", "long"]),
        ("tokenizer_config.json", '{"padding_side": "up"}', ConfigError, ["padding_side", "up"]),
        ("tokenizer_config.json", '{"added_tokens_decoder": {}, "bos_token": 7}', ConfigError, ["bos_token", "7"]),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {}}}', FileFormatError, ["added_tokens_decoder"]),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"5000": {"content": "<x>"}}}',
            FileFormatError,
            ["<x>", "5000", "800"],
        ),
        ("tokenizer_config.json", '{"additional_special_tokens": "x"}', ConfigError, ["additional_special_tokens"]),
    ],
)
def test_damaged_files(tokenizer, tmp_path, name, text, error, words):
    damaged(tokenizer, tmp_path, name, text)
    with pytest.raises(error) as caught:
        CLIPTokenizer.from_pretrained(tmp_path)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_an_argument_that_nobody_takes_is_refused(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean 'model_max_length'"):
        CLIPTokenizer.from_pretrained(tmp_path, max_length=10)


def test_no_such_folder(tmp_path):
    with pytest.raises(NotFoundError):
        CLIPTokenizer.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(NotFoundError, match="tokenizer.json"):
        CLIPTokenizer.from_pretrained(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(LockstepError):
        CLIPTokenizer.from_vocabulary({"<|endoftext|>": 0, "<|startoftext|>": 1}, []).save_pretrained(tmp_path / "file")


def test_subfolder(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    assert CLIPTokenizer.from_pretrained(tmp_path, subfolder="tokenizer").get_vocab() == tokenizer.get_vocab()
    written = json.loads((tmp_path / "tokenizer" / "tokenizer_config.json").read_text())
    assert written["tokenizer_class"] == "CLIPTokenizer"
    assert not list((tmp_path / "tokenizer").glob("*.part"))


def test_import_is_light():
    code = "import sys, lockstep.tokenizers; print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
