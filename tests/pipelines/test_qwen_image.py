"""Qwen-Image's pipeline: what all pipelines are asked for, and the pictures of the reference."""

import port_qwen_image_pipeline
import reference_qwen_image_pipeline
from lockstep.kit.testing.closeness import assert_close
from lockstep.kit.testing.pipelines import PipelineTesterMixin
from lockstep.pipelines.qwen_image.pipeline import QwenImagePipeline


class TestQwenImagePipeline(PipelineTesterMixin):
    """All that every pipeline is asked for."""

    pipeline_class = QwenImagePipeline

    def pipeline(self):
        return port_qwen_image_pipeline.pipeline()


def test_pictures_against_reference():
    _, reference = reference_qwen_image_pipeline.build()
    _, port = port_qwen_image_pipeline.build()
    assert_close(port().images, reference().images)
