"""The mixin that a pipeline's test composes, and the stages of a proof as one assertion."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from ...blocks import Checkpoint
from ...errors import InjectionError, LockstepError, UnknownNameError
from ...pipelines.pipeline import DiffusionPipeline
from ..pitfalls import describe
from ..stages import StageSide, walk_stages

SIDE = 16
LATENT = {"height": SIDE, "width": SIDE, "num_inference_steps": 4, "output_type": "latent"}


def assert_stages(reference: tuple[Any, ...], port: tuple[Any, ...], folder: Path) -> None:
    """Encode, decode, denoise in that order, each by itself on the reference's values; fails at the first wrong one.

    A side is what `build` returns: a pipeline, and a call without arguments that runs it.
    """
    for result in walk_stages(StageSide(*reference), StageSide(*port), folder):
        named = "; ".join(describe(number) for number in result.pitfalls)
        assert result.passed, f"{result.stage}: {result.sentence()} {named}"


class PipelineTesterMixin:
    """Seeds, batches, saving and loading, checkpoints, injections, LoRA and the errors before compute."""

    pipeline_class: ClassVar[type[DiffusionPipeline]]
    denoiser: ClassVar[str] = "transformer"
    from_text: ClassVar[str] = "text2image"  # the workflow that is given a text alone
    per_prompt: ClassVar[str] = "num_images_per_prompt"

    def pipeline(self) -> DiffusionPipeline:
        """A tiny pipeline."""
        raise NotImplementedError

    def arguments(self, workflow: str) -> dict[str, Any]:
        """Arguments of a small call of one of its workflows."""
        given: dict[str, Any] = {"prompt": "a red cat", **LATENT}
        if workflow != self.from_text:
            given |= {"image": _picture(), "strength": 0.75}
        if workflow == "inpainting":
            given["mask_image"] = _picture().convert("L")
        return given

    @property
    def workflows(self) -> list[str]:
        return list(self.pipeline().blocks.workflows)

    def run(self, pipe: DiffusionPipeline, workflow: str | None = None, **changes: Any) -> torch.Tensor:
        latents: torch.Tensor = pipe(**{**self.arguments(workflow or self.from_text), "seed": 3, **changes})[0]
        return latents

    def test_every_workflow_is_reproducible_and_named(self) -> None:
        pipe = self.pipeline()
        for workflow in self.workflows:
            made = pipe(**self.arguments(workflow), seed=3)
            assert made.manifest["workflow"] == workflow
            assert torch.isfinite(made[0]).all()
            assert torch.equal(self.run(pipe, workflow), made[0]), f"{workflow} differs with the same seed"
            assert not torch.equal(self.run(pipe, workflow, seed=4), made[0]), f"{workflow} ignores the seed"

    def test_the_global_random_numbers_play_no_part(self) -> None:
        pipe = self.pipeline()
        results = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            results.append(self.run(pipe))
        assert torch.equal(*results)

    def test_picture_k_of_a_batch_is_the_picture_of_its_seed_alone(self) -> None:
        pipe = self.pipeline()
        batch: torch.Tensor = pipe(**{**self.arguments(self.from_text), self.per_prompt: 2, "seed": 10})[0]
        for k in range(2):
            assert torch.allclose(batch[k], self.run(pipe, seed=10 + k)[0], atol=1e-4), f"picture {k} of the batch"

    def test_a_saved_folder_is_found_by_its_name(self, tmp_path: Path) -> None:
        pipe = self.pipeline()
        pipe.save_pretrained(tmp_path)
        loaded = DiffusionPipeline.from_pretrained(tmp_path)
        loaded.set_progress_bar_config(disable=True)
        assert type(loaded) is self.pipeline_class
        assert torch.equal(self.run(loaded), self.run(pipe))

    def test_a_run_goes_on_from_any_checkpoint_with_the_same_result(self) -> None:
        pipe, whole = self.pipeline(), self.run(self.pipeline())
        for name in ("preloop", "after_step_1", "post_loop"):
            saved = Checkpoint(save=True, stop=True)
            pipe(**self.arguments(self.from_text), seed=3, checkpoints={name: saved})
            again = Checkpoint(load=True, data=saved.data, components=saved.components)
            if name != "after_step_1":  # a run begins with its first step
                assert torch.equal(self.run(pipe, checkpoints={name: again}), whole), name

    def test_an_incomplete_injection_is_refused(self) -> None:
        pipe, saved = self.pipeline(), Checkpoint(save=True, stop=True)
        pipe(**self.arguments(self.from_text), seed=3, checkpoints={"preloop": saved})
        part = Checkpoint(load=True, data={"latents": saved.data["latents"]})
        with pytest.raises(InjectionError, match="neither injected nor proven equal"):
            self.run(pipe, checkpoints={"preloop": part})

    def test_a_lora_acts_and_is_taken_off_again(self, tmp_path: Path) -> None:
        pipe = self.pipeline()
        model: torch.nn.Module = getattr(pipe, self.denoiser)
        layer, found = next((name, one) for name, one in model.named_modules() if name.endswith("to_q"))
        assert isinstance(found, torch.nn.Linear)
        key, drawn = f"{self.denoiser}.{layer}", torch.Generator().manual_seed(0)
        down = torch.randn(2, found.in_features, generator=drawn)
        up = torch.randn(found.out_features, 2, generator=drawn)
        save_file({f"{key}.lora_A.weight": down, f"{key}.lora_B.weight": up}, tmp_path / "style.safetensors")
        before = self.run(pipe)
        pipe.load_lora_weights(tmp_path / "style.safetensors")
        assert not torch.allclose(self.run(pipe), before)
        pipe.unload_lora_weights()
        assert torch.equal(self.run(pipe), before)

    def test_a_wrong_call_is_refused_before_anything_is_computed(self) -> None:
        pipe = self.pipeline()
        with pytest.raises(UnknownNameError, match="did you mean"):
            pipe(**self.arguments(self.from_text), num_inference_step=3)
        with pytest.raises(LockstepError, match="multiple of"):
            pipe(**{**self.arguments(self.from_text), "height": self.arguments(self.from_text)["height"] + 1})

    def test_it_shows_itself(self) -> None:
        pipe = self.pipeline()
        assert self.denoiser in pipe.draw()
        assert "prompt" in str(pipe.schema())


def _picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8))
