"""The classic face: signature, help, schema and stubs follow from the blocks."""

import ast
import inspect
import json
import pydoc

import torch

from blocks import tiny
from lockstep.blocks import stubs
from lockstep.blocks.calling import OPTION_NAMES
from lockstep.pipelines.modular import ModularPipeline
from lockstep.pipelines.pipeline import DiffusionPipeline


class TinyPipeline(DiffusionPipeline):
    """A pipeline for tests."""

    default_blocks = tiny.TinyBlocks

    def latent_sides(self) -> int:
        """Latents along a side."""
        return self.latent_size


def test_there_is_one_class():
    assert issubclass(DiffusionPipeline, ModularPipeline)


def test_signature_of_a_pipeline():
    signature = inspect.signature(tiny.pipeline())
    names = list(signature.parameters)
    assert names[0] == "prompt"
    assert signature.parameters["prompt"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert signature.parameters["prompt"].default is inspect.Parameter.empty
    assert signature.parameters["num_inference_steps"].default == 4
    scale = signature.parameters["guidance_scale"]
    assert (scale.annotation, scale.default) == (float, 3.0)  # of the guider that the pipeline makes
    assert all(signature.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in names[1:])
    assert names[-len(OPTION_NAMES) :] == list(OPTION_NAMES)
    assert "image_latents" not in names
    signature.bind("cat", seed=3)


def test_signature_follows_edits():
    pipe = tiny.pipeline()
    assert "negative_prompt" in inspect.signature(pipe).parameters
    shorter = type("Shorter", (tiny.Encode,), {"inputs": ["prompt", "num_images_per_prompt"]})
    assert "negative_prompt" not in inspect.signature(pipe.replace_block("text_encoder", shorter)).parameters


def test_the_class_shows_the_same_signature():
    of_class = list(inspect.signature(TinyPipeline.__call__).parameters)
    assert of_class[1:] == list(inspect.signature(TinyPipeline(**tiny.models())).parameters)
    assert of_class[0] == "self"


def test_help():
    pipe = TinyPipeline(**tiny.models())
    for text in (
        pydoc.render_doc(pipe, renderer=pydoc.plaintext),
        pydoc.render_doc(TinyPipeline, renderer=pydoc.plaintext),
    ):
        assert "num_inference_steps: int (default 4)" in text
        assert "Number of denoising steps." in text
        assert "strength: float (default 0.8) [image2image]" in text
        assert "callback_on_step_end" in text
    assert "A pipeline for tests." in pipe.__doc__


def test_schema_is_json_and_says_which_workflows():
    schema = json.loads(json.dumps(tiny.pipeline().schema()))
    inputs = {entry["name"]: entry for entry in schema["inputs"]}
    assert inputs["prompt"]["required"] is True
    assert inputs["num_inference_steps"] | {"minimum": 1, "default": 4, "type": "int"} == inputs["num_inference_steps"]
    assert "multiple_of" not in inputs["height"], "what sizes are multiples of is for models to say"
    assert inputs["strength"]["workflows"] == ["image2image"]
    assert schema["workflows"] == {"text2image": [], "image2image": ["image"]}
    assert [entry["name"] for entry in schema["outputs"]] == ["images"]
    assert schema["components"]["decoder"] == {"type": "TinyDecoder", "optional": False}


def test_defaults_that_differ_between_workflows_are_told():
    class Noise(tiny.PrepareLatents):
        inputs = [*tiny.PrepareLatents.inputs, tiny.InputParam("level", float, default=1.0)]

    class Pick(tiny.AutoPipelineBlocks):
        block_classes = {
            "picture": type(
                "Faint",
                (Noise,),
                {"inputs": [*tiny.PrepareLatents.inputs, tiny.InputParam("level", float, default=0.5)]},
            ),
            "text": Noise,
        }
        block_trigger_inputs = ["image", None]

    pipe = tiny.pipeline().replace_block("prepare", Pick)
    entry = next(entry for entry in pipe.schema()["inputs"] if entry["name"] == "level")
    assert entry["default"] is None
    assert entry["defaults"] == {"text2image": 1.0, "image2image": 0.5}
    assert "default 1.0 in text2image, 0.5 in image2image" in pipe.__doc__
    assert pipe.run("cat").state.level == 1.0
    assert pipe.run("cat", image=torch.ones(1, 3, 4, 4)).state.level == 0.5


def test_drawing():
    text = tiny.pipeline().draw()
    assert "denoise  Denoise: for each of timesteps" in text
    assert "[if image] EncodeImage: image, strength -> image_latents" in text
    diagram = tiny.pipeline().mermaid()
    assert diagram.startswith("flowchart TD\n")
    assert diagram.count("subgraph") == diagram.count("\n  end") == 3
    assert "b_text_encoder -->|prompt_embeds, negative_prompt_embeds| b_denoise__predict" in diagram
    assert 'in_prompt(["prompt"])' in diagram


# ---- stubs ----


def test_stub_of_a_module(tmp_path, monkeypatch):
    source = (
        "from __future__ import annotations\nimport blocks.tiny as tiny\n"
        "from lockstep.pipelines.pipeline import DiffusionPipeline\n\n"
        "class Small(DiffusionPipeline):\n    'A pipeline.'\n    default_blocks = tiny.TinyBlocks\n\n"
        "    @property\n    def twice(self) -> int:\n        return 2\n\n\n"
        "def helper(a: int, *, b: str = 'x') -> str:\n    return b\n"
    )
    (tmp_path / "small_module.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = stubs.stub_for("small_module")
    compile(text, "small_module.pyi", "exec")
    assert "(self, prompt: str | Sequence[str], *, " in text
    assert "output_type" not in text
    assert " seed: int | list[int] | None" in text
    assert "decoder: TinyDecoder" in text
    assert "def helper(a: int, *, b: str='x') -> str:" in text
    assert "def twice(self) -> int:" in text
    assert stubs.main(["--check", "small_module"]) == 1
    assert stubs.main(["small_module"]) == 0
    assert (tmp_path / "small_module.pyi").read_text() == text
    assert stubs.main(["--check", "small_module"]) == 0


def test_stubs_name_every_input_of_every_public_pipeline():
    written = [stubs.stub_path(module) for module in stubs.pipeline_modules()]  # fresh: `make quality` makes them again
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in written]
    classes = {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}

    def declared(name):
        """The names in a class and in the classes that it is made from."""
        if name not in classes:
            return set()
        own = {line.target.id for line in classes[name].body if isinstance(line, ast.AnnAssign)}
        return own.union(*(declared(base.id) for base in classes[name].bases))

    for kind in stubs.public_pipelines():
        calls = [part for part in classes[kind.__name__].body if getattr(part, "name", "") == "__call__"]
        for call in calls:
            by_hand = {argument.arg for argument in (*call.args.args, *call.args.kwonlyargs)} - {"self"}
            by_name = declared(call.args.kwarg.annotation.slice.id)
            assert not by_hand & by_name, kind
            assert by_hand | by_name == set(inspect.signature(kind.__call__).parameters) - {"self"}, kind
        assert len(calls) >= 4, kind
