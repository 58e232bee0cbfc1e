"""Scenes by a model that draws single things: each thing is denoised by itself, and all of them are put together.

The things of a picture lie beside each other as channels of its latents, so that a row is a picture in every block,
whatever is in it: seeds, batches, checkpoints and schedulers know nothing of scenes. A picture of one thing has the
latents that it always had.
"""

from __future__ import annotations

import torch
from torch.nn.functional import interpolate

from ...blocks import BlockView, ComponentSpec, InputParam, ModularPipelineBlocks, OutputParam
from ...guiders import Condition
from ...tokenizers import CLIPTokenizer
from ...tokenizers.known_words import KnownWords
from ..common.decode import Decode
from ..common.denoise import DenoiseOrPaint
from ..common.parts import Components
from ..common.prompts import warn_of_unknown_words
from ..common.start import PrepareLatents, StartFromNoise
from ..common.unet import AutoPredict, PredictWithUNet
from ..common.weighted_text import pieces_of_rows
from ..common.workflows import AutoStart
from .blocks import StableDiffusionBlocks
from .encoders import EncodePrompt
from .scene_places import WHOLE, Place
from .scene_reading import SceneReader
from .scene_worn import Fit, Part

Tensor = torch.Tensor
Scenes = list[list[Part]]
Box = tuple[int, int, int, int]  # top, left, height and width in pixels
SCENES = OutputParam("scenes", Scenes, "The things of each picture, where one has several; else None.")
GIVEN = InputParam("scenes", Scenes, given=False, description=SCENES.description)
READ_SCENES = InputParam(
    "read_scenes",
    bool,
    default=True,
    description="Draw the things of a sentence one by one and put them together; off: the sentence as a whole.",
)
# With any of these a picture is drawn as a whole: what steers it shows all of it.
STEERED = ("image", "control_image", "adapter_image", "ip_adapter_image", "ip_adapter_image_embeds", "latents")
COLOURLESS = 0.06  # of the way from black to white: nearer to the ground than this is ground
OPAQUE = 0.18
BORDER = 2  # pixels around a picture that show its ground
INSET = 0.86  # of a place that a thing takes up: things stay apart


class ReadScene(ModularPipelineBlocks):
    """Which things each prompt asks for, and where they stand; nothing where all prompts are about one thing."""

    expected_components = [ComponentSpec("tokenizer", CLIPTokenizer, optional=True)]
    inputs = [
        InputParam.template("prompt", required=False),
        *["num_images_per_prompt", READ_SCENES],
        *[InputParam.template(name, required=False) for name in STEERED],
    ]
    outputs = [SCENES]

    def __call__(self, components: Components, state: BlockView) -> None:
        known = getattr(components.tokenizer, "known_words", None) or KnownWords(frozenset())
        state.scenes = None
        if state.prompt is None or not state.read_scenes or any(state[name] is not None for name in STEERED):
            return
        prompts = [state.prompt] if isinstance(state.prompt, str) else state.prompt
        reader = SceneReader(known)
        read = [reader.read(prompt) for prompt in prompts]
        if any(parts is not None for parts in read):
            scenes = [parts or [Part(prompt, WHOLE)] for prompt, parts in zip(prompts, read, strict=True)]
            state.scenes = [scene for scene in scenes for _ in range(state.num_images_per_prompt)]


class EncodeScene(EncodePrompt):
    """The same for prompts of several things: the texts of a picture's things one after the other."""

    inputs = [*EncodePrompt.inputs, READ_SCENES, GIVEN]

    def warn(self, components: Components, inputs: BlockView) -> None:
        if inputs.read_scenes:
            warn_of_unknown_words([components.tokenizer], inputs, lambda known, text: SceneReader(known).unread(text))
        else:
            super().warn(components, inputs)

    def __call__(self, components: Components, state: BlockView) -> None:
        if state.scenes is None:
            super().__call__(components, state)
            return
        most = most_parts(state.scenes)
        texts = [part.text for scene in state.scenes for part in filled(scene, most)]
        negatives = self.negatives(state, len(state.scenes))
        columns = [texts, [text for text in negatives for _ in range(most)]]
        counts = pieces_of_rows(components.tokenizer, columns, state.prompt_weighting, state.long_prompts)
        unguided = not components.guider.needs_unconditional
        rows = [self.encode_pieces(components, column, counts, None, state) for column in columns[: 2 - unguided]]
        rows = [row.reshape(len(state.scenes), -1, row.shape[-1]) for row in rows]
        state.prompt_embeds, state.negative_prompt_embeds = rows[0], None if unguided else rows[1]

    @staticmethod
    def negatives(state: BlockView, pictures: int) -> list[str]:
        """What each picture must not show."""
        given = state.negative_prompt or ""
        each = list(given) if isinstance(given, (list, tuple)) else [given]
        return [text for text in each for _ in range(pictures // len(each))]


class PrepareSceneLatents(PrepareLatents):
    """Noise for every thing of a picture."""

    inputs = [*PrepareLatents.inputs, GIVEN]

    def shape(self, components: Components, state: BlockView, samples: int) -> tuple[int, ...]:
        rows, channels, *sides = super().shape(components, state, samples)
        most = most_parts(state.scenes) if isinstance(state.scenes, list) else 1
        return (rows, channels * most, *sides)


class PredictScene(PredictWithUNet):
    """The UNet's prediction for each thing of each picture, as channels of one prediction."""

    inputs = [*PredictWithUNet.inputs, GIVEN]

    def predicted(self, components: Components, state: BlockView, i: int, t: Tensor) -> Tensor:
        predicted = super().predicted(components, state, i, t)
        if state.scenes is None:
            return predicted
        every = torch.zeros_like(one_by_one(state.model_input, state.scenes))
        every[shown(state.scenes)] = predicted.to(every.dtype)
        return every.reshape(state.model_input.shape)

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        if state.scenes is None:
            return super().conditions(state)
        rows = shown(state.scenes)
        texts = (state.prompt_embeds, state.negative_prompt_embeds)
        chosen = [None if text is None else one_by_one(text, state.scenes)[rows] for text in texts]
        return {"encoder_hidden_states": (chosen[0], chosen[1])}

    def sample(self, state: BlockView, inputs: dict[str, Tensor], repeats: int) -> Tensor:
        if state.scenes is None:
            return super().sample(state, inputs, repeats)
        return torch.cat([one_by_one(state.model_input, state.scenes)[shown(state.scenes)]] * repeats)


class DecodeScene(Decode):
    """Each thing through the autoencoder, and all of them into their places."""

    inputs = [*Decode.inputs, GIVEN]

    def unpacked(self, components: Components, state: BlockView) -> Tensor:
        latents = super().unpacked(components, state)
        return latents if state.scenes is None else one_by_one(latents, state.scenes)[shown(state.scenes)]

    def arranged(self, pixels: Tensor, state: BlockView) -> Tensor:
        if state.scenes is None:
            return pixels
        drawn = pixels.split([len(scene) for scene in state.scenes])
        return torch.stack([put_together(one, scene) for one, scene in zip(drawn, state.scenes, strict=True)])


def most_parts(scenes: Scenes) -> int:
    return max(map(len, scenes))


def filled(scene: list[Part], count: int) -> list[Part]:
    """The things of a scene, and the last one again until there are so many."""
    return [*scene, *[scene[-1]] * (count - len(scene))]


def shown(scenes: Scenes) -> Tensor:
    """Which of all places for things, picture after picture, have one that is shown."""
    places = torch.arange(most_parts(scenes))
    return torch.cat([places < len(scene) for scene in scenes])


def one_by_one(rows: Tensor, scenes: Scenes) -> Tensor:
    """Rows of pictures as rows of things."""
    most = most_parts(scenes)
    return rows.reshape(rows.shape[0] * most, rows.shape[1] // most, *rows.shape[2:])


def put_together(things: Tensor, scene: list[Part]) -> Tensor:
    """Pictures of single things as one picture, on the ground of the first; the larger places lie behind."""
    if len(scene) == 1 and scene[0].place == WHOLE:
        return things[0]
    picture = ground_of(things[0]).expand_as(things[0]).clone()
    wearers = [k for k, part in enumerate(scene) if part.fit is None]
    for k in sorted(wearers, key=lambda k: -scene[k].place.width * scene[k].place.height):
        box = paste(picture, things[k], scene[k].place)
        for worn in range(k + 1, next((other for other in wearers if other > k), len(scene))):
            put_on(picture, things[worn], scene[worn].fit, box)
    return picture


def ground_of(thing: Tensor) -> Tensor:
    """The colour at the border of a picture."""
    sides = (thing[:, :BORDER], thing[:, -BORDER:], thing[:, :, :BORDER], thing[:, :, -BORDER:])
    return torch.cat([side.flatten(1) for side in sides], dim=1).float().median(dim=1).values.to(thing)[:, None, None]


def paste(picture: Tensor, thing: Tensor, place: Place) -> Box | None:
    """What is on the ground of a picture, as large as its place allows; where it came to stand."""
    inner = cut_out(thing)
    if inner is None:
        return None
    height, width = picture.shape[1:]
    room = (place.height * height * INSET, place.width * width * INSET)
    scale = min(room[0] / inner.shape[1], room[1] / inner.shape[2])
    inner = resized(inner, scale)
    free = place.height * height - inner.shape[1]
    down = {"top": 0.0, "bottom": free}.get(place.touches, free / 2) + place.top * height
    across = place.left * width + (place.width * width - inner.shape[2]) / 2
    return lay(picture, inner, down, across)


def put_on(picture: Tensor, thing: Tensor, fit: Fit | None, wearer: Box | None) -> None:
    """What is on the ground of a picture, wherever its wearer wears it."""
    inner = cut_out(thing)
    if inner is None or fit is None or wearer is None:
        return
    top, left, height, width = wearer
    inner = resized(inner, min(fit.width * width / inner.shape[2], picture.shape[1] / inner.shape[1]))
    for across, down in fit.middles:
        lay(picture, inner, top + down * height - inner.shape[1] / 2, left + across * width - inner.shape[2] / 2)


def cut_out(thing: Tensor) -> Tensor | None:
    """What is on the ground of a picture, with how opaque it is as one more channel; None where nothing was drawn."""
    away = ((thing - ground_of(thing)).abs().amax(0, keepdim=True) / 2 - COLOURLESS) / (OPAQUE - COLOURLESS)
    opaque = away.clamp(0, 1)
    rows, columns = ((opaque[0] > 0.5).any(dim=side).nonzero().flatten() for side in (1, 0))
    if not len(rows):
        return None
    window = (slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
    return torch.cat([thing, opaque])[:, window[0], window[1]]


def resized(inner: Tensor, scale: float) -> Tensor:
    size = [max(1, round(side * scale)) for side in inner.shape[1:]]
    return interpolate(inner[None].float(), size=size, mode="bilinear", antialias=True)[0].to(inner)


def lay(picture: Tensor, inner: Tensor, down: float, across: float) -> Box:
    """Lay something over a picture, within it; where it came to lie."""
    (height, width), size = picture.shape[1:], inner.shape[1:]
    top, left = min(max(0, round(down)), height - size[0]), min(max(0, round(across)), width - size[1])
    region = picture[:, top : top + size[0], left : left + size[1]]
    region.copy_(region + (inner[:-1] - region) * inner[-1:])
    return top, left, size[0], size[1]


class SceneBlocks(StableDiffusionBlocks):
    """Stable Diffusion for a model that was taught single things: several are drawn one by one."""

    block_classes = {
        "scene": ReadScene,
        **StableDiffusionBlocks.table(
            text_encoder=EncodeScene,
            start=AutoStart.with_parts(text2image=StartFromNoise.with_parts(latents=PrepareSceneLatents)),
            denoise=DenoiseOrPaint.with_parts(predict=AutoPredict.with_parts(plain=PredictScene)),
            decode=DecodeScene,
        ),
    }
