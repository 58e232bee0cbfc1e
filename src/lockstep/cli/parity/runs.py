"""What `lockstep parity` records: a model folder run by a library, or a function of the user's own file; and how to
do it again."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.markup import escape

from ...errors import InputError, LoadError, LockstepError, NotFoundError
from ...files import atomic
from ..console import err

LIBRARIES = ("lockstep", "diffusers")
DTYPES = ("float32", "bfloat16", "float16", "float64")


@dataclass(frozen=True)
class RunRecipe:
    """Everything that is needed to run one side again; stands beside its trace as `<trace>.run.json`."""

    model: str
    library: str = "lockstep"
    prompt: str = "a photo of a cat"
    negative_prompt: str | None = None
    seed: int = 0
    steps: int = 4
    guidance_scale: float | None = None
    height: int | None = None
    width: int | None = None
    dtype: str = "float32"
    level: str = "module+ops"
    fault: str | None = None  # a fault planted on purpose (`lockstep parity mutate`) …
    fault_at: str = "*"  # … in the middle one of the modules that fit
    parallel: str | None = None  # over which ranks, as `cfg=2,ulysses=2`
    one_by_one: bool = False  # branches of the guidance by themselves, not as a batch

    @property
    def is_function(self) -> bool:
        """`file.py:name` or `package.module:name` instead of a model's folder or hub id."""
        return is_function(self.model)

    @property
    def inputs(self) -> dict[str, Any]:
        """What both sides have to be asked alike; a difference is INVALID, not BUG."""
        if self.is_function:
            return {}
        return {"prompt": self.prompt, "negative_prompt": self.negative_prompt, "seed": self.seed, "steps": self.steps}

    @property
    def label(self) -> str:
        return self.model if self.is_function else f"{self.library}: {self.model}"

    def save(self, trace: Path) -> None:
        with atomic(run_file(trace)) as temporary:
            Path(temporary).write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")

    @classmethod
    def of(cls, trace: Path) -> RunRecipe | None:
        """How a trace was recorded, if this command recorded it."""
        file = run_file(trace)
        if not file.is_file():
            return None
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            return cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})
        except (ValueError, TypeError, KeyError) as problem:
            raise InputError(
                f"{file} does not say how {trace.name} was recorded ({problem}); record it again."
            ) from problem


def run_file(trace: Path) -> Path:
    return trace.with_suffix(".run.json")


def is_function(model: str) -> bool:
    before, colon, name = model.rpartition(":")
    return (
        bool(colon)
        and name.isidentifier()
        and (before.endswith(".py") or all(p.isidentifier() for p in before.split(".")))
    )


@dataclass
class Side:
    """One side, loaded and ready to be recorded as often as need be."""

    run: RunRecipe
    target: Any
    call: Callable[[], Any]
    name: str | None = None
    begun: dict[str, dict[str, Any]] = field(default_factory=dict)  # attributes of its parts before any run
    build: Callable[[], Any] | None = None  # the function that made it

    def record(self, path: Path, side: str = "", **options: Any) -> Any:
        """Record the run to `path`; the recorder says where it was stopped."""
        from ... import parity

        settings = {"level": self.run.level, "inputs": self.run.inputs, "side": side, "name": self.name, **options}
        with parity.record(self.target, path, **settings) as recorder:
            self.run.save(path)
            recorder.result(self.call())
        return recorder

    def record_or_end(self, path: Path, side: str = "", **options: Any) -> bool:
        """Record the run; False if it raised, which the trace then says."""
        from ...parity.errors import ParityError

        try:
            self.record(path, side, **options)
        except ParityError:
            raise
        except Exception as problem:
            err.print(
                f"[yellow]{escape(self.run.label)} raised {type(problem).__name__}[/]: "
                f"{escape(str(problem).partition(chr(10))[0])}; recorded until there",
                highlight=False,
                soft_wrap=True,
            )
            return False
        return True


def load(run: RunRecipe) -> Side:
    """The model or function of a run, with a call that repeats it exactly."""
    from ...parity.causes.live import state_of

    side = _function_side(run) if run.is_function else _pipeline_side(run)
    side.begun = state_of(side.target, side.name)
    if run.fault is not None:
        from .faults import plant

        plant(side.target, run.fault, run.fault_at, side.name)
    return side


def _pipeline_side(run: RunRecipe) -> Side:
    if run.library not in LIBRARIES:
        raise InputError(f"--library is one of {', '.join(LIBRARIES)}, got {run.library!r}.")
    if run.dtype not in DTYPES:
        raise InputError(f"--dtype is one of {', '.join(DTYPES)}, got {run.dtype!r}.")
    if (run.parallel or run.one_by_one) and run.library != "lockstep":
        raise InputError(f"--parallel and --one-by-one are for --library lockstep, got {run.library!r}.")
    pipe = _lockstep_pipeline(run) if run.library == "lockstep" else _reference_pipeline(run)
    with suppress(AttributeError):
        pipe.set_progress_bar_config(disable=True)
    return Side(run, pipe, lambda: pipe(**_arguments(run)))


def _arguments(run: RunRecipe) -> dict[str, Any]:
    import torch

    optional = {
        "negative_prompt": run.negative_prompt,
        "guidance_scale": run.guidance_scale,
        "height": run.height,
        "width": run.width,
    }
    return {
        "prompt": run.prompt,
        "num_inference_steps": run.steps,
        "generator": torch.Generator().manual_seed(run.seed),
        "output_type": "pt",
        **({"batch_guidance": False} if run.one_by_one else {}),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _lockstep_pipeline(run: RunRecipe) -> Any:
    from ...parallel import ParallelConfig
    from ...pipelines.pipeline import DiffusionPipeline

    pipe = DiffusionPipeline.from_pretrained(run.model, dtype=run.dtype)
    if run.parallel is not None:
        pipe.enable_parallelism(ParallelConfig.from_text(run.parallel))
    return pipe


def _reference_pipeline(run: RunRecipe) -> Any:
    """The same folder by another library, quietly and without a checker that paints pictures black."""
    import torch

    try:
        library = importlib.import_module(run.library)
    except ImportError as problem:
        raise InputError(
            f"--library {run.library} needs the package {run.library}: pip install {run.library} transformers"
        ) from problem
    for module in (run.library, "transformers"):
        with suppress(ImportError, AttributeError):
            logging = importlib.import_module(f"{module}.utils.logging")
            logging.set_verbosity_error()
            logging.disable_progress_bar()
    options: dict[str, Any] = {}
    index = Path(run.model, "model_index.json")
    if index.is_file() and "safety_checker" in json.loads(index.read_text(encoding="utf-8")):
        options |= {"safety_checker": None, "requires_safety_checker": False}
    try:
        return library.DiffusionPipeline.from_pretrained(run.model, **options).to(getattr(torch, run.dtype))
    except (OSError, ValueError) as problem:
        raise LoadError(f"{run.library} cannot load {run.model}: {problem}") from problem


def _function_side(run: RunRecipe) -> Side:
    """`build()` gives (model, call), (model, call, name), or an object that can be called without arguments."""
    try:
        build = _find_function(run.model)
        made = build()
    except LockstepError:
        raise
    except Exception as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        raise InputError(
            f"{run.model} raised {type(problem).__name__}: {problem} ({Path(last.filename).name}:{last.lineno})."
        ) from problem
    if isinstance(made, tuple) and len(made) in (2, 3) and callable(made[1]):
        return Side(run, made[0], made[1], made[2] if len(made) == 3 else None, build=build)
    raise InputError(
        f"{run.model} has to return (model, call): the model or pipeline to watch, and a function without arguments "
        "that runs it; "
        f"it returned {type(made).__name__}."
    )


def _find_function(model: str) -> Callable[[], Any]:
    before, _, name = model.rpartition(":")
    if before.endswith(".py"):
        file = Path(before)
        if not file.is_file():
            raise NotFoundError(f"There is no file {file} to take {name!r} from.")
        spec = importlib.util.spec_from_file_location(f"parity_target_{file.stem}", file)
        if spec is None or spec.loader is None:
            raise InputError(f"{file} is no Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses and pickles of the file look themselves up there
        sys.path.insert(0, str(file.resolve().parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(file.resolve().parent))
    else:
        try:
            module = importlib.import_module(before)
        except ImportError as problem:
            raise InputError(f"{model}: {problem}") from problem
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{before} has no function {name!r}.")
    return function


def both(reference: RunRecipe, model: str | None, library: str) -> tuple[RunRecipe, RunRecipe]:
    """The two sides of one proof: the same question to two libraries, or to two models."""
    asked = replace(reference, guidance_scale=_guidance(reference)) if reference.library != library else reference
    return asked, replace(asked, model=model or reference.model, library=library)


def _guidance(run: RunRecipe) -> float | None:
    """The scale that is asked for, or that the folder's guider names: only Lockstep reads that, so both are told."""
    file = Path(run.model, "guider", "guider_config.json")
    if run.guidance_scale is not None or run.is_function or not file.is_file():
        return run.guidance_scale
    scale = json.loads(file.read_text(encoding="utf-8")).get("guidance_scale")
    return float(scale) if isinstance(scale, (int, float)) else None
