"""T5's tokenizer beside transformers' reading of the same tokenizer.json, and beside SentencePiece itself."""

import json
import os
from pathlib import Path

import pytest
import tokenizers
import transformers
from awkward_texts import awkward_texts, plain_texts

from lockstep.errors import FileFormatError, InputError, NotFoundError
from lockstep.tokenizers import T5Tokenizer

TEXTS = awkward_texts(10_000)
FILLED = {"padding": "max_length", "truncation": True, "max_length": 48}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small unigram vocabulary, learned here."""
    learner = tokenizers.Tokenizer(tokenizers.models.Unigram())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement="▁")
    special = ["<pad>", "</s>", "<unk>"]
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    learner.train_from_iterator(plain_texts(2000), trainer)
    pieces = [tuple(pair) for pair in json.loads(learner.to_str())["model"]["vocab"]]
    path = tmp_path_factory.mktemp("t5")
    T5Tokenizer.from_vocabulary(pieces, model_max_length=48).save_pretrained(path)
    return path


def assert_same_tokens(ours, theirs, texts=TEXTS, **options):
    got, want = ours(texts, **options), theirs(texts, **options)
    for index, text in enumerate(texts):
        assert got.input_ids[index] == want.input_ids[index], repr(text)
        assert got.attention_mask[index] == want.attention_mask[index], repr(text)


@pytest.mark.parametrize("options", [FILLED, {}], ids=["filled", "bare"])
def test_same_tokens(folder, options):
    ours, theirs = T5Tokenizer.from_pretrained(folder), transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    assert_same_tokens(ours, theirs, **options)
    rows = ours(TEXTS[:1000]).input_ids
    for skip in (False, True):
        assert ours.batch_decode(rows, skip) == theirs.batch_decode(rows, skip_special_tokens=skip)


def test_where_transformers_t5_class_differs(folder):
    """It puts a pipeline of its own in the place of the file's: U+0085 and words glued to special tokens, nothing else."""
    ours, theirs = T5Tokenizer.from_pretrained(folder), transformers.T5Tokenizer.from_pretrained(folder)
    alike = [text for text in TEXTS if "\x85" not in text]
    assert len(alike) > 8000
    assert_same_tokens(ours, theirs, alike, **FILLED)
    for text in ("a\x85b", "</s>hello"):
        assert ours(text).input_ids != theirs(text).input_ids


def test_what_transformers_saves_we_load(folder, tmp_path):
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    theirs.save_pretrained(tmp_path)
    assert_same_tokens(T5Tokenizer.from_pretrained(tmp_path), theirs, TEXTS[:1500], **FILLED)


def test_ends_with_the_end_and_pads(folder):
    tokenizer = T5Tokenizer.from_pretrained(folder)
    row = tokenizer("a photo", padding="max_length", max_length=12)
    assert row.input_ids[sum(row.attention_mask) - 1] == tokenizer.eos_token_id
    assert set(row.input_ids[sum(row.attention_mask) :]) == {tokenizer.pad_token_id}
    assert tokenizer.decode(row.input_ids, skip_special_tokens=True) == "a photo"


def sentencepiece_folder(path, **config):
    sentencepiece = pytest.importorskip("sentencepiece")
    (path / "texts").write_text("\n".join(plain_texts(3000)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(path / "texts"), model_prefix=str(path / "spiece"), vocab_size=200, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name="nmt_nfkc", minloglevel=2,
    )  # fmt: skip
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return sentencepiece.SentencePieceProcessor(model_file=str(path / "spiece.model"))


def test_sentencepiece_model(tmp_path):
    """`spiece.model` alone: ids of SentencePiece itself, then `</s>`; T5's sentinels behind the pieces."""
    theirs = sentencepiece_folder(tmp_path, extra_ids=100, legacy=False)
    ours = T5Tokenizer.from_pretrained(tmp_path)
    assert len(ours) == theirs.vocab_size() + 100
    assert ours.convert_tokens_to_ids("<extra_id_0>") == len(ours) - 1
    # a zero ends the text there; and the tokenizers library normalises a joiner together with the space before it
    texts = [text for text in TEXTS[:4000] if "\0" not in text and "\u200d" not in text and "<" not in text]
    assert len(texts) > 1500
    for text, row in zip(texts, ours(texts).input_ids, strict=True):
        assert row == [*theirs.encode(text), 1], repr(text)
    ours.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "tokenizer.json").is_file()
    assert_same_tokens(T5Tokenizer.from_pretrained(tmp_path / "saved"), ours, TEXTS[:1000])
    assert ours("a <extra_id_5> b").input_ids.count(ours.convert_tokens_to_ids("<extra_id_5>")) == 1


def test_damaged_sentencepiece_model(tmp_path):
    sentencepiece_folder(tmp_path)
    path = tmp_path / "spiece.model"
    whole = path.read_bytes()
    for broken in (whole[:1000], b"\xff" * 100, b"", whole[1:]):
        path.write_bytes(broken)
        with pytest.raises(FileFormatError, match="spiece.model"):
            T5Tokenizer.from_pretrained(tmp_path)
    path.unlink()
    with pytest.raises(NotFoundError, match="tokenizer.json"):
        T5Tokenizer.from_pretrained(tmp_path)


def test_other_kinds_of_sentencepiece_models_are_refused(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "texts").write_text("\n".join(plain_texts(1000)))
    options = {"input": str(tmp_path / "texts"), "model_prefix": str(tmp_path / "spiece"), "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(**options, vocab_size=150, model_type="bpe")
    with pytest.raises(FileFormatError, match="unigram"):
        T5Tokenizer.from_pretrained(tmp_path)
    sentencepiece.SentencePieceTrainer.train(**options, vocab_size=150, hard_vocab_limit=False, add_dummy_prefix=False)
    with pytest.raises(FileFormatError, match="add_dummy_prefix"):
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
        assert_same_tokens(T5Tokenizer.from_pretrained(path), theirs, **FILLED)
