"""T5's tokenizer beside transformers' reading of the same tokenizer.json, and beside SentencePiece itself."""

import json
import os
import unicodedata
from pathlib import Path

import pytest
import transformers

from awkward_texts import assert_same_tokens, awkward_texts
from lockstep.errors import FileFormatError, InputError, NotFoundError
from lockstep.tokenizers import T5Tokenizer
from tokenizers_of_tests import train_sentencepiece

TEXTS = awkward_texts(10_000)
FILLED = {"padding": "max_length", "truncation": True, "max_length": 48}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tokenizer.json, as the published folders have it."""
    source, path = tmp_path_factory.mktemp("spiece"), tmp_path_factory.mktemp("t5")
    train_sentencepiece(source)
    (source / "tokenizer_config.json").write_text(json.dumps({"legacy": False, "model_max_length": 48}))
    T5Tokenizer.from_pretrained(source).save_pretrained(path)
    return path


def test_same_tokens(folder):
    ours, theirs = T5Tokenizer.from_pretrained(folder), transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    assert_same_tokens(ours, theirs, TEXTS, **FILLED)
    assert_same_tokens(ours, theirs, TEXTS[:1000])
    rows = ours(TEXTS[:1000]).input_ids
    for skip in (False, True):
        assert ours.batch_decode(rows, skip) == theirs.batch_decode(rows, skip_special_tokens=skip)


def test_where_transformers_t5_class_differs(folder):
    """It puts a pipeline of its own in the place of the file's: U+0085 and words glued to special tokens,
    nothing else."""
    ours, theirs = T5Tokenizer.from_pretrained(folder), transformers.T5Tokenizer.from_pretrained(folder)
    alike = [text for text in TEXTS[:4000] if "\x85" not in text]
    assert len(alike) > 3000
    assert_same_tokens(ours, theirs, alike, **FILLED)
    for text in ("a\x85b", "</s>hello"):
        assert ours(text).input_ids != theirs(text).input_ids


def test_what_transformers_saves_we_load(folder, tmp_path):
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    theirs.save_pretrained(tmp_path)
    assert_same_tokens(T5Tokenizer.from_pretrained(tmp_path), theirs, TEXTS[:1000], **FILLED)


def test_ends_with_the_end_and_pads(folder):
    tokenizer = T5Tokenizer.from_pretrained(folder)
    row = tokenizer("a photo", padding="max_length", max_length=12)
    assert row.input_ids[sum(row.attention_mask) - 1] == tokenizer.eos_token_id
    assert set(row.input_ids[sum(row.attention_mask) :]) == {tokenizer.pad_token_id}
    assert tokenizer.decode(row.input_ids, skip_special_tokens=True) == "a photo"


def tied(model, *rows):
    """Whether two divisions of one text (`((` `(` and `(` `((`) have the same probability: then either is right."""
    texts = ["".join(model.id_to_piece(row)) for row in rows]
    scores = [sum(model.get_score(row)) for row in rows]
    return texts[0] == texts[1] and scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_sentencepiece_model(tmp_path):
    """`spiece.model` alone: ids of SentencePiece itself, then `</s>`; T5's sentinels behind the pieces."""
    theirs = train_sentencepiece(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 100, "legacy": False}))
    ours = T5Tokenizer.from_pretrained(tmp_path)
    assert len(ours) == theirs.vocab_size() + 100
    assert ours.convert_tokens_to_ids("<extra_id_0>") == len(ours) - 1
    # left out: a zero ends the text there, and the tokenizers library normalises marks and joiners with what they
    # follow
    texts = [
        text for text in TEXTS[:4000] if not any(c in "\0\u200d<" or unicodedata.category(c)[0] == "M" for c in text)
    ]
    assert len(texts) > 1200
    for text, row in zip(texts, ours(texts).input_ids, strict=True):
        assert row[-1] == 1
        assert row[:-1] == theirs.encode(text) or tied(theirs, row[:-1], theirs.encode(text)), repr(text)
    ours.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "tokenizer.json").is_file()
    assert_same_tokens(T5Tokenizer.from_pretrained(tmp_path / "saved"), ours, TEXTS[:1000])
    assert ours("a <extra_id_5> b").input_ids.count(ours.convert_tokens_to_ids("<extra_id_5>")) == 1


def test_damaged_sentencepiece_model(tmp_path):
    train_sentencepiece(tmp_path)
    path = tmp_path / "spiece.model"
    whole = path.read_bytes()
    for broken in (whole[:1000], whole[: whole.index(b"\n", 2000)], b"\xff" * 100, b"", whole[1:]):
        path.write_bytes(broken)
        with pytest.raises(FileFormatError, match="spiece.model"):
            T5Tokenizer.from_pretrained(tmp_path)
    path.unlink()
    with pytest.raises(NotFoundError, match="tokenizer.json"):
        T5Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("options", "word"), [({"model_type": "bpe"}, "unigram"), ({"add_dummy_prefix": False}, "add_dummy_prefix")]
)
def test_other_kinds_of_sentencepiece_models_are_refused(tmp_path, options, word):
    train_sentencepiece(tmp_path, **options)
    with pytest.raises(FileFormatError, match=word):
        T5Tokenizer.from_pretrained(tmp_path)


def test_no_maximum_length_and_missing_pieces(folder):
    tokenizer = T5Tokenizer.from_pretrained(folder, model_max_length=int(1e30))
    with pytest.raises(InputError, match="max_length"):
        tokenizer("a", padding="max_length")
    with pytest.raises(InputError, match="</s>"):
        T5Tokenizer.from_vocabulary([("<pad>", 0.0), ("<unk>", 0.0)])


PUBLISHED = Path(os.environ.get("LOCKSTEP_PUBLISHED", "published"))


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="LOCKSTEP_PUBLISHED names no folder with published tokenizers")
def test_published_tokenizers():
    """With a folder of downloaded models in LOCKSTEP_PUBLISHED: every T5 tokenizer in it."""
    configs = PUBLISHED.glob("*/tokenizer*/tokenizer_config.json")
    folders = sorted(p.parent for p in configs if "T5" in json.loads(p.read_text())["tokenizer_class"])
    assert folders
    for path in folders:
        theirs = transformers.PreTrainedTokenizerFast.from_pretrained(path)
        assert_same_tokens(T5Tokenizer.from_pretrained(path), theirs, TEXTS, **FILLED)
