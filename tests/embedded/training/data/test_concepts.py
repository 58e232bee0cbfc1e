import pytest

from lockstep.embedded.training.data.colours import BACKGROUNDS, COLOURS
from lockstep.embedded.training.data.concepts import (
    build_concepts,
    clean_label,
    code_of,
    load_concepts,
    number_of,
    read_core,
    read_words,
    save_concepts,
)
from lockstep.errors import NotFoundError


def by_code(work):
    return {concept.code: concept for concept in build_concepts(work / "unpacked")}


def test_the_core_is_large_and_its_names_belong_to_one_concept_each():
    core = read_core()
    names = [name for names in core["concepts"].values() for name in names]
    assert len(core["concepts"]) - len(core["second_tier"]) >= 300
    assert len(names) == len(set(names))
    assert all(name == clean_label(name) for name in names)


def test_the_lists_of_the_core_speak_of_concepts_in_it():
    core = read_core()
    for name in ("second_tier", "fixed_colours", "fixed_sides", "own_colour", "held_out"):
        assert set(core[name]) <= set(core["concepts"]), name
    assert not core["left_out"] & set(core["concepts"])
    assert set(core["own_colour"].values()) <= set(COLOURS)
    assert all(colour in COLOURS and behind in BACKGROUNDS for colour, behind in core["held_out"].values())


def test_the_compositions_to_be_judged_are_held_out():
    held_out = read_core()["held_out"]
    assert held_out[code_of("🍌")][0] == "purple"
    assert held_out[code_of("🐘")] == ["green", "yellow"]


def test_the_face_owns_the_plain_word(packages):
    concepts = by_code(packages)
    assert concepts[code_of("🐶")].names == ["dog", "dog face", "puppy"]
    assert concepts[code_of("🐕")].names == ["standing dog"]


def test_people_flags_and_doubles_are_no_concepts(packages):
    concepts = by_code(packages)
    assert code_of("🦬") in concepts
    assert not {code_of("🏁"), code_of("🧑‍🚒")} & set(concepts)
    assert [concept.tier for concept in concepts.values()] == sorted(
        (concept.tier for concept in concepts.values()), key=lambda tier: tier == 3
    )


def test_tags_are_cleaned_and_do_not_repeat_names(packages):
    assert by_code(packages)[code_of("🐶")].tags == ["thing", "puppy love", "pet"]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("dog", "count"),
        ("bread", "mass"),
        ("scissors", "plural"),
        ("bus", "count"),
        ("beans", "plural"),
        ("lens", "plural"),
        ("hibiscus", "count"),
    ],
)
def test_numbers(name, number):
    assert number_of(name, read_core()) == number


def test_concepts_survive_the_disk(packages):
    concepts = build_concepts(packages / "unpacked")
    save_concepts(packages, concepts)
    assert list(load_concepts(packages).values()) == concepts


def test_without_packages_the_error_names_the_stage(tmp_path):
    with pytest.raises(NotFoundError, match="`fetch`"):
        build_concepts(tmp_path)


def test_synonyms_and_translations_speak_of_concepts_and_never_of_two():
    core, words = read_core(), read_words()
    usual = {names[0] for names in core["concepts"].values()}
    assert set(words["synonyms"]) <= usual
    assert set(words["translations"]) <= usual
    synonyms = [word for several in words["synonyms"].values() for word in several]
    assert len(synonyms) == len(set(synonyms))


def test_a_synonym_that_names_another_concept_is_left_out(packages):
    concepts = by_code(packages)
    assert "doggy" in concepts[code_of("🐶")].english
    assert "noodles" in read_words()["synonyms"]["spaghetti"]
    names = [name for concept in concepts.values() if concept.tier < 3 for name in concept.english]
    assert sorted(set(names)) == sorted(names)


def test_other_languages_by_hand_or_by_label(packages):
    concepts = by_code(packages)
    assert "chien" in concepts[code_of("🐶")].foreign
    assert concepts[code_of("🍌")].foreign == ["banane"]
