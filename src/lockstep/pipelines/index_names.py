"""Class names in index files that mean one of our pipelines: data, so that finding a class imports its family only."""

from __future__ import annotations

# our class -> the further names that it stands in for
STANDS_IN_FOR: dict[str, tuple[str, ...]] = {
    "StableDiffusionPipeline": (
        "StableDiffusionImg2ImgPipeline",
        "StableDiffusionInpaintPipeline",
        "StableDiffusionControlNetPipeline",
        "StableDiffusionControlNetImg2ImgPipeline",
        "StableDiffusionControlNetInpaintPipeline",
        "LatentConsistencyModelPipeline",
        "LatentConsistencyModelImg2ImgPipeline",
    ),
    "StableDiffusionXLPipeline": (
        "StableDiffusionXLImg2ImgPipeline",
        "StableDiffusionXLInpaintPipeline",
        "StableDiffusionXLControlNetPipeline",
        "StableDiffusionXLControlNetImg2ImgPipeline",
        "StableDiffusionXLControlNetInpaintPipeline",
    ),
}


def own_name(published: str) -> str:
    """Our class's name for a name in an index file; the name itself where none stands in for it."""
    return next((own for own, others in STANDS_IN_FOR.items() if published in others), published)
