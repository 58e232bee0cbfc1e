"""A text encoder that can sketch before its first step of training: principal components of the pictures as words.

The pictures of a thing in all styles lie near a few hundred directions. A word that names the thing begins as its place
along them (its *code*), so that the table of words is what remembers, which no step down a gradient has to find out.
What turns codes into sketches is the same for all things, and is written into the layers:

- first layer: each field of the sketch looks for the words that name a thing and takes their mean, and looks for the
  word of a style;
- one layer for each style: the field's own rows of the components turn the code into the latents of the field. A unit
  is far below zero, where its bend gives nothing, unless field and style are its own; there it is far above zero,
  where the bend is straight.

Large numbers that cancel out in pairs lie beside it all, so that a norm divides every text by the same; and whatever is
written adds up to nothing, since a norm takes away the mean. What is left
for the training: colours, grounds, what is worn, the last layer, and everything that a plane cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import tokenizers

from ...errors import ConfigError
from ...models.text_encoders.clip import CLIPTextModel
from .data import DEFAULT_STYLE, Item, ItemTable
from .data.colours import COLOURS
from .sketch_head import SketchHead
from .vocabulary import WORD

LINKS = frozenset(("of", "and", "with", "in", "on", "a", "the", "to"))  # words of names that name nothing
LARGE = 100.0  # the numbers that cancel out
SHARP = 12.0  # the score of a word that is looked for, above all others'
OPEN, GATE, GAIN = 8.0, 18.0, 2.0  # a unit's offset where it is used, how far a flag moves it, and its slope
CODE_SIZE = 40.0  # the mean square length of a code
PLAIN_SIZE = 0.15  # the deviation of words that name nothing, in the numbers of the code
TINT_SIZES = {"values": 0.5, "tints": 1.0, "code": 0.05}  # of the first weights of the layer that learns colours
TINTS = (*COLOURS, "white")
TIER_WEIGHTS = {1: 15.0, 2: 4.0, 3: 1.0}  # of the tiers, in what the components have to hold


@dataclass(frozen=True)
class Places:
    """Which of the hidden numbers stand for what."""

    width: int
    fields: int
    each: int  # latents of a field

    @property
    def code(self) -> int:
        """How many hold the code: six heads of eight carry it."""
        return self.width * 6 // 8

    @property
    def values(self) -> slice:
        return slice(self.code, self.code + self.each)

    @property
    def flags(self) -> slice:
        return slice(self.values.stop, self.values.stop + self.fields)

    @property
    def names(self) -> int:
        return self.flags.stop

    def style(self, number: int) -> int:
        """The flag of a further style than the default one."""
        return self.names + 1 + number

    def tints(self, styles: int) -> slice:
        """The colour of the thing, or of a word."""
        first = self.style(styles - 1)
        return slice(first, first + len(TINTS))

    def grounds(self, styles: int) -> slice:
        """The colour of the ground."""
        first = self.tints(styles).stop
        return slice(first, first + len(TINTS))

    def is_colour(self, styles: int) -> int:
        return self.grounds(styles).stop

    def is_behind(self, styles: int) -> int:
        """Set for colours that come after the name of a thing: they are the ground's."""
        return self.is_colour(styles) + 1

    @property
    def balance(self) -> int:
        """What takes back the sum of all the others."""
        return self.large.start - 1

    @property
    def large(self) -> slice:
        return slice(self.width - 4, self.width)


def words_of(name: str) -> list[str]:
    """The words of a name that tell it from others."""
    return [word for word in WORD.findall(name) if word.isalpha() and len(word) > 1 and word not in LINKS]


def can_be_told(name: str, styles: Sequence[str]) -> bool:
    """Whether no word of a name is a colour's or a style's, which have to be free for every thing."""
    return bool(words_of(name)) and not any(word in COLOURS or word in styles for word in words_of(name))


def principal_components(latents: Tensor, weights: Tensor, shares: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of latents [things, styles, values]: codes [things, rank], components [rank, styles, values] and the mean; an
    error counts by the weight of its thing and the share of its style."""
    mean = (latents * weights[:, None, None]).sum(0) / weights.sum()
    sizes = shares.sqrt()[:, None]
    centred = ((latents - mean) * sizes).flatten(1)
    _, _, directions = torch.linalg.svd(centred * weights.sqrt()[:, None], full_matrices=False)
    directions = nn.functional.pad(directions[:rank], (0, 0, 0, max(0, rank - len(directions))))
    codes = centred @ directions.T
    scale = (CODE_SIZE / codes.square().sum(1).mean()).sqrt()
    return codes * scale, (directions / scale).unflatten(1, latents.shape[1:]) / sizes, mean


def without_sum(count: int) -> Tensor:
    """Orthonormal rows [count - 1, count] whose numbers add up to nothing."""
    ones = torch.ones(count, 1, dtype=torch.float64)
    return torch.linalg.qr(torch.cat([ones, torch.eye(count, dtype=torch.float64)[:, 1:]], dim=1))[0][:, 1:].T.float()


def style_table(table: ItemTable, rows: Mapping[int, Tensor], styles: Sequence[str]) -> tuple[list[str], Tensor]:
    """The things that are drawn, and their latents in every style [things, styles, channels, side, side]; a style that
    does not have a thing has what it has in the others."""
    found: dict[str, dict[str, Item]] = {}
    for item in table.select(kinds=("base",), mirrored=False):
        if item.index in rows and item.style in styles and can_be_told(table.concepts[item.concept].name, styles):
            found.setdefault(item.concept, {})[item.style] = item
    known = {code: {style: rows[item.index] for style, item in of.items()} for code, of in found.items()}
    means = {code: torch.stack(list(of.values())).mean(0) for code, of in known.items()}
    values = [torch.stack([of.get(style, means[code]) for style in styles]) for code, of in known.items()]
    return list(known), torch.stack(values)


@torch.no_grad()
def write_sketches(
    text_encoder: CLIPTextModel,
    head: SketchHead,
    tokenizer: tokenizers.Tokenizer,
    names: Sequence[str],
    latents: Tensor,
    weights: Tensor,
    shares: Mapping[str, float],
) -> None:
    """Make the text encoder sketch the named things; `latents` [things, styles, channels, side, side], the default
    style first, as in the shares of the styles."""
    styles = list(shares)
    config = text_encoder.config
    fields = head.fields
    units, wanted = config.intermediate_size, latents[0, 0].numel()
    places = Places(config.hidden_size, fields**2, wanted // fields**2)
    layers: Any = text_encoder.text_model.encoder.layers
    if config.num_attention_heads != 8 or units != wanted or len(layers) < len(styles) or styles[0] != DEFAULT_STYLE:
        raise ConfigError(
            f"Sketches want 8 heads, {wanted} units and a layer for each style ({DEFAULT_STYLE} first), got "
            f"{config.num_attention_heads}, {units}, {len(layers)} layers and {', '.join(styles)}."
        )
    if places.is_behind(len(styles)) >= places.balance:
        raise ConfigError(f"A width of {places.width} has no room for codes, fields and flags; 464 has.")
    squares = in_fields(latents, fields)  # [things, styles, fields * values]
    codes, components, mean = principal_components(
        squares, weights, torch.tensor(list(shares.values())), places.code - 1
    )
    turn = without_sum(places.code)
    codes, components = codes @ turn, torch.einsum("rc,r...->c...", turn, components)
    embed(text_encoder, tokenizer, names, codes, weights, styles, places)
    look(layers[0].self_attn, places, len(styles))
    for norm in (module for module in text_encoder.modules() if isinstance(module, nn.LayerNorm)):
        norm.weight.fill_(2 * LARGE / places.width**0.5)
        norm.weight[places.large] /= LARGE
    for number, layer in enumerate(layers[: len(styles)]):
        decode(layer.mlp, components[:, number], mean[number], number, len(styles), places)
    layers[len(styles) - 1].mlp.fc2.bias[places.values] -= OPEN / GAIN
    layers[len(styles) - 1].mlp.fc2.bias[places.balance] += places.each * OPEN / GAIN
    for layer in layers[1:]:  # at first they add nothing
        layer.self_attn.out_proj.weight.zero_()
        layer.self_attn.out_proj.bias.zero_()
    for layer in layers[len(styles) :]:
        layer.mlp.fc2.weight.zero_()
        layer.mlp.fc2.bias.zero_()
    if len(layers) > len(styles):
        colour(layers[1].self_attn, layers[len(styles)], places, len(styles))
    head.out.weight.zero_()
    head.out.bias.zero_()
    head.out.weight[:, places.values] = torch.eye(places.each)


def let_free(text_encoder: CLIPTextModel, styles: int) -> None:
    """Only what was not written learns: the attentions after the first, and the layers behind those of the styles. What
    the words tell of single things stays as it was written."""
    layers: Any = text_encoder.text_model.encoder.layers
    text_encoder.requires_grad_(False)
    for layer in layers[1:]:
        layer.self_attn.requires_grad_(True)
    for layer in layers[styles:]:
        layer.mlp.requires_grad_(True)


def in_fields(latents: Tensor, fields: int) -> Tensor:
    """[..., channels, side, side] to [..., fields x fields x values of a field], as `SketchHead` lays them out."""
    side = latents.shape[-1] // fields
    cut = latents.unflatten(-1, (fields, side)).unflatten(-3, (fields, side))
    return cut.movedim((-4, -2), (-5, -4)).flatten(-5)


def embed(
    text_encoder: CLIPTextModel,
    tokenizer: tokenizers.Tokenizer,
    names: Sequence[str],
    codes: Tensor,
    weights: Tensor,
    styles: Sequence[str],
    places: Places,
) -> None:
    """Words begin as codes: the mean over the words of a name is the code of the thing, as nearly as words that several
    names share let it be."""
    table = text_encoder.text_model.embeddings
    tokens, positions = table.token_embedding.weight, table.position_embedding.weight
    used = [tokenizer.encode(" ".join(words_of(name)), add_special_tokens=False).ids for name in names]
    column = {token: k for k, token in enumerate(sorted({token for ids in used for token in ids}))}
    solved = solve_words([[column[token] for token in ids] for ids in used], len(column), codes, weights).to(tokens)
    draw = torch.Generator().manual_seed(0)
    tokens[:, : places.code] = PLAIN_SIZE * torch.randn(len(tokens), places.code, generator=draw)
    tokens[:, places.code :] = 0
    tokens[tokenizer.token_to_id("<|endoftext|>")] = 0  # it fills the fields
    positions.zero_()
    for token, k in column.items():
        tokens[token, : places.code] = solved[k]
        tokens[token, places.names] = 1.0
    for number, style in enumerate(styles[1:]):
        for token in tokenizer.encode(style, add_special_tokens=False).ids:
            tokens[token, places.style(number)] = 1.0
    for number, colour in enumerate(TINTS):
        for token in tokenizer.encode(colour, add_special_tokens=False).ids[:1]:
            tokens[token, places.tints(len(styles)).start + number] = 1.0
            tokens[token, places.is_colour(len(styles))] = 1.0
    count = places.flags.stop - places.flags.start
    positions[-count:, places.flags] = torch.eye(count)
    for vectors in (tokens, positions):
        vectors[:, places.balance] = -vectors.sum(1)
    positions[:, places.large] = torch.tensor([LARGE, -LARGE, LARGE, -LARGE])


def solve_words(used: Sequence[Sequence[int]], count: int, codes: Tensor, weights: Tensor) -> Tensor:
    """The codes of words [count, rank] of which the names are the means, as the norms and the attention take them: long
    words are looked at a little less, so that the shares are found again from the lengths."""
    sure = weights.double().sqrt()[:, None]
    right = torch.cat([codes.double() * sure, torch.zeros(count, codes.shape[1], dtype=torch.float64)])
    sizes = torch.ones(count, dtype=torch.float64)
    solved = right.new_zeros(count, codes.shape[1])
    for _ in range(6):
        shares = torch.zeros(len(used), count, dtype=torch.float64)
        for row, words in enumerate(used):
            own = sizes[list(words)]
            for word, share in zip(words, torch.softmax(SHARP * own, 0) * own, strict=True):
                shares[row, word] += share
        left = torch.cat([shares * sure, 0.03 * torch.eye(count, dtype=torch.float64)])
        solved = torch.linalg.lstsq(left, right).solution
        sizes = (1 + (solved.square().sum(1) + 1) / (2 * LARGE) ** 2).rsqrt()
    return solved


def look(attention: Any, places: Places, styles: int) -> None:
    """Six heads carry the code of the names to the fields, the seventh the flag of the style."""
    head = places.width // 8
    strength = (SHARP * head**0.5) ** 0.5
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        kept = 7 * head  # the eighth head is left to the training, and adds nothing at first
        if projection is attention.out_proj:
            projection.weight.zero_()
            projection.bias.zero_()
        else:
            projection.weight[:kept] = 0
            projection.bias[:kept] = 0
    for number in range(7):
        first = number * head
        attention.q_proj.weight[first, places.flags] = strength
        if number < 6:
            rows = torch.arange(first, first + head)
            attention.k_proj.weight[first, places.names] = strength
            attention.v_proj.weight[rows, rows] = 1.0
            attention.out_proj.weight[rows, rows] = 1.0
            continue
        for style in range(styles - 1):
            attention.k_proj.weight[first, places.style(style)] = strength
            attention.v_proj.weight[first + style, places.style(style)] = 1.0
            attention.out_proj.weight[places.style(style), first + style] = 1.0
            attention.out_proj.weight[places.balance, first + style] = -1.0


def colour(before: Any, layer: Any, places: Places, styles: int) -> None:
    """Colours look for a name before them; then the fields look for the colour of the thing and for that of the ground.
    What colours do to latents is left to learn, from all that can be known of a field."""
    head = places.width // 8
    strength, behind = (SHARP * head**0.5) ** 0.5, places.is_behind(styles)
    tints, grounds = places.tints(styles), places.grounds(styles)
    attention = layer.self_attn
    asked: list[tuple[Any, int, int | slice, dict[int, float]]] = [
        (before, 0, places.is_colour(styles), {places.names: 1.0}),
        (attention, 0, places.flags, {places.is_colour(styles): 1.0, behind: -1.0}),
        (attention, 1, places.flags, {behind: 1.0}),
    ]
    for module, number, asking, sought in asked:
        rows = slice(number * head, (number + 1) * head)
        for projection in (module.q_proj, module.k_proj, module.v_proj):
            projection.weight[rows] = 0
            projection.bias[rows] = 0
        module.q_proj.weight[rows.start, asking] = strength
        for place, sign in sought.items():
            module.k_proj.weight[rows.start, place] = sign * strength
    before.v_proj.weight[0, places.names] = 1.0
    before.out_proj.weight[behind, 0] = 1.0
    before.out_proj.weight[places.balance, 0] = -1.0
    for number, written in ((0, tints), (1, grounds)):
        values = torch.arange(number * head, number * head + len(TINTS))
        attention.v_proj.weight[values, torch.arange(tints.start, tints.stop)] = 1.0
        attention.out_proj.weight[torch.arange(written.start, written.stop), values] = 1.0
        attention.out_proj.weight[places.balance, values] = -1.0
    first, draw = layer.mlp.fc1, torch.Generator().manual_seed(1)
    first.weight.zero_()
    for part, size in (
        ("code", slice(places.code)),
        ("values", places.values),
        ("tints", slice(tints.start, grounds.stop)),
    ):
        values = first.weight[:, size]
        values.copy_(TINT_SIZES[part] * torch.randn(values.shape, generator=draw))
    first.bias.copy_(torch.randn(first.bias.shape, generator=draw))


def decode(mlp: Any, components: Tensor, mean: Tensor, style: int, styles: int, places: Places) -> None:
    """A unit for each value of each field: open where the field is its own and the style this one."""
    count = places.flags.stop - places.flags.start
    mlp.fc1.weight.zero_()
    mlp.fc1.weight[:, : places.code] = GAIN * components.T
    mlp.fc1.weight[:, places.flags] = GATE * torch.eye(count).repeat_interleave(places.each, dim=0)
    mlp.fc1.bias.copy_(GAIN * mean + OPEN - GATE)
    for number in range(styles - 1):
        own = style == number + 1
        mlp.fc1.weight[:, places.style(number)] = GATE if own else -GATE
    if style:
        mlp.fc1.bias.sub_(GATE)
    mlp.fc2.weight.zero_()
    mlp.fc2.weight[places.values] = torch.eye(places.each).repeat(1, count) / GAIN
    mlp.fc2.weight[places.balance] = -mlp.fc2.weight[places.values].sum(0)
    mlp.fc2.bias.zero_()
