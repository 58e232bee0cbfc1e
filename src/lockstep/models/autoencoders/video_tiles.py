"""Videos in overlapping tiles: sizes and strides in pixels, for encoders and decoders of any scale."""

from __future__ import annotations

from ...errors import InputError
from .parts import AutoencoderMixin, Tiles


class TiledVideoMixin(AutoencoderMixin):
    """An autoencoder of videos whose tiles have a height and a width of their own."""

    tile_sample_min_height: int
    tile_sample_min_width: int
    tile_sample_stride_height: int
    tile_sample_stride_width: int

    @property
    def tile_patch(self) -> int:
        """The side of squares of pixels that are channels, to what is run on a tile."""
        return 1

    def enable_tiling(  # type: ignore[override]
        self,
        tile_sample_min_height: int | None = None,
        tile_sample_min_width: int | None = None,
        tile_sample_stride_height: int | None = None,
        tile_sample_stride_width: int | None = None,
    ) -> None:
        """Encode and decode in overlapping tiles (sizes and strides in pixels) that are blended together."""
        for side, size, stride in (
            ("height", tile_sample_min_height, tile_sample_stride_height),
            ("width", tile_sample_min_width, tile_sample_stride_width),
        ):
            size = size or getattr(self, f"tile_sample_min_{side}")
            stride = stride or min(getattr(self, f"tile_sample_stride_{side}"), size)
            factor = self.spatial_scale_factor
            if size % factor or stride % factor or not factor <= stride <= size:
                raise InputError(
                    f"A tile's {side} and stride are multiples of {factor} pixels, the stride no longer than the tile; "
                    f"got {size} and {stride}."
                )
            setattr(self, f"tile_sample_min_{side}", size)
            setattr(self, f"tile_sample_stride_{side}", stride)
        self.use_tiling = True

    def _encoder_tiles(self, height: int, width: int) -> Tiles:
        """In the pixels that the encoder sees, after patches were made of them."""
        factor = self.spatial_scale_factor // self.tile_patch
        size, stride = self._tile_sizes(height, width)
        kept = stride[0] // factor, stride[1] // factor
        return Tiles(size, stride, kept, (size[0] // factor - kept[0], size[1] // factor - kept[1]))

    def _decoder_tiles(self, height: int, width: int) -> Tiles:
        """In latents; what comes out is not yet unpatched."""
        factor, patch = self.spatial_scale_factor, self.tile_patch
        size, stride = self._tile_sizes(height * factor, width * factor)
        kept = stride[0] // patch, stride[1] // patch
        blend = size[0] // patch - kept[0], size[1] // patch - kept[1]
        return Tiles((size[0] // factor, size[1] // factor), (stride[0] // factor, stride[1] // factor), kept, blend)

    def _tile_sizes(self, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Size and stride in pixels; one tile for everything where there is no need for more."""
        size = self.tile_sample_min_height, self.tile_sample_min_width
        if not self.use_tiling or (height <= size[0] and width <= size[1]):
            return (height, width), (height, width)
        return size, (self.tile_sample_stride_height, self.tile_sample_stride_width)
