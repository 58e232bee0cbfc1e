"""ModelMixin: a torch module that loads from and saves to the published folder layout.

Loading has one path: build on `meta` (no memory, no random numbers), check names and shapes against the file's header,
then assign the memory-mapped tensors.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import re
import tempfile
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .. import files
from ..attention import SequencePlan
from ..configuration import ConfigMixin, FrozenDict, check_types, config_defaults, config_types, naming_config
from ..errors import (
    ConfigError,
    InputError,
    LockstepError,
    MachineError,
    OutlineError,
    UnknownNameError,
    UnsupportedError,
    WeightsError,
)
from ..notes import say_once
from .accelerated import Accelerated
from .attention_switches import AttentionSwitches
from .layerwise_casting import SKIPPED, cast_layerwise
from .lora_layers import LoraLayersMixin
from .options import LOADING_ARGUMENTS, chosen_device, chosen_files, take_known_elsewhere
from .options import check_always as check_always
from .origin import Origin, origin_of
from .weights import (
    DTYPES,
    MadeTensor,
    StoredTensor,
    check_tensors,
    in_memory,
    open_folder,
    read_tensors,
    remove_earlier,
    save_weights,
)

Forward = TypeVar("Forward", covariant=True)
_cache_context: contextvars.ContextVar[str | None] = contextvars.ContextVar("cache_context", default=None)


class HasForward(Protocol[Forward]):
    """A module, seen by what its `forward` takes and gives."""

    @property
    def forward(self) -> Forward: ...


class CalledAsForward(nn.Module):
    """A module whose call takes and gives what its `forward` does; torch leaves that open to type checkers."""

    if TYPE_CHECKING:

        @property
        def __call__(self: HasForward[Forward]) -> Forward: ...  # type: ignore[override]


class ModelMixin(Accelerated, AttentionSwitches, LoraLayersMixin, ConfigMixin, CalledAsForward):
    """Base of every model."""

    weights_name: ClassVar[str] = "diffusion_pytorch_model.safetensors"
    ignored_tensors: ClassVar[
        tuple[str, ...]
    ] = ()  # regexes of tensors in published files that the model does not need
    tensor_renames: ClassVar[tuple[tuple[str, str], ...]] = ()  # (regex, replacement): published older names -> ours
    keep_in_fp32: ClassVar[
        tuple[str, ...]
    ] = ()  # regexes of tensors that stay fp32 when the model is loaded in half precision
    # (one layer, the layers that are the same rows one behind the other), `{}` standing for the same text in all of
    # them: a LoRA made for either of the two layouts fits
    fused_layers: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    # Two names that pipelines of other libraries ask a model for.
    _supports_gradient_checkpointing: ClassVar[bool] = False
    _keep_in_fp32_modules: ClassVar[None] = None
    _computes_in: torch.dtype | None = None  # where weights are kept in another dtype
    sequence_plan: ClassVar[SequencePlan | None] = None  # how its tokens are shared out among ranks
    origin: Origin | None = None  # which files' values the weights are, for as long as nobody changes them
    loaded_from: Path | None = None  # the folder or single file, where there was one

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        subfolder: str | None = None,
        variant: str | None = None,
        torch_dtype: torch.dtype | str | None = None,
        dtype: torch.dtype | str | None = None,
        device: torch.device | str | None = None,
        **config_and_hub: Any,
    ) -> typing.Self:
        """Load a folder (or a subfolder of it, or a hub id) in the wanted dtype: fp32 unless told otherwise.

        `dtype="auto"` is bf16 where the processor computes it natively and fp32 elsewhere; `"keep"` is the file's own.
        Further arguments replace values of the config, or go to the hub (`revision=`, `cache_dir=`, `token=` …).
        """
        if subfolder is None and isinstance(name_or_path, (str, Path)) and Path(name_or_path).is_file():
            kept = dtype if dtype is not None else torch_dtype
            return cls.from_single_file(name_or_path, dtype=kept, device=device, **config_and_hub)
        hub = {key: config_and_hub.pop(key) for key in list(config_and_hub) if key in files.HUB_ARGUMENTS}
        safetensors, pickles = chosen_files(config_and_hub)
        place = chosen_device(device, config_and_hub.pop("device_map", None))
        take_known_elsewhere(config_and_hub)
        unknown = sorted(set(config_and_hub) - set(config_defaults(cls)))
        if unknown:
            known = [*config_defaults(cls), *files.HUB_ARGUMENTS, *LOADING_ARGUMENTS]
            raise UnknownNameError(f"argument of {cls.__name__}.from_pretrained", unknown[0], known)
        if dtype is not None and torch_dtype is not None and dtype != torch_dtype:
            raise InputError(f"dtype and torch_dtype are two names of one argument, got {dtype} and {torch_dtype}.")
        target = resolve_device(place)
        wanted = resolve_dtype(dtype if dtype is not None else torch_dtype, target)
        patterns = [f"{subfolder}/*" if subfolder else "*", "*.json"]
        folder = files.resolve_folder(name_or_path, subfolder=subfolder, patterns=patterns, **hub)
        path = cls.config_path(folder)
        config = {**files.read_json(path), **config_and_hub}
        with naming_config(path):
            cls.check_class(config)
            opened = open_folder(folder, cls.weights_name, variant, safetensors=safetensors, pickles=pickles)
            check_depth(cls, config, len(opened))
            model = cls.on_meta(config)
        model.assign(cls.stored_tensors(opened), dtype=wanted, device=target).eval()
        model.loaded_from = folder
        return model

    @classmethod
    def from_single_file(cls, path: str | Path, **options: Any) -> typing.Self:
        """The model of this class inside a checkpoint file: original or published names, alone or with others.

        `config=` (a folder, or values), `dtype=`, `device=`, `family=` and `allow_pickle=` as for pipelines; further
        arguments replace values of the config.
        """
        import lockstep  # the package's list of public names leads up to the loaders, which stand above the models

        own: dict[str, Any] = {key: options.pop(key) for key in ("config", "dtype", "family") if key in options}
        own["dtype"] = own.get("dtype", options.pop("torch_dtype", None))
        own["allow_pickle"] = chosen_files(options)[1]
        own["device"] = chosen_device(options.pop("device", None), options.pop("device_map", None))
        take_known_elsewhere(options)
        unknown = sorted(set(options) - {*config_defaults(cls), *files.HUB_ARGUMENTS})
        if unknown:
            known = [*config_defaults(cls), *own, *LOADING_ARGUMENTS]
            raise UnknownNameError(f"argument of {cls.__name__}.from_single_file", unknown[0], known)
        values = {key: value for key, value in options.items() if key not in files.HUB_ARGUMENTS}
        return lockstep.load_single_file(cls, path, **own, **values)

    @classmethod
    def stored_tensors(cls, stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        """The tensors of a file under this class's own names, without those that it does not need."""
        needed = {name: t for name, t in stored.items() if not any(re.search(p, name) for p in cls.ignored_tensors)}
        return {cls.renamed(name): tensor for name, tensor in needed.items()}

    @classmethod
    def renamed(cls, name: str) -> str:
        """A published name as this class calls it."""
        for pattern, replacement in cls.tensor_renames:
            name = re.sub(pattern, replacement, name)
        return name

    @classmethod
    def from_stored(
        cls,
        config: Mapping[str, Any],
        stored: Mapping[str, StoredTensor],
        *,
        dtype: torch.dtype | None,
        device: torch.device,
    ) -> typing.Self:
        """A model of this config with the values of a file."""
        return cls.on_meta(config).assign(stored, dtype=dtype, device=device)

    @classmethod
    def sharing(cls, other: nn.Module, config: Mapping[str, Any]) -> typing.Self:
        """A model of this class with another's config, and with its very weights: what changes there changes here."""
        cls.check_class(config)
        model = cls.on_meta(config)
        path = Path(f"{type(other).__module__}.{type(other).__name__}")
        stored = cls.stored_tensors(in_memory(other.state_dict(keep_vars=True), path))
        expected = model.state_dict()
        check_tensors(cls.__name__, expected, stored)
        tensors = {name: typing.cast(MadeTensor, stored[name]).make() for name in expected}
        model.load_state_dict(tensors, assign=True)
        return model.train(other.training)

    @classmethod
    def check_class(cls, config: Mapping[str, Any]) -> None:
        """Refuse the config of another class: its values would be taken for this one's."""
        said = config.get("_class_name")
        if said is not None and said not in (base.__name__ for base in cls.__mro__):
            raise ConfigError(f"{cls.__name__} was asked for, but the config is that of {said}.")

    @classmethod
    def on_meta(cls, config: Mapping[str, Any]) -> typing.Self:
        """The model without values, and without the memory for them."""
        try:
            with torch.device("meta"):
                return cls.from_config(config)
        except RuntimeError as problem:
            if isinstance(problem, LockstepError):
                raise
            raise ConfigError(f"{cls.__name__} wants sizes that tensors can have: {problem}.") from None

    @classmethod
    def outline(cls, config: Mapping[str, Any]) -> typing.Self:
        """The model without its layers: what follows from the config alone can be asked of it, and nothing else."""
        known = {name: value for name, value in config_defaults(cls).items() if value is not inspect.Parameter.empty}
        values = {**known, **{key: value for key, value in config.items() if not key.startswith("_")}}
        check_types(cls.__name__, values, config_types(cls))
        kind: Any = outline_class(cls)  # type: ignore[arg-type]
        made: typing.Self = kind.__new__(kind)
        nn.Module.__init__(made)
        object.__setattr__(made, "_config", FrozenDict(values))
        return made

    def assign(
        self, stored: Mapping[str, StoredTensor], *, dtype: torch.dtype | None, device: torch.device
    ) -> typing.Self:
        """Take the values of a file, after checking that they are the ones that this model wants."""
        expected = self.state_dict()
        check_tensors(type(self).__name__, expected, stored)
        dtypes = {name: self._dtype_of(name, stored[name], dtype) for name in expected}
        ordered = {name: stored[name] for name in expected}
        self.load_state_dict(dict(read_tensors(ordered, dtypes, device)), assign=True)
        self.origin = origin_of(self, ordered)
        return self

    def _dtype_of(self, name: str, stored: StoredTensor, wanted: torch.dtype | None) -> torch.dtype:
        own = DTYPES[stored.info.dtype]
        if wanted is None or not own.is_floating_point:
            return own
        return torch.float32 if any(re.search(p, name) for p in self.keep_in_fp32) else wanted

    def save_pretrained(
        self,
        folder: str | Path,
        is_main_process: bool = True,
        save_function: None = None,
        safe_serialization: bool = True,
        variant: str | None = None,
        max_shard_size: int | str = "10GB",
        push_to_hub: bool = False,
        **hub: Any,
    ) -> None:
        """Write config and safetensors into a folder that the wider ecosystem loads too; all of it, or nothing.

        `safe_serialization=False` writes a pickle (.bin), which is read here only with `allow_pickle=True`.
        `push_to_hub=True` sends the folder to `repo_id=…` (by default, its own name) afterwards.
        """
        target = Path(folder)
        if save_function is not None:
            raise UnsupportedError("save_function cannot be chosen: leave it out.")
        if target.is_file():
            raise InputError(f"save_pretrained wants a folder, but {folder} is a file.")
        if hub and not push_to_hub:
            raise UnknownNameError("argument of save_pretrained", next(iter(hub)), ["variant", "max_shard_size"])
        tensors = self.weights_to_save()
        if not is_main_process:
            return
        with files.atomic_folder(target) as temporary:
            save_weights(tensors, temporary, self.weights_name, variant, max_shard_size, pickled=not safe_serialization)
            self.save_config(temporary)
            if target.is_dir():
                remove_earlier(target, self.weights_name, variant)
        if push_to_hub:
            files.upload(target, hub.pop("repo_id", target.name), **hub)

    def push_to_hub(self, repo_id: str, *, variant: str | None = None, **options: Any) -> str:
        """Send config and weights to the hub; the address of what was sent."""
        shard = {key: options.pop(key) for key in ("max_shard_size", "safe_serialization") if key in options}
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, variant=variant, **shard)
            return files.upload(Path(folder), repo_id, **options)

    def weights_to_save(self) -> dict[str, torch.Tensor]:
        """The model's own tensors under their published names; LoRA layers have a file of their own."""
        tensors: dict[str, torch.Tensor] = self.state_dict()
        if self.lora_configs:
            say_once("save_pretrained leaves LoRA layers out: they are saved by save_lora_adapter.")
            own = {name: tensor for name, tensor in tensors.items() if not re.search(r"\.lora_\w+\.", name)}
            tensors = {name.replace(".base_layer.", "."): tensor for name, tensor in own.items()}
        if any(hasattr(tensor, "full_tensor") for tensor in tensors.values()):
            raise WeightsError(
                f"The weights of {type(self).__name__} lie on several ranks (fsdp), no one has all of them to save."
            )
        meta = [name for name, tensor in tensors.items() if tensor.is_meta]
        if meta:
            raise WeightsError(
                f"{type(self).__name__} has no values to save: {len(meta)} tensors are on 'meta', first {meta[0]!r}."
            )
        return tensors

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name not in self.__dict__.get("_config", {}):
                raise
            warnings.warn(
                f"Read `model.config.{name}` instead of `model.{name}`: it says what {type(self).__name__} was built "
                "with.",
                FutureWarning,
                stacklevel=2,
            )
            return self._config[name]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the floating-point parameters, or where they are cast for it, the one that they compute in."""
        if self._computes_in:
            return self._computes_in
        kept = None
        for name, parameter in self.named_parameters():  # asked for at every step: the first that is free answers
            if parameter.is_floating_point():
                if not any(re.search(pattern, name) for pattern in self.keep_in_fp32):
                    return parameter.dtype
                kept = kept or parameter.dtype
        return kept or torch.get_default_dtype()

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """How many numbers the model has, or how many of them are trained, or are not in tables of embeddings."""
        left_out = {id(m.weight) for m in self.modules() if isinstance(m, nn.Embedding) and exclude_embeddings}
        counted = (p for p in self.parameters() if id(p) not in left_out)
        return sum(p.numel() for p in counted if p.requires_grad or not only_trainable)

    def enable_gradient_checkpointing(self) -> None:
        """Compute activations again in the backward pass instead of keeping them."""
        self._set_gradient_checkpointing(True)

    def disable_gradient_checkpointing(self) -> None:
        self._set_gradient_checkpointing(False)

    @property
    def is_gradient_checkpointing(self) -> bool:
        return any(getattr(module, "gradient_checkpointing", False) for module in self.modules())

    def _set_gradient_checkpointing(self, on: bool) -> None:
        able = [module for module in self.modules() if hasattr(module, "gradient_checkpointing")]
        if not able:
            raise UnsupportedError(f"{type(self).__name__} has no block that supports gradient checkpointing.")
        for module in able:
            module.gradient_checkpointing = on  # type: ignore[assignment]

    def enable_layerwise_casting(
        self,
        storage_dtype: torch.dtype = torch.float8_e4m3fn,
        compute_dtype: torch.dtype | None = None,
        skip_modules_pattern: typing.Sequence[str] | None = None,
    ) -> None:
        """Keep the weights of most layers in a small dtype; each is cast while it runs. Slower, and less memory."""
        skipped = SKIPPED if skip_modules_pattern is None else tuple(skip_modules_pattern)
        self._computes_in = compute_dtype or self.dtype
        cast_layerwise(self, storage_dtype, self._computes_in, (*skipped, *self.keep_in_fp32))

    @contextlib.contextmanager
    def cache_context(self, name: str) -> Iterator[None]:
        """Names the branch (conditional, unconditional …) whose forward runs inside, by which caches are kept apart."""
        token = _cache_context.set(name)
        try:
            yield
        finally:
            _cache_context.reset(token)


def current_cache_context() -> str | None:
    """The branch whose forward runs now, as the guider named it."""
    return _cache_context.get()


def checkpointed(owner: Any, module: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`module(*args)`; its activations are computed again in the backward pass if `owner.gradient_checkpointing`."""
    if owner.gradient_checkpointing and torch.is_grad_enabled():
        return checkpoint(module, *args, use_reentrant=False, **kwargs)
    return module(*args, **kwargs)


def resolve_dtype(dtype: torch.dtype | str | None, device: torch.device) -> torch.dtype | None:
    """A dtype argument as torch's; None means "keep what the file has"."""
    if dtype is None:
        return torch.float32
    if isinstance(dtype, torch.dtype):
        if not dtype.is_floating_point:
            raise InputError(f"Weights are floating point, so their dtype has to be, got {dtype}.")
        return dtype
    if dtype == "keep":
        return None
    if dtype == "auto":
        return torch.bfloat16 if computes_bf16(device) else torch.float32
    names = {"float32": torch.float32, "fp32": torch.float32, "float16": torch.float16, "fp16": torch.float16}
    names |= {"bfloat16": torch.bfloat16, "bf16": torch.bfloat16, "float64": torch.float64, "fp64": torch.float64}
    if dtype not in names:
        raise UnknownNameError("dtype", dtype, [*names, "auto", "keep"])
    return names[dtype]


@functools.cache
def outline_class(kind: type[ModelMixin]) -> type[Any]:
    """A class whose objects have a config and refuse everything that needs layers."""

    def refuse(self: Any, name: str) -> Any:
        raise OutlineError(
            f"This outline of {kind.__name__} has its config, no {name!r}. A block that uses the model itself declares "
            "its component without outline=True."
        )

    return type(kind.__name__, (kind,), {"__getattr__": refuse, "__module__": kind.__module__})


def resolve_device(device: torch.device | str | int | None) -> torch.device:
    """A device argument as torch's, if this machine has it; None means the processor."""
    try:
        target = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as problem:
        raise InputError(f"{device!r} is no device: {str(problem).rstrip('.')}.") from None
    try:
        torch.empty(0, device=target)
    except (AssertionError, RuntimeError) as problem:
        raise MachineError(f"The device {device!r} cannot be used here: {str(problem).rstrip('.')}.") from None
    return target


def computes_bf16(device: torch.device | str = "cpu") -> bool:
    """Whether a device multiplies bf16 natively: on a processor without AVX512-BF16 or AMX it is slower than fp32."""
    device = torch.device(device)
    if device.type == "cpu":
        queries = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, query, bool)() for query in queries)
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type in ("mps", "xpu")


def check_sizes(owner: str, config: Mapping[str, Any], *names: str, least: int = 1) -> None:
    """Values of a config that count or measure something, alone or in lists, are not too small where they are given."""
    for name in names:
        value = config.get(name)
        for size in value if isinstance(value, (list, tuple)) else (value,):
            for one in size if isinstance(size, (list, tuple)) else (size,):
                if one is not None and one < least:
                    raise ConfigError(f"{owner}: config value {name!r} has to be at least {least}, got {value!r}.")


def check_depth(owner: type[ConfigMixin], config: Mapping[str, Any], tensors: int) -> None:
    """No more layers than the file has tensors: building a billion of them would exhaust the memory first."""
    for name in config_defaults(owner):
        if name.endswith(("layers", "blocks", "layers_per_block")):
            counts = [config.get(name)]
            while counts:
                count = counts.pop()
                if isinstance(count, (list, tuple)):
                    counts += count
                elif isinstance(count, int) and count > tensors:
                    raise ConfigError(
                        f"{owner.__name__}: config value {name!r} is {config[name]!r}, but the weights have only "
                        f"{tensors} tensors. Is the config the one that belongs to the weights?"
                    )


def check_divisible(owner: str, what: str, value: int, by: str, divisor: int) -> None:
    """A config in which one number has to be a multiple of another."""
    if divisor <= 0 or value % divisor:
        raise ConfigError(f"{owner}: {what} has to be a multiple of {by}, got {value} and {divisor}.")
