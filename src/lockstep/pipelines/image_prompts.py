"""IP-Adapters and FreeU on a pipeline: switches of its UNet, with what a manifest tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from ..blocks.vocabulary import Picture, Pictures
from ..errors import InputError, UnknownNameError, UnsupportedError
from ..files import HUB_ARGUMENTS, HubArguments
from ..loaders.ip_adapter import (
    adapter_in_memory,
    encoder_place,
    find_ip_adapter,
    read_ip_adapter,
    require_encoder_folder,
)
from ..models.adapters.ip_adapter import IPAdapterMixin, Scale
from ..models.unets.freeu import FreeUMixin
from ..models.vision.clip_pictures import CLIPImageProcessor
from ..models.vision.clip_vision import CLIPVisionModelWithProjection
from .common import image_prompt

Place = str | torch.device  # where published scripts say that it is computed; here it is where the models are
Source = str | Path | Mapping[str, Mapping[str, Tensor]]
ENCODER, READER = "image_encoder", "feature_extractor"


class ImagePromptMixin:
    """`load_ip_adapter` and its relatives, `enable_freeu`, for `DiffusionPipeline`."""

    _brought: tuple[str, ...] = ()  # components that an IP-Adapter brought along
    _brought_loras: tuple[str, ...] = ()

    def load_ip_adapter(
        self,
        pretrained_model_name_or_path_or_dict: Source | list[Source],
        subfolder: str | list[str | None] | None = None,
        weight_name: str | list[str | None] | None = None,
        image_encoder_folder: str | None = "image_encoder",
        *,
        allow_pickle: bool = False,
        low_cpu_mem_usage: bool | None = None,
        **hub: Unpack[HubArguments],
    ) -> None:
        """Put IP-Adapters into the UNet: files, or folders and hub ids with the names of files; lists for several.

        The image encoder beside the first one is loaded where the pipeline has none. A `.bin` is read with
        `allow_pickle=True` (tensors alone; nothing in it is run).
        """
        self._require_no_run("load an IP-Adapter")  # type: ignore[attr-defined]
        unet, specs = self._image_prompt_unet(), self.component_specs  # type: ignore[attr-defined]
        if ENCODER not in specs:
            raise UnsupportedError(f"{type(self).__name__} has no block that reads pictures for IP-Adapters.")
        for name in hub:
            if name not in HUB_ARGUMENTS:
                raise UnknownNameError(
                    "argument of load_ip_adapter", name, ["subfolder", "weight_name", *HUB_ARGUMENTS]
                )
        rows = rows_of(pretrained_model_name_or_path_or_dict, subfolder, weight_name)
        adapters = [
            adapter_in_memory(source)
            if isinstance(source, Mapping)
            else read_ip_adapter(find_ip_adapter(source, name, inside, **hub), allow_pickle)
            for source, inside, name in rows
        ]
        brought: dict[str, Any] = {}
        encoder = self.held(ENCODER)  # type: ignore[attr-defined]
        source, inside, _ = rows[0]
        if encoder is None and image_encoder_folder is not None:
            if isinstance(source, Mapping):
                raise InputError(
                    "An IP-Adapter that is a dict has no image encoder beside it: give one (pipe.image_encoder = …), "
                    "or image_encoder_folder=None to use ready 'ip_adapter_image_embeds' alone."
                )
            encoder = brought[ENCODER] = load_encoder(source, inside, image_encoder_folder, unet, hub)
        if READER in specs and self.held(READER) is None:  # type: ignore[attr-defined]
            side = 224 if encoder is None else encoder.config["image_size"]
            brought[READER] = CLIPImageProcessor(size=side, crop_size=side)
        loras = {f"faceid_{k}": unet.lora_of(adapter) for k, adapter in enumerate(adapters) if adapter.lora}
        unet.set_ip_adapters(adapters)
        self._bring_loras(loras)
        self.update_components(**brought)  # type: ignore[attr-defined]
        self._brought = (*self._brought, *brought)

    def unload_ip_adapter(self) -> None:
        """Take the IP-Adapters out, and what they brought along: the UNet is what it was."""
        self._require_no_run("unload an IP-Adapter")  # type: ignore[attr-defined]
        self._image_prompt_unet().unset_ip_adapters()
        self._bring_loras({})
        self.update_components(**dict.fromkeys(self._brought))  # type: ignore[attr-defined]
        self._brought = ()

    def _bring_loras(self, loras: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Use the LoRAs that came with adapters, in place of those that came with earlier ones."""
        adapters: Any = self._adapters  # type: ignore[attr-defined]
        adapters.remove([name for name in self._brought_loras if name in adapters.loras])
        self._brought_loras = tuple(loras)
        for name, tensors in loras.items():
            self.load_lora_weights(tensors, name)  # type: ignore[attr-defined]
            adapters.loras[name].comes_with_adapter = True

    def set_ip_adapter_scale(self, scale: Scale | list[Scale]) -> None:
        """How strongly pictures act: a number, or a dict by block ({"up": {"block_0": [0.0, 1.0, 0.0]}}, what it does
        not name is 0); a list has one for each adapter. A callback may change it between two steps of its own run."""
        current = self._current.run  # type: ignore[attr-defined]
        if self._runs - {current}:  # type: ignore[attr-defined]
            raise InputError("Cannot set an IP-Adapter's scale while another run of this pipeline is under way.")
        self._image_prompt_unet().set_ip_adapter_scale(scale)

    @torch.no_grad()
    def encode_image(
        self,
        image: Pictures,
        device: Place | None = None,
        num_images_per_prompt: int = 1,
        output_hidden_states: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The encodings of pictures for one IP-Adapter, and those that stand for no picture."""
        encoder, reader = self.held(ENCODER), self.held(READER)  # type: ignore[attr-defined]
        if encoder is None or reader is None:
            raise InputError("encode_image needs the components 'image_encoder' and 'feature_extractor'.")
        pictures = image_prompt.pictures_of([image], 1, encoder)[0]
        pair = image_prompt.encode_pictures(encoder, reader, pictures, bool(output_hidden_states))
        embeds, without = (rows.repeat_interleave(num_images_per_prompt, dim=0) for rows in pair)
        return embeds, without

    @torch.no_grad()
    def prepare_ip_adapter_image_embeds(
        self,
        ip_adapter_image: Pictures | list[Picture | list[Picture]] | None,
        ip_adapter_image_embeds: list[Tensor] | None = None,
        device: Place | None = None,
        num_images_per_prompt: int = 1,
        do_classifier_free_guidance: bool = True,
    ) -> list[Tensor]:
        """What a call takes as `ip_adapter_image_embeds`: a tensor for each adapter; with guidance, the rows for the
        unconditional prediction come first."""
        if ip_adapter_image_embeds is not None:
            pairs = image_prompt.split_ready(ip_adapter_image_embeds, do_classifier_free_guidance)
        else:
            projections = image_prompt.require_adapters(self._image_prompt_unet(), image_prompt.NAME)
            encoder, reader = self.held(ENCODER), self.held(READER)  # type: ignore[attr-defined]
            image_prompt.require_encoder(encoder, reader, projections)
            encoded = image_prompt.encode_all(projections, encoder, reader, ip_adapter_image)
            pairs = [(rows[None], without[None]) for rows, without in encoded]
        found = []
        for rows, without in pairs:
            parts = [without, rows] if do_classifier_free_guidance and without is not None else [rows]
            found.append(torch.cat([torch.cat([part] * num_images_per_prompt) for part in parts]))
        return found

    def enable_freeu(self, s1: float, s2: float, b1: float, b2: float) -> None:
        """FreeU (arXiv:2309.11497): damp the skips (s) and amplify the backbone (b) of the UNet's first two stages."""
        self._require_no_run("enable FreeU")  # type: ignore[attr-defined]
        self._freeu_unet().enable_freeu(s1, s2, b1, b2)

    def disable_freeu(self) -> None:
        """Nothing is weighed any more."""
        self._require_no_run("disable FreeU")  # type: ignore[attr-defined]
        self._freeu_unet().disable_freeu()

    def describe_switches(self) -> dict[str, Any]:
        """What is switched on in the UNet, for the manifest."""
        unet = plain(self.components.get(self._denoiser_name() or ""))  # type: ignore[attr-defined]
        told: dict[str, Any] = {}
        if isinstance(unet, FreeUMixin) and unet.freeu is not None:
            told["freeu"] = asdict(unet.freeu)
        if isinstance(unet, IPAdapterMixin) and unet.ip_adapters:
            told["ip_adapters"] = [{"file": None, "sha256": None, **source} for source in unet.ip_adapters]
            told["ip_adapter_scale"] = unet.ip_adapter_scale
        return told

    def _denoiser_name(self) -> str | None:
        return next(iter(self.assembly.players.get("denoiser", [])), None)  # type: ignore[attr-defined]

    def _denoiser(self, what: str, kind: type) -> Any:
        name = self._denoiser_name()
        found = None if name is None else plain(self.held(name))  # type: ignore[attr-defined]
        if not isinstance(found, kind):
            got = "no denoiser" if found is None else f"a {type(found).__name__}"
            raise UnsupportedError(f"{what}: it acts on a UNet2DConditionModel, and {type(self).__name__} has {got}.")
        return found

    def _freeu_unet(self) -> FreeUMixin:
        found: FreeUMixin = self._denoiser("FreeU (arXiv:2309.11497) cannot be used", FreeUMixin)
        return found

    def _image_prompt_unet(self) -> IPAdapterMixin:
        found: IPAdapterMixin = self._denoiser("IP-Adapters (arXiv:2308.06721) cannot be used", IPAdapterMixin)
        return found


def plain(model: Any) -> Any:
    """The model that torch.compile wraps."""
    return getattr(model, "_orig_mod", model)


def rows_of(sources: Any, subfolders: Any, names: Any) -> list[tuple[Any, str | None, str | None]]:
    """Source, subfolder and file name of each adapter; one value stands for all of them."""
    columns = [value if isinstance(value, list) else [value] for value in (sources, subfolders, names)]
    count = max(len(column) for column in columns)
    if any(len(column) not in (1, count) for column in columns):
        told = ", ".join(str(len(column)) for column in columns)
        raise InputError(
            f"load_ip_adapter wants lists of one length for sources, subfolders and weight names, got {told}."
        )
    whole = [column * count if len(column) == 1 else column for column in columns]
    return list(zip(*whole, strict=True))


def load_encoder(source: str | Path, inside: str | None, folder: str, unet: Any, hub: Any) -> Any:
    """The image encoder that stands beside an adapter."""
    beside = Path(source).parent if Path(source).is_file() else source
    found = require_encoder_folder(beside, encoder_place(inside, folder), **hub)
    return CLIPVisionModelWithProjection.from_pretrained(found, dtype=unet.dtype, device=str(unet.device))
