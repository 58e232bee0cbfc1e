"""Several things by a model of single things: what a sentence asks for, where it stands, and that each thing is what
the model draws of it alone."""

import pickle

import numpy as np
import pytest
import torch

import lockstep
from lockstep import Checkpoint
from lockstep.pipelines.stable_diffusion.scene_places import MOST, WHOLE, Place, in_rows
from lockstep.pipelines.stable_diffusion.scene_reading import SceneReader
from lockstep.pipelines.stable_diffusion.scene_worn import Fit, Part
from lockstep.pipelines.stable_diffusion.scenes import put_together
from lockstep.tokenizers.known_words import KnownWords

THINGS = {
    "dog": "dogs", "cat": "cats", "car": "cars", "house": "houses", "bird": "birds", "crown": "crowns",
    "heart": "hearts", "apple": "apples", "bow and arrow": "bows and arrows", "cup of coffee": "cups of coffee",
    "dragon": "dragons", "tree": "trees", "elephant": "elephants", "star": "stars", "rocket": "rockets",
    "ship": "ships", "mouse": "mice", "cake": "cakes", "candle": "candles", "like": "likes", "bus": "buses",
    "cherry": "cherries", "ice cream": "", "glasses": "", "fire": "", "fries": "", "smiley": "", "heart eyes": "",
    "apfel": "", "hund": "", "katze": "", "🐶": "", "🐱": "", "puppy": "puppies", "orange": "oranges", "sunglasses": "",
}  # fmt: skip
USUAL = {"apfel": "apple", "hund": "dog", "katze": "cat", "🐶": "dog", "🐱": "cat", "puppy": "dog"}
WORDS = frozenset(["happy", "grumpy", "fluffy", "old", "looking", "nice", "that", "blue", "red", "style"])
AS_IT_IS = [
    "a dog",
    "a submarine",
    "",
    "a (red:1.3) dog",
    "a <sks> dog",
    "a dog on a blue background",
    "an apple, flat style",
]
ONE_THING = {
    "draw me a red car, please!": "a red car",
    "a fire-breathing dragon": "a dragon",
    "bow and arrow": "a bow and arrow",
    "a pair of glasses": "glasses",
    "a rocket ship": "a ship",
    "cake with candles": "a cake",
    "I would like a cup of coffee": "a cup of coffee",
    "some fries": "fries",
    "a smiley with heart eyes": "smiley",
    "🐶": "a dog",
    "a cat in a bathtub": "a cat",
    "dog!!!": "a dog",
    "a happy fluffy puppy that looks nice": "a dog",
    "eine rote Katze": "a red cat",
    "an orange cat": "an orange cat",
    "a violet elefant": "a purple elephant",
    "an apple in blueprint style": "an apple, blueprint style",
    "a sks dog": "a sks dog",
    "a cake of cherries": "a cake",
    "une cat bleue": "a blue cat",
    "a bird in red": "a red bird",
    "a yacht": "a ship",
}
SEVERAL = {
    "two dogs": ["a dog", "a dog"],
    "Three red hearts, please": ["a red heart"] * 3,
    "2 cups of coffee": ["a cup of coffee"] * 2,
    "a dog and a cat": ["a dog", "a cat"],
    "a red car next to a blue bus": ["a red car", "a blue bus"],
    "please draw two cats and three mice!": ["a cat", "a cat", "a mouse", "a mouse", "a mouse"],
    "a dog, a cat and a bird": ["a dog", "a cat", "a bird"],
    "two dogs on a blue background": ["a dog on a blue background"] * 2,
    "a dog and a cat in flat style": ["a dog, flat style", "a cat, flat style"],
    "ein Hund und eine Katze": ["a dog", "a cat"],
    "🐶🐱": ["a dog", "a cat"],
    "a cat wearing a crown": ["a cat", "a crown"],
    "a grumpy cat with a crown, flat style": ["a cat, flat style", "a crown, flat style"],
    "a sad dog": ["a dog", "a water drop"],
    "a cat wearing a crown and a dog": ["a cat", "a crown", "a dog"],
    "two cats wearing crowns": ["a cat", "a crown"] * 2,
    "apples": ["an apple", "an apple"],
    "a hundred stars": ["a star"] * MOST,
    "a tiny elephant": ["an elephant"],
    "zwei Katzen": ["a cat", "a cat"],
    "drei Hunde bitte": ["a dog"] * 3,
    "zwei Äpfel": ["an apple"] * 2,
    "a house with a tree": ["a house", "a tree"],
    "a star in the top right corner": ["a star"],
    "a dog chasing a cat": ["a dog", "a cat"],
}


@pytest.fixture(scope="module")
def reader():
    near = {"yacht": ["ship"], "bathtub": ["cup of coffee"]}
    return SceneReader(KnownWords(WORDS, frozenset(THINGS) - USUAL.keys(), near, THINGS, USUAL))


@pytest.fixture(scope="module")
def pipe():
    made = lockstep.DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")
    made.set_progress_bar_config(disable=True)
    return made


@pytest.mark.parametrize("text", AS_IT_IS)
def test_a_sentence_in_the_model_s_own_words_is_left_as_it_is(reader, text):
    assert reader.read(text) is None


@pytest.mark.parametrize(("text", "wanted"), ONE_THING.items())
def test_one_thing_is_told_in_the_words_that_the_model_was_taught(reader, text, wanted):
    (part,) = reader.read(text) or [Part(text, WHOLE)]
    assert part == Part(wanted, WHOLE)


@pytest.mark.parametrize(("text", "wanted"), SEVERAL.items())
def test_the_things_of_a_sentence(reader, text, wanted):
    assert [part.text for part in reader.read(text)] == wanted


def centre(part):
    return part.place.left + part.place.width / 2, part.place.top + part.place.height / 2


def test_where_things_stand(reader):
    bird, house = reader.read("a bird on top of a house")
    assert centre(bird)[1] < centre(house)[1]
    assert bird.place.top + bird.place.height == pytest.approx(house.place.top)
    assert (bird.place.touches, house.place.touches) == ("bottom", "top")
    house, bird = reader.read("a house under a bird")
    assert centre(bird)[1] < centre(house)[1]
    ice, cherry = reader.read("an ice cream with a cherry on top")
    assert centre(cherry)[1] < centre(ice)[1]
    dog, cat = reader.read("a dog to the right of a cat")
    assert centre(dog)[0] > centre(cat)[0]
    dog, car = reader.read("a dog in a car")
    assert car.place == WHOLE
    assert dog.place.width < 0.5
    (star,) = reader.read("a star in the top right corner")
    assert (star.place.left, star.place.top) == (0.5, 0.0)
    dog, cat = reader.read("a dog and a small cat")
    assert cat.place.height < dog.place.height
    assert [part.place for part in reader.read("two little dogs")] == [part.place for part in reader.read("two dogs")]


@pytest.mark.parametrize("count", range(1, MOST + 1))
def test_places_share_nothing_and_stay_in_the_picture(count):
    places = in_rows(count)
    assert len(places) == count
    taken = torch.zeros(360, 360)
    for place in places:
        top, left, height, width = (round(360 * side) for side in (place.top, place.left, place.height, place.width))
        assert min(top, left) >= 0
        assert max(top + height, left + width) <= 360
        taken[top : top + height, left : left + width] += 1
    assert taken.max() == 1


def test_things_are_put_into_their_places():
    """Two squares, red and blue, each in the middle of its own picture, on a yellow ground."""
    things = torch.tensor([1.0, 1.0, -1.0])[None, :, None, None].repeat(2, 1, 32, 32)
    for thing, colour in zip(things, ([1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]), strict=True):
        thing[:, 8:24, 8:24] = torch.tensor(colour)[:, None, None]
    parts = [Part("", Place(0.0, 0.25, 0.5, 0.5)), Part("", Place(0.5, 0.25, 0.5, 0.5))]
    picture = put_together(things, parts)
    assert picture[:, 16, 8].tolist() == [1.0, -1.0, -1.0]
    assert picture[:, 16, 24].tolist() == [-1.0, -1.0, 1.0]
    for row, column in ((2, 2), (2, 16), (30, 30)):
        assert picture[:, row, column].tolist() == pytest.approx([1.0, 1.0, -1.0], abs=0.02)
    red = (picture[0] > 0.5) & (picture[1] < -0.5)
    assert 13 <= red.any(0).sum() <= 16  # as large as its place allows
    assert put_together(things[:1], [Part("", WHOLE)]).equal(things[0])
    assert put_together(torch.ones(1, 3, 8, 8), parts[:1]).equal(torch.ones(3, 8, 8))  # nothing was drawn


def test_each_thing_is_what_the_model_draws_of_it_alone(pipe):
    """The first thing of a scene has the noise of a picture of it alone, so it has its latents, too."""
    several = pipe("a dog and a cat", seed=3, num_inference_steps=3, output_type="latent").images
    alone = pipe("a dog", seed=3, num_inference_steps=3, output_type="latent").images
    assert several.shape == (1, 8, 16, 16)
    torch.testing.assert_close(several[:, :4], alone, rtol=0, atol=2e-5)
    whole = pipe("a dog and a cat", seed=3, num_inference_steps=3, output_type="latent", read_scenes=False).images
    assert whole.shape == (1, 4, 16, 16)


def test_a_scene_is_the_same_in_any_batch(pipe):
    prompts = ["a dog and a cat", "a rose", "three apples"]
    batch = pipe(prompts, seed=5, num_inference_steps=2, num_images_per_prompt=2).images
    for number, (prompt, seed) in enumerate(zip(np.repeat(prompts, 2), range(5, 11), strict=True)):
        alone = np.asarray(pipe(str(prompt), seed=seed, num_inference_steps=2).images[0], int)
        assert np.abs(alone - np.asarray(batch[number], int)).max() <= 1, prompt


def test_negative_prompts_guidance_and_other_samplers(pipe):
    """A scene goes through every sampler, with and without guidance; what must not be there changes it."""
    guided = {"guidance_scale": 2.0, "seed": 0, "num_inference_steps": 3}
    plain = np.asarray(pipe("two dogs", **guided).images[0], int)
    without = np.asarray(pipe("two dogs", negative_prompt="brown", **guided).images[0], int)
    unguided = np.asarray(pipe("two dogs", guidance_scale=1.0, seed=0, num_inference_steps=3).images[0], int)
    assert np.abs(plain - without).max() > 8
    assert np.abs(plain - unguided).max() > 8
    other = lockstep.DiffusionPipeline.from_pipe(
        pipe, scheduler=lockstep.EulerAncestralDiscreteScheduler.from_config(pipe.scheduler.config)
    )
    assert other(["two dogs", "a cat"], seed=0, num_inference_steps=3).images[0].size == (128, 128)


def test_a_start_picture_keeps_the_sentence_whole(pipe):
    start = pipe("a dog", seed=0, num_inference_steps=2).images[0]
    changed = pipe("two dogs", image=start, strength=0.6, seed=0, num_inference_steps=4, output_type="latent").images
    assert changed.shape == (1, 4, 16, 16)


def test_scenes_are_stopped_carried_on_and_previewed(pipe):
    before = Checkpoint(save=True, stop=True)
    pipe("a dog and a cat", seed=1, num_inference_steps=2, checkpoints={"preloop": before})
    values = pickle.loads(pickle.dumps(before.data["scenes"]))
    carried = Checkpoint(load=True, data={**before.data, "scenes": values}, components=before.components)
    again = pipe("a dog and a cat", seed=1, num_inference_steps=2, checkpoints={"preloop": carried}).images[0]
    straight = pipe("a dog and a cat", seed=1, num_inference_steps=2).images[0]
    assert np.array_equal(np.asarray(again), np.asarray(straight))
    assert pipe.preview(before.data["latents"])[0].size == (256, 128)


def test_what_is_worn_is_put_where_it_belongs():
    """A red square with a hat as wide as half of it over its upper edge, and a blue one with nothing."""
    things = torch.ones(3, 3, 64, 64)
    for thing, colour in zip(things, ([1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]), strict=True):
        thing[:, 16:48, 16:48] = torch.tensor(colour)[:, None, None]
    head, bare = (Part("", Place(left, 0.25, 0.5, 0.75, "bottom")) for left in (0.0, 0.5))
    picture = put_together(things, [head, Part("", WHOLE, Fit("a hat", 0.5, ((0.5, 0.0),))), bare])
    red, green, blue = (picture[k] > picture[[c for c in range(3) if c != k]].amax(0) + 0.5 for k in range(3))
    assert green.any(0).sum() == pytest.approx(red.any(0).sum() / 2, abs=1)
    rows, columns = (torch.nonzero(green.any(side)).flatten().float() for side in (1, 0))
    assert rows.mean() == pytest.approx(float(64 - red[:, 4].sum() - 0.5), abs=1.5)
    assert columns.mean() == pytest.approx(15.5, abs=1.5)
    assert blue.any(1).sum() == pytest.approx(28, abs=1)


def test_a_head_leaves_room_for_a_hat_alone(reader):
    hat, glasses = (reader.read(text) for text in ("a cat wearing a crown", "a cat wearing sunglasses"))
    assert hat[0].place.top > 0 == glasses[0].place.top
    assert [part.fit is None for part in hat] == [True, False]
