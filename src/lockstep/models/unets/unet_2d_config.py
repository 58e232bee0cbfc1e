"""The published UNet configuration, checked and written out block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ..modeling import check_sizes
from .unet_2d_blocks import ResnetSettings, TransformerSettings
from .unet_2d_k_blocks import GROUP as K_GROUP
from .unet_2d_k_blocks import is_coarsest

K_DOWN_BLOCKS, K_UP_BLOCKS = ("KDownBlock2D", "KCrossAttnDownBlock2D"), ("KUpBlock2D", "KCrossAttnUpBlock2D")
DOWN_BLOCK_TYPES = ("DownBlock2D", "CrossAttnDownBlock2D", *K_DOWN_BLOCKS)
MID_BLOCK_TYPES = ("UNetMidBlock2DCrossAttn", "UNetMidBlock2D", None)
UP_BLOCK_TYPES = ("UpBlock2D", "CrossAttnUpBlock2D", *K_UP_BLOCKS)

# Published options that belong to other families: any value but these would change what the model computes.
ONLY_VALUES: dict[str, tuple[Any, ...]] = {
    "time_embedding_type": ("positional", "fourier"),
    "attention_type": ("default",),
    "dual_cross_attention": (False, None),
    "cross_attention_norm": (None, "layer_norm"),  # K blocks have it always, the others never
    "mid_block_only_cross_attention": (False, None),
    "resnet_skip_time_act": (False,),
    "resnet_out_scale_factor": (1.0,),
    "resnet_time_scale_shift": ("default", "scale_shift"),
    "encoder_hid_dim_type": (None, "text_proj"),
    "addition_embed_type": (None, "text", "text_time"),
    "class_embed_type": (None, "timestep", "identity", "projection", "simple_projection"),
}

RANGES: dict[str, tuple[float, float]] = {"dropout": (0, 1), "norm_eps": (0, 1), "downsample_padding": (0, 1)}
SIZES = (
    "in_channels",
    "out_channels",
    "sample_size",
    "block_out_channels",
    "layers_per_block",
    "norm_num_groups",
    "attention_head_dim",
    "num_attention_heads",
    "cross_attention_dim",
    "encoder_hid_dim",
    "time_embedding_dim",
    "time_cond_proj_dim",
    "num_class_embeds",
    "projection_class_embeddings_input_dim",
    "addition_time_embed_dim",
    "addition_embed_type_num_heads",
    "conv_in_kernel",
    "conv_out_kernel",
    "conditioning_channels",
    "conditioning_embedding_out_channels",
)


@dataclass(frozen=True)
class UNetPlan:
    """A configuration with one value per block."""

    owner: str
    block_out_channels: tuple[int, ...]
    layers_per_block: tuple[int, ...]
    down_block_types: tuple[str, ...]
    mid_block_type: str | None
    up_block_types: tuple[str, ...]  # none in a ControlNet
    heads: tuple[int, ...]
    only_cross_attention: tuple[bool, ...]
    down_depths: tuple[tuple[int, ...], ...]
    mid_depth: int
    up_depths: tuple[tuple[int, ...], ...]
    cross_attention_dim: int
    use_linear_projection: bool
    upcast_attention: bool
    time_embed_dim: int
    resnet: ResnetSettings

    def transformer(self, level: int, depths: tuple[int, ...], only_cross: bool = False) -> TransformerSettings:
        """The transformers at one level of the UNet (0 is the finest)."""
        return TransformerSettings(
            heads=self.heads[level],
            depths=depths,
            cross_attention_dim=self.cross_attention_dim,
            groups=self.resnet.groups,
            use_linear_projection=self.use_linear_projection,
            upcast_attention=self.upcast_attention,
            only_cross_attention=only_cross,
        )

    def attends(self, level: int) -> bool:
        """Whether a block of that level has attention, on the way down, in the middle or on the way up."""
        last = len(self.block_out_channels) - 1
        kinds = [self.down_block_types[level], self.up_block_types[last - level] if self.up_block_types else ""]
        kinds += [self.mid_block_type or ""] if level == last else []
        return any("CrossAttn" in kind for kind in kinds)


def plan_unet(owner: str, config: Mapping[str, Any]) -> UNetPlan:
    """Check a configuration and write it out block by block; what cannot work is a ConfigError."""
    refuse_unsupported(owner, config)
    check_sizes(owner, config, *SIZES)
    check_sizes(owner, config, "transformer_layers_per_block", "reverse_transformer_layers_per_block", least=0)
    channels = tuple(config["block_out_channels"])
    down_types = tuple(config["down_block_types"])
    count = len(down_types)
    check_block_types(owner, config, count)
    layers = per_block(owner, "layers_per_block", config["layers_per_block"], count)
    depths = per_block(owner, "transformer_layers_per_block", config["transformer_layers_per_block"], count)
    if config.get("cross_attention_norm") and not set(down_types) & set(K_DOWN_BLOCKS):
        got = config["cross_attention_norm"]
        raise ConfigError(f"{owner}: cross_attention_norm has to be None for these blocks, got {got!r}.")
    waves = config.get("time_embedding_type") == "fourier"
    time_embed_dim = config.get("time_embedding_dim") or (2 if waves else 4) * channels[0]
    plan = UNetPlan(
        owner=owner,
        block_out_channels=channels,
        layers_per_block=layers,
        down_block_types=down_types,
        mid_block_type=config["mid_block_type"],
        up_block_types=tuple(config.get("up_block_types") or ()),
        heads=heads_per_block(owner, config, count),
        only_cross_attention=per_block(owner, "only_cross_attention", config["only_cross_attention"], count),
        down_depths=tuple(depths_of(owner, depth, number) for depth, number in zip(depths, layers, strict=True)),
        mid_depth=depths[-1] if isinstance(depths[-1], int) else depths[-1][0],
        up_depths=plan_up_depths(owner, config, depths, layers),
        cross_attention_dim=one_text_width(owner, config, count),
        use_linear_projection=config["use_linear_projection"],
        upcast_attention=bool(config["upcast_attention"]),
        time_embed_dim=time_embed_dim,
        resnet=ResnetSettings(
            temb_channels=time_embed_dim * (2 if config.get("class_embeddings_concat") else 1),
            groups=config["norm_num_groups"] or 1,  # K blocks have groups of their own
            eps=config["norm_eps"],
            act_fn=config["act_fn"],
            time_scale_shift=config["resnet_time_scale_shift"],
            dropout=config.get("dropout", 0.0),
        ),
    )
    check_divisions(plan)
    if is_k_unet(config):
        check_k_widths(plan)
    return plan


def refuse_unsupported(owner: str, config: Mapping[str, Any]) -> None:
    """An option that this class does not compute is an error, never ignored."""
    for name, values in ONLY_VALUES.items():
        if name in config and config[name] not in values:
            wanted = " or ".join(repr(value) for value in values)
            raise ConfigError(f"{owner}: {name} has to be {wanted}, got {config[name]!r}; no other value is supported.")
    for name, (low, high) in RANGES.items():
        if not low <= config.get(name, low) <= high:
            raise ConfigError(f"{owner}: {name} has to be from {low} to {high}, got {config[name]}.")
    if config["norm_num_groups"] is None and not is_k_unet(config):
        raise ConfigError(f"{owner}: norm_num_groups has to be a number; a UNet without group norm is not supported.")


def is_k_unet(config: Mapping[str, Any]) -> bool:
    """Whether the blocks are those of k-diffusion's UNets."""
    return any(kind in K_DOWN_BLOCKS for kind in config["down_block_types"])


def check_k_blocks(owner: str, config: Mapping[str, Any]) -> None:
    """K blocks fit together among themselves alone, in the arrangement of the published models."""
    kinds = [*config["down_block_types"], *(config.get("up_block_types") or ())]
    known, whole = {*K_DOWN_BLOCKS, *K_UP_BLOCKS}, bool(config.get("up_block_types"))
    if not known.issuperset(kinds) or config["mid_block_type"] is not None or not whole:
        raise ConfigError(
            f"{owner}: K blocks go with K blocks and no middle: down_block_types of {', '.join(K_DOWN_BLOCKS)}, "
            f"up_block_types of {', '.join(K_UP_BLOCKS)} and mid_block_type None; got {', '.join(kinds)} and "
            f"{config['mid_block_type']!r}."
        )
    for channels in config["block_out_channels"]:
        if channels % K_GROUP:
            raise ConfigError(f"{owner}: block_out_channels of K blocks are multiples of {K_GROUP}, got {channels}.")


def check_block_types(owner: str, config: Mapping[str, Any], count: int) -> None:
    """Known block types, as many of each list as there are levels."""
    if is_k_unet(config):
        check_k_blocks(owner, config)
    for name, known in (("down_block_types", DOWN_BLOCK_TYPES), ("up_block_types", UP_BLOCK_TYPES)):
        for block_type in config.get(name) or ():
            if block_type not in known:
                raise ConfigError(f"{owner}: {name} has {block_type!r}; supported are {', '.join(known)}.")
    if config["mid_block_type"] not in MID_BLOCK_TYPES:
        known_mid = ", ".join(str(name) for name in MID_BLOCK_TYPES)
        raise ConfigError(f"{owner}: mid_block_type is {config['mid_block_type']!r}; supported are {known_mid}.")
    if count == 0:
        raise ConfigError(f"{owner}: down_block_types is empty; at least one block is needed.")
    for name in ("up_block_types", "block_out_channels"):
        if name in config and len(config[name]) != count:
            raise ConfigError(
                f"{owner}: {name} has {len(config[name])} values and down_block_types {count}; they have to be as many."
            )


def per_block(owner: str, name: str, value: Any, count: int) -> tuple[Any, ...]:
    """One value for all blocks, or a list with one per block."""
    if not isinstance(value, (list, tuple)):
        return (value,) * count
    if len(value) != count:
        raise ConfigError(f"{owner}: {name} has {len(value)} values for {count} blocks; give one, or one per block.")
    return tuple(value)


def heads_per_block(owner: str, config: Mapping[str, Any], count: int) -> tuple[int, ...]:
    """The number of heads, which the published configs call `attention_head_dim`."""
    name = "attention_head_dim" if config["num_attention_heads"] is None else "num_attention_heads"
    return per_block(owner, name, config[name], count)


def depths_of(owner: str, depth: int | tuple[int, ...], layers: int) -> tuple[int, ...]:
    """The number of transformer layers after each resnet of one block."""
    if isinstance(depth, int):
        return (depth,) * layers
    if len(depth) < layers:
        raise ConfigError(
            f"{owner}: transformer_layers_per_block gives {list(depth)} for a block of {layers} resnets; "
            "give one number, or one per resnet."
        )
    return tuple(depth[:layers])  # published configs may list more than a block has


def plan_up_depths(
    owner: str, config: Mapping[str, Any], depths: tuple[Any, ...], layers: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """Transformer layers of the up blocks, coarsest first: the down blocks' reversed unless the config lists them."""
    listed = config.get("reverse_transformer_layers_per_block")
    if listed is None and "up_block_types" in config and not all(isinstance(depth, int) for depth in depths):
        raise ConfigError(
            f"{owner}: transformer_layers_per_block lists resnets one by one, so the up blocks, which have one more, "
            "need reverse_transformer_layers_per_block."
        )
    if listed is None:
        listed = tuple(depth for depth in reversed(depths) if isinstance(depth, int))
    elif len(listed) != len(depths):
        raise ConfigError(
            f"{owner}: reverse_transformer_layers_per_block has {len(listed)} values for {len(depths)} up blocks."
        )
    return tuple(depths_of(owner, depth, number + 1) for depth, number in zip(listed, reversed(layers), strict=False))


def one_text_width(owner: str, config: Mapping[str, Any], count: int) -> int:
    """The width of the text that all blocks read."""
    widths = set(per_block(owner, "cross_attention_dim", config["cross_attention_dim"], count))
    if len(widths) != 1:
        raise ConfigError(
            f"{owner}: cross_attention_dim differs between blocks ({config['cross_attention_dim']}); one text goes to "
            "all of them, so one width is needed."
        )
    return widths.pop()


def check_k_widths(plan: UNetPlan) -> None:
    """The up block without a skip is told by its widths: it has to be the coarsest one, where there is attention."""
    for level, channels in enumerate(plan.block_out_channels):
        last = level == len(plan.block_out_channels) - 1
        attends = plan.up_block_types[-1 - level] == K_UP_BLOCKS[1]
        finer = plan.block_out_channels[max(level - 1, 0)]
        if is_coarsest(channels, finer, plan.resnet.temb_channels, attends) != (last and attends):
            raise ConfigError(
                f"{plan.owner}: the two coarsest levels of K blocks, and no others, are as wide as the time embedding "
                f"({plan.resnet.temb_channels}); block_out_channels are {list(plan.block_out_channels)}."
            )


def check_divisions(plan: UNetPlan) -> None:
    """Channels that the norms can divide, and where there is attention, the heads."""
    for level, (channels, heads) in enumerate(zip(plan.block_out_channels, plan.heads, strict=True)):
        if channels % plan.resnet.groups:
            raise ConfigError(
                f"{plan.owner}: block_out_channels {channels} is no multiple of norm_num_groups {plan.resnet.groups}."
            )
        if plan.attends(level) and channels % heads:
            raise ConfigError(
                f"{plan.owner}: block_out_channels {channels} cannot be divided into {heads} heads "
                "(attention_head_dim is the number of heads in published configs)."
            )
