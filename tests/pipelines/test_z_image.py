"""Z-Image's pipeline: what all pipelines are asked for, and the pictures of the reference."""

import port_z_image_pipeline
import reference_z_image_pipeline
from lockstep.kit.testing.closeness import assert_close
from lockstep.kit.testing.pipelines import PipelineTesterMixin
from lockstep.pipelines.z_image.pipeline import ZImagePipeline


class TestZImagePipeline(PipelineTesterMixin):
    """All that every pipeline is asked for."""

    pipeline_class = ZImagePipeline

    def pipeline(self):
        return port_z_image_pipeline.pipeline()


def test_pictures_against_reference():
    _, reference = reference_z_image_pipeline.build()
    _, port = port_z_image_pipeline.build()
    assert_close(port().images, reference().images)
