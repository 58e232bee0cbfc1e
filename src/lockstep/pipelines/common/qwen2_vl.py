"""The processor of Qwen2-VL and Qwen2.5-VL as a component: tokenizer and picture processor in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Self, Unpack

from PIL.Image import Image

from ...files import HubArguments
from ...models.vision.qwen2_vl_pictures import PatchesAndGrids, Qwen2VLImageProcessor
from ...tokenizers import Qwen2Tokenizer

MARK = "<|image_pad|>"  # which stands for a token of a picture


class Qwen2VLProcessor:
    """Texts and pictures for Qwen2-VL and Qwen2.5-VL."""

    index_library = "transformers"

    def __init__(self, image_processor: Qwen2VLImageProcessor, tokenizer: Qwen2Tokenizer) -> None:
        self.image_processor, self.tokenizer = image_processor, tokenizer

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, subfolder: str | None = None, **hub: Unpack[HubArguments]
    ) -> Self:
        """From a folder or hub id that has the files of both."""
        pictures = Qwen2VLImageProcessor.from_pretrained(name_or_path, subfolder=subfolder, **hub)
        return cls(pictures, Qwen2Tokenizer.from_pretrained(name_or_path, subfolder=subfolder, **hub))

    def save_pretrained(self, folder: str | Path, **options: object) -> None:
        """Write the files of both."""
        self.image_processor.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def __call__(self, text: str, images: list[Image]) -> tuple[list[int], PatchesAndGrids]:
        """Token ids of a text, in which each mark is as many as its picture has tokens, and the patches."""
        seen = self.image_processor(images)
        first, *rest = text.split(MARK)
        counts = (seen.image_grid_thw.prod(1) // self.image_processor.config.merge_size**2).tolist()
        told = first + "".join(MARK * count + after for count, after in zip(counts, rest, strict=True))
        return self.tokenizer(told).input_ids, seen
