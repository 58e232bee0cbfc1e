"""A seed means the same picture in any batch."""

import pytest
import torch

from blocks import tiny
from lockstep import DPMSolverMultistepScheduler, EulerDiscreteScheduler, UniPCMultistepScheduler
from lockstep.blocks import randn_tensor
from lockstep.blocks.randomness import choose_seed, copy_generator, count_samples, seeds_per_sample
from lockstep.errors import InputError

SCHEDULERS = [
    tiny.DDIMScheduler,
    tiny.ancestral,
    EulerDiscreteScheduler,
    DPMSolverMultistepScheduler,
    UniPCMultistepScheduler,
]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_picture_k_of_a_batch_is_the_same_alone(scheduler):
    pipe = tiny.pipeline(scheduler=scheduler())
    batch = pipe("cat", seed=11, num_images_per_prompt=4).images
    for k in range(4):
        assert torch.equal(batch[k], pipe("cat", seed=11 + k).images[0]), k


def test_lists_of_prompts_and_seeds():
    pipe = tiny.pipeline(scheduler=tiny.ancestral())
    both = pipe(["cat", "dog"], seed=[5, 900]).images
    assert torch.equal(both[0], pipe("cat", seed=5).images[0])
    assert torch.equal(both[1], pipe("dog", seed=900).images[0])
    assert not torch.equal(both[1], pipe("dog", seed=901).images[0])


def test_one_generator_draws_once_for_the_batch():
    pipe = tiny.pipeline()
    made = pipe("cat", num_images_per_prompt=2, generator=torch.Generator().manual_seed(3), output="latents")
    latents = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(3))
    assert torch.equal(made, pipe("cat", num_images_per_prompt=2, latents=latents, output="latents"))


def test_a_list_of_generators_draws_per_sample():
    pipe = tiny.pipeline()
    generators = [torch.Generator().manual_seed(s) for s in (4, 5)]
    assert torch.equal(
        pipe("cat", num_images_per_prompt=2, generator=generators).images,
        pipe("cat", num_images_per_prompt=2, seed=4).images,
    )
    with pytest.raises(InputError, match="one per sample: 3 for this call, got 2"):
        pipe("cat", num_images_per_prompt=3, generator=generators)


def test_a_given_generator_moves_on_as_in_the_field():
    pipe, generator = tiny.pipeline(), torch.Generator().manual_seed(1)
    first, second = pipe("cat", generator=generator).images, pipe("cat", generator=generator).images
    assert not torch.equal(first, second)


def test_without_a_seed_one_is_chosen_and_recorded():
    pipe = tiny.pipeline()
    one, two = pipe("cat"), pipe("cat")
    assert not torch.equal(one.images, two.images)
    assert torch.equal(one.images, pipe("cat", seed=one.manifest["seed"]).images)


def test_the_global_rng_is_left_alone():
    pipe = tiny.pipeline(scheduler=tiny.ancestral())
    before = torch.get_rng_state()
    pipe("cat", seed=1)
    assert torch.equal(before, torch.get_rng_state())


def test_wrong_seeds():
    pipe = tiny.pipeline()
    with pytest.raises(InputError, match="'seed' or 'generator', not both"):
        pipe("cat", seed=1, generator=torch.Generator())
    with pytest.raises(InputError, match="one per sample: 1 for this call, got 2"):
        pipe("cat", seed=[1, 2])
    with pytest.raises(InputError, match="'seed' wants int or a list of int, got float 1.5"):
        pipe("cat", seed=1.5)
    with pytest.raises(InputError, match="between 0"):
        pipe("cat", seed=-1)
    encode_only = tiny.Encode().init_pipeline(text_encoder=tiny.models()["text_encoder"])
    with pytest.raises(InputError, match="no block of this run draws noise"):
        encode_only("cat", seed=1)
    assert tiny.forwards(pipe) == 0
    assert pipe("cat", seed=1, output="prompt_embeds").shape == (1, tiny.WIDTH)


def test_randn_tensor():
    shape, seeds = (3, 2, 2), (7, 8, 9)
    per_sample = randn_tensor(shape, [torch.Generator().manual_seed(s) for s in seeds])
    for k, seed in enumerate(seeds):
        assert torch.equal(per_sample[k], torch.randn(1, 2, 2, generator=torch.Generator().manual_seed(seed))[0])
    whole = randn_tensor(shape, torch.Generator().manual_seed(7), dtype=torch.float64)
    assert torch.equal(whole, torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64))
    assert torch.equal(
        randn_tensor(shape, [torch.Generator().manual_seed(7)]),
        torch.randn(shape, generator=torch.Generator().manual_seed(7)),
    )


def test_copy_generator_draws_the_same_and_is_independent():
    original = torch.Generator().manual_seed(2)
    torch.randn(3, generator=original)
    twin = copy_generator(original)
    assert torch.equal(torch.randn(4, generator=twin), torch.randn(4, generator=original))


@pytest.mark.parametrize(
    ("values", "samples"),
    [
        ({"prompt": "a"}, 1),
        ({"prompt": ["a", "b"], "num_images_per_prompt": 3}, 6),
        ({"prompt_embeds": torch.zeros(2, 5)}, 2),
        ({"latents": torch.zeros(5, 4)}, 5),
        ({"prompt": ["a"] * 4, "image": [torch.zeros(3, 8, 8)] * 2, "mask_image": torch.zeros(3, 8, 8)}, 4),
        ({"prompt": None, "image": torch.zeros(3, 3, 8, 8)}, 3),
        ({}, 1),
    ],
)
def test_count_samples(values, samples):
    assert count_samples(values) == samples


@pytest.mark.parametrize(
    "values",
    [
        {"prompt": ["a"] * 3, "image": [torch.zeros(3, 8, 8)] * 2},
        {"prompt": "a", "image": torch.zeros(2, 3, 8, 8)},
        {"prompt": "a", "latents": torch.zeros(5, 4)},
    ],
)
def test_rows_that_do_not_fit_the_samples_are_refused(values):
    with pytest.raises(InputError, match="samples"):
        count_samples(values)


def test_seeds():
    assert seeds_per_sample(5, 3) == [5, 6, 7]
    assert len({choose_seed() for _ in range(8)}) > 1
