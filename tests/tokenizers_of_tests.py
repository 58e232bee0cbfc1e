"""Tokenizers that tests train for themselves."""

from awkward_texts import plain_texts


def train_sentencepiece(path, words=(), **options):
    """A small unigram model with T5's layout of ids and normal form, learned here."""
    import sentencepiece

    (path / "texts").write_text("\n".join([*plain_texts(3000), *words]))
    layout = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "normalization_rule_name": "nmt_nfkc"}
    options = {"vocab_size": 500, "hard_vocab_limit": False, "minloglevel": 2, **layout, **options}
    sentencepiece.SentencePieceTrainer.train(input=str(path / "texts"), model_prefix=str(path / "spiece"), **options)
    return sentencepiece.SentencePieceProcessor(model_file=str(path / "spiece.model"))
