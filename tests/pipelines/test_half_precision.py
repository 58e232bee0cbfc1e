"""bf16 stays within what the format costs: the floor of benchmarks/half_precision.py, and what lies above it."""

import pytest
import torch
from benchmarks import half_precision
from benchmarks.half_precision import RandomRounding, floor_and_limit, measured

pytestmark = pytest.mark.filterwarnings("ignore:.*FluxPosEmbed.*:FutureWarning")  # theirs uses what it deprecates


@pytest.mark.parametrize("family", list(half_precision.MODELS))
def test_every_step_lies_at_the_floor_of_the_format(family, tmp_path):
    found = measured(family, 3, str(tmp_path), members=2)
    for step, (ours, floor, most) in enumerate(zip(found["lockstep"], found["floor"], found["at most"], strict=True)):
        assert ours <= most, f"step {step}"
        assert 0.5 <= ours / floor <= 2.0, f"step {step}: the floor is not that of this run"


def test_a_run_that_loses_more_than_the_format_does_is_seen(tmp_path, monkeypatch):
    plain = half_precision.pipeline

    def worse(library, family, folder, dtype):
        """Ours in bf16 with a denoiser whose weights have three bits less."""
        pipe = plain(library, family, folder, dtype)
        if library.__name__ == "lockstep" and dtype == torch.bfloat16:
            for weight in pipe.transformer.parameters():
                weight.data = (weight.data.view(torch.int16) & ~0x1F).view(torch.bfloat16)
        return pipe

    monkeypatch.setattr(half_precision, "pipeline", worse)
    found = measured("sd3", 3, str(tmp_path), members=2)
    assert all(ours > most for ours, most in zip(found["lockstep"], found["at most"], strict=True))


def test_rounding_by_chance_gives_the_two_neighbours_and_is_right_on_average():
    third = torch.full((20000,), 1 / 3, dtype=torch.bfloat16)
    with RandomRounding(0):
        made = third * third
    exact = third.float() ** 2
    low, high = made.float().unique().tolist()
    nearest = exact[0].to(torch.bfloat16)
    assert low < exact[0] < high
    assert nearest in (low, high)
    assert torch.nextafter(torch.tensor(low).to(torch.bfloat16), torch.tensor(1.0, dtype=torch.bfloat16)) == high
    assert made.double().mean() == pytest.approx(exact[0].item(), rel=1e-4)


def test_what_is_kept_in_fp32_is_not_rounded():
    kept = torch.full((4,), 1 / 3)
    with RandomRounding(0):
        assert torch.equal(kept * 2, torch.full((4,), 2 / 3))
        half = kept.to(torch.bfloat16)
        assert half.dtype == torch.bfloat16
        assert half.view(2, 2).data_ptr() == half.data_ptr()


def test_the_limit_follows_the_spread():
    tight, wide = floor_and_limit([1.0, 1.0, 1.0]), floor_and_limit([0.25, 1.0, 4.0])
    assert tight[0] == wide[0] == pytest.approx(0.5**0.5)
    assert tight[1] < wide[1]
