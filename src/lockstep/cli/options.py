"""Options that several commands take, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no preview.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over what has that name.")]
Variant = Annotated[str | None, typer.Option(help="The variant of a folder's files: fp16, non_ema …")]
Family = Annotated[
    str | None, typer.Option(help="Of a checkpoint file, where it is not sure: sd1, sd2, sdxl, refiner.")
]
PredictionType = Annotated[
    str | None, typer.Option(help="Of a checkpoint file, where no tensor tells: epsilon or v_prediction.")
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Unpickle a .ckpt, .pt or .bin (tensors only; nothing else is run).")
]
