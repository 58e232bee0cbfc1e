"""LTX-Video's pipeline: what all pipelines are asked for, and the videos of the reference."""

import port_ltx_video_pipeline
import reference_ltx_video_pipeline
from lockstep.kit.testing.closeness import assert_close
from lockstep.kit.testing.pipelines import PipelineTesterMixin
from lockstep.pipelines.ltx_video.pipeline import LTXPipeline
from pipelines.test_wan_against_diffusers import picture


class TestLTXPipeline(PipelineTesterMixin):
    """All that every pipeline is asked for."""

    pipeline_class = LTXPipeline
    from_text, per_prompt = "text2video", "num_videos_per_prompt"

    def arguments(self, workflow):
        given = {"prompt": "a red cat", "num_inference_steps": 4, "output_type": "latent", "max_sequence_length": 12}
        given |= {"height": 32, "width": 64, "num_frames": 9}
        return given | ({} if workflow == self.from_text else {"image": picture()})

    def pipeline(self):
        return port_ltx_video_pipeline.pipeline()


def test_videos_against_reference():
    _, reference = reference_ltx_video_pipeline.build()
    _, port = port_ltx_video_pipeline.build()
    assert_close(port().frames, reference().frames)
