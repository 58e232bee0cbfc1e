"""What a model was not taught is told, with what comes near."""

import json

import pytest

from lockstep.errors import FileFormatError
from lockstep.tokenizers import CLIPTokenizer
from lockstep.tokenizers.known_words import FILE_NAME, KnownWords

NAMES = frozenset({"boat", "ship", "dog", "elephant"})
KNOWN = KnownWords(NAMES | {"a", "red", "eleven"}, NAMES, {"submarine": ["ship", "boat"]})


def test_unknown_words_are_found_once_and_in_order():
    assert KNOWN.unknown_in("A red SUBMARINE, a dog and a submarine!") == ["submarine", "and"]
    assert KNOWN.unknown_in("a red dog, 3d, 50 % …") == []


def test_a_sign_is_no_word_that_a_model_knows_and_its_name_tells_one_that_it_does():
    assert KNOWN.unknown_in("a 🐶 on a 🛶🛶") == ["on", "🐶", "🛶"]
    assert KNOWN.nearest("🐕") == ["dog"]  # named DOG
    assert (
        KNOWN.remark_on(["🐶"])
        == "This model was not taught '🐶' (near: dog). It draws what else the prompt says, or what comes near."
    )
    assert (
        KNOWN.remark_on(["🛶"])
        == "This model was not taught '🛶'. It draws what else the prompt says, or what comes near."
    )


def test_near_by_meaning_then_by_spelling():
    assert KNOWN.nearest("submarine") == ["ship", "boat"]
    assert KNOWN.nearest("elefant") == ["elephant"]
    assert KNOWN.nearest("xylophone") == []


def test_the_remark_names_every_unknown_word():
    remark = KNOWN.remark_on(["a submarine", "a qqq"])
    assert "'submarine' (near: ship, boat); 'qqq'" in remark
    assert KNOWN.remark_on(["a red dog"]) is None


def test_a_tokenizer_carries_the_list_of_its_folder(tmp_path):
    tokenizer = CLIPTokenizer.train(["a dog"] * 3, 520, model_max_length=8)
    tokenizer.save_pretrained(tmp_path / "plain")
    assert CLIPTokenizer.from_pretrained(tmp_path / "plain").known_words is None
    tokenizer.known_words = KNOWN
    tokenizer.save_pretrained(tmp_path / "listed")
    again = CLIPTokenizer.from_pretrained(tmp_path / "listed")
    assert again.known_words == KNOWN
    (tmp_path / "listed" / FILE_NAME).write_text(json.dumps({"words": "dog"}))
    with pytest.raises(FileFormatError, match="words"):
        CLIPTokenizer.from_pretrained(tmp_path / "listed")


def test_a_slip_of_the_pen_is_the_name_that_is_meant():
    known = KnownWords(frozenset(["red", "elephant"]), frozenset(["elephant", "bowling", "dog"]), {"howl": ["dog"]})
    assert known.meant_by("elefant") == "elephant"
    for word in ("howling", "howl", "red", "elephant", "doe", "submarine"):  # another word, known, too short, too far
        assert known.meant_by(word) is None
    assert KnownWords(frozenset()).meant_by("elefant") is None


@pytest.mark.parametrize("word", ["elehpant", "elephhant", "elphant", "elephent"])
def test_one_letter_exchanged_doubled_missed_or_wrong_is_a_slip(word):
    assert KNOWN.meant_by(word) == "elephant"


def test_usual_names_are_kept_in_the_file(tmp_path):
    KnownWords(frozenset(["dog"]), usual={"puppy": "dog"}).save(tmp_path)
    assert KnownWords.read(tmp_path).usual == {"puppy": "dog"}
