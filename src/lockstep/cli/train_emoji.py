"""`lockstep train emoji`: every stage of the embedded model as a command, in the order in which they are run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from .console import out

STAGES = """
Stages, each of which goes on where it was stopped:

  lockstep train emoji data

  lockstep train emoji tokenizer

  lockstep train emoji latents --teacher ./taesd

  lockstep train emoji autoencoder --teacher ./taesd

  lockstep train emoji sketch --teacher ./taesd

  lockstep train emoji diffusion --teacher ./taesd --sketch sketch --steps 20000

  lockstep train emoji diffusion --teacher ./taesd --run final --start-from main --decay 4000

  lockstep train emoji wording ./my-emoji

  lockstep train emoji sheet sheet.png --teacher ./taesd --run final

  lockstep train emoji export ./my-emoji --run final

  lockstep train emoji polish ./my-emoji

  lockstep train emoji export ./new-emoji --run polish --upon ./my-emoji
"""
Work = Annotated[Path, typer.Option(help="The folder of pictures, items, latents and runs.")]
Teacher = Annotated[Path, typer.Option(help="The folder with the two standalone TAESD files.")]
RunName = Annotated[str, typer.Option("--run", help="The run's name; its folder is under runs/ in the work folder.")]
Styles = Annotated[list[str] | None, typer.Option("--style", help="Only this style; several may be given.")]
WORK = Path("training-work")
DATA_STAGES = ("fetch", "render", "items", "sheets")

emoji = typer.Typer(help="Make the embedded model again, stage by stage.", no_args_is_help=True, epilog=STAGES)


Settings = TypeVar("Settings")


def read_settings(kind: type[Settings], config: str) -> tuple[Settings, str]:
    """The settings of a stage, and the text of their file, which the run keeps."""
    from ..embedded.training.settings import CONFIGS
    from ..training.settings import find_settings, load_settings

    path = find_settings(config, CONFIGS)
    return load_settings(kind, path), path.read_text(encoding="utf-8")


def examples(*lines: str) -> str:
    return "Examples:\n\n" + "\n\n".join(f"  lockstep train emoji {line}" for line in lines)


@emoji.command(epilog=examples("data", "data render items --style 3d --workers 4", "data sheets --work ./work"))
def data(
    stages: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(DATA_STAGES)}; all of them where none is named.")
    ] = None,
    work: Work = WORK,
    workers: Annotated[int, typer.Option(min=1, help="Processes that render.")] = 2,
    style: Styles = None,
    vectors: Annotated[bool, typer.Option(help="Fetch the word vectors too (118 MB).")] = True,
) -> None:
    """Fetch and render the pictures, write captions and items, and sheets for the eye."""
    from ..embedded.training.data import STYLES, build_items, fetch_sources, load_items, render_pictures
    from ..embedded.training.data.sheets import write_sheets
    from ..errors import UnknownNameError

    for stage in stages or ():
        if stage not in DATA_STAGES:
            raise UnknownNameError("stage", stage, DATA_STAGES)
    wanted = [stage for stage in DATA_STAGES if not stages or stage in stages]
    if "fetch" in wanted:
        say(fetch_sources(work, vectors=vectors))
    if "render" in wanted:
        say(render_pictures(work, styles=tuple(style or STYLES), workers=workers))
    if "items" in wanted:
        say(build_items(work))
        table = load_items(work)
        tiers = Counter(concept.tier for concept in table.concepts.values())
        say(f"{len(table.items)} items of {len(table.pictures)} pictures, {len(table.held_out)} held out")
        say(f"concepts: {tiers[1]} core, {tiers[2]} more, {tiers[3]} others")
    if "sheets" in wanted:
        say(*write_sheets(work))


@emoji.command(epilog=examples("tokenizer", "tokenizer --widen ./my-emoji"))
def tokenizer(
    work: Work = WORK,
    widen: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the tokens of this released model and add whole words.")
    ] = None,
    tier: Annotated[
        list[int] | None, typer.Option(help="Whose words the model will know (1 unless given); several may be given.")
    ] = None,
) -> None:
    """Learn the vocabulary from the captions, or add the captions' words to a released one."""
    from ..embedded.training.known_words import build_known_words
    from ..embedded.training.tokenizer import train_tokenizer
    from ..embedded.training.vocabulary import widen_tokenizer

    folder = widen_tokenizer(work, widen) if widen else train_tokenizer(work)
    build_known_words(work, tuple(tier or (1,))).save(folder)
    say(folder)


@emoji.command(epilog=examples("latents --teacher ./taesd", "latents --teacher ./taesd --style 3d --kind base --core"))
def latents(
    teacher: Teacher,
    work: Work = WORK,
    style: Styles = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only this kind (base, colour, background, both); several may be given.")
    ] = None,
    core: Annotated[bool, typer.Option("--core", help="Only the everyday concepts.")] = False,
    part: Annotated[
        Literal["items", "held_out", "tiles"],
        typer.Option(help="What is trained on, what is kept back, or the parts that scenes are put together from."),
    ] = "items",
    like: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Take mean and deviation from this released model, to go on training it."),
    ] = None,
) -> None:
    """Encode the composed pictures once with the teacher."""
    from ..embedded.training.collage import encode_tiles
    from ..embedded.training.data import load_items
    from ..embedded.training.latents import adopt_normal, encode_latents
    from ..errors import InputError

    chosen = {"styles": style, "kinds": kind, "core": core or None}
    chosen = {name: value for name, value in chosen.items() if value}
    if chosen and part != "items":
        raise InputError(f"--style, --kind and --core choose among the items; with --part {part} leave them out.")
    if part == "tiles":
        say(f"{encode_tiles(work, teacher)} tiles encoded")
        return
    items = load_items(work).select(**chosen) if chosen else None  # type: ignore[arg-type]
    say(f"{encode_latents(work, teacher, items, part)} pictures encoded")
    if like:
        say(adopt_normal(work, like))


@emoji.command(epilog=examples("autoencoder --teacher ./taesd", "autoencoder --teacher ./taesd --part decoder"))
def autoencoder(
    teacher: Teacher,
    work: Work = WORK,
    config: Annotated[str, typer.Option(help="A settings file, or the name of one of the package's.")] = "autoencoder",
    part: Annotated[
        Literal["decoder", "encoder"] | None, typer.Option(help="Only this half; otherwise both, one after the other.")
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A new run begins with the autoencoder of this released model."),
    ] = None,
) -> None:
    """Train our own decoder and encoder on the teacher's latents."""
    from ..embedded.training.autoencoder import train_autoencoder
    from ..embedded.training.settings import CONFIGS, AutoencoderSettings
    from ..training.settings import find_settings, load_settings

    settings = load_settings(AutoencoderSettings, find_settings(config, CONFIGS))
    halves: tuple[Literal["decoder", "encoder"], ...] = (part,) if part else ("decoder", "encoder")
    for half in halves:
        say(train_autoencoder(work, settings, half, teacher, start_from))


@emoji.command(epilog=examples("sketch --teacher ./taesd", "sketch --teacher ./taesd --run words --config mine.toml"))
def sketch(
    teacher: Teacher,
    work: Work = WORK,
    config: Annotated[str, typer.Option(help="A settings file, or the name of one of the package's.")] = "sketch",
    run: RunName = "sketch",
    steps: Annotated[int | None, typer.Option(min=1, help="Stop at this step; the same command goes on.")] = None,
) -> None:
    """Teach the text encoder alone what the picture of a caption is."""
    from ..embedded.training.settings import SketchSettings
    from ..embedded.training.sketch import train_sketch

    settings, text = read_settings(SketchSettings, config)
    checkpoint = train_sketch(
        work, settings, run_name=run, teacher_folder=teacher, steps=steps,
        settings_text=text,
    )  # fmt: skip
    say(checkpoint)


@emoji.command(
    epilog=examples(
        "diffusion --teacher ./taesd --sketch sketch --steps 20000",
        "diffusion --teacher ./taesd --run final --start-from main --decay 4000",
    )
)
def diffusion(
    teacher: Teacher,
    work: Work = WORK,
    config: Annotated[str, typer.Option(help="A settings file, or the name of one of the package's.")] = "emoji",
    run: RunName = "main",
    steps: Annotated[int | None, typer.Option(min=1, help="Stop at this step.")] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|FOLDER", help="A new run begins at the checkpoint of this one, or with a released model."
        ),
    ] = None,
    sketch: Annotated[
        str | None, typer.Option(metavar="RUN", help="A new run begins with the text encoder of this run of `sketch`.")
    ] = None,
    decay: Annotated[
        int, typer.Option(min=0, metavar="STEPS", help="Let the learning rate fall to its end from here.")
    ] = 0,
) -> None:
    """Train text encoder and UNet, or go on training them."""
    from ..embedded.training.diffusion import train_diffusion
    from ..embedded.training.settings import DiffusionSettings

    settings, text = read_settings(DiffusionSettings, config)
    checkpoint = train_diffusion(
        work, settings, run_name=run, teacher_folder=teacher, steps=steps,
        start_from=start_from, sketch=sketch, decay_steps=decay, settings_text=text,
    )  # fmt: skip
    say(checkpoint)


@emoji.command(epilog=examples("wording ./my-emoji", "wording ./my-emoji --config words.toml --run words"))
def wording(
    released: Annotated[Path, typer.Argument(help="The folder of the released model to learn from.")],
    work: Work = WORK,
    config: Annotated[str, typer.Option(help="A settings file, or the name of one of the package's.")] = "wording",
    run: RunName = "wording",
) -> None:
    """Teach a text encoder with more words to read captions as people write them."""
    from ..embedded.training.settings import WordingSettings
    from ..embedded.training.wording import train_wording

    settings, text = read_settings(WordingSettings, config)
    say(train_wording(work, settings, released, run_name=run, settings_text=text))


@emoji.command(epilog=examples("polish ./my-emoji", "polish ./my-emoji --config mine.toml --run polish-2"))
def polish(
    released: Annotated[Path, typer.Argument(help="The folder of the released model to make better.")],
    work: Work = WORK,
    config: Annotated[str, typer.Option(help="A settings file, or the name of one of the package's.")] = "polish",
    run: RunName = "polish",
) -> None:
    """Teach the decoder and the UNet's last blocks together to make the true pictures."""
    from ..embedded.training.polish import train_polish
    from ..embedded.training.settings import PolishSettings

    settings, text = read_settings(PolishSettings, config)
    say(train_polish(work, settings, released, run_name=run, settings_text=text))


@emoji.command(epilog=examples("sheet sheet.png --teacher ./taesd", 'sheet cats.png --teacher ./taesd -p "a red cat"'))
def sheet(
    target: Annotated[Path, typer.Argument(help="The picture to write.")],
    teacher: Teacher,
    work: Work = WORK,
    run: RunName = "main",
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", "-p", help="In place of the settings' prompts; several may be given."),
    ] = None,
) -> None:
    """Draw prompts with the averaged weights of a run, as far as it has come."""
    from ..embedded.training.diffusion import draw_sheet

    say(draw_sheet(work, run, teacher, target, prompt))


@emoji.command(
    epilog=examples(
        "export ./my-emoji",
        "export ./new-emoji --run wording --upon ./my-emoji",
        "export ./my-emoji --run final --dtype float32 --limit-mb 80",
    )
)
def export(
    target: Annotated[Path, typer.Argument(help="The folder to write.")],
    work: Work = WORK,
    run: RunName = "main",
    autoencoder_config: Annotated[
        str, typer.Option(help="The settings that the autoencoder was trained with.")
    ] = "autoencoder",
    dtype: Annotated[Literal["float16", "bfloat16", "float32"], typer.Option(help="Of the weights.")] = "float16",
    limit_mb: Annotated[float, typer.Option(min=0, help="Refuse to write more than this.")] = 60.0,
    upon: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="This released model with what the run has trained and the autoencoder's new halves."
        ),
    ] = None,
) -> None:
    """Write the standard folder from averaged weights."""
    from ..embedded.training.diffusion import settings_of
    from ..embedded.training.export import export as export_folder
    from ..embedded.training.export import export_upon
    from ..embedded.training.settings import CONFIGS, AutoencoderSettings
    from ..training.settings import find_settings, load_settings

    if upon:
        export_upon(work, target, upon, run_name=run, dtype=dtype, limit_mb=limit_mb)
    else:
        settings = load_settings(AutoencoderSettings, find_settings(autoencoder_config, CONFIGS))
        export_folder(
            work, target, settings_of(work, run), settings, run_name=run, dtype=dtype, limit_mb=limit_mb
        )  # fmt: skip
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    say(f"{target}: {size / 1e6:.1f} MB")


def say(*results: object) -> None:
    """What a stage has made, a line each."""
    for result in results:
        out.print(str(result), markup=False, highlight=False, soft_wrap=True)
