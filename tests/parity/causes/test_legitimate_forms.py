"""A port may take a step in another form; what is told as the cause is what differs beside that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.causes.relations import relation
from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

CHANNELS, WIDTH, SIDE = 3, 24, 2


class Patches(nn.Module):
    """A picture cut into patches by a convolution."""

    def __init__(self):
        super().__init__()
        self.cut, self.mixed = nn.Conv2d(CHANNELS, WIDTH, SIDE, stride=SIDE), nn.Linear(WIDTH, WIDTH)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8)

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        return self.last(F.silu(self.mixed(self.norm(x))))


class LinearPatches(nn.Module):
    """The same by a linear layer; `order` is that of channels, rows and columns inside of a patch."""

    def __init__(self, reference, name, order, of_weight=(0, 1, 2)):
        super().__init__()
        self.name, self.order = name, order
        setattr(self, name, nn.Linear(CHANNELS * SIDE * SIDE, WIDTH))
        self.mixed, self.norm, self.last = reference.mixed, reference.norm, reference.last
        with torch.no_grad():
            weight = reference.cut.weight.permute(0, *(1 + axis for axis in of_weight))
            getattr(self, name).weight.copy_(weight.flatten(1))
            getattr(self, name).bias.copy_(reference.cut.bias)

    def forward(self, x):
        rows, columns = x.shape[2] // SIDE, x.shape[3] // SIDE
        x = x.unflatten(3, (columns, SIDE)).unflatten(2, (rows, SIDE))  # rows 2, 3, columns 4, 5
        x = x.permute(0, 2, 4, *((1, 3, 5)[axis] for axis in self.order))
        x = getattr(self, self.name)(x.reshape(len(x), rows * columns, -1))
        return self.last(F.silu(self.mixed(self.norm(x))))


def of_patches(folder, **made):
    reference = seeded(Patches())
    port = LinearPatches(reference, **made).eval()
    return diagnosed(folder, reference, port, lambda model: model(drawn(2, CHANNELS, 8, 6)), evaluations=300)


@pytest.mark.parametrize("name", ["cut", "embed"])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0)])
def test_a_linear_over_patches_is_the_convolution(tmp_path, name, order):
    assert of_patches(tmp_path, name=name, order=order, of_weight=order).verdict == "PASS"


@pytest.mark.parametrize("name", ["cut", "embed"])
def test_patches_in_another_order_are_told_as_that(tmp_path, name):
    result = of_patches(tmp_path, name=name, order=(1, 2, 0))
    cause = result.causes[0]
    assert result.verdict == "BUG", result.sentence()
    assert (cause.name, cause.standing) == ("axes_swapped", Standing.PROVEN), cause.why
    for words in ("order rows, columns, channels instead of", "order channels, rows, columns, as the weight has them"):
        assert words in cause.why, cause.why
    assert "linear" not in cause.fix, cause.fix
    line = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "x = x.permute(0, 2" in line)
    assert name == "cut" or f"test_legitimate_forms.py:{line}" in cause.fix, cause.fix


def test_a_bias_that_a_linear_over_patches_lacks_is_told_as_that(tmp_path):
    reference = seeded(Patches())
    port = LinearPatches(reference, name="cut", order=(0, 1, 2)).eval()
    port.cut.bias = None
    result = diagnosed(tmp_path, reference, port, lambda model: model(drawn(2, CHANNELS, 8, 6)), evaluations=300)
    cause = result.causes[0]
    assert (cause.name, cause.standing) == ("missing_bias", Standing.PROVEN), cause.why


def test_a_weight_in_another_order_is_told_as_that(tmp_path):
    cause = of_patches(tmp_path, name="cut", order=(0, 1, 2), of_weight=(0, 2, 1)).causes[0]
    assert (cause.name, cause.standing) == ("axes_swapped", Standing.PROVEN), cause.why
    assert "channels, rows, columns" in cause.why, cause.why
    assert "channels, columns, rows" in cause.why, cause.why


HEADS, LANES, TOKENS = 3, 8, 7


def angles(base=100.0):
    return torch.arange(TOKENS)[:, None] * base ** (-torch.arange(0, LANES, 2) / LANES)[None]


class Looking(nn.Module):
    """Lanes of the two halves are turned against each other."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, cos, sin):
        query, key, value = (f(x).unflatten(-1, (HEADS, LANES)) for f in (self.query, self.key, self.value))
        query, key, value = (v.transpose(1, 2) for v in (turned(query, cos, sin), turned(key, cos, sin), value))
        return self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


def turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat([-second, first], dim=-1) * sin[:, None]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.looking, self.behind = nn.LayerNorm(WIDTH), Looking(), nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)

    def forward(self, x, cos, sin):
        x = x + self.looking(self.before(x), cos, sin)
        return x + self.narrow(F.silu(self.wide(self.behind(x))))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(30, WIDTH), nn.ModuleList(Layer() for _ in range(3))

    def forward(self, tokens):
        cos, sin = (f(torch.cat([angles(), angles()], dim=-1)) for f in (torch.cos, torch.sin))
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


def in_pairs(rows):
    """Rows of queries or keys so that the lanes of the two halves are neighbours."""
    return rows.unflatten(0, (HEADS, 2, LANES // 2)).transpose(1, 2).flatten(0, 2)


class PairedLayer(nn.Module):
    """Projections fused or apart, with neighbouring lanes turned as one complex number."""

    def __init__(self, reference, fault, fused):
        super().__init__()
        self.fused, (self.q, self.k, self.v) = fused, (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        looking, self.fault = reference.looking, fault
        self.norm1, self.norm2 = reference.before, reference.behind
        self.up, self.down, self.o, self.qkv = (
            reference.wide,
            reference.narrow,
            looking.out,
            nn.Linear(WIDTH, 3 * WIDTH),
        )
        with torch.no_grad():
            for kind in ("weight", "bias"):
                query, key, value = (getattr(m, kind) for m in (looking.query, looking.key, looking.value))
                value = torch.zeros_like(value) if fault == f"value.{kind}" else value
                rows = in_pairs(query), in_pairs(key), value
                getattr(self.qkv, kind).copy_(torch.cat(rows))
                for layer, part in zip((self.q, self.k, self.v), rows, strict=True):
                    getattr(layer, kind).copy_(part)

    def forward(self, x, table):
        h = self.norm1(x)
        rows = self.qkv(h) if self.fused else torch.cat([self.q(h), self.k(h), self.v(h)], dim=-1)
        query, key, value = rows.unflatten(-1, (3, HEADS, LANES)).unbind(2)
        query, key = self.turned(query, table), self.turned(key, table)
        value = value.tanh() if self.fault == "tanh" else value
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / LANES**0.5
        x = x + self.o(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value).flatten(2))
        activation = F.gelu if self.fault == "gelu" else F.silu
        return x + self.down(activation(self.up(self.norm2(x))))

    def turned(self, x, table):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * table[:, None]).flatten(-2)


class PairedWords(nn.Module):
    def __init__(self, reference, fault="", fused=True):
        super().__init__()
        self.embed, self.fault = reference.words, fault
        self.blocks = nn.ModuleList(PairedLayer(layer, fault, fused) for layer in reference.layers)

    def forward(self, tokens):
        turns = angles(200.0 if self.fault == "base" else 100.0)
        table, x = torch.polar(torch.ones_like(turns), turns), self.embed(tokens)
        for block in self.blocks:
            x = block(x, table)
        return x


def of_words(folder, fault, fused=True):
    reference, tokens = seeded(Words()), torch.tensor([[3, 9, 4, 17, 22, 1, 8], [5, 2, 11, 6, 0, 7, 28]])
    return diagnosed(
        folder, reference, PairedWords(reference, fault, fused), lambda model: model(tokens), evaluations=600
    )


@pytest.mark.parametrize("fused", [True, False])
def test_lanes_that_are_rearranged_on_both_sides_are_right(tmp_path, fused):
    assert of_words(tmp_path, "", fused).verdict == "PASS"


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_a_weight_is_told_and_not_the_lanes(tmp_path, kind, fused):
    result = of_words(tmp_path, f"value.{kind}", fused)
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert f"`model.layers.0.looking.value.{kind}`" in cause.why, cause.why
    assert "all zeros" in cause.why, cause.why
    assert result.explained.verdict == "PASS", result.explained.sentence()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("fault", "words"), [("gelu", "`gelu("), ("base", "other angles in 3 of 4 lanes"), ("tanh", "tanh")]
)
def test_another_fault_behind_rearranged_lanes(tmp_path, fault, words, fused):
    result = of_words(tmp_path, fault, fused)
    cause = result.causes[0]
    assert result.verdict == "BUG", result.sentence()
    assert cause.standing is Standing.PROVEN, cause.why
    assert words in cause.why, cause.why
    assert "complex" not in cause.why, cause.why
    assert result.explained.verdict == "PASS", result.explained.sentence()


class Scaled(nn.Module):
    """A picture is divided by a number that its noise gives."""

    squared = True

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x, sigma):
        scale = ((sigma**2 if self.squared else sigma) + 1) ** 0.5
        return self.last(F.silu(self.first(x / scale)))


class ScaledWithoutSquare(Scaled):
    squared = False


@pytest.mark.parametrize("sigma", [torch.tensor(14.6), torch.tensor([14.6, 9.3]).view(2, 1, 1, 1)])
def test_a_number_is_not_activated(tmp_path, sigma):
    reference = seeded(Scaled())
    port = ScaledWithoutSquare()
    port.load_state_dict(reference.state_dict())
    result = diagnosed(tmp_path, reference, port.eval(), lambda model: model(drawn(2, 3, 8, 8), sigma), evaluations=300)
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert cause.name != "activation", cause.why
    assert "`sigma` instead of `(sigma ** 2)`" in cause.why, cause.why


def places(rows, columns, width, exchanged=False):
    """Sines and cosines of a row in the first half of the lanes, of a column in the second."""
    frequencies = 50.0 ** (-torch.arange(width // 4) / (width // 4))
    row, column = (n.flatten()[:, None] * frequencies for n in torch.meshgrid(rows, columns, indexing="ij"))
    halves = [torch.cat([angle.sin(), angle.cos()], dim=-1) for angle in (row, column)]
    return torch.cat(halves[::-1] if exchanged else halves, dim=-1)


class Placed(nn.Module):
    def __init__(self, exchanged=False, batch=True):
        super().__init__()
        self.first, self.last = nn.Linear(6, WIDTH), nn.Linear(WIDTH, 4)
        self.table = places(torch.arange(4), torch.arange(5), WIDTH, exchanged).numpy()
        self.table = self.table[None] if batch else self.table

    def forward(self, x):
        return self.last(F.silu(self.first(x) + torch.from_numpy(self.table)))


def test_a_table_with_rows_and_columns_exchanged_is_told_as_that(tmp_path):
    reference, port = seeded(Placed()), Placed(exchanged=True, batch=False)
    port.load_state_dict(reference.state_dict())
    result = diagnosed(tmp_path, reference, port.eval(), lambda model: model(drawn(2, 20, 6)), evaluations=300)
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "the reference's moved by 12 along axis 1 (its two halves exchanged)" in cause.why, cause.why


class Res(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(2, channels), nn.Conv2d(channels, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(2, width), nn.Conv2d(width, width, 3, padding=1)
        self.short = nn.Conv2d(channels, width, 1) if channels != width else None

    def forward(self, x):
        h = self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))
        return (x if self.short is None else self.short(x)) + h


class Up(nn.Module):
    def __init__(self, *channels):
        super().__init__()
        self.resnets = nn.ModuleList(Res(count, 8) for count in channels)

    def forward(self, x, skips):
        for resnet in self.resnets:
            x = resnet(torch.cat([x, skips.pop()], dim=1))
        return x


class Joined(nn.Module):
    """Kept values are joined to what comes back, in two blocks of two."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.down = nn.ModuleList([Res(8, 8), Res(8, 12), Res(12, 12)])
        self.middle, self.up = Res(12, 12), nn.ModuleList([Up(24, 20), Up(16, 16)])

    def forward(self, x):
        x = self.first(x)
        kept = [x]
        for block in self.down:
            x = block(x)
            kept.append(x)
        x = self.middle(x)
        for block in self.up:
            x = block(x, kept)
        return self.last(x)


class JoinedFunction(nn.Module):
    """The same as a function over a table of weights."""

    def __init__(self, reference, fault):
        super().__init__()
        self.fault = fault
        tensors = reference.state_dict()
        self.names = list(tensors)
        self.tensors = nn.ParameterList([nn.Parameter(x.clone(), requires_grad=False) for x in tensors.values()])

    def forward(self, x):
        w = dict(zip(self.names, self.tensors, strict=True))

        def conv(name, x):
            weight = w[f"{name}.weight"]
            return F.conv2d(x, weight, w[f"{name}.bias"], padding=weight.shape[-1] // 2)

        def norm(name, x):
            return F.silu(F.group_norm(x, 2, w[f"{name}.weight"], w[f"{name}.bias"]))

        def res(name, x):
            h = conv(f"{name}.conv2", norm(f"{name}.norm2", conv(f"{name}.conv1", norm(f"{name}.norm1", x))))
            return (conv(f"{name}.short", x) if f"{name}.short.weight" in w else x) + h

        x = conv("first", x)
        kept = [x]
        for i in range(3):
            x = res(f"down.{i}", x)
            kept.append(x)
        x = res("middle", x)
        for i in range(2):
            x = res(f"up.0.resnets.{i}", torch.cat((kept.pop(), x) if self.fault else (x, kept.pop()), 1))
        for i in range(2):
            x = res(f"up.1.resnets.{i}", torch.cat((kept.pop(), x) if self.fault else (x, kept.pop()), 1))
        return conv("last", x)


@pytest.mark.parametrize("fault", [False, True])
def test_an_order_in_every_place_is_told_once(tmp_path, fault):
    reference = seeded(Joined())
    port = JoinedFunction(reference, fault).eval()
    result = diagnosed(tmp_path, reference, port, lambda model: model(drawn(2, 3, 8, 8)), evaluations=600)
    if not fault:
        assert result.verdict in ("PASS", "NOISE"), result.sentence()
        return
    cause = result.causes[0]
    assert (cause.name, cause.standing) == ("concat_order", Standing.PROVEN), cause.why
    assert result.explained.verdict in ("PASS", "NOISE"), result.explained.sentence()
    line = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if 'res(f"up.0' in line)
    assert f"test_legitimate_forms.py:{line}" in cause.fix, cause.fix


def test_a_grid_read_the_other_way_is_told_as_that():
    table = drawn(16, 6)
    turned = table.unflatten(0, (4, 4)).transpose(0, 1).flatten(0, 1)
    assert "rows and columns of a grid of 4 x 4 exchanged" in relation(table[None], turned)
