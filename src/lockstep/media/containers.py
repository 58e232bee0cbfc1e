"""MP4, WebM and Matroska through PyAV (the extra `video`): streamed to disk, the manifest in the metadata."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileFormatError, InputError, NotFoundError, UnsupportedError, WriteError
from .clip import Clip
from .streaming import Sink, VideoFormat
from .text import KEY

BT709, LIMITED = 1, 1  # the numbers that the standards give these colours and this range
MAX_PIXELS = 2**32  # of a whole video that is read into memory


def import_av() -> Any:
    """PyAV, or what to install."""
    try:
        import av
    except ImportError:
        raise UnsupportedError(
            "MP4, WebM and Matroska need PyAV: pip install 'lockstep-diffusion[video]'. "
            "Without it a video can be a .gif, or a folder of frames (a name without a suffix)."
        ) from None
    return av


class Container(VideoFormat):
    """A container with one video stream."""

    def __init__(
        self,
        name: str,
        suffixes: tuple[str, ...],
        tolerance: float,
        *,
        muxer: str,
        codec: str,
        pixels: str,
        settings: Mapping[str, str],
        streaming: Mapping[str, str] | None = None,
        finished: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.suffixes, self.tolerance = name, suffixes, tolerance
        self.muxer, self.codec, self.pixels, self.settings = muxer, codec, pixels, dict(settings)
        self.streaming, self.finished = dict(streaming or {}), dict(finished or {})  # options of the container

    def check_target(self, path: Path) -> None:
        super().check_target(path)
        import_av()

    def sink(self, folder: Path, size: tuple[int, int], fps: Fraction) -> Sink:
        if self.pixels == "yuv420p" and (size[0] % 2 or size[1] % 2):
            raise InputError(
                f"{self.name} wants an even width and height, got {size[0]}x{size[1]}. "
                "Use .mkv, .gif or a folder of frames."
            )
        return _ContainerSink(self, folder, size, fps)

    def read(self, path: Path) -> Clip:
        return read_container(path)

    def read_text(self, path: Path) -> str | None:
        with _opened(path) as container:
            tags = {name.lower(): value for name, value in container.metadata.items()}
        return tags.get(KEY)


FORMATS = (
    Container(
        "MP4", (".mp4",), 3.0,
        muxer="mp4", codec="libx264", pixels="yuv420p",
        # without mbtree the same frames give the same bytes: its fast path reads memory that nobody set at some widths
        settings={"crf": "18", "preset": "medium", "mbtree": "0"},
        streaming={"movflags": "frag_keyframe+empty_moov"}, finished={"movflags": "use_metadata_tags+faststart"},
    ),
    Container(
        "WebM", (".webm",), 3.0,
        muxer="webm", codec="libvpx-vp9", pixels="yuv420p",
        settings={"crf": "20", "b": "0", "deadline": "good", "cpu-used": "4", "row-mt": "1"},
    ),
    Container(
        "Matroska", (".mkv",), 0.0, muxer="matroska", codec="ffv1", pixels="bgr0", settings={"level": "3"},
    ),
)  # fmt: skip


class _ContainerSink(Sink):
    """Encoded as the frames come, into a file that is valid up to any frame; copied into the finished one."""

    def __init__(self, format: Container, folder: Path, size: tuple[int, int], fps: Fraction) -> None:
        self.av, self.format, self.folder, self.count = import_av(), format, folder, 0
        self.encoded = folder / f"encoded{format.suffixes[0]}"
        self.file = self.av.open(str(self.encoded), "w", format=format.muxer, options=format.streaming)
        self.stream = self.file.add_stream(format.codec, rate=fps, options=format.settings)
        self.stream.width, self.stream.height = size
        self.stream.pix_fmt = format.pixels
        if format.pixels == "yuv420p":
            context = self.stream.codec_context
            context.colorspace = context.color_primaries = context.color_trc = BT709
            context.color_range = LIMITED

    def add(self, pixels: np.ndarray) -> None:
        frame = self.av.VideoFrame.from_ndarray(pixels, format="rgb24")
        if self.format.pixels == "yuv420p":
            frame = frame.reformat(format=self.format.pixels, dst_colorspace=BT709, dst_color_range=LIMITED)
        frame.pts, frame.time_base = self.count, 1 / Fraction(self.stream.codec_context.rate)
        self.file.mux(self.stream.encode(frame))
        self.count += 1

    def finish(self, text: str) -> Path:
        self.file.mux(self.stream.encode(None))
        self.close()
        path = self.folder / f"finished{self.format.suffixes[0]}"
        with (
            self.av.open(str(self.encoded)) as source,
            self.av.open(str(path), "w", format=self.format.muxer, options=self.format.finished) as target,
        ):
            target.metadata[KEY] = text
            self._copy(source, target)
        self._check_whole(path)
        return path

    def _copy(self, source: Any, target: Any) -> None:
        """The packets as they are, from time 0 on."""
        stream = source.streams.video[0]
        copied = target.add_stream_from_template(stream)
        start: int | None = None
        for packet in source.demux(stream):
            if packet.dts is None:  # the mark of the end
                continue
            start = packet.pts if start is None else start
            packet.pts, packet.dts = packet.pts - start, packet.dts - start
            packet.stream = copied
            target.mux(packet)

    def _check_whole(self, path: Path) -> None:
        """The muxers take no notice of every write that fails, so the frames on the disk are counted."""
        try:
            with _opened(path) as finished:
                arrived = sum(packet.size > 0 for packet in finished.demux(video=0))
        except FileFormatError:
            arrived = 0
        if arrived != self.count:
            raise WriteError(
                f"The video cannot be written: {arrived} of {self.count} frames arrived on the disk. Is it full?"
            )

    def close(self) -> None:
        self.file.close()


def read_container(path: Path) -> Clip:
    """The frames of a video file."""
    from PIL import Image

    with _opened(path) as container:
        stream = container.streams.video[0]
        frames: list[Image.Image] = []
        pixels = 0
        for frame in container.decode(stream):
            pixels += frame.width * frame.height
            if pixels > MAX_PIXELS:
                raise InputError(
                    f"{path} has more than {MAX_PIXELS} pixels in {len(frames)} frames; cut it before use."
                )
            frames.append(Image.fromarray(frame.to_ndarray(format="rgb24")))
        rate = stream.average_rate
    if not frames:
        raise FileFormatError(f"{path} has no frame that can be read.")
    return Clip(frames, fps=float(rate) if rate else None, filename=path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A container for reading; what is wrong with it becomes an error of ours."""
    av = import_av()
    if not path.is_file():
        raise NotFoundError(f"There is no video at {path}.")
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise FileFormatError(f"{path} has no video in it.")
            yield container
    except (av.error.FFmpegError, UnicodeDecodeError) as problem:
        raise FileFormatError(f"{path} is not a video that can be read: {problem}.") from None
