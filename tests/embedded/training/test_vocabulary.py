"""A wider vocabulary: old tokens stay, new words are whole and begin with what they mean."""

import torch

from lockstep.embedded.training.vocabulary import adopt_embedding, merged, pieces_of, widened
from lockstep.tokenizers import CLIPTokenizer

TEXTS = ["a dog", "a cat", "a red dog", "a red cat on a blue background"] * 20
WORDS = ["puppy", "hündchen", "🐶", "🐱", "dog"]


def pair():
    narrow = CLIPTokenizer.train(TEXTS, 560, model_max_length=24)
    vocabulary, merges = widened(narrow.backend, WORDS)
    return narrow.backend, CLIPTokenizer.from_vocabulary(vocabulary, merges, model_max_length=24).backend


def test_new_words_are_whole_and_old_texts_keep_their_tokens():
    narrow, wide = pair()
    for text in set(TEXTS):
        assert wide.encode(text).tokens == narrow.encode(text).tokens
    for word in WORDS:
        assert len(wide.encode(word, add_special_tokens=False).ids) == 1, word
    assert len(wide.encode("🐶🐱🐶", add_special_tokens=False).ids) == 3
    assert len(narrow.encode("puppy", add_special_tokens=False).ids) > 1
    marks = ["<|startoftext|>", "<|endoftext|>"]
    assert [wide.token_to_id(mark) for mark in marks] == [wide.get_vocab_size() - 2, wide.get_vocab_size() - 1]


def test_merges_apply_by_rank():
    assert merged(["a", "b", "c"], {("b", "c"): 0, ("a", "b"): 1}) == ["a", "bc"]
    assert merged(["a", "b", "c"], {("b", "c"): 1, ("a", "b"): 0}) == ["ab", "c"]
    assert merged(["a"], {}) == ["a"]


def test_a_new_word_begins_with_the_embedding_of_its_meaning():
    narrow, wide = pair()
    released = torch.randn(narrow.get_vocab_size(), 8, generator=torch.Generator().manual_seed(0))
    embedding = torch.nn.Embedding(wide.get_vocab_size(), 8)
    count = adopt_embedding(embedding, wide, released, narrow, {"puppy": "dog", "🐱": "cat", "dog": "cat"})

    def of(word):
        return embedding.weight[wide.encode(word, add_special_tokens=False).ids]

    def old(word):
        return released[narrow.encode(word, add_special_tokens=False).ids]

    torch.testing.assert_close(of("puppy"), old("dog"))
    torch.testing.assert_close(of("🐱"), old("cat"))
    torch.testing.assert_close(of("🐱🐱"), old("cat").expand(2, -1))
    torch.testing.assert_close(of("dog"), old("dog"))  # what was known keeps its own
    assert count == 3
    assert len(list(pieces_of(wide, "🐱"))) == 2
