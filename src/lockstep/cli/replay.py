"""`lockstep replay`: make a picture or video again from the manifest inside it, or say exactly what differs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ReplayError, UnknownNameError
from .console import out, print_json
from .exit_codes import ExitCode
from .options import AllowPickle, Json, Overwrite
from .targets import Targets

if TYPE_CHECKING:
    from ..media import MediaComparison


def replay(
    file: Annotated[Path, typer.Argument(help="A picture or video that Lockstep wrote.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write what was made again.")] = None,
    overwrite: Overwrite = False,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Where the model is now, if it has moved.")] = None,
    moved: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="A file or folder that went in, if it has moved: image=start.png, controlnet=./canny, or by its own "
            "name: style.safetensors=./loras/style.safetensors",
        ),
    ] = None,
    allow_pickle: AllowPickle = False,
    json: Json = False,
) -> None:
    """Make a picture or video again and compare every pixel; a lossy file within the tolerance of its format."""
    from ..blocks.manifest import read_manifest
    from ..media import compare, kind_of_file

    kind = kind_of_file(file)
    manifest = read_manifest(file)
    if manifest.get("unfinished"):
        raise ReplayError(
            f"{file} holds the first frames of a run that did not end; there is no whole result to compare."
        )
    targets = Targets(output, kind, 1, overwrite) if output is not None else None
    result = run_again(manifest, Places(file, moved or []), model, allow_pickle)
    parts, index = result.parts(), manifest.get(kind.place, 0)
    if not 0 <= index < len(parts):
        raise ReplayError(f"The manifest in {file} names number {index} of a run that makes {len(parts)}.")
    if targets is not None:
        parts[index].write(targets.next(), **{name: manifest[name] for name in kind.options if name in manifest})
    found = compare(kind, file, parts[index].item, manifest)
    changed = differences(manifest, result.manifest.to_dict(folder=file.parent))
    if json:
        print_json(facts(found, changed))
    if not found.identical and not found.within_tolerance:
        if json:
            raise typer.Exit(ExitCode.NOT_REPLAYED)
        raise ReplayError(difference_told(file, found, changed, manifest))
    if not json:
        style = "[bold green]identical[/]" if found.identical else "[bold yellow]within tolerance[/]"
        out.print(f"{style}: {agreement_told(file, found, changed)}", highlight=False)


def facts(found: MediaComparison, changed: list[str]) -> dict[str, Any]:
    """What a script wants to know."""
    return {
        "identical": found.identical,
        "edited": found.edited,
        "computation_identical": found.computed,
        "within_tolerance": found.within_tolerance,
        "tolerance": found.format.tolerance,
        "largest_difference": None if found.apart is None else found.apart.largest,
        "mean_difference": None if found.apart is None else found.apart.mean,
        "differs": changed,
    }


def agreement_told(file: Path, found: MediaComparison, changed: list[str]) -> str:
    """Why a replay counts as the same."""
    name, apart = found.format.name, found.apart
    assert apart is not None
    if found.format.lossless:
        return f"every pixel of {file} was made again"
    if found.identical:
        return (
            f"every pixel was made again as it was before {name} compressed it, and {file} is what {name} makes of them"
        )
    why = "; ".join(changed) or "nothing in the manifest does"
    before = {
        True: f"the pixels before {name} compressed them were made again, every one",
        False: f"the pixels before {name} compressed them differ ({why})",
        None: f"its manifest has no hash of the pixels before {name} compressed them",
    }[found.computed]
    allowed = (
        f"{apart.mean:.2f} of 255 on average, {apart.largest} at most ({found.format.tolerance:g} on average allowed)"
    )
    return f"{file} is {allowed} from what {name} makes of the run's result; {before}"


def difference_told(file: Path, found: MediaComparison, changed: list[str], manifest: dict[str, Any]) -> str:
    """Which of the two changed, the file or the computation, by how much, and what is known of why."""
    if found.apart is None:
        pixels = "its size or number of frames is another one"
    else:
        against = "" if found.format.lossless else f" ({found.format.tolerance:g} allowed for {found.format.name})"
        largest, mean = found.apart.largest, found.apart.mean
        pixels = f"the largest difference of a pixel is {largest} of 255, the mean {mean:.3f}{against}"
    if found.edited and found.computed:
        return f"{file} was edited after it was made: the run gives the pixels that its manifest names, and {pixels}."
    edited = f" {file} was also edited after it was made: it has not the pixels that its manifest names." * found.edited
    why = "; ".join(changed) or "nothing in the manifest differs: the processor or its libraries compute differently"
    threads = manifest.get("threads")
    if any(text.startswith("threads ") for text in changed) and found.apart is not None and found.apart.largest <= 1:
        why += f"; a difference of 1 is what another number of threads makes: OMP_NUM_THREADS={threads} repeats it"
    return f"{file} came out differently, the computation differs: {pixels}. What differs: {why}.{edited}"


class Places:
    """Where the files and folders are that a manifest names: told by the person, beside the file, or here."""

    def __init__(self, file: Path, told: list[str]) -> None:
        self.folder = file.absolute().parent.resolve()
        self.told = dict(pair.partition("=")[::2] for pair in told)

    def find(self, name: str, recorded: str) -> Path | None:
        """`name` is what the person calls it; the recorded path is relative to the file (an old one is absolute)."""
        path, last = Path(recorded), Path(recorded).name
        told = self.told.get(name) or self.told.get(last)
        if told is not None:
            return Path(told)
        candidates = (self.folder / path, path, self.folder / last, Path(last))
        return next((one for one in candidates if last and one.exists()), None)

    def check(self, known: list[str]) -> None:
        """Refuse a name that nothing went in by."""
        for name in self.told:
            if name not in known:
                raise UnknownNameError("input (written name=file)", name, known)


def run_again(manifest: dict[str, Any], places: Places, model: str | None, allow_pickle: bool = False) -> Any:
    """The result of the run that a manifest describes."""
    import lockstep

    from ..blocks.params import public_class
    from ..pipelines.pipeline import DiffusionPipeline

    adapters, given = manifest.get("adapters", []), manifest.get("given", {})
    places.check(names_of_files(manifest))
    inputs = given_again(manifest["inputs"], places)
    if manifest.get("parallel", {}).get("cfg", 1) > 1 and "batch_guidance" in inputs:
        inputs["batch_guidance"] = False  # on ranks every branch was predicted by itself
    if manifest.get("changed_by"):
        raise ReplayError(
            f"The run was changed from outside ({', '.join(manifest['changed_by'])}), which a manifest cannot repeat."
        )
    dtypes = {entry["dtype"] for entry in manifest["components"].values() if isinstance(entry.get("dtype"), str)}
    dtype = dtypes.pop() if len(dtypes) == 1 else "auto"
    source = model or model_again(manifest["model"], places)
    made_by = manifest.get("pipeline")
    is_public = made_by in lockstep.__all__ and str(made_by).endswith("Pipeline")
    owner = public_class(str(made_by), "the pipeline") if is_public else DiffusionPipeline
    said = file_options_again(manifest, source, places, allow_pickle)
    pipe = owner.from_pretrained(
        source, dtype=dtype, workflow=manifest["workflow"], variant=manifest.get("variant"), **said
    )
    for name, parts in given.items():
        setattr(pipe, name, given_model(name, parts, dtype, places, allow_pickle))
    load_adapters(pipe, adapters, places)
    load_words(pipe, manifest.get("embeddings", []), places, allow_pickle)
    switch_on(pipe, manifest, places, allow_pickle)
    for name, entry in manifest["components"].items():
        if "values" in entry and name in pipe.all_components:  # a scheduler or guider, perhaps not the model's own
            setattr(pipe, name, public_class(entry["class"], f"component {name!r}").from_config(entry["values"]))
    return pipe(**inputs, seed=manifest["seed"], workflow=manifest["workflow"])


def file_options_again(manifest: dict[str, Any], source: str, places: Places, allow_pickle: bool) -> dict[str, Any]:
    """What was said about a model that is one file; nothing where the model is a folder now."""
    from ..loaders.header import is_checkpoint

    if not is_checkpoint(source):
        return {}
    said = {**manifest.get("model_options", {}), **({"allow_pickle": True} if allow_pickle else {})}
    if isinstance(said.get("config"), str):
        found = places.find("config", said["config"])
        if found is None:
            raise ReplayError(f"The configs were in {said['config']}, which is not there now: --input config=FOLDER.")
        said["config"] = found
    return said


def model_again(recorded: str | None, places: Places) -> str:
    """The folder of the model, or its name on a hub."""
    from ..files import looks_like_hub_id

    if recorded is None:
        raise ReplayError("The pipeline was put together by hand, from no folder. Say where it is now: --model FOLDER.")
    if looks_like_hub_id(recorded):
        return recorded
    found = places.find("model", recorded)
    if found is None:
        raise ReplayError(f"The model was in {recorded}, seen from the file, and is not there now: --model FOLDER.")
    return str(found)


def names_of_files(manifest: dict[str, Any]) -> list[str]:
    """What `--input` can call the files and folders of a run: an input's or component's name, or that of the file."""
    entries = {name: value if isinstance(value, list) else [value] for name, value in manifest["inputs"].items()}
    inputs = {
        name: [one.get("file") for one in several if isinstance(one, dict) and _kind_of(one) is not None]
        for name, several in entries.items()
    }
    models = {name: [part["folder"] for part in parts] for name, parts in manifest.get("given", {}).items()}
    files = [one for several in [*inputs.values(), *models.values()] for one in several]
    files += [one["file"] for key in ("adapters", "embeddings", "ip_adapters") for one in manifest.get(key, [])]
    files += [manifest.get("model_options", {}).get("config")]
    names = [name for name, several in [*inputs.items(), *models.items()] if several]
    names += ["config"] if "config" in manifest.get("model_options", {}) else []
    return [*names, *(Path(file).name for file in files if isinstance(file, str))]


def _kind_of(value: dict[str, Any]) -> Any:
    """The media kind of an input that a manifest names by its hash."""
    from ..media import KINDS

    return next((kind for kind in KINDS if kind.name in value and "sha256" in value), None)


def given_again(recorded: dict[str, Any], places: Places) -> dict[str, Any]:
    """The inputs of a run; a picture or video is read from where it is now and has to be the same one."""
    known = {name: value for name, value in recorded.items() if value is not None}
    return {name: _read_again(name, value, places) for name, value in known.items()}


def _read_again(name: str, value: Any, places: Places) -> Any:
    if isinstance(value, list):
        return [_read_again(name, one, places) for one in value]
    if isinstance(value, dict) and "sha256" in value:
        return same_input(name, value, places)
    return value


def same_input(name: str, recorded: dict[str, Any], places: Places) -> Any:
    """The picture or video that went into a run."""
    kind, file = _kind_of(recorded), recorded.get("file")
    found = places.find(name, file if isinstance(file, str) else "")
    if found is None and not isinstance(file, str):
        raise ReplayError(
            f"The manifest names the input {name!r} by its hash only. "
            + (f"Give the {kind.name}: --input {name}=FILE." if kind else "Such a run cannot be made again.")
        )
    if kind is None:
        raise ReplayError(f"The manifest names the input {name!r} by its hash only. Such a run cannot be made again.")
    if found is None or not found.exists():
        raise ReplayError(f"The run started from {file} ({name!r}), which is not there now: --input {name}=FILE.")
    value = kind.load(found)
    if kind.describe_input(value)["sha256"] != recorded["sha256"]:
        raise ReplayError(f"{found} is not the {kind.name} that the run was given as {name!r}: its pixels differ.")
    return value


def given_model(name: str, parts: list[dict[str, Any]], dtype: str, places: Places, allow_pickle: bool = False) -> Any:
    """A model that was given to the pipeline, from the folder it had been loaded from; several act as one."""
    from ..blocks.params import public_class

    loaded = []
    for part in parts:
        if part["folder"] is None:
            raise ReplayError(
                f"The picture was made with a {name!r} ({part['class']}) that was loaded from no folder. "
                "Save it with save_pretrained and load it before the run, then its pictures can be made again."
            )
        folder = places.find(name, part["folder"])
        if folder is None or not folder.exists():
            raise ReplayError(
                f"The picture was made with the {name!r} in {part['folder']}, which is not there now: "
                f"--input {name}=FOLDER."
            )
        kind = public_class(part["class"], f"component {name!r}")
        loaded.append(kind.from_pretrained(folder, dtype=dtype, allow_pickle=allow_pickle))
    return loaded if len(loaded) > 1 else loaded[0]


def load_adapters(pipe: Any, adapters: list[dict[str, Any]], places: Places) -> None:
    """The LoRA files that a picture was made with."""
    for adapter in adapters:
        file = found_again("LoRA", adapter, places)
        pipe.load_lora_weights(file, adapter_name=adapter["name"], strength=adapter["strength"])
    for component in {name for adapter in adapters for name in adapter.get("in_component", {})}:
        model = getattr(pipe, component)
        own = {a["name"]: a.get("in_component", {}).get(component, a["strength"]) for a in adapters}
        names = [name for name in own if name in model.merged_loras.names()]
        model.set_adapters(names, [own[name] for name in names])


def load_words(pipe: Any, embeddings: list[dict[str, Any]], places: Places, allow_pickle: bool) -> None:
    """The textual inversions that a picture was made with, by the words that they had; only the same file will do."""
    import hashlib

    for entry in embeddings:
        file = found_again("embedding", entry, places)
        if hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
            raise ReplayError(f"{file} is not the embedding that the picture was made with: its hash differs.")
        token = entry["tokens"][0] if len(entry["tokens"]) == 1 else None
        pipe.load_textual_inversion(file, token, allow_pickle=allow_pickle)


def found_again(kind: str, recorded: dict[str, Any], places: Places) -> Path:
    """Where a file is now that a picture was made with."""
    name = Path(recorded["file"]).name
    file = places.find(name, recorded["file"])
    if file is None or not file.is_file():
        raise ReplayError(
            f"The picture was made with the {kind} {recorded['file']}, which is not there now "
            f"(sha256 {str(recorded['sha256'])[:12]}…): --input {name}=FILE."
        )
    return file


def switch_on(pipe: Any, manifest: dict[str, Any], places: Places, allow_pickle: bool) -> None:
    """IP-Adapters, FreeU and kernels as they were."""
    found = []
    for adapter in manifest.get("ip_adapters", []):
        if adapter["file"] is None:
            raise ReplayError(
                "The picture was made with an IP-Adapter that came from no file. Save it as one and load it from there."
            )
        found.append(found_again("IP-Adapter", adapter, places))
    if found:
        pipe.load_ip_adapter(found, image_encoder_folder=None, allow_pickle=allow_pickle)
        pipe.set_ip_adapter_scale(manifest.get("ip_adapter_scale", 1.0))
    for name, text in manifest.get("accelerated", {}).items():  # exact, high=0.02, exact@openvino
        said, _, engine = text.partition("@")
        level, _, bound = said.partition("=")
        pipe.accelerate(level, [name], bound=float(bound) if bound else None, engine=engine or "own")
    if "freeu" in manifest:
        pipe.enable_freeu(*(manifest["freeu"].get(name) for name in ("s1", "s2", "b1", "b2")))


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What of a manifest is not the same: versions, machine, configs, weights."""
    told = []
    machine = "lockstep", "torch", "python", "machine", "kernels", "threads", "device", "parallel", "pipeline", "blocks"
    for key in machine:
        if key in before and before[key] != after.get(key):
            told.append(f"{key} was {before[key]}, is {after.get(key)}")
    for name, was in before.get("components", {}).items():
        now = after.get("components", {}).get(name, {})
        told += [
            f"{name}'s {key} was {was[key]}, is {now.get(key)}"
            for key in was
            if key != "values" and was[key] != now.get(key)
        ]
    for was, now in zip(before.get("adapters", []), after.get("adapters", []), strict=False):
        if was["sha256"] != now["sha256"]:
            told.append(f"the LoRA {was['file']} was {was['sha256'][:12]}…, is {now['sha256'][:12]}…")
    for was, now in zip(before.get("ip_adapters", []), after.get("ip_adapters", []), strict=False):
        if was["sha256"] != now["sha256"]:
            told.append(f"the IP-Adapter {was['file']} was {was['sha256'][:12]}…, is {now['sha256'][:12]}…")
    for name, was in before.get("weights", {}).items():
        if was != after.get("weights", {}).get(name):
            told.append(f"the weights of {name} were {was[:12]}…, are {str(after.get('weights', {}).get(name))[:12]}…")
    return told
