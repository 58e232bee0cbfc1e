"""`lockstep train`: the stages that make the embedded model, and fine-tuning on a folder of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import out
from .pipelines import DEFAULT_MODEL

LORA_EXAMPLES = """
Examples:

  lockstep train lora ./my-pictures ./my-style

  lockstep train lora ./my-pictures ./my-style --model ./stable-diffusion-v1-5
"""

train = typer.Typer(help="Fine-tune a model on your pictures, or make the embedded model again.", no_args_is_help=True)


@train.command(epilog=LORA_EXAMPLES)
def lora(
    pictures: Annotated[
        Path, typer.Argument(help="A folder: pictures, each with a .txt of the same name, or a metadata.jsonl.")
    ],
    output: Annotated[Path, typer.Argument(help="The folder for the LoRA file, its checkpoint and sample sheets.")],
    model: Annotated[
        str, typer.Option("--model", "-m", help="A folder, a hub id, or an embedded model.")
    ] = DEFAULT_MODEL,
    config: Annotated[str, typer.Option(help="A settings file, or the name of one of the package's.")] = "lora",
) -> None:
    """Teach a model a style or a thing from a folder of pictures with captions."""
    from ..finetuning.lora import CONFIGS, LoraSettings, train_lora
    from ..training.settings import find_settings, load_settings

    settings = load_settings(LoraSettings, find_settings(config, CONFIGS))
    out.print(f"[bold green]{train_lora(model, pictures, output, settings)}[/]", highlight=False)


@train.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def stage(context: typer.Context) -> None:
    """Run one stage of the embedded model: latents, autoencoder, diffusion or export (`lockstep train stage --help`)."""
    from ..embedded.training.__main__ import main

    raise typer.Exit(main(context.args))


@train.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def data(context: typer.Context) -> None:
    """Fetch and render the pictures, write captions and items (`lockstep train data --help`)."""
    from ..embedded.training.data.__main__ import main

    raise typer.Exit(main(context.args))
