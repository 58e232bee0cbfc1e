"""Textual inversion: words in every form of file, embeddings equal to the reference's, exact unloading, refusals."""

import diffusers
import pytest
import torch
from safetensors.torch import save_file

import lockstep
from helpers import assert_close
from lockstep.errors import FileFormatError, InputError, NotFoundError, UnknownNameError, WeightsError
from pipelines import tiny

WIDTH = 16


def vectors(count, seed=0):
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def pipe(folder):
    pipe = lockstep.DiffusionPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.fixture(scope="module")
def xl_folder(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("xl"), "xl")


def embeds(pipe, prompt):
    return pipe(prompt, output="prompt_embeds")


def files_in(folder):
    """The same two vectors in every form; each with the word that it teaches."""
    rows = vectors(2)
    save_file({"<toy>": rows}, folder / "learned_embeds.safetensors")
    save_file({"emb_params": rows}, folder / "toy.safetensors")
    torch.save({"string_to_param": {"*": rows}, "name": "old-toy", "string_to_token": {"*": 265}, "step": 5},
               folder / "a.pt")  # fmt: skip
    torch.save({"<bin-toy>": rows}, folder / "b.bin")
    return {"learned_embeds.safetensors": "<toy>", "toy.safetensors": "toy", "a.pt": "old-toy", "b.bin": "<bin-toy>"}


@pytest.mark.parametrize("name", ["learned_embeds.safetensors", "toy.safetensors", "a.pt", "b.bin"])
def test_every_form_gives_the_references_embeddings(pipe, folder, tmp_path, name):
    token = files_in(tmp_path)[name]
    before = {key: value.clone() for key, value in pipe.text_encoder.state_dict().items()}
    plain, size = embeds(pipe, f"a {token} cat"), len(pipe.tokenizer)
    pipe.load_textual_inversion(tmp_path / name, allow_pickle=not name.endswith("safetensors"))
    reference = diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    reference.load_textual_inversion(str(tmp_path), weight_name=name, token=token)
    for prompt in (f"a {token} cat", f"{token}", f"a cat, {token}, {token}. a dog", "no such word", f"a{token}b"):
        wanted = reference.encode_prompt(prompt, "cpu", 1, False)[0]
        assert_close(embeds(pipe, prompt), wanted, 1e-5, prompt)
    assert torch.equal(embeds(pipe, f"a {token.upper()} cat"), embeds(pipe, f"a {token} cat"))  # as CLIP reads words
    assert not torch.allclose(embeds(pipe, f"a {token} cat"), plain)
    assert pipe.maybe_convert_prompt(f"a {token}", pipe.tokenizer) == f"a {token} {token}_1"
    pipe.unload_textual_inversion()
    assert torch.equal(embeds(pipe, f"a {token} cat"), plain)
    assert len(pipe.tokenizer) == size
    assert all(torch.equal(value, before[key]) for key, value in pipe.text_encoder.state_dict().items())


def test_several_words_come_and_go(pipe):
    plain = embeds(pipe, "a <one> <two> cat")
    pipe.load_textual_inversion([{"<one>": vectors(1, 1)}, vectors(3, 2)], token=[None, "<two>"])
    both = embeds(pipe, "a <one> <two> cat")
    pipe.load_textual_inversion({"<three>": vectors(2, 3)[0]})
    assert torch.equal(embeds(pipe, "a <one> <two> cat"), both)
    pipe.unload_textual_inversion("<one>")
    assert not torch.allclose(embeds(pipe, "a <one> <two> cat"), both)
    pipe.load_textual_inversion({"<one>": vectors(1, 1)})
    assert_close(embeds(pipe, "a <one> <two> cat"), both, 1e-6)
    assert [sorted(entry["tokens"]) for entry in pipe.describe_words()] == [["<two>"], ["<three>"], ["<one>"]]
    pipe.unload_textual_inversion(["<one>", "<two>", "<three>"])
    assert torch.equal(embeds(pipe, "a <one> <two> cat"), plain)


def test_pairs_for_both_encoders_of_xl(xl_folder, tmp_path):
    pipe = lockstep.DiffusionPipeline.from_pretrained(xl_folder)
    reference = diffusers.StableDiffusionXLPipeline.from_pretrained(xl_folder)
    one, two = vectors(2, 1), vectors(2, 2)
    save_file({"clip_l": one, "clip_g": two}, tmp_path / "web.safetensors")
    pipe.load_textual_inversion(tmp_path / "web.safetensors")
    reference.load_textual_inversion(
        one, token="web", tokenizer=reference.tokenizer, text_encoder=reference.text_encoder
    )
    reference.load_textual_inversion(
        two, token="web", tokenizer=reference.tokenizer_2, text_encoder=reference.text_encoder_2
    )
    names = ["prompt_embeds", "pooled_prompt_embeds"]
    got = pipe("a web cat", output=names)
    wanted = reference.encode_prompt("a web cat", device="cpu", do_classifier_free_guidance=False)
    assert_close(got["prompt_embeds"], wanted[0], 1e-5)
    assert_close(got["pooled_prompt_embeds"], wanted[2], 1e-5)
    by_hand = lockstep.DiffusionPipeline.from_pretrained(xl_folder)
    for rows, tokenizer, encoder in ((one, "tokenizer", "text_encoder"), (two, "tokenizer_2", "text_encoder_2")):
        pair = {"tokenizer": getattr(by_hand, tokenizer), "text_encoder": getattr(by_hand, encoder)}
        by_hand.load_textual_inversion(rows, token="web", **pair)
    assert_close(by_hand("a web cat", output="prompt_embeds"), wanted[0], 1e-5)
    save_file({"text_encoders_0": one, "text_encoders_1": two}, tmp_path / "pivot.safetensors")
    pipe.load_textual_inversion(tmp_path / "pivot.safetensors")
    assert pipe.describe_words()[1]["tokens"] == ["<s0>", "<s1>"]


def test_the_end_of_a_text_is_found_among_published_words():
    encoder = tiny.randomize(lockstep.CLIPTextModelWithProjection(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=8, eos_token_id=2, projection_dim=16,
    ), 0)  # fmt: skip
    states = torch.randn(1, 4, 16)
    assert torch.equal(encoder.text_model.pool(states, torch.tensor([[18, 25, 19, 19]])), states[:, 2])


def test_refusals_say_what_to_do_and_change_nothing(pipe, tmp_path):
    files_in(tmp_path)
    before, size = embeds(pipe, "a cat"), len(pipe.tokenizer)
    pipe.load_textual_inversion({"<one>": vectors(2)})
    save_file({"<wide>": torch.randn(1, 1024)}, tmp_path / "wide.safetensors")
    save_file({"<nan>": vectors(1) * float("nan")}, tmp_path / "nan.safetensors")
    for call, error, words in (
        (lambda: pipe.load_textual_inversion({"<one>": vectors(1)}), InputError, "already.*token="),
        (lambda: pipe.load_textual_inversion({"<one>_1": vectors(1)}), InputError, "already"),
        (lambda: pipe.load_textual_inversion({"cat</w>": vectors(1)}), InputError, "already"),
        (lambda: pipe.load_textual_inversion(tmp_path / "wide.safetensors"), WeightsError, r"1024 \(2.x\).*wants 16"),
        (lambda: pipe.load_textual_inversion(tmp_path / "nan.safetensors"), WeightsError, "finite"),
        (lambda: pipe.load_textual_inversion(tmp_path / "a.pt"), FileFormatError, "pickle"),
        (lambda: pipe.load_textual_inversion(vectors(1)), InputError, "token="),
        (lambda: pipe.load_textual_inversion(tmp_path / "no.safetensors"), NotFoundError, "no embedding file"),
        (lambda: pipe.load_textual_inversion(None), InputError, "An embedding is"),
        (lambda: pipe.load_textual_inversion({"x": "y"}), WeightsError, "no vectors"),
        (lambda: pipe.unload_textual_inversion("<two>"), UnknownNameError, "<one>"),
        (lambda: pipe.load_textual_inversion(vectors(1), "<x>", tokenizer=pipe.tokenizer), InputError, "together"),
    ):
        with pytest.raises(error, match=words):
            call()
    pipe.unload_textual_inversion()
    assert torch.equal(embeds(pipe, "a cat"), before)
    assert len(pipe.tokenizer) == size


def test_words_that_come_with_a_lora_come_and_go_with_it(pipe):
    size = len(pipe.tokenizer)
    layers = {"unet:0:down": torch.randn(1, 32), "unet:0:up": torch.randn(32, 1)}
    report = pipe.load_lora_weights({**layers, "<s1>": vectors(1)[0]}, "style")
    assert (report.applied, report.total) == (3, 3)
    assert len(pipe.tokenizer) == size + 1
    assert pipe.describe_words() == []  # the LoRA names them
    with pytest.warns(UserWarning, match="2 of 3 tensors applied.*already"):
        pipe.load_lora_weights({**layers, "<s1>": vectors(1)[0]}, "other")
    pipe.delete_adapters("style")
    assert len(pipe.tokenizer) == size
