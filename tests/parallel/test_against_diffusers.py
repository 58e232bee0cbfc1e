"""The same weights over two ranks by diffusers, as far as it goes on a processor; and further."""

import pytest

from parallel import launch
from pipelines import tiny_flow


@pytest.mark.slow
def test_ulysses_is_theirs_and_more_works_here(tmp_path):
    tiny_flow.save_flux(tmp_path / "flux")
    launch.launched(tmp_path, [("parallel.against_diffusers", {"two": 2}, False)])
    found = launch.results(tmp_path, "two", 2)
    assert found["their ulysses"] == [None, None]
    assert max(found["to theirs"]) <= 1e-5
    assert all(found["their odd lengths"])
    assert all(found["their ring"])
    for name in ("ulysses to one process", "odd lengths to one process", "ring to one process"):
        assert max(found[name]) <= 1e-5, name
