"""What installed packages bring: found by declared entry points alone, and told apart where it is not right."""

import json

import pytest

from lockstep import EulerDiscreteScheduler, attention_backend, extensions
from lockstep.attention import AttentionBackend, backends, get_backend
from lockstep.attention.kernels import run_math
from lockstep.blocks.index import parse_index
from lockstep.cli.pipelines import make_guider
from lockstep.errors import LoadError, UnknownNameError, UnsupportedError
from lockstep.guiders import ClassifierFreeGuidance
from lockstep.pipelines.common.parts import SCHEDULER
from lockstep.schedulers import SchedulerMixin
from lockstep.schedulers.names import classes, find_scheduler


class DawnScheduler(EulerDiscreteScheduler):
    """Euler's method under another name."""


class DawnGuidance(ClassifierFreeGuidance):
    """Guidance under another name."""


DAWN = AttentionBackend("dawn", run_math, "the definition under another name")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes a package that declares these entry points: group -> name -> value."""

    def install(package="dawn", **groups):
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [
            f"[lockstep.{group}]\n" + "".join(f"{n} = {v}\n" for n, v in names.items())
            for group, names in groups.items()
        ]
        (metadata / "entry_points.txt").write_text("\n".join(lines))

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(backends, "_REGISTRY", dict(backends._REGISTRY))
    return install


def here(name):
    return f"{__name__}:{name}"


def test_a_scheduler_and_a_guider_are_found_by_name(installed):
    installed(schedulers={"DawnScheduler": here("DawnScheduler")}, guiders={"DawnGuidance": here("DawnGuidance")})
    assert find_scheduler("dawn")[0].__name__ == "DawnScheduler"
    assert type(make_guider("DawnGuidance:guidance_scale=3")).__name__ == "DawnGuidance"


def test_an_attention_backend_is_registered_when_it_is_first_asked_for(installed):
    installed(attention_backends={"dawn": here("DAWN")})
    assert get_backend("dawn").name == "dawn"
    with attention_backend("dawn"):
        pass
    with pytest.raises(UnknownNameError, match="dawn"):
        get_backend("dwan")


def test_an_index_chooses_among_what_is_declared_and_imports_nothing_else(installed, tmp_path):
    """The module that an index names plays no part: only the name of the class does."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')\n")
    installed(schedulers={"DawnScheduler": here("DawnScheduler")})
    content = {"scheduler": ["evil", "DawnScheduler"], "_class_name": "X"}
    found = parse_index("model", tmp_path / "model_index.json", json.loads(json.dumps(content)))
    assert found.locate(SCHEDULER).type_hint.__name__ == "DawnScheduler"
    found.entries["scheduler"] = ["evil", "EvilScheduler"]
    with pytest.raises(UnknownNameError, match="EvilScheduler"):
        found.locate(SCHEDULER)


def test_two_packages_with_one_name_are_refused(installed):
    installed("dawn", schedulers={"DawnScheduler": here("DawnScheduler")})
    installed("dusk", schedulers={"DawnScheduler": "elsewhere:DawnScheduler"})
    with pytest.raises(LoadError, match=r"Two packages bring the scheduler 'DawnScheduler': (dawn|dusk).* and "):
        extensions.brought("scheduler", "DawnScheduler", SchedulerMixin)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_module:DawnScheduler", "cannot be imported: ModuleNotFoundError"),
        (here("DawnGuidance"), "is no scheduler: it has to be a SchedulerMixin, got DawnGuidance"),
        (here("DAWN"), "got AttentionBackend"),
    ],
)
def test_what_cannot_be_had_is_told_with_its_package_and_left_out_of_lists(installed, caplog, value, problem):
    installed("broken", schedulers={"DawnScheduler": value})
    with pytest.raises((LoadError, UnsupportedError), match=f"package broken .*{problem}"):
        extensions.brought("scheduler", "DawnScheduler", SchedulerMixin)
    assert "EulerDiscreteScheduler" in classes()
    assert "DawnScheduler" not in classes()


def test_nothing_is_imported_for_a_list_of_names(installed):
    installed(schedulers={"LateScheduler": "no_such_module:LateScheduler"})
    assert "LateScheduler" in extensions.brought_names("scheduler")
