"""What people write to the embedded model, and what it is told: the names of its own list, and ways to say things."""

import warnings
from pathlib import Path

import pytest

import lockstep
from lockstep.pipelines.stable_diffusion.scene_languages import singulars_of
from lockstep.pipelines.stable_diffusion.scene_places import WHOLE, on_one_ground
from lockstep.pipelines.stable_diffusion.scene_reading import SceneReader
from lockstep.pipelines.stable_diffusion.scene_silence import silent_in
from lockstep.pipelines.stable_diffusion.scene_spelling import tokens_of
from lockstep.tokenizers.known_words import KnownWords

FOLDER = Path(lockstep.__file__).parent / "embedded" / "emoji" / "tokenizer"
READ = {
    # wishes
    "I would love to see a picture of a bright yellow taxi": ["a yellow taxi"],
    "I love my cat": ["a cat"],
    "I love you": ["a heart"],
    "I want to watch tv": ["a television"],
    "I would love a submarine": ["a ship"],
    "ich hätte gern einen roten Apfel": ["a red apple"],
    "je voudrais une pomme verte": ["a green apple"],
    "me gustaría ver un gato negro": ["a black cat"],
    "vorrei gatti neri": ["a black cat"] * 2,
    "gostaria de ver três maçãs": ["an apple"] * 3,
    # purposes, times, comparisons
    "a spooky ghost for my Halloween party": ["a ghost"],
    "a potted plant for my windowsill": ["a potted plant"],
    "un regalo para mi perro": ["a gift"],
    "something for my cat": ["a cat"],
    "a ghost for my party and a pumpkin": ["a ghost", "a pumpkin"],
    "an apple for the teacher": ["an apple"],
    "a cat on a sunny day": ["a cat"],
    "sunny day": ["a sun"],
    "a dog in the rain": ["a dog", "a rain cloud"],
    "leaves in autumn": ["a fallen leaf"],
    "a balloon shaped like a heart": ["a balloon"],
    "a house made of chocolate": ["a house"],
    "a painting of a cat": ["a cat"],
    "clip art of an apple": ["an apple"],
    "what about a penguin with sunglasses?": ["a penguin", "sunglasses"],
    # what must not be there
    "a cat without a hat": ["a cat"],
    "not a cat but a dog": ["a dog"],
    "I don't want a cat, I want a dog": ["a dog"],
    "ein Hund ohne Hut": ["a dog"],
    "uma maçã no prato": ["an apple"],
    # faces
    "somebody crying their eyes out, as a smiley": ["a crying face"],
    "a smiley that is laughing": ["a laughing face"],
    "a very sleepy emoji": ["a sleepy face"],
    "ein trauriges Gesicht": ["a crying face"],
    "a smiley with heart eyes": ["a lovestruck face"],
    "an emoji of a sad dog": ["a dog", "a water drop"],
    "a gray wolf's face": ["a gray wolf"],
    # slips of the pen
    "a mighty t-rex, roaring": ["a dinosaur"],  # spelled much like "ring", but no noun
    "a lovely elefent": ["an elephant"],
    "two stawbery and an elefent": ["a strawberry", "a strawberry", "an elephant"],
    "a smiley with a cowboy hat": ["a smiley face", "a top hat"],
    "a dinosuar": ["a dinosaur"],
    "gutiar": ["a guitar"],
    "tommato": ["a tomato"],
    "buterfly": ["a butterfly"],
    "a yelow car": ["a yellow car"],
    "two pengiuns": ["a penguin"] * 2,
    "teddy-bear": ["a teddy bear"],
    "icecream": ["an ice cream cone"],
    "pine apple": ["a pineapple"],
    "the dog's bone": ["a bone"],
    # emoji
    "🚲 please": ["a bicycle"],
    "🐶🐶🐶": ["a dog"] * 3,
    "dog 🐶": ["a dog"],
    # styles and grounds
    "flat style mushroom": ["a mushroom, flat style"],
    "noto style crocodile": ["a crocodile, noto style"],
    "a flat mushroom in 3d": ["a mushroom, 3d style"],
    "a flat screen tv": ["a television"],
    "a dog in the style of van gogh": ["a dog"],
    "ein Schlüssel auf grünem Hintergrund": ["a key on a green background"],
    "un chat sur fond bleu": ["a cat on a blue background"],
    "un gato sobre fondo azul": ["a cat on a blue background"],
    "un gatto su sfondo giallo": ["a cat on a yellow background"],
    "um gato em fundo verde": ["a cat on a green background"],
    # further languages
    "zwei blaue Fische": ["a blue fish"] * 2,
    "zwei große grüne Bäume": ["a green tree"] * 2,
    "tres corazones rosas": ["a pink heart"] * 3,
    "pommes rouges": ["a red apple"] * 2,
    "cinque stelle gialle": ["a yellow star"] * 5,
    "dois corações vermelhos": ["a red heart"] * 2,
    "una rosa roja": ["a red rose"],
    "ein rosa Schwein": ["a pink pig"],
    "das Auto ist blau": ["a blue car"],
    "un chat à côté d'un arbre": ["a cat", "a tree"],
    "un perro al lado de una casa": ["a dog", "a house"],
    "une tasse de café": ["a cup of coffee"],
    "eine Katze mit einer Krone": ["a cat", "a crown"],
    # several things
    "cat next to dog": ["a cat", "a dog"],
    "a robot playing guitar": ["a robot", "a guitar"],
    "a dog, black cat": ["a dog", "a black cat"],
    "a school of fish": ["a fish"] * 5,
    "dogs x3": ["a dog"] * 3,
    "a pizza with mushrooms and cheese": ["a slice of pizza"],
    "a fire breathing dragon": ["a dragon"],
    "a candle that is lit": ["a candle"],
}
LEFT_TO_THE_MODEL = ["no dogs", "good morning", "face", "a sks dog", "red and blue", "un gâteau pour la fête"]


@pytest.fixture(scope="module")
def reader():
    return SceneReader(KnownWords.read(FOLDER))


@pytest.mark.parametrize(("text", "wanted"), READ.items())
def test_what_people_write(reader, text, wanted):
    assert [part.text for part in reader.read(text)] == wanted


@pytest.mark.parametrize("text", LEFT_TO_THE_MODEL)
def test_what_names_nothing_is_left_to_the_model(reader, text):
    assert reader.read(text) is None


def test_every_usual_name_is_read_as_itself(reader):
    for name in {reader.usual(name) for name in reader.known.things}:
        (part,) = reader.read(f"please, {name}!")
        assert part.text.removeprefix("an ").removeprefix("a ") == name


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("a tiny mouse and a huge elephant", 0),
        ("a big tree and a small house", 1),
        ("una piccola casa e un albero", 0),
        ("un árbol grande y una casa pequeña", 1),
        ("a tiny dog to the right of a huge cat", 0),
    ],
)
def test_the_small_one_is_about_half_as_large_and_on_the_same_ground(reader, text, small):
    places = [part.place for part in reader.read(text)]
    lesser, larger = places[small], places[1 - small]
    assert lesser.width == pytest.approx(larger.width / 2)
    assert lesser.width + larger.width == pytest.approx(1)
    assert lesser.top + lesser.height == pytest.approx(larger.top + larger.height)
    assert lesser.touches == larger.touches == "bottom"


def test_sizes_of_what_stands_on_each_other_and_alone(reader):
    bird, elephant = (part.place for part in reader.read("a tiny bird on a huge elephant"))
    assert bird.height < elephant.height / 2
    dog, chair = (part.place for part in reader.read("a big dog on a tiny chair"))
    assert chair.height < dog.height > chair.width
    elephant, mouse = (part.place for part in reader.read("a huge elephant and a mouse"))
    assert mouse.width < 0.7 * elephant.width
    (house,) = reader.read("a small house")
    assert house.place.width < WHOLE.width
    (dog,) = reader.read("a big dog")
    assert dog.place == WHOLE


def test_places_on_one_ground_fill_the_width():
    places = on_one_ground([0.5, 1, 0.5])
    assert [place.left for place in places] == pytest.approx([0, 0.25, 0.75])
    assert all(place.top >= 0 and place.top + place.height <= 1 for place in places)


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("äpfel", "apfel"), ("corazones", "corazón"), ("gatti", "gatto"), ("corações", "coração"), ("chevaux", "cheval")],
)
def test_singulars(plural, singular):
    assert singular in singulars_of(plural)


def test_tokens_are_spelled_as_names_are():
    assert tokens_of("l’arbre d'un CHAT") == ["l", "arbre", "d", "un", "chat"]
    assert tokens_of("🚲️ 3x cat") == ["🚲", "3", "cat"]


def test_a_word_within_a_name_says_nothing_by_itself():
    assert silent_in(["bone", "for", "a", "dog"]) == ({1, 2, 3}, set())
    assert silent_in(["bone", "for", "a", "dog"], {0, 1, 2, 3}) == (set(), set())
    assert silent_in(["cat", "without", "hat", ",", "dog"]) == (set(), {1, 2})


def test_only_words_that_nobody_reads_are_told(reader):
    """Slips, plurals and colours of further languages, wishes and styles are read, though nobody taught the model."""
    for text in (
        "eine rote Rose",
        "zwei blaue Fische",
        "a ripe strawbery",
        "a volcano, 3d render",
        "a crocadile, please",
    ):
        assert reader.unread(text) == [], text
    assert reader.unread("a mighty t-rex") == ["mighty"]
    assert reader.unread("a submarine, roaring") == ["submarine", "roaring"]
    assert reader.unread("a (strawbery:1.2)") == ["strawbery"]  # its writer speaks to the model itself


def test_a_drawn_word_that_was_not_taught_is_told_by_a_pipeline():
    pipe = lockstep.DiffusionPipeline.from_pretrained("lockstep/emoji")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe("eine rote Rose", num_inference_steps=1, output_type="latent")
    with pytest.warns(UserWarning, match="'rote'"):
        pipe("eine rote Rose", read_scenes=False, num_inference_steps=1, output_type="latent")
    with pytest.warns(UserWarning, match="not taught 'submarine'"):
        pipe("a submarine", num_inference_steps=1, output_type="latent")
