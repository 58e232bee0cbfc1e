"""Teacher forcing: complete or refused; and the searches that are built on it."""

import pytest
import torch
import torch.nn.functional as F

from lockstep.parity import (
    Role,
    Status,
    TeacherForcingError,
    Trace,
    Verdict,
    bisect,
    compare,
    gain_curve,
    inject,
    is_chaotic,
    local,
    local_errors,
    record,
    run_stages,
)  # fmt: skip
from parity import tiny


def broken_transformer():
    model = tiny.transformer()
    model.embed.bias.data[0] += 0.5
    model.blocks[2].ff.approximate = "tanh"
    return model


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("inject") / "ref.trace"
    model = tiny.transformer()
    with torch.no_grad(), record(model, path, keep="full", level="module+ops"):
        model(tiny.sample(), timestep=3.0)
    return path


def forward(model, path, **options):
    with torch.no_grad(), record(model, path, level="module+ops", **options):
        model(tiny.sample(), timestep=3.0)
    return path


def test_a_block_with_the_references_inputs_shows_its_own_error_alone(reference, tmp_path):
    model = broken_transformer()
    with inject(model, reference, at="model.blocks.2") as injection:
        candidate = forward(model, tmp_path / "c.trace")
    assert [str(v.key) for v in injection.values] == ["-|model.blocks.2|in.x"]
    assert injection.values[0].error > 1e-3  # what would have come in
    result = compare(reference, candidate)
    block = [n for n in result.nodes if n.path.startswith("model.blocks.2") and n.bad]
    assert block[0].path == "model.blocks.2.ff/gelu.0"
    assert result.node("-|model.blocks.1|out").bad


def test_outputs_can_be_replaced(reference, tmp_path):
    model = broken_transformer()
    with inject(model, reference, at="model.blocks.2", what="outputs"):
        candidate = forward(model, tmp_path / "c.trace")
    result = compare(reference, candidate)
    assert not result.node("-|model.norm|out").bad
    assert not result.node("-|model|out").bad
    assert result.node("-|model.blocks.1|out").bad


def test_a_hole_in_the_injection_is_refused(tmp_path):
    model = tiny.transformer()
    with torch.no_grad(), record(model, tmp_path / "r.trace"):
        model(tiny.sample(tokens=200), timestep=3.0)
    model.embed.bias.data += 0.1
    injection = inject(model, tmp_path / "r.trace", at="model.blocks.1")
    with pytest.raises(TeacherForcingError, match="only its sketch"), torch.no_grad(), injection:
        model(tiny.sample(tokens=200), timestep=3.0)
    with torch.no_grad(), inject(model, tmp_path / "r.trace", at="model.blocks.1", require_closure=False):
        model(tiny.sample(tokens=200), timestep=3.0)


def test_a_sketch_proves_equality(tmp_path):
    model = tiny.transformer()
    with torch.no_grad(), record(model, tmp_path / "r.trace"):
        model(tiny.sample(tokens=200), timestep=3.0)
    with torch.no_grad(), inject(model, tmp_path / "r.trace", at="model.blocks.1") as injection:
        model(tiny.sample(tokens=200), timestep=3.0)
    assert injection.values[0].proven_equal


def test_what_the_reference_does_not_have_is_refused(reference):
    model = tiny.transformer()
    with pytest.raises(TeacherForcingError, match="nothing called"):
        inject(model, reference, at="model.nowhere")
    with pytest.raises(TeacherForcingError, match="what must be"):
        inject(model, reference, at="model.blocks.0", what="weights")
    with pytest.raises(TeacherForcingError, match="never reached"), inject(model, reference, at="model.blocks.0"):
        pass
    with (
        pytest.raises(TeacherForcingError, match="shape"),
        torch.no_grad(),
        inject(model, reference, at="model.blocks.0"),
    ):
        model(tiny.sample(tokens=7))


def test_local_runs_one_node_alone(reference):
    model = broken_transformer()
    (good,) = local(reference, model, at="model.blocks.1.attn")
    assert good.status in (Status.SAME, Status.PRIOR)
    (bad,) = local(reference, model, at="model.blocks.2.ff")
    assert bad.role is Role.ORIGIN
    assert bad.local_error > 1e-5
    (same,) = local(reference, model.blocks[2].ff, at="model.blocks.2.ff")  # the node itself instead of its model
    assert same.local_error == bad.local_error
    with pytest.raises(TeacherForcingError, match="no inputs"):
        local(reference, model, at="model.nowhere")


def test_local_errors_separate_two_causes(reference, tmp_path):
    """The second fault lies behind the first one, whose error covers it."""
    model = broken_transformer()
    found = local_errors(reference, model)
    result = compare(reference, forward(model, tmp_path / "c.trace"), local=found)
    sites = [o.site for o in result.origins]
    assert sites[0] == "model.embed"
    assert "model.blocks.2.ff" in sites


@pytest.fixture(scope="module")
def pipeline():
    return tiny.diffusers_pipeline()


@pytest.fixture(scope="module")
def loop(pipeline, tmp_path_factory):
    path = tmp_path_factory.mktemp("loop") / "ref.trace"
    with record(pipeline, path):
        tiny.generate(pipeline)
    return path


def test_a_step_with_the_references_inputs(pipeline, loop, tmp_path):
    """Other noise, but step 1 on the reference's inputs gives the reference's result."""
    with inject(pipeline, loop, at="denoise:01") as injection, record(pipeline, tmp_path / "c.trace"):
        tiny.generate(pipeline, seed=8)
    assert {str(v.key) for v in injection.values} >= {
        "denoise:01|unet|in.sample",
        "denoise:01|unet|in.timestep",
        "denoise:01|@scheduler.step|in.sample",
    }
    a, b = Trace.open(loop), Trace.open(tmp_path / "c.trace")
    for key, equal in (("denoise:00|@scheduler.step|out", False), ("denoise:01|@scheduler.step|out", True)):
        assert (a.stats(a.get(key)).l2 == pytest.approx(b.stats(b.get(key)).l2, rel=1e-6)) == equal


def test_a_scheduler_with_memory_is_not_injected_halfway(pipeline, tmp_path):
    from diffusers import DPMSolverMultistepScheduler

    single_step = pipeline.scheduler
    pipeline.scheduler = DPMSolverMultistepScheduler.from_config(single_step.config)
    try:
        with record(pipeline, tmp_path / "r.trace"):
            tiny.generate(pipeline)
        with (
            pytest.raises(TeacherForcingError, match="model_outputs"),
            inject(pipeline, tmp_path / "r.trace", at="denoise:01"),
        ):
            tiny.generate(pipeline, seed=8)
        with inject(pipeline, tmp_path / "r.trace", at="denoise:*"):
            tiny.generate(pipeline, seed=8)
    finally:
        pipeline.scheduler = single_step


def test_bisect_records_only_the_bad_step(pipeline, loop, tmp_path):
    unet = pipeline.unet
    count = [0]

    def fault(module, args, kwargs, output):
        count[0] += 1
        return output if count[0] % 3 != 2 else (output[0] * 1.01,)  # only in the second of three steps

    handle = unet.register_forward_hook(fault, with_kwargs=True)
    try:
        result = bisect(loop, pipeline, lambda: tiny.generate(pipeline), folder=tmp_path)
    finally:
        handle.remove()
    assert result.verdict is Verdict.BUG
    assert result.first.step == "denoise:01"
    assert result.first.path == "unet"
    assert Trace.open(tmp_path / "fine.trace").steps == ["-", "denoise:01"]


def test_the_gain_of_every_step(pipeline, loop, tmp_path):
    def nudge(index, tensor):
        return tensor * (1 + 1e-5)

    with record(pipeline, tmp_path / "c.trace", draw_hook=nudge):
        tiny.generate(pipeline)
    curve = gain_curve(loop, tmp_path / "c.trace")
    assert [step.step for step in curve] == ["denoise:00", "denoise:01", "denoise:02"]
    assert all(1e-7 < step.error < 1e-3 for step in curve)
    assert curve[0].gain is None
    assert curve[1].gain == pytest.approx(curve[1].error / curve[0].error)
    assert not is_chaotic(curve)


def test_stages_find_the_stage_that_is_wrong(tmp_path):
    reference, candidate = tiny.diffusers_pipeline(), tiny.diffusers_pipeline()

    def generate(pipe):
        return tiny.generate(pipe, steps=2)

    def judge(**options):
        return run_stages(reference, candidate, generate, generate, tmp_path, denoise_steps=1, **options)

    results = judge(level="module")
    assert {stage: r.verdict for stage, r in results.items()} == dict.fromkeys(
        ("encode", "decode", "denoise"), Verdict.PASS
    )

    candidate.vae.register_to_config(scaling_factor=0.13)
    results = judge()
    assert list(results) == ["encode", "decode"]  # denoise is not tried before decode is right
    assert results["decode"].verdict is Verdict.BUG
    assert results["decode"].first.path == "@pipeline/div.0"
    candidate.vae.register_to_config(scaling_factor=0.18215)

    candidate.unet.conv_in.bias.data += 0.01
    results = judge(stages=("decode", "denoise"), level="module")
    assert results["decode"].verdict is Verdict.PASS
    assert results["denoise"].first.path == "unet.conv_in"

    layer = next(m for m in candidate.text_encoder.modules() if isinstance(m, torch.nn.LayerNorm))
    layer.eps = 1e-2
    results = judge(level="module")
    assert results["encode"].verdict is Verdict.BUG
    assert list(results) == ["encode"]


def test_injected_values_keep_their_containers():
    from lockstep.parity.locate.injection import substitute

    nested = {"a": [torch.zeros(2), (torch.ones(2), 3)], "b": "text"}
    changed = substitute(nested, "in.x", {"in.x.a.1.0": torch.full((2,), 7.0), "in.x.a.1.1": torch.tensor(4)})
    assert torch.equal(changed["a"][1][0], torch.full((2,), 7.0))
    assert changed["a"][1][1] == 4
    assert changed["b"] == "text"
    assert F.relu(changed["a"][0]).sum() == 0
