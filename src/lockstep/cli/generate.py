"""`lockstep generate`: words to pictures and videos."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import InputError, LockstepError
from .console import err, out, print_json
from .options import AllowPickle, Family, Json, Overwrite, PredictionType, Quiet, Variant
from .pipelines import AUTO, DEFAULT_MODEL, OFF, described, file_options, loaded
from .ranks import Parallel, spread, start_ranks
from .targets import Targets

if TYPE_CHECKING:
    from ..media import MediaKind

EXAMPLES = """
Examples:

  lockstep generate "a red heart"

  lockstep generate "a rocket, 3d style" --seed 7 -n 4 -o rockets.png

  lockstep generate "a fox" --image start.png --strength 0.6 --num-inference-steps 30

  lockstep generate "a house" --model ./stable-diffusion-v1-5 --variant fp16 --scheduler dpm++_2m_karras --cfg 6

  lockstep generate "a dog, clay style" --lora ./my-style:0.8

  lockstep generate --from prompts.txt -o sheet/ --json

  lockstep generate "a house" --model ./flux --parallel ulysses=2

  lockstep generate "waves" --model ./my-video-model --video start.mp4 -o waves.mp4 --fps 24
"""


NO_PROMPT: list[str | None] = [None]  # one run of a pipeline that is given something else


class PipelineCommand(TyperCommand):
    """A command whose help goes on with the inputs of the chosen model's pipeline."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set the pipeline's own inputs aside, so that their values are not taken for the prompt."""
        known = self.own_options(ctx)
        asked = set(ctx.help_option_names)
        words, own, inputs, prompt, last = list(args), [], [], [], []
        while words:
            word = words.pop(0)
            if word == "--":  # what follows is the prompt, whatever it looks like
                prompt = ["--", *words]
                break
            if word in asked:
                last = [word]  # shown when it is known which model's help it is
                continue
            if not word.startswith("--") or word.partition("=")[0] in known:
                own.append(word)
                continue
            inputs.append(word)
            if "=" not in word and words and not words[0].startswith("--"):
                inputs.append(words.pop(0))
        super().parse_args(ctx, [*own, *last, *prompt])
        ctx.args = [*ctx.args, *inputs]
        return ctx.args

    def own_options(self, ctx: Any) -> set[str]:
        return {name for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        model = ctx.params.get("model") or DEFAULT_MODEL
        try:
            pipe = described(model)
        except LockstepError as problem:  # help has to work for a model that is not there
            out.print(f"The inputs of {model} cannot be shown: {problem}", markup=False, highlight=False)
            return
        from .inputs import can_be_typed, is_taken
        from .schema import inputs_table

        schema = pipe.schema()
        typed = {param.name for param in pipe.inputs if can_be_typed(param) and is_taken(pipe, param.name)}
        schema["inputs"] = [entry for entry in schema["inputs"] if entry["name"] in typed]
        out.print(inputs_table(schema, f"Inputs of {type(pipe).__name__} ({model}), each as an option", typed))


def generate(
    context: typer.Context,
    prompt: Annotated[str | None, typer.Argument(help="What the picture has to show.")] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", is_eager=True, help="A folder, a checkpoint file, a hub id, or an embedded model."
        ),
    ] = DEFAULT_MODEL,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A .png, .webp or .jpg file, for a video .mp4, .webm, .mkv, .gif or a folder of frames; or a folder. "
            "picture.png or video.mp4 where it is left out; numbered where the name is taken.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    fps: Annotated[float | None, typer.Option(help="Frames per second of a video.")] = None,
    sheet: Annotated[
        Path | None, typer.Option(help="Also write frames of a video as one picture, a contact sheet: sheet.png.")
    ] = None,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, help="Pictures or videos per prompt; number k has seed + k.")
    ] = 1,
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same picture. Chosen and told where it is left out.")
    ] = None,
    workflow: Annotated[
        str | None, typer.Option(help="Insist on a workflow (text2image, image2image, inpainting …).")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", "--sampler", help="euler, dpm++_2m_karras … (`lockstep schedulers` lists them)."),
    ] = None,
    guider: Annotated[
        str | None, typer.Option(help="A guider, with settings: AdaptiveProjectedGuidance:eta=0.5")
    ] = None,
    controlnet: Annotated[
        list[str] | None,
        typer.Option(help="A ControlNet's folder or hub id, for --control-image; several may be given."),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(help="A T2I-Adapter's folder, file or hub id, for --adapter-image; several may be given."),
    ] = None,
    ip_adapter: Annotated[
        list[str] | None,
        typer.Option(
            help="An IP-Adapter file, for --ip-adapter-image, with its scale: plus.safetensors:0.6. Its image encoder "
            "is the folder image_encoder beside it."
        ),
    ] = None,
    lora: Annotated[
        list[str] | None, typer.Option(help="A LoRA file or folder, with its strength: style.safetensors:0.8")
    ] = None,
    embedding: Annotated[
        list[str] | None,
        typer.Option(help="A textual inversion: its file, or with another word for it: <my-word>=toy.safetensors"),
    ] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps …")] = None,
    parallel: Parallel = None,
    speed: Annotated[
        str,
        typer.Option(
            help="exact: Lockstep's own kernels for the processor, the same numbers; high: their products in bf16, "
            "where the processor has it, within a measured bound; fast: that, and calls of the denoiser that can be "
            "foretold are left out (--foretell says how much may change); off: torch's; auto: exact for weights in "
            "fp32 on the processor, else off."
        ),
    ] = AUTO,
    max_memory: Annotated[
        str | None, typer.Option(help="The most memory that the process may take, at exact or fast: 6GB …")
    ] = None,
    variant: Variant = None,
    family: Family = None,
    prediction_type: PredictionType = None,
    allow_pickle: AllowPickle = False,
    source: Annotated[
        Path | None, typer.Option("--from", help="A file with one prompt a line: all of them, one picture each.")
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            help="Show the picture in the terminal where it can: as pixels in kitty, ghostty, iTerm2, WezTerm and "
            "foot, as coloured characters elsewhere (LOCKSTEP_PICTURES=kitty, iterm, sixel or blocks overrules)."
        ),
    ] = True,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make pictures or videos from words; the manifest inside each file lets `lockstep replay` make it again."""
    start_ranks(parallel)
    of_file = file_options(family, prediction_type, allow_pickle)
    pipe = described(model, **of_file)
    kind = result_kind(pipe)
    inputs = described_inputs(pipe, context)
    prompts = read_prompts(prompt, inputs.pop("prompt", None), source)
    if kind.count_input in inputs:
        if count != 1:
            raise InputError(f"-n and --{kind.count_input.replace('_', '-')} mean the same; give one of them.")
        count = inputs.pop(kind.count_input)
    options = _without_none({"fps": fps})
    kind.check_options(options)
    total = max(len(prompts), 1) * count
    targets = Targets(output or Path(kind.default_name), kind, total, overwrite)
    sheets = None if sheet is None else sheet_targets(sheet, kind, total, overwrite)
    started = time.perf_counter()
    pipe = loaded(
        model, dtype=dtype, device=device, workflow=workflow, scheduler=scheduler, guider=guider, loras=lora or (),
        embeddings=embedding or (), controlnets=controlnet or (), adapters=adapter or (), ip_adapters=ip_adapter or (),
        variant=variant, speed=OFF if parallel and speed == AUTO else speed, max_memory=max_memory, **of_file,
    )  # fmt: skip
    writes = spread(pipe, parallel)
    ready = time.perf_counter()
    if quiet or json:
        pipe.set_progress_bar_config(disable=True)
    shown = show and not quiet and not json
    made: list[dict[str, Any]] = []
    for text in prompts or NO_PROMPT:
        given = {"prompt": text, "seed": seed, "workflow": workflow, kind.count_input: count if count > 1 else None}
        result = pipe(**inputs, **_without_none(given))
        if writes:
            made += save(result, targets, text, shown, options, sheets)  # at once: what is done stays, whatever comes
    if not writes:
        return
    times = {"load_seconds": ready - started, "run_seconds": time.perf_counter() - ready}
    gigabytes = pipe.peak_memory() / 1e9
    if json:
        told = {name: round(value, 3) for name, value in {**times, "peak_gigabytes": gigabytes}.items()}
        print_json({f"{kind.name}s": made, **told})
        return
    for entry in made:
        drawn = f"  [dim]contact sheet[/] {entry['sheet']}" if "sheet" in entry else ""
        out.print(f"[bold green]{entry['path']}[/]  [dim]seed {entry['seed']}[/]{drawn}", highlight=False)
    if not quiet:
        loading, running = times.values()
        most = f", at most {gigabytes:.2f} GB of memory" if gigabytes else ""
        err.print(f"[dim]loaded in {loading:.1f} s, made in {running:.1f} s{most}[/]")


def read_prompts(prompt: str | None, option: str | None, source: Path | None) -> list[str]:
    """The prompts of the command line or of a file."""
    given = [text for text in (prompt, option) if text is not None]
    if len(given) + (source is not None) > 1:
        raise InputError("Give a prompt, --prompt, or --from FILE: one of them.")
    if source is None:
        return given
    if not source.is_file():
        raise InputError(f"--from wants a file with one prompt a line; there is no {source}.")
    try:
        lines = [line.strip() for line in source.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        raise InputError(f"--from wants a text file (UTF-8) with one prompt a line; {source} is none.") from None
    prompts = [line for line in lines if line and not line.startswith("#")]
    if not prompts:
        raise InputError(f"{source} has no prompt in it.")
    return prompts


def result_kind(pipe: Any) -> MediaKind:
    """The kind of what a pipeline makes; pictures where it does not say."""
    from ..blocks.vocabulary import media_of
    from ..media import kind_named

    kinds = [kind for param in pipe.result_params() if (kind := media_of(param.name)) is not None]
    return kind_named(kinds[0] if kinds else "picture")


def described_inputs(pipe: Any, context: Any) -> dict[str, Any]:
    """The pipeline's own inputs among the options, checked before any weight is read."""
    from .inputs import read_options

    return read_options(context.args, pipe.inputs, own=context.command.own_options(context))


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def sheet_targets(sheet: Path, kind: MediaKind, total: int, overwrite: bool) -> Targets:
    """Where contact sheets go."""
    from ..media import kind_named

    if kind.name != "video":
        raise InputError(
            f"--sheet is for videos; this pipeline makes a {kind.name}, which is seen whole: leave it out."
        )
    return Targets(sheet, kind_named("picture"), total, overwrite)


def save(
    result: Any,
    targets: Targets,
    prompt: str | None,
    show: bool,
    options: dict[str, Any],
    sheets: Targets | None = None,
) -> list[dict[str, Any]]:
    """Write the pictures or videos of one run; where each is, and its seed."""
    from .preview import TerminalPicture, can_show

    made = []
    seeds = result.manifest["seed"] or []
    for index, part in enumerate(result.parts()):
        path = part.write(targets.next(), **options)
        made.append({"path": str(path), "prompt": prompt, "seed": seeds[index] if index < len(seeds) else None})
        if sheets is not None:
            made[-1]["sheet"] = str(sheets.kind.write(part.preview(), sheets.next()))
        if show and can_show(out):
            out.print(TerminalPicture(part.preview(), 48))
    return made
