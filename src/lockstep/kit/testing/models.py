"""Test mixins that every model's test composes.

    class TestMyModel(MyConfig, ModelTesterMixin, MemoryTesterMixin, AttentionTesterMixin, ...): ...

where `MyConfig(BaseModelTesterConfig)` says how to build a tiny model, its inputs and its reference.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ...errors import (
    BackendError,
    ConfigError,
    FileFormatError,
    InputError,
    NotFoundError,
    UnknownNameError,
    WeightsError,
)
from ...files import read_safetensors_header
from ...models.modeling import ModelMixin
from .closeness import TOLERANCE, assert_close, randomized

ROUNDING = 1e-5  # of the largest gradient of a model, in fp32


class BaseModelTesterConfig:
    """What the mixins need to know of a model."""

    model_class: ClassVar[type[ModelMixin]]

    def init_dict(self) -> dict[str, Any]:
        """Config values of a tiny model."""
        raise NotImplementedError

    def inputs(self) -> dict[str, Any]:
        """Keyword arguments of `forward`, the same at each call."""
        raise NotImplementedError

    def reference(self, folder: Path, model: ModelMixin) -> Any:
        """The reference's model with the same weights; `folder` is free for files between the two."""
        raise NotImplementedError

    def to_ours(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of the reference (weights, gradients) by the names and in the layout of the model."""
        return {self.model_class.renamed(name): tensor for name, tensor in tensors.items()}

    def output(self, model: Callable[..., Any], **inputs: Any) -> Tensor:
        """The main output of a forward."""
        found: Tensor = model(**inputs)[0]
        return found

    def model(self, seed: int = 0) -> ModelMixin:
        """A tiny model whose every tensor is random (also those that start as zeros or ones)."""
        torch.manual_seed(seed)
        return randomized(self.model_class(**self.init_dict()))

    def gradient_is_zero(self, name: str) -> bool:
        """Parameters whose gradient is nothing but rounding, such as a bias that shifts all keys of a softmax alike."""
        return False


class ModelTesterMixin(BaseModelTesterConfig):
    """Forward, gradients, saving, loading and errors."""

    def test_against_reference(self, tmp_path: Path) -> None:
        model = self.model()
        reference = self.reference(tmp_path, model)
        with torch.no_grad():
            assert_close(self.output(model, **self.inputs()), self.output(reference, **self.inputs()), TOLERANCE)

    def test_gradients_against_reference(self, tmp_path: Path) -> None:
        model = self.model()
        reference = self.reference(tmp_path, model)
        for side in (model, reference):
            output = self.output(side, **self.inputs())
            weights = torch.linspace(-1, 1, output.numel()).view_as(output)
            (output * weights).sum().backward()
        theirs = self.to_ours({name: p.grad for name, p in reference.named_parameters() if p.grad is not None})
        # a bias that moves all keys of a softmax alike changes nothing: what is left of its gradient is rounding
        rounding = ROUNDING * max(float(gradient.norm()) for gradient in theirs.values())
        compared = 0
        for name, parameter in model.named_parameters():
            if parameter.grad is None:
                continue
            if self.gradient_is_zero(name):
                assert float(parameter.grad.abs().max()) < 1e-4, f"gradient of {name}"
            elif any(float(gradient.norm()) > rounding for gradient in (parameter.grad, theirs[name])):
                assert_close(parameter.grad, theirs[name], 1e-4, f"gradient of {name}")
                compared += 1
        assert compared > 0

    def test_same_output_twice(self) -> None:
        model = self.model()
        with torch.no_grad():
            assert torch.equal(self.output(model, **self.inputs()), self.output(model, **self.inputs()))

    def test_return_dict_and_tuple_agree(self) -> None:
        model = self.model()
        with torch.no_grad():
            given = self.inputs()
            assert torch.equal(self.output(model, **given), self.output(model, **given, return_dict=False))

    @pytest.mark.parametrize(
        "options", [{}, {"variant": "fp16"}, {"max_shard_size": "100KB"}], ids=["plain", "variant", "shards"]
    )
    def test_save_and_load_bit_for_bit(self, tmp_path: Path, options: dict[str, Any]) -> None:
        model = self.model()
        model.save_pretrained(tmp_path, **options)
        assert not [p for p in tmp_path.iterdir() if p.name.endswith(".part")]
        loaded = self.model_class.from_pretrained(tmp_path, variant=options.get("variant"))
        assert_same_weights(model, loaded)
        assert dict(loaded.config) == json.loads(json.dumps(dict(model.config))) or dict(loaded.config) == dict(
            model.config
        )
        with torch.no_grad():
            assert torch.equal(self.output(model, **self.inputs()), self.output(loaded, **self.inputs()))

    def test_half_precision_load_is_a_cast(self, tmp_path: Path) -> None:
        model = self.model()
        model.save_pretrained(tmp_path)
        loaded = self.model_class.from_pretrained(tmp_path, torch_dtype=torch.bfloat16)
        for name, tensor in model.state_dict().items():
            got = loaded.state_dict()[name]
            assert torch.equal(got, tensor.to(got.dtype)), name
        assert loaded.dtype == torch.bfloat16

    def test_missing_and_extra_and_misshapen_tensors_are_named(self, tmp_path: Path) -> None:
        model = self.model()
        model.save_pretrained(tmp_path)
        state = dict(model.state_dict())
        first = next(name for name, tensor in state.items() if tensor.ndim > 1)
        for change, word in (("missing", first), ("extra", "surplus.weight"), ("shape", first)):
            changed = dict(state)
            if change == "missing":
                del changed[first]
            elif change == "extra":
                changed["surplus.weight"] = torch.zeros(2)
            else:
                changed[first] = torch.zeros(3, 5)
            _write(tmp_path / self.model_class.weights_name, changed)
            with pytest.raises(WeightsError, match=word):
                self.model_class.from_pretrained(tmp_path)

    def test_truncated_file_and_pickle_are_refused(self, tmp_path: Path) -> None:
        self.model().save_pretrained(tmp_path)
        path = tmp_path / self.model_class.weights_name
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(FileFormatError, match="cut off"):
            self.model_class.from_pretrained(tmp_path)
        torch.save({"a": torch.zeros(1)}, path)
        with pytest.raises(FileFormatError, match="pickle"):
            self.model_class.from_pretrained(tmp_path)
        path.unlink()
        with pytest.raises(NotFoundError):
            self.model_class.from_pretrained(tmp_path)

    def test_config_of_wrong_type_and_unknown_argument(self, tmp_path: Path) -> None:
        self.model().save_pretrained(tmp_path)
        path = tmp_path / self.model_class.config_name
        config = json.loads(path.read_text())
        key = next(k for k, v in config.items() if type(v) is int)
        path.write_text(json.dumps({**config, key: "many"}))
        with pytest.raises(ConfigError, match=key):
            self.model_class.from_pretrained(tmp_path)
        with pytest.raises(UnknownNameError):
            self.model_class.from_pretrained(tmp_path, surely_not_an_argument=1)

    def test_unknown_config_keys_survive(self, tmp_path: Path) -> None:
        self.model().save_pretrained(tmp_path)
        path = tmp_path / self.model_class.config_name
        path.write_text(json.dumps({**json.loads(path.read_text()), "a_key_of_the_future": [1, 2]}))
        loaded = self.model_class.from_pretrained(tmp_path)
        assert "a_key_of_the_future" in loaded.unknown_config_keys
        loaded.save_pretrained(tmp_path / "again")
        assert json.loads((tmp_path / "again" / path.name).read_text())["a_key_of_the_future"] == [1, 2]


class MemoryTesterMixin(BaseModelTesterConfig):
    """Memory-mapped loading and activation checkpointing."""

    def test_loaded_tensors_are_views_of_the_file(self, tmp_path: Path) -> None:
        self.model().save_pretrained(tmp_path)
        loaded = self.model_class.from_pretrained(tmp_path)
        header, _ = read_safetensors_header(tmp_path / self.model_class.weights_name)
        tensors = loaded.state_dict()
        assert len({tensor.data_ptr() - header[name].start for name, tensor in tensors.items()}) == 1  # as in the file
        assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in tensors.values())

    def test_a_pickle_of_a_loaded_model_has_each_weight_once(self, tmp_path: Path) -> None:
        self.model().save_pretrained(tmp_path)
        loaded = self.model_class.from_pretrained(tmp_path)
        size = len(pickle.dumps(dict(loaded.named_parameters())))
        assert size < sum(one.nbytes for one in loaded.parameters()) + 2000 * len(loaded.state_dict())

    def test_changing_a_loaded_model_leaves_the_file_alone(self, tmp_path: Path) -> None:
        model = self.model()
        model.save_pretrained(tmp_path)
        before = (tmp_path / self.model_class.weights_name).read_bytes()
        loaded = self.model_class.from_pretrained(tmp_path)
        with torch.no_grad():
            for parameter in loaded.parameters():
                parameter.add_(1)
        assert (tmp_path / self.model_class.weights_name).read_bytes() == before

    def test_gradient_checkpointing_saves_memory_and_changes_nothing(self) -> None:
        model = self.model().train()
        kept_plain, plain = _bytes_kept_for_backward(self, model)
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        model.enable_gradient_checkpointing()
        assert model.is_gradient_checkpointing
        kept, output = _bytes_kept_for_backward(self, model)
        assert kept < kept_plain
        assert_close(output, plain, 1e-6)
        for got, wanted in zip((p.grad for p in model.parameters() if p.grad is not None), gradients, strict=True):
            assert torch.allclose(got, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()) + 1e-12)
        model.disable_gradient_checkpointing()
        assert not model.is_gradient_checkpointing


class AttentionTesterMixin(BaseModelTesterConfig):
    """Backends, processors and fused projections."""

    @pytest.mark.parametrize("backend", ["native_math", "chunked"])
    def test_backends_agree(self, backend: str) -> None:
        model = self.model()
        with torch.no_grad():
            wanted = self.output(model, **self.inputs())
            model.set_attention_backend(backend)
            assert_close(self.output(model, **self.inputs()), wanted, TOLERANCE)
            model.reset_attention_backend()
            assert torch.equal(self.output(model, **self.inputs()), wanted)

    def test_unknown_and_uninstalled_backends_raise_before_compute(self) -> None:
        model = self.model()
        with pytest.raises(UnknownNameError, match="native"):
            model.set_attention_backend("nativ")
        with pytest.raises(BackendError):
            model.enable_xformers_memory_efficient_attention()

    def test_fused_projections_change_nothing(self) -> None:
        model = self.model()
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with torch.no_grad():
            wanted = self.output(model, **self.inputs())
            model.fuse_qkv_projections()
            assert_close(self.output(model, **self.inputs()), wanted, TOLERANCE)
            model.unfuse_qkv_projections()
            assert torch.equal(self.output(model, **self.inputs()), wanted)
        assert set(model.state_dict()) == set(before)

    def test_processors_can_be_replaced(self) -> None:
        model = self.model()
        processors = model.attn_processors
        assert processors
        seen: list[int] = []

        def watching(kind: Any) -> Any:
            class Watching(kind):
                def __call__(self, *args: Any, **kwargs: Any) -> Any:
                    seen.append(1)
                    return super().__call__(*args, **kwargs)

            return Watching()

        with torch.no_grad():
            wanted = self.output(model, **self.inputs())
            model.set_attn_processor({name: watching(type(processor)) for name, processor in processors.items()})
            assert torch.equal(self.output(model, **self.inputs()), wanted)
        assert seen
        with pytest.raises(InputError):
            model.set_attn_processor({"nowhere.processor": next(iter(processors.values()))})


class LoraTesterMixin(BaseModelTesterConfig):
    """Low-rank adapters by peft."""

    lora_targets: ClassVar[tuple[str, ...]] = ("to_q", "to_v")

    def test_lora_starts_at_zero_and_then_acts(self) -> None:
        import peft

        model = self.model()
        with torch.no_grad():
            wanted = self.output(model, **self.inputs())
            peft.inject_adapter_in_model(peft.LoraConfig(r=2, target_modules=list(self.lora_targets)), model)
            assert torch.equal(self.output(model, **self.inputs()), wanted)
            lora = [p for name, p in model.named_parameters() if "lora_B" in name]
            assert lora
            for parameter in lora:
                parameter.normal_()
            assert not torch.allclose(self.output(model, **self.inputs()), wanted)


class TrainingTesterMixin(BaseModelTesterConfig):
    """A few steps of training."""

    def test_training_lowers_the_loss_and_reaches_every_parameter(self) -> None:
        model = self.model().train()
        target = torch.randn_like(self.output(model, **self.inputs()))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        losses: list[float] = []
        for _ in range(6):
            loss = torch.nn.functional.mse_loss(self.output(model, **self.inputs()), target)
            optimizer.zero_grad()
            loss.backward()
            losses.append(float(loss.detach()))
            untouched = [n for n, p in model.named_parameters() if p.grad is None and not self.may_lack_gradient(n)]
            assert not untouched, f"no gradient reaches {untouched[:3]}"
            optimizer.step()
        assert losses[-1] < losses[0]

    def may_lack_gradient(self, name: str) -> bool:
        """Parameters that the tested forward does not use."""
        return False


class TorchCompileTesterMixin(BaseModelTesterConfig):
    """No graph break, and the same numbers."""

    compile_tolerance: ClassVar[float] = 1e-5

    def test_compiles_without_a_graph_break(self) -> None:
        self._compare_compiled("aot_eager")

    @pytest.mark.slow
    @pytest.mark.filterwarnings(
        "ignore:.*torch.jit.*:DeprecationWarning"
    )  # inductor imports what torch itself deprecates
    def test_compiled_by_inductor_equals_eager(self) -> None:
        self._compare_compiled("inductor")

    def _compare_compiled(self, backend: str) -> None:
        torch.compiler.reset()
        model = self.model()
        with torch.no_grad():
            wanted = self.output(model, **self.inputs())
            compiled = torch.compile(model, fullgraph=True, backend=backend)
            assert_close(self.output(compiled, **self.inputs()), wanted, self.compile_tolerance)


def assert_same_weights(one: ModelMixin, other: ModelMixin) -> None:
    """Both have the same tensors under the same names."""
    ours, theirs = one.state_dict(), other.state_dict()
    assert set(ours) == set(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def _bytes_kept_for_backward(config: BaseModelTesterConfig, model: ModelMixin) -> tuple[int, Tensor]:
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = config.output(model, **config.inputs())
    size = sum(kept)
    output.square().mean().backward()
    return size, output.detach()
