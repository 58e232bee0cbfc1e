"""What the processors of pictures share: their file, and what they are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self, Unpack

from PIL import Image

from ... import files
from ...configuration import ConfigMixin
from ...errors import InputError

NEWER = "processor_config.json"  # where transformers 5 keeps the parts of a processor


class PictureProcessor(ConfigMixin):
    """What transformers keeps in `preprocessor_config.json`, done with PIL."""

    config_name = "preprocessor_config.json"
    index_library = "transformers"
    ignored_config_keys = frozenset({"image_processor_type", "feature_extractor_type", "processor_class"})

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, subfolder: str | None = None, **hub: Unpack[files.HubArguments]
    ) -> Self:
        """From a folder or hub id; newer folders keep the settings inside of those of the whole processor."""
        patterns = [f"{subfolder}/{name}" if subfolder else name for name in (cls.config_name, NEWER)]
        folder = files.resolve_folder(name_or_path, subfolder=subfolder, patterns=patterns, **hub)
        if (folder / NEWER).is_file() and not (folder / cls.config_name).is_file():
            return cls.from_config(files.read_json(folder / NEWER).get("image_processor", {}))
        return cls.from_config(folder)

    def save_pretrained(self, folder: str | Path, **options: object) -> None:
        """Write `preprocessor_config.json`."""
        values = {**self.config, "image_processor_type": type(self).__name__}
        files.write_text(Path(folder) / self.config_name, json.dumps(values, indent=2, sort_keys=True) + "\n")

    def listed(self, images: Image.Image | Sequence[Image.Image]) -> list[Image.Image]:
        """One picture or several as a list of them."""
        pictures: list[Image.Image] = [images] if isinstance(images, Image.Image) else list(images)
        if not pictures or not all(isinstance(picture, Image.Image) for picture in pictures):
            got = type(pictures[0]).__name__ if pictures else "none"
            raise InputError(f"{type(self).__name__} wants PIL pictures, got {got}.")
        return pictures
