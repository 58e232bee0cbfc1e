"""`lockstep train`: fine-tuning on a folder of pictures; the embedded model's own stages are in `train_emoji`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import out
from .pipelines import DEFAULT_MODEL
from .train_emoji import emoji

LORA_EXAMPLES = """
Examples:

  lockstep train lora ./my-pictures ./my-style

  lockstep train lora ./my-pictures ./my-style --model ./stable-diffusion-v1-5

  lockstep train lora ./my-pictures ./my-style --config my.toml

A run that was interrupted goes on where it was when the same command is given again.
"""

train = typer.Typer(help="Fine-tune a model on your pictures, or make the embedded model again.", no_args_is_help=True)
train.add_typer(emoji, name="emoji")


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
