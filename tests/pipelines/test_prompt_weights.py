"""Weights in prompts: how they are read, and what they do, by hand from the written rules."""

import logging
import math

import pytest
import torch

import lockstep
from helpers import assert_close
from lockstep.errors import InputError, UnknownNameError, UnsupportedError
from lockstep.pipelines.common.prompt_weights import Fragment, read_prompt
from pipelines import tiny


def fragments(prompt, form):
    """Texts and weights of a prompt of one text, rounded; a group a list."""
    reading = read_prompt(prompt, form)
    assert reading.how == "text"
    groups = [[(one.text, round(one.weight, 6)) for one in group] for group in reading.texts[0]]
    return groups[0] if len(groups) == 1 else groups


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("a red cat", [("a red cat", 1.0)]),
        ("a (red) cat", [("a ", 1.0), ("red", 1.1), (" cat", 1.0)]),
        ("a (red:1.5) cat", [("a ", 1.0), ("red", 1.5), (" cat", 1.0)]),
        ("((red)) [blue]", [("red", 1.21), (" ", 1.0), ("blue", 0.909091)]),
        ("(a (red:2) cat:0.5)", [("a ", 0.5), ("red", 1.0), (" cat", 0.5)]),
        (r"a \(red\) \[cat\] \\", [(r"a (red) [cat] " + "\\", 1.0)]),
        ("(red", [("red", 1.1)]),
        ("red) : 1.5 at 10:30", [("red) : 1.5 at 10:30", 1.0)]),
        ("(a BREAK b:1.5) BREAKFAST Box", [[("a ", 1.5)], [(" b", 1.5), (" BREAKFAST Box", 1.0)]]),
        ("(red:.5)", [("red", 0.5)]),
        ("", []),
    ],
)
def test_reading_a1111(prompt, wanted):
    assert fragments(prompt, "a1111") == wanted


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("a red cat", [("a red cat", 1.0)]),
        ("a red++ cat", [("a ", 1.0), ("red", 1.21), (" cat", 1.0)]),
        ("a red- cat", [("a ", 1.0), ("red", 0.9), (" cat", 1.0)]),
        ("(a red)1.5 cat", [("a red", 1.5), (" cat", 1.0)]),
        ("(a red)+ cat-- 50", [("a red", 1.1), (" ", 1.0), ("cat", 0.81), (" 50", 1.0)]),
        ("(a (red)2 cat)0.5", [("a ", 0.5), ("red", 1.0), (" cat", 0.5)]),
        ("well-known c++-like 1-2", [("well-known ", 1.0), ("c", 1.21), ("-like 1-2", 1.0)]),
        (r"a \(red\) cat", [("a (red) cat", 1.0)]),
        ("red (cat)", [("red cat", 1.0)]),
    ],
)
def test_reading_compel(prompt, wanted):
    assert fragments(prompt, "compel") == wanted


def test_reading_several_texts():
    blend = read_prompt('("a cat", "a dog++").blend(0.6, 0.2)', "compel")
    assert (blend.how, [round(w, 6) for w in blend.weights]) == ("blend", [0.75, 0.25])
    assert blend.texts[1] == ((Fragment("a "), Fragment("dog", 1.1**2)),)
    assert read_prompt('("a", "b").blend(0.6, 0.6, no_normalize)', "compel").weights == (0.6, 0.6)
    assert read_prompt('("a", "b", "c").and()', "compel").weights == (1.0, 1.0, 1.0)
    for prompt, error in (
        ('("a", "b").blend(1)', InputError), ('("a", "b").blend(1, x)', InputError),
        ('("a", "b").blend(1, -1)', InputError), ('("a", "b").swap()', UnsupportedError),
        ("a (cat).swap(dog)", UnsupportedError), ("(a cat", InputError),
    ):  # fmt: skip
        with pytest.raises(error):
            read_prompt(prompt, "compel")
    with pytest.raises(UnsupportedError, match="while the picture is made"):
        read_prompt("[cat:dog:0.5]", "a1111")
    with pytest.raises(UnknownNameError, match="did you mean 'a1111'"):
        read_prompt("a", "a111")


@pytest.fixture(scope="module")
def pipe(tmp_path_factory):
    pipe = lockstep.DiffusionPipeline.from_pretrained(tiny.save_folder(tmp_path_factory.mktemp("sd")))
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.fixture(scope="module")
def xl(tmp_path_factory):
    return lockstep.DiffusionPipeline.from_pretrained(tiny.save_folder(tmp_path_factory.mktemp("xl"), "xl"))


def embeds(pipe, prompt, form=None, **more):
    found = pipe(prompt, prompt_weighting=form, output=["prompt_embeds", "negative_prompt_embeds"], **more)
    return found["prompt_embeds"], found["negative_prompt_embeds"]


def positions(pipe, before, words):
    count = lambda text: len(pipe.tokenizer(text, add_special_tokens=False).input_ids)  # noqa: E731
    return slice(1 + count(before), 1 + count(before) + count(words))


def test_a1111_by_hand(pipe):
    plain, _ = embeds(pipe, "a red cat on the house")
    got, _ = embeds(pipe, "a (red cat:1.4) on [the] house", "a1111")
    wanted = plain.clone()
    wanted[:, positions(pipe, "a", "red cat")] *= 1.4
    wanted[:, positions(pipe, "a red cat on", "the")] /= 1.1
    wanted *= plain.mean() / wanted.mean()
    assert_close(got, wanted, 1e-5)
    assert not torch.allclose(got, plain)


def test_compel_by_hand(pipe):
    plain, empty = embeds(pipe, "a red cat on the house", negative_prompt="")
    got, _ = embeds(pipe, "a (red cat)1.4 on the house", "compel")
    here = positions(pipe, "a", "red cat")
    wanted = plain.clone()
    wanted[:, here] = empty[:, here] + 1.4 * (plain[:, here] - empty[:, here])
    assert_close(got, wanted, 1e-5)
    got, _ = embeds(pipe, "a (red cat)0.3 on the house", "compel")
    ids = pipe.tokenizer(["a red cat on the house"], padding="max_length", return_tensors="pt").input_ids
    mask = torch.ones_like(ids)
    mask[:, here] = 0
    without = pipe.text_encoder(ids, attention_mask=mask)[0].detach()
    parts = []
    for states in (plain, without):
        one = states.clone()
        one[:, here] = empty[:, here] + 0.3 * (states[:, here] - empty[:, here])
        parts.append(one)
    pull = math.tan(0.7 * math.pi / 2)
    assert_close(got, (parts[0] + pull * parts[1]) / (1 + pull), 1e-5)


def test_texts_mixed_and_side_by_side(pipe):
    cat, empty = embeds(pipe, "a cat", negative_prompt="")
    dog, _ = embeds(pipe, "a dog")
    got, negative = embeds(pipe, '("a cat", "a dog").blend(3, 1)', "compel")
    assert_close(got, 0.75 * cat + 0.25 * dog, 1e-6)
    got, negative = embeds(pipe, '("a cat", "a dog").and(1, 0.5)', "compel")
    assert_close(got, torch.cat([cat, 0.5 * dog], dim=1), 1e-6)
    assert_close(negative, torch.cat([empty, empty], dim=1), 1e-6)
    got, _ = embeds(pipe, "a cat BREAK a dog", "a1111")
    assert_close(got, torch.cat([cat, dog], dim=1), 1e-6)


@pytest.mark.parametrize("form", ["a1111", "compel"])
def test_without_weights_nothing_changes_however_long_and_in_any_batch(pipe, form):
    long = "a photo of the red cat with the blue house " * 12
    for prompt in ("a red cat", long, ["a red cat", long]):
        for got, plain in zip(embeds(pipe, prompt, form), embeds(pipe, prompt), strict=True):
            assert_close(got, plain, 1e-6)
    weighted = long + "(big:1.3)" if form == "a1111" else long + "(big)1.3"
    both, _ = embeds(pipe, ["a red cat", weighted], form)
    alone, _ = embeds(pipe, weighted, form)
    assert_close(both[1:], alone, 1e-6)
    cut, _ = embeds(pipe, weighted, form, long_prompts="cut")
    assert cut.shape[1] == pipe.tokenizer.model_max_length


def test_negative_prompts_have_weights_too(pipe):
    _, plain = embeds(pipe, "a", "a1111", negative_prompt="a red cat")
    _, weighted = embeds(pipe, "a", "a1111", negative_prompt="a (red:2) cat")
    assert not torch.allclose(plain, weighted)
    latents = torch.zeros(1)
    latents = pipe(
        "a (red:1.5) cat", prompt_weighting="a1111", num_inference_steps=1, output_type="latent", seed=0
    ).images
    assert torch.isfinite(latents).all()


def test_both_encoders_of_xl_and_the_pooled_vector_stays(xl):
    names = ["prompt_embeds", "pooled_prompt_embeds"]
    plain = xl("a red cat", output=names)
    got = xl("a (red:1.5) cat", prompt_weighting="a1111", output=names)
    here = slice(2, 2 + len(xl.tokenizer("red", add_special_tokens=False).input_ids))
    wanted = []
    for half in plain["prompt_embeds"].chunk(2, dim=-1):
        one = half.clone()
        one[:, here] *= 1.5
        wanted.append(one * half.mean() / one.mean())
    assert_close(got["prompt_embeds"], torch.cat(wanted, dim=-1), 1e-5)
    assert_close(got["pooled_prompt_embeds"], plain["pooled_prompt_embeds"], 1e-6)
    dog = xl("a dog", output=names)
    cat = xl("a cat", output=names)
    blend = xl('("a cat", "a dog").blend(1, 3)', prompt_weighting="compel", output=names)
    for name in names:
        assert_close(blend[name], 0.25 * cat[name] + 0.75 * dog[name], 1e-6)


def test_what_looks_weighted_is_told_once_and_ready_embeddings_are_refused(pipe, caplog):
    from lockstep.notes import say_once

    say_once.cache_clear()
    with caplog.at_level(logging.WARNING, "lockstep"):
        embeds(pipe, "a (red:1.5) cat")
        embeds(pipe, "a (red:1.5) cat")
        embeds(pipe, "a cat (on the house), 10:30, c+")
    assert caplog.text.count("prompt_weighting='a1111'") == 1
    positive, negative = embeds(pipe, "a cat")
    with pytest.raises(InputError, match="only ready embeddings"):
        pipe(prompt_embeds=positive, negative_prompt_embeds=negative, prompt_weighting="a1111")
    with pytest.raises(InputError, match="prompt_weighting"):
        embeds(pipe, "a", "a111")
