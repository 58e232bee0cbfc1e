"""`python -m lockstep.training <stage>`: every stage of the embedded model as a command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import LockstepError
from .settings import CONFIGS, AutoencoderSettings, DiffusionSettings, load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        options.run_stage(options)
    except LockstepError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lockstep.training", description=__doc__)
    stages = top.add_subparsers(required=True, metavar="stage")
    latents = add_stage(stages, "latents", run_latents, "encode the composed pictures once with the teacher")
    latents.add_argument("--style", action="append", help="only these styles (may be given several times)")
    latents.add_argument("--kind", action="append", help="only these kinds (base, colour, background, both)")
    latents.add_argument("--core", action="store_true", help="only the everyday concepts")
    latents.add_argument("--part", choices=("items", "held_out"), default="items")
    diffusion = add_stage(stages, "diffusion", run_diffusion, "train text encoder and UNet, or go on training them")
    diffusion.add_argument(
        "--config", default="emoji", help="a settings file, or the name of one that comes with the package"
    )
    diffusion.add_argument("--run", default="main", help="the run's name; its folder is made under runs/")
    diffusion.add_argument("--steps", type=int, help="stop at this step")
    diffusion.add_argument("--start-from", metavar="RUN", help="a new run begins at the checkpoint of this one")
    diffusion.add_argument(
        "--decay", type=int, default=0, metavar="STEPS", help="let the learning rate fall to its end from here"
    )
    autoencoder = add_stage(
        stages, "autoencoder", run_autoencoder, "train our own decoder and encoder on the teacher's latents"
    )
    autoencoder.add_argument(
        "--config", default="autoencoder", help="a settings file, or the name of one of the package's"
    )
    autoencoder.add_argument(
        "--part", choices=("decoder", "encoder"), help="only this half; both, one after the other, otherwise"
    )
    exporting = add_stage(
        stages, "export", run_export, "write the standard folder from averaged weights", teacher=False
    )
    exporting.add_argument("target", type=Path, help="the folder to write")
    exporting.add_argument("--run", default="main", help="the diffusion run to take the weights from")
    exporting.add_argument(
        "--autoencoder-config", default="autoencoder", help="the settings the autoencoder was trained with"
    )
    exporting.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    exporting.add_argument("--limit-mb", type=float, default=40.0, help="refuse to write more than this")
    lora = stages.add_parser("lora", help="teach a model a folder of pictures with captions")
    lora.add_argument("pictures", type=Path, help="pictures, each with a .txt of the same name, or a metadata.jsonl")
    lora.add_argument("output", type=Path, help="the folder for the LoRA file, its checkpoint and sheets")
    lora.add_argument("--model", default="lockstep/emoji", help="a folder or hub id in the Stable Diffusion layout")
    lora.add_argument("--config", default="lora", help="a settings file, or the name of one of the package's")
    lora.set_defaults(run_stage=run_lora)
    return top


def add_stage(
    stages: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    explanation: str,
    teacher: bool = True,
) -> argparse.ArgumentParser:
    stage: argparse.ArgumentParser = stages.add_parser(name, help=explanation, description=explanation)
    stage.add_argument("--work", type=Path, required=True, help="the folder of pictures, items, latents and runs")
    if teacher:
        stage.add_argument("--teacher", type=Path, required=True, help="the folder with the two standalone TAESD files")
    stage.set_defaults(run_stage=run)
    return stage


def run_latents(options: argparse.Namespace) -> None:
    from .data import load_items
    from .latents import encode_latents

    chosen = {"styles": options.style, "kinds": options.kind, "core": options.core or None}
    items = None
    if any(chosen.values()) and options.part == "items":
        items = load_items(options.work).select(**{key: value for key, value in chosen.items() if value})
    encode_latents(options.work, options.teacher, items, options.part)


def run_diffusion(options: argparse.Namespace) -> None:
    from .diffusion import train_diffusion

    path = Path(options.config) if Path(options.config).is_file() else CONFIGS / f"{options.config}.toml"
    train_diffusion(
        options.work,
        load_settings(DiffusionSettings, options.config),
        run_name=options.run,
        teacher_folder=options.teacher,
        steps=options.steps,
        start_from=options.start_from,
        decay_steps=options.decay,
        settings_text=path.read_text(encoding="utf-8"),
    )


def run_autoencoder(options: argparse.Namespace) -> None:
    from .autoencoder import train_autoencoder

    settings = load_settings(AutoencoderSettings, options.config)
    for part in (options.part,) if options.part else ("decoder", "encoder"):
        train_autoencoder(options.work, settings, part, options.teacher)


def run_export(options: argparse.Namespace) -> None:
    from .export import export

    settings = load_settings(DiffusionSettings, options.work / "runs" / options.run / "settings.toml")
    autoencoder = load_settings(AutoencoderSettings, options.autoencoder_config)
    target = export(
        options.work,
        options.target,
        settings,
        autoencoder,
        run_name=options.run,
        dtype=options.dtype,
        limit_mb=options.limit_mb,
    )
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target}: {size / 1e6:.1f} MB")


def run_lora(options: argparse.Namespace) -> None:
    from .lora import LoraSettings, train_lora

    print(train_lora(options.model, options.pictures, options.output, load_settings(LoraSettings, options.config)))


if __name__ == "__main__":
    sys.exit(main())
