"""What a pipeline does between its models: which of an encoder's results it takes, how it guides, what it makes of a
posterior and of the decoded picture. Told with the line of the port's own code."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lockstep.parity.causes.observed.graph import piece_of
from lockstep.parity.causes.observed.transplant import replaced
from lockstep.parity.comparison.results import Standing
from lockstep.parity.recording.values import with_leaves
from parity.causes.test_classes import diagnosed, drawn, seeded


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x):
        states = [x]
        for layer in self.layers:
            states.append(torch.tanh(layer(states[-1])))
        return {"last": states[-1], "hidden_states": tuple(states)}


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.text, self.last = (
            nn.Conv2d(4, 8, 3, padding=1),
            nn.Linear(6, 8),
            nn.Conv2d(8, 4, 3, padding=1),
        )

    def forward(self, x, timestep, text):
        told = self.text(text).mean(1) + torch.sin(timestep)
        return self.last(torch.tanh(self.first(x) + told[:, :, None, None]))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 3, 1)

    def encode(self, picture):
        return SimpleNamespace(posterior=SimpleNamespace(mean=self.into(picture)))

    def decode(self, z):
        return {"sample": self.out(z)}


class Noised:
    """What both sides have from a library."""

    def set_timesteps(self, count):
        self.timesteps = torch.linspace(0.8, 0.2, count)

    def add_noise(self, x, noise, t):
        return (1 - t) * x + t * noise

    def step(self, out, t, x):
        return x - out / len(self.timesteps)


class Pipeline:
    def __init__(self, fault=""):
        self.encoder, self.net, self.vae = seeded(Encoder()), seeded(Denoiser()), seeded(Autoencoder())
        self.scheduler, self.fault = Noised(), fault

    def guide(self, out):
        no, yes = out.chunk(2)
        guided = no + 4 * (yes - no)
        return guided * (yes.std([1, 2, 3], keepdim=True) / guided.std([1, 2, 3], keepdim=True))

    def begin(self, picture):
        return self.vae.encode(picture).posterior.mean * 0.4

    def show(self, z):
        return self.vae.decode(z / 0.4)["sample"].clamp(-1, 1) / 2 + 0.5

    def text(self, words):
        return self.encoder(words)["hidden_states"][-2]

    @torch.no_grad()
    def __call__(self, seed):
        self.scheduler.set_timesteps(3)
        text = self.text(drawn(2, 5, 6, seed=seed))
        noise = drawn(1, 4, 6, 8, seed=3)
        x = self.scheduler.add_noise(self.begin(drawn(1, 3, 6, 8, seed=2)), noise, self.scheduler.timesteps[0])
        for t in self.scheduler.timesteps:
            x = self.scheduler.step(self.guide(self.net(torch.cat([x, x]), t.expand(2, 1), text)), t, x)
        return self.show(x)


class Port(Pipeline):
    def guide(self, out):
        no, yes = out.chunk(2)
        guided = no + 4 * (yes - no)
        axes = [2, 3] if self.fault == "axes" else [1, 2, 3]
        return guided * (yes.std(axes, keepdim=True) / guided.std(axes, keepdim=True))

    def begin(self, picture):
        mean = self.vae.encode(picture).posterior.mean
        return mean if self.fault == "scale" else mean * 0.4

    def show(self, z):
        picture = self.vae.decode(z / 0.4)["sample"]
        return picture.clamp(0, 1) if self.fault == "picture" else picture.clamp(-1, 1) / 2 + 0.5

    def text(self, words):
        return self.encoder(words)["hidden_states"][-1 if self.fault == "state" else -2]


def found(folder, fault):
    result = diagnosed(folder, Pipeline(), Port(fault), lambda pipe: pipe(seed=1), limit=1, evaluations=600)
    assert result.verdict == "BUG", result.sentence()
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    return result.causes[0]


def is_told_in(cause, function):
    """True for a line of this function: not one of the scheduler's, which both sides run."""
    function = inspect.unwrap(function)
    first = function.__code__.co_firstlineno
    number = int(str(cause.evidence["line"]).partition(":")[2] or 0)
    return first <= number < first + len(inspect.getsource(function).splitlines())


def test_a_deviation_over_other_axes_has_the_shape_that_the_port_gives_it(tmp_path):
    cause = found(tmp_path, "axes")
    assert cause.name == "reduced_axes", cause.why
    assert "axes 2, 3 instead of axes 1, 2, 3" in cause.why
    assert is_told_in(cause, Port.guide)


def test_which_of_several_results_is_taken_is_told(tmp_path):
    cause = found(tmp_path, "state")
    assert "encoder(" in cause.why, cause.why
    assert ".hidden_states[3]" in cause.why
    assert ".hidden_states[2]" in cause.why


def test_what_is_made_of_the_decoded_picture_is_put_right_behind_the_decoder(tmp_path):
    cause = found(tmp_path, "picture")
    assert "clamp(" in cause.why, cause.why
    assert is_told_in(cause, Port.show)


def test_a_factor_of_the_posterior_is_told_in_the_ports_code(tmp_path):
    """The value is next taken by the scheduler's own code, which both sides run: that is not to be changed."""
    cause = found(tmp_path, "scale")
    assert "posterior.mean" in cause.why, cause.why
    assert is_told_in(cause, Pipeline.__call__), cause.evidence["line"]


@pytest.mark.parametrize("nested", [False, True])
def test_pieces_of_a_result_lie_as_they_lay(nested):
    parts = [torch.full((1,), float(i)) for i in range(3)]
    result = ([parts[0], parts[1]], parts[2]) if nested else {"a": parts[0], "b": (parts[1], parts[2])}
    assert [float(piece_of(result, i)) for i in range(3)] == [0, 1, 2]
    made = with_leaves(result, iter([part + 10 for part in parts]))
    assert type(made) is type(result)
    assert [float(piece_of(made, i)) for i in range(3)] == [10, 11, 12]


def test_one_of_a_list_that_is_handed_over_is_put_right():
    class Takes(nn.Module):
        def forward(self, x, residuals):
            return x + sum(residuals)

    residuals = [torch.zeros(2), torch.ones(2)]
    given, new = {"residuals": residuals}, torch.full((2,), 5.0)
    _, kwargs = replaced(Takes(), "in.residuals.1", (torch.zeros(2),), given, new)
    assert kwargs["residuals"][0] is residuals[0]
    assert kwargs["residuals"][1].tolist() == [5, 5]
    assert residuals[1].tolist() == [1, 1], "the model's own list is left as it was"


def test_a_number_that_is_handed_over_is_put_right():
    class Takes(nn.Module):
        def forward(self, x, scale, sizes=()):
            return x * scale

    x, new = torch.zeros(2), torch.tensor(0.32)
    args, kwargs = replaced(Takes(), "in.sizes.1", (x, 2.0), {"sizes": (1.0, 8.0)}, new)
    assert kwargs["sizes"] == pytest.approx((1.0, 0.32))
    assert args == (x, 2.0)
    args, _ = replaced(Takes(), "in.scale", (x, 2.0), {}, new)
    assert args[1] == pytest.approx(0.32)
