"""`lockstep generate`: words to pictures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import InputError
from .console import err, out, print_json
from .pipelines import DEFAULT_MODEL, described, loaded, target_path

EXAMPLES = """
Examples:

  lockstep generate "a red heart"

  lockstep generate "a rocket, 3d style" --seed 7 -n 4 -o rockets.png

  lockstep generate "a fox" --image start.png --strength 0.6 --num-inference-steps 30

  lockstep generate "a house" --model ./stable-diffusion-v1-5 --scheduler dpm --guidance-scale 6

  lockstep generate --from prompts.txt -o sheet/ --json
"""


NO_PROMPT: list[str | None] = [None]  # one run of a pipeline that is given something else


class PipelineCommand(TyperCommand):
    """A command whose help goes on with the inputs of the chosen model's pipeline."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set the pipeline's own inputs aside, so that their values are not taken for the prompt."""
        known = {name for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
        words, own, inputs = list(args), [], []
        while words:
            word = words.pop(0)
            if not word.startswith("--") or word.partition("=")[0] in known:
                own.append(word)
                continue
            inputs.append(word)
            if "=" not in word and words and not words[0].startswith("--"):
                inputs.append(words.pop(0))
        super().parse_args(ctx, own)
        ctx.args = [*ctx.args, *inputs]
        return ctx.args

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        model = ctx.params.get("model") or DEFAULT_MODEL
        try:
            pipe = described(model)
        except Exception:  # help has to work for a model that is not there
            return
        from .schema import inputs_table

        out.print(inputs_table(pipe.schema(), f"Inputs of {type(pipe).__name__} ({model}), each as an option"))


def generate(
    context: typer.Context,
    prompt: Annotated[str | None, typer.Argument(help="What the picture has to show.")] = None,
    model: Annotated[
        str, typer.Option("--model", "-m", is_eager=True, help="A folder, a hub id, or an embedded model.")
    ] = DEFAULT_MODEL,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .png file, or a folder.")] = Path("picture.png"),
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, help="Pictures per prompt; picture k has seed + k.")
    ] = 1,
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same picture. Chosen and told where it is left out.")
    ] = None,
    workflow: Annotated[
        str | None, typer.Option(help="Insist on a workflow (text2image, image2image, inpainting …).")
    ] = None,
    scheduler: Annotated[str | None, typer.Option(help="ddim, euler, euler_a, dpm, unipc, … or a class name.")] = None,
    guider: Annotated[
        str | None, typer.Option(help="A guider, with settings: AdaptiveProjectedGuidance:eta=0.5")
    ] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps …")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="A file with one prompt a line: all of them, one picture each.")
    ] = None,
    show: Annotated[bool, typer.Option(help="Show the picture in the terminal where it can.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no preview.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make pictures from words; the manifest inside each PNG lets `lockstep replay` make it again."""
    prompts = read_prompts(prompt, source)
    inputs = described_inputs(model, context.args)
    total = max(len(prompts), 1) * count
    paths = [target_path(output, index, total) for index in range(total)]
    started = time.perf_counter()
    pipe = loaded(model, dtype=dtype, device=device, workflow=workflow, scheduler=scheduler, guider=guider)
    ready = time.perf_counter()
    if quiet or json:
        pipe.set_progress_bar_config(disable=True)
    results = [
        pipe(**inputs, **({"prompt": text} if text is not None else {}), num_images_per_prompt=count, workflow=workflow,
             **({} if seed is None else {"seed": seed}))
        for text in (prompts or NO_PROMPT)
    ]  # fmt: skip
    done = time.perf_counter()
    save(
        results,
        paths,
        prompts,
        {"load_seconds": ready - started, "run_seconds": done - ready},
        show and not quiet,
        json,
    )


def read_prompts(prompt: str | None, source: Path | None) -> list[str]:
    """The prompts of the command line or of a file."""
    if source is None:
        return [] if prompt is None else [prompt]
    if prompt is not None:
        raise InputError("Give a prompt or --from FILE, not both.")
    if not source.is_file():
        raise InputError(f"--from wants a file with one prompt a line; there is no {source}.")
    lines = [line.strip() for line in source.read_text(encoding="utf-8").splitlines()]
    prompts = [line for line in lines if line and not line.startswith("#")]
    if not prompts:
        raise InputError(f"{source} has no prompt in it.")
    return prompts


def described_inputs(model: str, words: list[str]) -> dict[str, Any]:
    """The pipeline's own inputs among the options, checked before any weight is read."""
    from .inputs import read_options

    return read_options(words, described(model).inputs)


def save(
    results: list[Any], paths: list[Path], prompts: list[str], times: dict[str, float], show: bool, as_json: bool
) -> None:
    """Write the pictures, then say where they are."""
    from ..blocks.manifest import save_png
    from .preview import TerminalPicture, can_show

    made: list[dict[str, Any]] = []
    for row, result in enumerate(results):
        for index, image in enumerate(result.images):
            path = save_png(image, paths[len(made)], result.manifest, index)
            entry = {
                "path": str(path),
                "prompt": prompts[row] if prompts else None,
                "seed": result.manifest["seed"][index],
            }
            made.append(entry)
            if show and can_show(out) and not as_json:
                out.print(TerminalPicture(image, 48))
    if as_json:
        print_json({"pictures": made, **{name: round(value, 3) for name, value in times.items()}})
        return
    for entry in made:
        out.print(f"[bold green]{entry['path']}[/]  [dim]seed {entry['seed']}[/]", highlight=False)
    err.print(f"[dim]loaded in {times['load_seconds']:.1f} s, made in {times['run_seconds']:.1f} s[/]")
