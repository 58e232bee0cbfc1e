"""Every kernel against fp64: sizes that do not fit its blocks, biases, residuals, views, several threads at once."""

import threading

import pytest
import torch
from torch.nn import functional as F

from lockstep import LTXVideoTransformer3DModel, kernels
from lockstep.kernels import calls, operators

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
        yield


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def assert_close(result, exact, bound=2e-6):
    assert (result.double() - exact).norm() <= bound * exact.norm()


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(1, 1, 1), (13, 33, 31), (400, 700, 64), (7, 1300, 100), (193, 64, 33)]
)
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear(rows, depth, columns, with_bias):
    x, weight, residual = torch.randn(rows, depth), torch.randn(columns, depth), torch.randn(rows, columns)
    bias = torch.randn(columns) if with_bias else None
    packed = calls.pack_linear(kernels.library(), weight)
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert_close(operators.linear(x, packed, bias, None, columns), exact)
    assert_close(operators.linear(x, packed, bias, residual, columns), exact + residual)


def test_linear_of_a_view_and_of_several_axes():
    x, weight = torch.randn(3, 40, 5).transpose(1, 2), torch.randn(17, 40)
    result = operators.linear(x, calls.pack_linear(kernels.library(), weight), None, None, 17)
    assert result.shape == (3, 5, 17)
    assert_close(result, x.double() @ weight.double().T)


def test_geglu_with_large_gates():
    x, weight, bias = torch.randn(50, 64), torch.randn(128, 64), 3 * torch.randn(128)
    library = kernels.library()
    packed = calls.pack_linear(library, calls.interleaved(library, weight))
    values, gates = F.linear(x.double(), weight.double(), bias.double()).chunk(2, -1)
    assert_close(operators.geglu(x, packed, calls.interleaved(library, bias), 64), values * F.gelu(gates))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (4, 4), (17, 6), (40, 40)])
@pytest.mark.parametrize(("into", "out"), [(16, 16), (48, 80), (320, 32)])
def test_convolution(stored, size, into, out):
    x, weight = torch.randn(2, into, *size), torch.randn(out, into, 3, 3)
    bias, residual = torch.randn(2, out), torch.randn(2, out, *size)
    packed = calls.pack_convolution(kernels.library(), weight, stored)
    exact = F.conv2d(x.double(), weight.double(), padding=1)
    result = operators.convolution(x, packed, None, None, out, stored)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert_close(result, exact, 4e-6)
    assert_close(operators.convolution(x, packed, bias[0], None, out, stored), exact + bias[0][:, None, None], 4e-6)
    whole = exact + bias[:, :, None, None] + residual
    assert_close(operators.convolution(x, packed, bias, residual, out, stored), whole, 4e-6)


@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_group_norm_also_far_from_zero(silu, mean):
    x, weight, bias = torch.randn(2, 64, 13, 11) + mean, torch.randn(64), torch.randn(64)
    exact = F.group_norm(x.double(), 8, weight.double(), bias.double(), 1e-6)
    bound = 2e-6 if mean == 0 else 1e-4  # fp32 itself holds 1000 ± 1 to 6e-5 only
    assert_close(operators.group_norm(x, 8, weight, bias, 1e-6, silu), F.silu(exact) if silu else exact, bound)


@pytest.mark.parametrize("width", [8, 40, 64, 80, 128, 160])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 77), (100, 300), (49, 128)])
def test_attention(width, queries, keys):
    query, key, value = (
        torch.randn(2, queries, 3, width),
        torch.randn(2, keys, 3, width),
        torch.randn(2, keys, 3, width),
    )
    heads = [tensor.double().transpose(1, 2) for tensor in (query, key, value)]
    exact = F.scaled_dot_product_attention(*heads).transpose(1, 2)
    assert_close(operators.attention(query, key, value, None, width**-0.5), exact)


def test_attention_of_projections_that_lie_side_by_side_and_with_large_scores():
    joined = torch.randn(2, 60, 3 * 96)
    query, key, value = (part.unflatten(-1, (4, 24)) for part in joined.split(96, dim=-1))
    heads = [tensor.double().transpose(1, 2) for tensor in (query, key, value)]
    exact = F.scaled_dot_product_attention(*heads, scale=20.0).transpose(1, 2)
    assert_close(
        operators.attention(query, key, value, None, 20.0), exact, 2e-5
    )  # fp32's own error of scores near 1000


def test_attention_leaves_out_keys_that_a_bias_takes_away():
    query, key, value = (torch.randn(2, 30, 2, 16) for _ in range(3))
    bias = torch.zeros(2, 30)
    bias[1, 20:] = -torch.inf
    result = operators.attention(query, key, value, bias, 0.25)
    alone = operators.attention(query[1:], key[1:, :20], value[1:, :20], None, 0.25)
    assert_close(result[1:], alone.double(), 1e-6)


def test_nan_in_what_a_kernel_reads_is_in_what_it_writes():
    library = kernels.library()
    x, weight, bias = torch.randn(50, 64), torch.randn(128, 64), torch.randn(128)
    for place in range(3):
        x_, weight_, bias_ = planted = x.clone(), weight.clone(), bias.clone()
        planted[place].view(-1)[1] = torch.nan
        wanted = F.linear(x_, weight_, bias_)
        got = operators.linear(x_, calls.pack_linear(library, weight_), bias_, None, 128)
        assert torch.equal(got.isnan(), wanted.isnan())
        for turned in (0, 64):  # the value, then the gate
            rows = (weight_.roll(turned, 0), bias_.roll(turned, 0))
            packed, added = (calls.interleaved(library, one) for one in rows)
            values, gates = F.linear(x_, *rows).chunk(2, -1)
            got = operators.geglu(x_, calls.pack_linear(library, packed), added, 64)
            assert torch.equal(got.isnan(), (values * F.gelu(gates)).isnan())
    picture, filters = torch.randn(1, 16, 9, 9), torch.randn(16, 16, 3, 3)
    for place in range(2):
        for stored in (False, True):
            planted = picture.clone(), filters.clone()
            planted[place][0, 3, 1, 1] = torch.nan
            packed = calls.pack_convolution(library, planted[1], stored)
            got = operators.convolution(planted[0], packed, None, None, 16, stored)
            assert got[F.conv2d(*planted, padding=1).isnan()].isnan().all()
    picture[0, 3, 1, 1] = torch.nan
    for silu in (False, True):
        assert operators.group_norm(picture, 4, torch.ones(16), torch.zeros(16), 1e-6, silu)[0, :4].isnan().all()


def test_many_threads_at_once_get_their_own_results():
    weight = torch.randn(64, 64, 3, 3)
    packed = [calls.pack_convolution(kernels.library(), weight, stored) for stored in (False, True)]
    pictures = [torch.randn(1, 64, 24, 24) for _ in range(6)]
    expected = [F.conv2d(x, weight, padding=1) for x in pictures]
    wrong = []

    def work(number):
        for turn in range(10):
            result = operators.convolution(pictures[number], packed[turn % 2], None, None, 64, bool(turn % 2))
            if not torch.allclose(result, expected[number], atol=1e-3):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_the_result_does_not_depend_on_the_number_of_threads():
    x, weight = torch.randn(500, 300), torch.randn(200, 300)
    packed, before = calls.pack_linear(kernels.library(), weight), torch.get_num_threads()
    results = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        results.append(operators.linear(x, packed, None, None, 200))
    torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_shapes_pass_through_meta_tensors():
    x, packed = torch.empty(2, 16, 8, 8, device="meta"), torch.empty(1, device="meta")
    assert operators.convolution(x, packed, None, None, 32, True).shape == (2, 32, 8, 8)
    assert operators.linear(torch.empty(3, 5, device="meta"), packed, None, None, 7).shape == (3, 7)


def test_gradients_and_other_dtypes_are_not_taken():
    assert operators.takes(torch.zeros(1))
    assert not operators.takes(torch.zeros(1, dtype=torch.bfloat16))
    assert not operators.takes(torch.zeros(1, device="meta"))
    with torch.enable_grad():
        assert not operators.takes(torch.zeros(1, requires_grad=True))


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_norms_of_rows_also_far_from_zero(centred, mean):
    x, weight, bias = torch.randn(2, 7, 160) + mean, torch.randn(160), torch.randn(160)
    exact = F.layer_norm(x.double(), (160,), weight.double(), bias.double(), 1e-6)
    if not centred:
        exact = F.rms_norm(x.double(), (160,), weight.double(), 1e-6)
    result = operators.row_norm(x, weight, bias if centred else None, 1e-6, centred)
    assert_close(result, exact, 2e-6 if mean == 0 or not centred else 1e-4)  # fp32 itself holds 1000 ± 1 to 6e-5 only


def test_pairs_are_turned_by_their_angles_also_by_one_table_a_sample():
    x, cos, sin = torch.randn(2, 9, 3, 64), torch.randn(2, 9, 64), torch.randn(2, 9, 64)
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(3).double()
    exact = x.double() * cos[:, :, None] + turned * sin[:, :, None]
    assert_close(operators.turn(x, cos, sin), exact)
    assert_close(operators.turn(x[1:], cos[1], sin[1]), exact[1:])
    shared = x.double() * cos[:1, :, None] + turned * sin[:1, :, None]
    assert_close(operators.turn(x, cos[:1], sin[:1]), shared)  # one table for all samples, as a batch of one


def test_a_transformer_whose_heads_are_turned_as_one_is_turned_by_the_kernel(monkeypatch):
    asked, turn = [], operators.turn
    monkeypatch.setattr(operators, "turn", lambda x, *table: asked.append(x.shape) or turn(x, *table))
    sizes = {"num_attention_heads": 4, "attention_head_dim": 16, "cross_attention_dim": 64, "caption_channels": 16}
    model = LTXVideoTransformer3DModel(in_channels=8, out_channels=8, num_layers=1, **sizes).eval()
    for parameter in model.parameters():
        parameter.normal_(std=0.1)
    given = {"num_frames": 2, "height": 2, "width": 3, "return_dict": False}
    tokens, text, times = torch.randn(2, 12, 8), torch.randn(2, 5, 16), torch.tensor([500.0, 20.0])
    wanted = model(tokens, text, times, **given)[0]
    assert not asked
    model.set_attention_backend("lockstep")
    assert_close(model(tokens, text, times, **given)[0], wanted.double())
    assert asked == [(2, 12, 1, 64)] * 2


@pytest.mark.parametrize(("depth", "columns"), [(33, 31), (700, 64), (1400, 100)])
def test_linear_bent_by_gelu(depth, columns):
    x, weight, bias, residual = torch.randn(13, depth), torch.randn(columns, depth), torch.randn(columns), None
    packed = calls.pack_linear(kernels.library(), weight)
    exact = F.gelu(F.linear(x.double(), weight.double(), bias.double()), approximate="tanh")
    assert_close(operators.linear(x, packed, bias, residual, columns, gelu=True), exact)
    residual = torch.randn(13, columns)
    assert_close(operators.linear(x, packed, bias, residual, columns, gelu=True), exact + residual)


@pytest.mark.parametrize("width", [16, 40])
@pytest.mark.parametrize("rise", [0.0, 0.3, 40.0, 400.0])
def test_attention_follows_scores_that_grow_with_the_keys(width, rise):
    """The reference of a query's weights is raised on the way, also in the middle of a block of keys."""
    query, key, value = torch.randn(2, 53, 2, width), torch.randn(2, 300, 2, width), torch.randn(2, 300, 2, width)
    bias = torch.arange(300.0).expand(2, -1).contiguous() // 37 * rise
    assert_as_close_as_torch(operators.attention(query, key, value, bias, 0.2), query, key, value, bias)


@pytest.mark.parametrize("hidden", [-torch.inf, -1e4, -3e38])
def test_attention_forgets_hidden_keys_that_come_first(hidden):
    """Keys that nobody may see, before those that all see: the scores of the first lie far below, or nowhere."""
    query, key, value = torch.randn(1, 20, 2, 24), torch.randn(1, 200, 2, 24), torch.randn(1, 200, 2, 24)
    bias = torch.full((1, 200), hidden)
    bias[:, 150:] = -300.0
    result = operators.attention(query, key, value, bias, 0.2)
    assert_as_close_as_torch(result, query, key[:, 150:], value[:, 150:], bias[:, 150:])


def assert_as_close_as_torch(result, *given):
    """A bias rounds the score that it is added to, here as there."""
    exact, plain = attended(*given, 0.2), attended(*given, 0.2, torch.float32)
    assert_close(result, exact, max(2e-6, 1.1 * float((plain - exact).norm() / exact.norm())))


def attended(query, key, value, bias, scale, dtype=torch.float64):
    scores = torch.einsum("bqhd,bkhd->bhqk", query.to(dtype), key.to(dtype)) * scale + bias.to(dtype)[:, None, None]
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value.to(dtype))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("size", [(5, 9), (70, 33), (1030, 66)])
def test_convolutions_in_bands_are_those_of_the_whole_map(stored, size):
    """The largest map takes several bands; its numbers are the same, to the bit."""
    x, weight, bias = torch.randn(2, 64, *size), torch.randn(32, 64, 3, 3), torch.randn(2, 32)
    scale, shift, residual = torch.randn(64), torch.randn(64), torch.randn(2, 32, *size)
    packed = calls.pack_convolution(kernels.library(), weight, stored)
    normed = operators.group_norm(x, 8, scale, shift, 1e-5, True)
    whole = operators.convolution(normed, packed, bias, residual, 32, stored)
    assert torch.equal(
        operators.normed_convolution(x, 8, scale, shift, 1e-5, packed, bias, residual, 32, stored), whole
    )
    doubled = F.interpolate(x, scale_factor=2.0)
    whole = operators.convolution(doubled, packed, bias[0], None, 32, stored)
    assert torch.equal(operators.doubled_convolution(x, packed, bias[0], 32, stored), whole)


@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(3, 2, 1), (3, 2, 0), (3, 1, 1), (4, 4, 0), (1, 2, 0), (5, 1, 2)]
)
@pytest.mark.parametrize(("into", "out"), [(4, 48), (37, 33), (320, 16)])
def test_convolutions_of_patches(size, stride, padding, into, out):
    x, weight, bias = torch.randn(2, into, 11, 8), torch.randn(out, into, size, size), torch.randn(out)
    packed = calls.pack_patches(kernels.library(), weight)
    exact = F.conv2d(x.double(), weight.double(), bias.double(), stride=stride, padding=padding)
    result = operators.patches(x, packed, bias, out, size, stride, padding)
    assert result.shape == exact.shape
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert_close(result, exact)
    shape = operators.patches(x.to("meta"), packed.to("meta"), None, out, size, stride, padding).shape
    assert shape == exact.shape


@pytest.mark.parametrize("channels", [(1, 1), (32, 7), (640, 320)])
def test_channels_of_two_maps_are_joined(channels):
    left, right = (torch.randn(2, count, 5, 9) for count in channels)
    joined = torch.cat([left, right], dim=1)
    assert torch.equal(operators.join(left, right), joined)
    assert operators.join(left.to("meta"), right.to("meta")).shape == joined.shape


def test_the_last_bit_of_two_tensors_is_compared():
    one = torch.randn(3, 1001)
    other = one.clone()
    assert calls.same(kernels.library(), one, other)
    other[2, 1000] = torch.nextafter(one[2, 1000], torch.tensor(9.0))
    assert not calls.same(kernels.library(), one, other)
