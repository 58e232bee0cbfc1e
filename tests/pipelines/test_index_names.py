"""Finding the class that an index names imports that family and no other."""

import json
import subprocess
import sys

import pytest

import lockstep
from lockstep.blocks.index import read_index
from lockstep.errors import UnsupportedError
from lockstep.pipelines.index_names import STANDS_IN_FOR, own_name
from lockstep.pipelines.pipeline import pipeline_class

SCRIPT = """
import json, sys
from lockstep.blocks.index import read_index
from lockstep.pipelines.pipeline import pipeline_class
found = pipeline_class(read_index(sys.argv[1]))
families = {name.split(".")[2] for name in sys.modules if name.startswith("lockstep.pipelines.stable_diffusion")}
print(json.dumps([found.__name__, sorted(families)]))
"""


def folder_of(path, class_name):
    (path / "model_index.json").write_text(
        json.dumps({"_class_name": class_name, "unet": ["diffusers", "UNet2DConditionModel"]})
    )
    return str(path)


@pytest.mark.parametrize("published", ["StableDiffusionPipeline", "LatentConsistencyModelPipeline"])
def test_only_the_named_family_is_imported(published, tmp_path):
    script = [sys.executable, "-c", SCRIPT, folder_of(tmp_path, published)]
    said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == ["StableDiffusionPipeline", ["stable_diffusion"]]


def test_every_name_of_the_table_leads_to_a_class_that_knows_it(tmp_path):
    for own, others in STANDS_IN_FOR.items():
        for published in (own, *others):
            found = pipeline_class(read_index(folder_of(tmp_path, published)))
            assert found is getattr(lockstep, own)
            assert published == own or published in found.index_names
            assert own_name(published) == own


def test_an_unknown_class_is_told_with_the_nearest(tmp_path):
    with pytest.raises(UnsupportedError, match="did you mean 'StableDiffusionPipeline'"):
        pipeline_class(read_index(folder_of(tmp_path, "StableDifusionPipeline")))
    with pytest.raises(UnsupportedError, match="BaseGuidance"):
        pipeline_class(read_index(folder_of(tmp_path, "BaseGuidance")))  # public, and no pipeline
