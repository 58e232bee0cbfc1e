"""Right ports that are arranged otherwise agree, and what is wrong in such a port is found where it is."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from lockstep import parity as px
from parity.causes.test_classes import drawn, seeded

IDS = torch.tensor([[7, 3, 4, 5, 6, 1], [7, 2, 1, 1, 1, 1]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])


def compared(folder, sides):
    """Both sides recorded with what they give in the end, over a measured floor."""
    for (model, call), path in zip(sides, ("a.trace", "b.trace"), strict=True):
        with torch.no_grad(), px.record(model, folder / path, level="module+ops") as recorder:
            recorder.result(call())
    model, call = sides[0]
    with torch.no_grad():
        floor = px.floor(model, folder / "a.trace", call=call, runs=("ulp", "ulp"))
    return px.compare(folder / "a.trace", folder / "b.trace", floor=floor)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.final = nn.ModuleList(nn.Linear(8, 8) for _ in range(3)), nn.LayerNorm(8)

    def forward(self, x):
        states = [x]
        for layer in self.layers:
            states.append(F.silu(layer(states[-1])))
        return self.final(states[-1]), states


class Skipping(nn.Module):
    """The last layer is left out, and with it the call of the norm on it."""

    normed = True

    def __init__(self, reference):
        super().__init__()
        self.steps, self.norm = reference.layers, reference.final

    def forward(self, x):
        for layer in self.steps[:-1]:
            x = F.silu(layer(x))
        return self.norm(x) if self.normed else x


def skipping(normed):
    reference, x = seeded(Layers()), drawn(2, 5, 8)
    port = Skipping(reference)
    port.normed = normed
    return [(reference, lambda: reference.final(reference(x)[1][-2])), (port, lambda: port(x))]


def test_a_module_that_one_side_calls_more_often_is_paired_by_what_goes_in(tmp_path):
    result = compared(tmp_path, skipping(normed=True))
    assert result.verdict == "PASS", result.sentence()


def test_a_module_that_is_left_out_is_told(tmp_path):
    sides = skipping(normed=False)
    result = compared(tmp_path, sides)
    assert (result.verdict, result.first.key.path) == ("BUG", "@result"), result.sentence()
    causes = px.diagnose(result, evaluations=100)
    assert causes[0].name == "left_out", causes[0].why
    assert "`model.final` is left out" in causes[0].why


class Exchanged(nn.Module):
    """Two streams; `turned` gives them in the other order and has the tokens of the second before the first."""

    def __init__(self, turned=False):
        super().__init__()
        self.first, self.second, self.both = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.turned = turned

    def forward(self, a, b):
        a, b = self.first(a), self.second(b)
        mixed = F.silu(self.both(torch.cat([b, a] if self.turned else [a, b], dim=1)))
        parts = mixed.split([b.shape[1], a.shape[1]] if self.turned else [a.shape[1], b.shape[1]], dim=1)
        return parts


class Streams(nn.Module):
    def __init__(self, turned=False):
        super().__init__()
        self.block, self.turned = Exchanged(turned), turned

    def forward(self, a, b):
        parts = self.block(a, b)
        return (parts[1], parts[0]) if self.turned else parts


def test_results_and_tokens_in_another_order_are_no_bug(tmp_path):
    given = drawn(2, 3, 8), drawn(2, 5, 8, seed=2)
    sides = [(model, lambda m=model: m(*given)) for model in (seeded(Streams()), seeded(Streams(turned=True)))]
    result = compared(tmp_path, sides)
    assert result.verdict == "PASS", result.sentence()


class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position, self.head = nn.Embedding(9, 8), nn.Embedding(6, 8), nn.Linear(8, 4)

    def forward(self, ids):
        return self.head(self.token(ids) + self.position(torch.arange(ids.shape[1])[None]))


class PlacesAsParameter(nn.Module):
    def __init__(self, reference):
        super().__init__()
        self.words, self.out = reference.token, reference.head
        self.places = nn.Parameter(reference.position.weight.detach().clone())

    def forward(self, ids):
        return self.out(self.words(ids) + self.places[: ids.shape[1]])


def test_an_embedding_and_a_parameter_are_no_bug(tmp_path):
    reference = seeded(Places())
    port = PlacesAsParameter(reference)
    result = compared(tmp_path, [(reference, lambda: reference(IDS)), (port, lambda: port(IDS))])
    assert result.verdict == "PASS", result.sentence()


class Decoding(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def decode(self, x):
        return self.last(F.silu(self.first(x)))

    def forward(self, x):
        return self.decode(x)


class Called(nn.Module):
    scale = 1.0

    def __init__(self, reference):
        super().__init__()
        self.enter, self.leave = reference.first, reference.last

    def forward(self, x):
        return self.scale * self.leave(F.silu(self.enter(x)))


def test_a_method_and_a_call_are_one_result(tmp_path):
    reference, x = seeded(Decoding()), drawn(2, 5, 8)
    port = Called(reference)
    sides = [(reference, lambda: reference.decode(x)), (port, lambda: port(x))]
    result = compared(tmp_path, sides)
    assert result.verdict == "PASS", result.sentence()
    port.scale = 1.01
    result = compared(tmp_path, sides)
    assert result.verdict == "BUG", result.sentence()


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, ids, mask):
        return self.encoder(mask, self.encoder.words(ids))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 8), nn.Linear(8, 4)

    def forward(self, mask, x):
        return self.out(x * mask[..., None])


class PortEncoder(nn.Module):
    scale = 1.0

    def __init__(self, words, out):
        super().__init__()
        self.words, self.out = words, out

    def forward(self, ids):
        return self.scale * self.out(self.words(ids) * MASK[..., None])


class MaskedPort(nn.Module):
    def __init__(self, reference):
        super().__init__()
        self.encoder = PortEncoder(reference.encoder.words, reference.encoder.out)

    def forward(self, ids):
        return self.encoder(ids)


def test_integers_of_other_names_are_not_put_side_by_side(tmp_path):
    reference = seeded(Masked())
    port = MaskedPort(reference)
    port.encoder.scale = 1.01
    result = compared(tmp_path, [(reference, lambda: reference(IDS, MASK)), (port, lambda: port(IDS))])
    assert result.verdict == "BUG"
    assert "mask" not in str(result.first.key), result.sentence()


class Positioned(nn.Module):
    """Tokens with their places in a grid, which a caller may hand over once or for each row of the batch."""

    def __init__(self):
        super().__init__()
        self.embed, self.last = nn.Linear(3, 16), nn.Linear(16, 4)

    def forward(self, x, ids):
        return self.last(x + self.embed(ids))


def positioned(by_row, ids):
    torch.manual_seed(0)
    model, x = Positioned().eval(), torch.randn(2, 6, 16)
    given = ids.expand(2, -1, -1).contiguous() if by_row else ids
    return model, torch.no_grad()(lambda: model(x, given))


def test_what_is_the_same_for_each_row_may_be_handed_over_once(tmp_path):
    ids = torch.arange(18.0).reshape(6, 3) / 7
    result = compared(tmp_path, (positioned(False, ids), positioned(True, ids)))
    assert result.verdict == "PASS", result.sentence()


def test_other_numbers_for_each_row_are_told(tmp_path):
    ids = torch.arange(18.0).reshape(6, 3) / 7
    result = compared(tmp_path, (positioned(False, ids), positioned(True, ids + 1)))
    assert result.verdict == "BUG"
    assert result.first.key.slot == "in.ids", result.sentence()
