"""`dispatch_attention_fn`: every backend beside the definition, what each refuses, and who chooses it."""

import importlib
import threading

import pytest
import torch

from helpers import assert_close, slow
from lockstep.attention import (
    AttentionBackend,
    attention_backend,
    attention_replaced_by,
    available_backends,
    backend_names,
    dispatch_attention_fn,
    get_backend,
    kernels,
    register_backend,
)
from lockstep.errors import BackendError, InputError, UnknownNameError

HERE = ["native", "native_math", "native_flash", "chunked", "lockstep"]
BATCH, QUERIES, KEYS, HEADS, WIDTH = 2, 10, 7, 4, 8


def tensors(queries=QUERIES, keys=KEYS, key_heads=HEADS, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(BATCH, queries, HEADS, WIDTH, generator=generator).to(dtype),
        torch.randn(BATCH, keys, key_heads, WIDTH, generator=generator).to(dtype),
        torch.randn(BATCH, keys, key_heads, WIDTH, generator=generator).to(dtype),
    )


def definition(query, key, value, mask=None, is_causal=False, scale=None):
    """Scores, softmax, mean, in float64."""
    query, key, value = (tensor.double().transpose(1, 2) for tensor in (query, key, value))
    repeats = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(repeats, dim=1) for tensor in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return (scores.softmax(-1) @ value).transpose(1, 2)


def masks():
    generator = torch.Generator().manual_seed(1)
    keep = torch.rand(BATCH, 1, 1, KEYS, generator=generator) > 0.4
    keep[..., 0] = True
    return {
        "none": None,
        "bool over keys": keep,
        "bool over queries and keys": torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(),
        "bias of all axes": torch.randn(BATCH, HEADS, QUERIES, KEYS, generator=generator),
        "bias of one head axis": torch.randn(HEADS, 1, KEYS, generator=generator),
        "bias over keys": torch.randn(KEYS, generator=generator),
    }


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of three query rows, so that the tiny tensors are cut."""
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 3 * BATCH * HEADS * KEYS * 4)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("mask", masks())
def test_equals_the_definition(backend, mask):
    query, key, value = tensors()
    got = dispatch_attention_fn(query, key, value, attn_mask=masks()[mask], backend=backend)
    assert_close(got, definition(query, key, value, masks()[mask]), 1e-6)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_causal_and_scale(backend, scale):
    query, key, value = tensors(keys=QUERIES)
    got = dispatch_attention_fn(query, key, value, is_causal=True, scale=scale, backend=backend)
    assert_close(got, definition(query, key, value, is_causal=True, scale=scale), 1e-6)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("backend", ["native", "native_math", "chunked"])
def test_causal_rectangle_counts_from_the_first_key(backend):
    query, key, value = tensors()
    got = dispatch_attention_fn(query, key, value, is_causal=True, backend=backend)
    assert_close(got, definition(query, key, value, is_causal=True), 1e-6)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("backend", ["native", "native_math", "chunked"])
def test_fewer_key_heads(backend):
    query, key, value = tensors(key_heads=2)
    got = dispatch_attention_fn(query, key, value, enable_gqa=True, backend=backend)
    assert_close(got, definition(query, key, value), 1e-6)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("backend", HERE)
def test_a_row_that_may_see_nothing_gives_zeros(backend):
    query, key, value = tensors()
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    mask[4] = False
    got = dispatch_attention_fn(query, key, value, attn_mask=mask, backend=backend)
    assert got[:, 4].count_nonzero() == 0
    rest = [row for row in range(QUERIES) if row != 4]
    assert_close(got[:, rest], definition(query[:, rest], key, value), 1e-6)


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_is_never_hidden(backend, dtype):
    """Wherever it is: torch's kernel for the processor gives zeros for a query of NaN that has fewer than 16 keys."""
    for keys in (1, 2, KEYS, 15, 16, 40, 513):
        for place in range(3):
            planted = tensors(keys=keys, dtype=dtype)
            planted[place][0, -1] = torch.nan
            got = dispatch_attention_fn(*planted, backend=backend)
            wrong = got[0, -1] if place == 0 else got[0]
            assert wrong.isnan().all(), (keys, ("query", "key", "value")[place])
            assert got[1].isfinite().all()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("backend", HERE)
def test_gradients_equal_the_definition(backend):
    mask = masks()["bool over keys"]
    ours = [tensor.requires_grad_() for tensor in tensors()]
    theirs = [tensor.double().requires_grad_() for tensor in tensors()]
    weights = torch.linspace(-1, 1, QUERIES)[:, None, None]
    (dispatch_attention_fn(*ours, attn_mask=mask, backend=backend) * weights).sum().backward()
    (definition(*theirs, mask) * weights).sum().backward()
    for got, wanted, name in zip(ours, theirs, ("query", "key", "value"), strict=True):
        assert_close(got.grad, wanted.grad, 1e-6, f"gradient of {name}")


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("backend", ["native", "native_math", "chunked"])
def test_gradient_of_a_bias_alone(backend):
    ours = masks()["bias of all axes"].requires_grad_()
    theirs = masks()["bias of all axes"].double().requires_grad_()
    weights = torch.linspace(-1, 1, QUERIES)[:, None, None]
    (dispatch_attention_fn(*tensors(), attn_mask=ours, backend=backend) * weights).sum().backward()
    (definition(*tensors(), theirs) * weights).sum().backward()
    assert_close(ours.grad, theirs.grad, 1e-6)


@pytest.mark.usefixtures("small_chunks")
def test_chunked_scores_are_fp32_under_autocast():
    query, key, value = tensors(dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        got = dispatch_attention_fn(query, key, value, backend="chunked")
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, dispatch_attention_fn(query, key, value, backend="chunked"))


@pytest.mark.parametrize("backend", HERE)
def test_bias_in_half_precision_is_cast(backend):
    query, key, value = tensors(dtype=torch.bfloat16)
    bias = masks()["bias of all axes"]
    got = dispatch_attention_fn(query, key, value, attn_mask=bias, backend=backend)
    assert got.dtype == torch.bfloat16
    assert_close(got, definition(query, key, value, bias.bfloat16().double()), 1e-2)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own, at the import of inductor
@slow
@pytest.mark.parametrize("mask", ["bool over keys", "none", "bias of all axes", "causal"])
def test_flex_equals_the_definition(mask):
    torch.compiler.reset()
    query, key, value = tensors(keys=QUERIES if mask == "causal" else KEYS)
    kwargs = {"is_causal": True} if mask == "causal" else {"attn_mask": masks()[mask]}
    got = dispatch_attention_fn(query, key, value, **kwargs, backend="flex")
    assert_close(got, definition(query, key, value, kwargs.get("attn_mask"), mask == "causal"), 1e-6)


def test_chunked_holds_a_bounded_score_matrix(monkeypatch):
    """The largest tensor that is made on the way, forwards and backwards, does not grow with the number of queries."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(tensor, torch.Tensor):
                    Largest.elements = max(Largest.elements, tensor.numel())
            return out

    monkeypatch.setattr(kernels, "CHUNK_BYTES", 64 * 256 * HEADS * BATCH * 4)
    ours = [tensor.requires_grad_() for tensor in tensors(queries=1024, keys=256)]
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with Largest(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = dispatch_attention_fn(*ours, backend="chunked")
        during_forward, kept_for_backward = Largest.elements, max(kept, default=0)
        output.sum().backward()
    allowed = 64 * 256 * HEADS * BATCH
    assert during_forward <= allowed < 1024 * 256 * HEADS * BATCH
    assert Largest.elements <= allowed
    assert kept_for_backward <= 1024 * HEADS * BATCH * WIDTH, "scores are kept for the backward pass"


def test_dropout_acts_where_it_is_taken_and_is_refused_elsewhere():
    query, key, value = tensors()
    wanted = definition(query, key, value)
    for backend in ("native", "native_math", "chunked"):
        got = dispatch_attention_fn(query, key, value, dropout_p=0.5, backend=backend)
        assert not torch.allclose(got.double(), wanted, atol=1e-3)
    for backend in ("native_flash", "flex"):
        with pytest.raises(BackendError, match="dropout"):
            dispatch_attention_fn(query, key, value, dropout_p=0.5, backend=backend)


def test_what_backends_refuse_is_said():
    query, key, value = tensors()
    with pytest.raises(BackendError, match="share key heads"):
        dispatch_attention_fn(*tensors(key_heads=2), enable_gqa=True, backend="native_flash")
    with pytest.raises(BackendError, match="gradient"):
        dispatch_attention_fn(query.clone().requires_grad_(), key, value, backend="flex")
    bias = torch.zeros(QUERIES, KEYS, requires_grad=True)
    with pytest.raises(BackendError, match="gradient for the mask"):
        dispatch_attention_fn(query, key, value, attn_mask=bias, backend="native_flash")
    with pytest.raises(BackendError, match="parallel_config"):
        dispatch_attention_fn(query, key, value, parallel_config=object())


def call_of(**changes):
    query, key, value = tensors(dtype=changes.pop("dtype", torch.float16))
    if "width" in changes:
        query = key = value = torch.zeros(1, 2, 1, changes.pop("width"), dtype=query.dtype)
    return kernels.AttentionCall(query, key, value, **changes)


@pytest.mark.parametrize(
    ("limits", "changes", "words"),
    [
        ({"takes_mask": False}, {"attn_mask": torch.ones(KEYS, dtype=torch.bool)}, "cannot apply a mask"),
        ({"takes_dropout": False}, {"dropout_p": 0.1}, "dropout_p=0.1"),
        ({"dtypes": frozenset({torch.bfloat16})}, {}, "computes in bfloat16, the tensors are float16"),
        ({"device_types": frozenset({"cuda"})}, {}, "runs on cuda, the tensors are on cpu"),
        ({"max_head_dim": 128}, {"width": 160}, "at most 128 wide, these are 160"),
        ({"takes_causal_rectangle": False}, {"is_causal": True}, "as many keys as queries, got 7 and 10"),
        ({"takes_gqa": False}, {"enable_gqa": True}, "share key heads"),
    ],
)
def test_limits_of_a_backend_are_checked(limits, changes, words):
    backend = AttentionBackend("limited", kernels.run_native, "for this test", **limits)
    assert words in backend.unsuited(call_of(**changes))
    assert AttentionBackend("free", kernels.run_native, "for this test").unsuited(call_of(**changes)) is None


@pytest.mark.parametrize("name", ["flash", "sage", "xformers"])
def test_a_backend_that_is_not_installed_says_what_is(name):
    if name in available_backends():
        pytest.skip(f"{name} can run here")
    with pytest.raises(BackendError, match=rf"{name}.*(not installed|no.* CUDA|has none).*native"):
        dispatch_attention_fn(*tensors(), backend=name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
@pytest.mark.parametrize("name", ["native_cudnn", "native_efficient"])
def test_cuda_kernels_need_cuda(name):
    with pytest.raises(BackendError, match="CUDA"):
        get_backend(name)


def test_names_and_aliases():
    assert {*HERE, "flex", "flash", "sage", "xformers", "native_cudnn", "native_efficient"} <= set(backend_names())
    assert get_backend("_native_math") is get_backend("native_math")
    with pytest.raises(UnknownNameError, match="did you mean 'chunked'"):
        dispatch_attention_fn(*tensors(), backend="chunkd")
    with pytest.raises(BackendError, match="registered already"):
        register_backend(AttentionBackend("native", kernels.run_native, "twice"))


def test_tensors_that_do_not_fit_are_refused():
    query, key, value = tensors()
    for bad, words in [
        ((query[0], key, value), "batch, tokens, heads"),
        ((query[:1], key, value), "one batch size"),
        ((query, key[:, :3], value), "as many values as keys"),
        ((query, key[:, :, :2], value[:, :, :2]), "4 query heads and 2 key heads"),
        ((query, key.double(), value.double()), "one dtype"),
        ((query, key.to("meta"), value), "one device, got cpu, meta and cpu"),
        ((query.long(), key.long(), value.long()), "floating-point tensors, got torch.int64"),
        ((query.numpy(), key, value), "floating-point tensors, got ndarray"),
    ]:
        with pytest.raises(InputError, match=words):
            dispatch_attention_fn(*bad, attn_mask=torch.ones(KEYS, dtype=torch.bool))
    for mask, words in [
        (torch.ones(KEYS + 1, dtype=torch.bool), r"broadcasts to \(2, 4, 10, 7\)"),
        (torch.ones(1, 1, 1, 1, KEYS, dtype=torch.bool), "broadcasts"),
        (torch.ones(KEYS, dtype=torch.long), "mask.bool"),
        (torch.ones(KEYS, dtype=torch.bool, device="meta"), "a tensor on cpu, got one on meta"),
        ([True] * KEYS, "a tensor on cpu, got list"),
    ]:
        with pytest.raises(InputError, match=words):
            dispatch_attention_fn(query, key, value, attn_mask=mask)
    with pytest.raises(InputError, match="dropout_p from 0 up to but not 1, got 1.5"):
        dispatch_attention_fn(query, key, value, dropout_p=1.5)
    with pytest.raises(InputError, match="0 key heads"):
        dispatch_attention_fn(query, key[:, :, :0], value[:, :, :0], enable_gqa=True)
    with pytest.raises(UnknownNameError, match="attention backend"):
        get_backend(["native"])
    with pytest.raises(InputError, match="not both"):
        dispatch_attention_fn(query, key, value, attn_mask=torch.ones(KEYS, dtype=torch.bool), is_causal=True)


@pytest.fixture
def counting(monkeypatch):
    """A backend that writes down in which thread it was called."""
    from lockstep.attention import backends

    calls = []

    def run(call):
        calls.append(threading.get_ident())
        return kernels.run_native(call)

    monkeypatch.setitem(backends._REGISTRY, "counting", AttentionBackend("counting", run, "for this test"))
    yield calls
    backends._USABLE.discard("counting")


def test_the_context_manager_holds_in_its_block_and_thread_only(counting):
    inside, outside = threading.Event(), threading.Event()

    def elsewhere():
        inside.wait(10)
        dispatch_attention_fn(*tensors())
        outside.set()

    other = threading.Thread(target=elsewhere)
    other.start()
    with attention_backend("counting"):
        inside.set()
        assert outside.wait(10)
        assert counting == []
        dispatch_attention_fn(*tensors())
        with attention_backend("native"):
            dispatch_attention_fn(*tensors())
        dispatch_attention_fn(*tensors(), backend="native_math")
    other.join()
    assert counting == [threading.get_ident()]
    dispatch_attention_fn(*tensors())
    assert len(counting) == 1
    with pytest.raises(UnknownNameError), attention_backend("cuonting"):
        pass
    with pytest.raises(ZeroDivisionError), attention_backend("counting"):
        raise ZeroDivisionError
    dispatch_attention_fn(*tensors())
    assert len(counting) == 1


def test_replacement_stands_in_where_it_gives_a_tensor():
    query, key, value = tensors(keys=QUERIES)
    wanted = dispatch_attention_fn(query, key, value)
    with attention_replaced_by(lambda call: call.value):
        assert torch.equal(dispatch_attention_fn(query, key, value), value)
    with attention_replaced_by(lambda call: None):
        assert torch.equal(dispatch_attention_fn(query, key, value), wanted)
    assert torch.equal(dispatch_attention_fn(query, key, value), wanted)


def test_a_compiled_function_follows_the_context_manager():
    torch.compiler.reset()
    compiled = torch.compile(dispatch_attention_fn, fullgraph=True, backend="eager")
    query, key, value = tensors(keys=QUERIES)
    wanted = definition(query, key, value)
    for backend in ("native", "chunked", "native_math", "native_flash"):
        with attention_backend(backend):
            assert_close(compiled(query, key, value), wanted, 1e-6)
    with attention_replaced_by(lambda call: call.value):
        assert torch.equal(compiled(query, key, value), value)
    assert_close(compiled(query, key, value), wanted, 1e-6)


def test_without_kernels_our_own_backends_are_not_offered(monkeypatch):
    from lockstep.attention import backends

    library = importlib.import_module("lockstep.kernels.library")
    monkeypatch.setattr(library, "_found", (None, "LOCKSTEP_KERNELS is off"))
    monkeypatch.setattr(backends, "_USABLE", set())
    assert not {"lockstep", "lockstep_bf16"} & set(available_backends())
    with pytest.raises(BackendError, match="there are no kernels of our own here: LOCKSTEP_KERNELS is off"):
        get_backend("lockstep")
