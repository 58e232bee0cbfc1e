"""Single files: a checkpoint as the components of a pipeline, in the original layout or in the published one.

Configs come from `config=` (a folder), from the file's own header where Lockstep wrote it, or from what the family's
published configs say and the shapes imply. Nothing is fetched from anywhere.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from .. import files
from ..configuration import config_defaults
from ..errors import ConfigError, FileFormatError, LoadError, NotFoundError, UnsupportedError, WeightsError
from ..models.adapters.t2i_adapter_map import t2i_adapter_rows
from ..models.autoencoders.autoencoder_kl_ltx_video_map import ltx_autoencoder_rows
from ..models.autoencoders.autoencoder_kl_map import autoencoder_rows
from ..models.autoencoders.autoencoder_kl_wan_map import wan_autoencoder_rows
from ..models.autoencoders.autoencoder_tiny_map import tiny_rows
from ..models.controlnets.controlnet_map import controlnet_rows
from ..models.modeling import ModelMixin, resolve_device, resolve_dtype
from ..models.text_encoders.clip_map import clip_rows, open_clip_rows
from ..models.text_encoders.qwen2_5_vl_map import qwen2_5_vl_rows
from ..models.text_encoders.qwen3_map import qwen3_llama_rows
from ..models.text_encoders.t5_map import llama_rows
from ..models.transformers.transformer_flux_map import flux_rows
from ..models.transformers.transformer_ltx_video_map import ltx_rows
from ..models.transformers.transformer_sd3_map import sd3_rows
from ..models.transformers.transformer_wan_map import wan_rows
from ..models.transformers.transformer_z_image_map import z_image_rows
from ..models.unets.unet_2d_condition_map import unet_rows
from ..models.weights import DTYPES, MadeTensor, MappedFiles, StoredTensor
from ..notes import say_once
from ..tokenizers import CLIPTokenizer, Qwen2Tokenizer, T5Tokenizer, Tokenizer
from .checkpoint import open_checkpoint, open_header
from .config_difference import compare_config
from .detect import VARIANT_PIPELINES, Detection, Guess, detect, known_families
from .folder_files import embedded_files, embedded_json
from .parts import DENOISERS, ROLES, TITLES, Part
from .quantised import FLOAT8
from .taesd import open_tiny
from .weight_map import WeightMap

Model = TypeVar("Model", bound=ModelMixin)
CLASSES = {  # kind of a part -> its class, where the family does not say another
    "unet": "UNet2DConditionModel",
    "controlnet": "ControlNetModel",
    "vae": "AutoencoderKL",
    "wan_vae": "AutoencoderKLWan",
    "ltx_vae": "AutoencoderKLLTXVideo",
    "text": "CLIPTextModel",
    "t5": "T5EncoderModel",
    "umt5": "UMT5EncoderModel",
    "tiny": "AutoencoderTiny",
    "flux": "FluxTransformer2DModel",
    "sd3": "SD3Transformer2DModel",
    "wan": "WanTransformer3DModel",
    "z_image": "ZImageTransformer2DModel",
    "ltx": "LTXVideoTransformer3DModel",
    "qwen3": "Qwen3Model",
    "qwen_image": "QwenImageTransformer2DModel",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "t2i_adapter": "T2IAdapter",
}
SAME_PARTS = {"AutoencoderKLQwenImage": "wan_vae"}  # classes whose parts lie in files as those of another
# in place of a padding token: whose tokenizer it is, where that is not CLIP; no single file carries their vocabularies
VOCABULARIES: dict[str, type[Tokenizer]] = {"T5": T5Tokenizer, "Qwen": Qwen2Tokenizer}
LATENT_SCALES = (
    "Stable Diffusion 3: scaling_factor=1.5305, shift_factor=0.0609; FLUX.1: scaling_factor=0.3611, shift_factor=0.1159"
)
UNCOMPARED = ("num_hidden_layers",)  # a file may have a layer more than is used
PROJECTION = "text_projection.weight"
TOKENIZER_FILES = re.compile(r"(vocab\.json|merges\.txt|tokenizer\.json)$")


class SingleFile:
    """One checkpoint file, recognised and ready to give its components."""

    def __init__(
        self,
        path: str | Path,
        *,
        config: str | Path | None = None,
        family: str | None = None,
        prediction_type: str | None = None,
        allow_pickle: bool = False,
        opened: MappedFiles | None = None,
        configured: bool = False,
    ) -> None:
        self.path, self.allow_pickle, self.opened = Path(path), allow_pickle, opened or MappedFiles()
        self.header = open_header(self.path, allow_pickle)
        self.found: Detection = detect(self.header, family)
        self.config_folder = None if config is None else files.resolve_folder(config, patterns=["*.json", "*.txt"])
        self.embedded = embedded_files(self.header.metadata)
        self.guess: Guess = self.found.require(configured=configured or config is not None or bool(self.embedded))
        self.asked_prediction = prediction_type
        self.prediction_type = prediction_type or self.found.prediction_type
        self._stored: dict[str, StoredTensor] | None = None
        unknown = {kind: count for kind, count in self.found.leftovers.items() if kind.startswith("unknown")}
        for kind, count in unknown.items():
            say_once(f"{self.path}: {count} tensors belong to no part of it and are not used ({kind}).")

    # ---- what it is ----

    @property
    def family(self) -> dict[str, Any]:
        """What the published configs of its family say; nothing for a part that several families share."""
        family = known_families().get(self.guess.family, {})
        return {**family, **family.get("variants", {}).get(self.guess.variant, {})}

    def class_name(self, component: str) -> str:
        """The class of a component."""
        return self.family.get("classes", {}).get(component) or CLASSES[self.part(component).kind]

    def index(self) -> dict[str, Any]:
        """The index that a folder of this model would have: its class, and the class of every component."""
        said = self.declared("model_index.json")
        if said is not None:
            held = {name: entry for name, entry in said.items() if self.has(name) or not isinstance(entry, list)}
            return {**held, "_class_name": said.get("_class_name")}
        if not any(name in self.found.components for name in DENOISERS):
            raise LoadError(
                f"{self.path} is no pipeline but a {self.found.title}. Load it with the class of that model."
            )
        index: dict[str, Any] = {"_class_name": self.pipeline_class(), **self.family["index"]}
        index |= {name: ["diffusers", self.class_name(name)] for name in self.found.components if name != "controlnet"}
        for name, kind in self.family["tokenizers"].items():
            index[name] = ["transformers", VOCABULARIES.get(kind, CLIPTokenizer).__name__]
        index["scheduler"] = ["diffusers", self.family["scheduler"]["_class_name"]]
        left = [name for name in self.family.get("optional", ()) if name not in self.found.components]
        left += [name.replace("text_encoder", "tokenizer") for name in left]
        return index | {name: [None, None] for name in (*self.family["absent"], *left)}

    def has(self, name: str) -> bool:
        """Whether a component of an index can be had from here."""
        lone_text = name.startswith("text_encoder") and sum(p.role == "text_encoder" for p in self.found.parts) == 1
        return name in self.found.components or lone_text or name.startswith(("tokenizer", "scheduler"))

    def pipeline_class(self) -> str:
        """The published class for this family and variant."""
        variant, family = self.guess.variant, self.guess.family
        if not variant or "transformer" in self.family["components"]:
            return self.family["pipeline"]
        if (family, variant) not in VARIANT_PIPELINES:
            raise UnsupportedError(
                f"{self.path} is {self.guess}: no pipeline is known for it. Its models load alone, "
                "such as UNet2DConditionModel.from_single_file(…)."
            )
        return VARIANT_PIPELINES[family, variant]

    def declared(self, name: str) -> dict[str, Any] | None:
        """A JSON file of the folder that `config=` names, or that the header carries."""
        if self.config_folder is not None:
            path = self.config_folder / name
            return files.read_json(path) if path.is_file() else None
        return embedded_json(self.header.metadata, name)

    # ---- configs ----

    def config(self, component: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The config of a model: declared, or published and implied together."""
        part = self.part(component)
        if component == "tiny":
            return {**self._tiny()[0], **(overrides or {})}
        if part.gaps:
            raise WeightsError(
                f"{self.path} is half a file: its {part.title} has no {', '.join(part.gaps[:3])} "
                f"({len(part.gaps)} groups of tensors are missing). Fetch or copy it again."
            )
        declared = self.declared(f"{component}/config.json")
        if declared is not None:
            self._check_declared(component, part, declared)
            return {**declared, **(overrides or {})}
        published = dict(self.family.get(component, {}))
        if part.kind == "wan_vae":
            published = dict(known_families()["wan"]["vae_of_48" if part.config["z_dim"] == 48 else "vae"])
        if self.prediction_type == "v_prediction":
            published |= self.family.get("v_prediction", {}).get(component, {})
        head_width = published.pop("head_width", None)
        config = {**published, **part.config}
        if component in ("unet", "controlnet"):
            config = self._unet_config(config, component, head_width)
        elif part.kind == "text":
            config = _text_config(config, part, published.get("num_hidden_layers"), head_width)
        elif part.kind == "vae" and not published and not {"scaling_factor"} & set(overrides or {}):
            raise FileFormatError(
                f"{self.path} is a {self.guess.title}, and no tensor tells how its latents are scaled. Give the "
                f"values: {LATENT_SCALES}."
            )
        return {**config, **(overrides or {})}

    def _unet_config(self, config: dict[str, Any], component: str, head_width: int | None) -> dict[str, Any]:
        if head_width:
            config["attention_head_dim"] = tuple(max(1, n // head_width) for n in config["block_out_channels"])
        if component == "controlnet":
            published = self.family.get("unet", {})
            width = published.get("head_width")
            heads = tuple(max(1, n // width) for n in config["block_out_channels"]) if width else None
            config["attention_head_dim"] = heads or published.get("attention_head_dim", 8)
            for key in ("addition_embed_type", "addition_time_embed_dim"):
                config |= {key: published[key]} if key in published else {}
        return config

    def _check_declared(self, component: str, part: Part, declared: Mapping[str, Any]) -> None:
        different = [
            line
            for line in compare_config(part.config, declared)
            if line.partition(":")[0] in declared and line.partition(":")[0] not in UNCOMPARED
        ]
        if different:
            where = self.config_folder if self.config_folder is not None else "the header"
            raise WeightsError(
                f"{self.path}: the config of {component!r} from {where} does not fit the weights: "
                f"{'; '.join(different)}."
            )

    def shell(self, component: str, kind: type[Model]) -> Model:
        """A component's model without its weights."""
        try:
            return kind.on_meta(as_known(kind, self.config(component)))
        except ConfigError as problem:
            raise ConfigError(
                f"{self.path}, {component}: {problem} No tensor tells every value of a config: give the folder that "
                "has it (config=…, --config)."
            ) from None

    def part(self, component: str) -> Part:
        """A part of the file by the name that a pipeline gives it."""
        if component in self.found.components:
            return self.found.components[component]
        role = component.rstrip("_0123456789")
        lone = [part for part in self.found.parts if part.role == role]
        if len(lone) == 1:
            return lone[0]
        there = ", ".join(part.title for part in self.found.parts) or "nothing that Lockstep knows"
        raise NotFoundError(
            f"{self.path} ({self.found.title}) has no {TITLES.get(role, role.replace('_', ' '))}. It holds: {there}."
        )

    # ---- models, tokenizers, schedulers ----

    def stored(self, component: str, kind: type[ModelMixin], config: Mapping[str, Any]) -> dict[str, StoredTensor]:
        """The tensors of a component as its class names them, none of them read yet."""
        if component == "tiny":
            return self._tiny()[1]
        part = self.part(component)
        if self._stored is None:
            self._stored = open_checkpoint(self.path, self.allow_pickle, self.opened)
        held = {name: self._stored[full] for name, full in part.names().items() if full in self._stored}
        if part.layout == "published":
            return kind.stored_tensors(held)
        projects = kind.__name__.endswith("WithProjection")
        ours = weight_map(part, config, projects).to_ours(held, self.opened)
        width = int(config.get("projection_dim") or 0)
        if projects and PROJECTION not in ours and part.layout == "clip" and width == config.get("hidden_size"):
            like = next(iter(held.values()))  # files of Stable Diffusion 3 leave it out where it does nothing
            empty = torch.empty(width, width, dtype=DTYPES[like.info.dtype], device="meta")
            ours[PROJECTION] = MadeTensor.of(like.path, empty, lambda: torch.eye(width, dtype=empty.dtype))
        return ours

    def _tiny(self) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
        return open_tiny(self.path, self.part("tiny"), open_checkpoint(self.path, self.allow_pickle, self.opened))

    def model(
        self,
        component: str,
        kind: type[ModelMixin],
        *,
        dtype: torch.dtype | str | None = None,
        device: torch.device | str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> ModelMixin:
        """A component's model with the file's weights."""
        target = resolve_device(device)
        wanted = resolve_dtype(dtype, target)
        config = as_known(kind, self.config(component, overrides))
        kind.check_class(config)
        try:
            stored = computable(self.stored(component, kind, config), keep=wanted is None)
            model = kind.on_meta(config).assign(stored, dtype=wanted, device=target)
        except (WeightsError, ConfigError) as problem:
            raise type(problem)(f"{self.path}, {component}: {problem}") from None
        model.eval()
        model.loaded_from = self.path
        return model

    def scheduler_config(self) -> dict[str, Any]:
        """The scheduler's config, with what the denoiser predicts."""
        declared = self.declared("scheduler/scheduler_config.json")
        config = dict(declared if declared is not None else self.family["scheduler"])
        prediction = self.prediction_type if declared is None else self.asked_prediction
        if declared is None and prediction is None and "unet" in self.found.components:
            raise FileFormatError(
                f"{self.path} is {self.guess}, which exists in two kinds that no tensor tells apart. Say which: "
                "prediction_type='epsilon' or 'v_prediction' (--prediction-type)."
            )
        if prediction is not None:
            config["prediction_type"] = prediction
        if declared is None and any("zero terminal SNR" in note for note in self.found.notes):
            config |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
        return config

    def tokenizer(self, component: str) -> Tokenizer:
        """A tokenizer: of the folder, of the header, or the published one."""
        whose = self.family.get("tokenizers", {}).get(component)
        kind = VOCABULARIES.get(whose, CLIPTokenizer)
        if self.config_folder is not None and (self.config_folder / component).is_dir():
            return kind.from_pretrained(self.config_folder, subfolder=component)
        if any(name.startswith(f"{component}/") for name in self.embedded):
            with tempfile.TemporaryDirectory() as folder:
                self.write_small_files(Path(folder))
                return kind.from_pretrained(folder, subfolder=component)
        if whose in VOCABULARIES:
            raise FileFormatError(
                f"{self.path} is {self.guess}, whose {whose} has a vocabulary that no single file carries. Give it: "
                f"{component}={kind.__name__}.from_pretrained(…), or the folder that has it: config=… (--config)."
            )
        encoder = component.replace("tokenizer", "text_encoder")
        size = self.config(encoder)["vocab_size"] if encoder in self.found.components else None
        tokenizer = CLIPTokenizer.published(pad_token=self.family["tokenizers"][component])
        if size not in (None, len(tokenizer)):
            raise FileFormatError(
                f"{self.path}: its {encoder} knows {size} tokens, CLIP's vocabulary has {len(tokenizer)}. "
                f"Give the tokenizer that belongs to it: {component}=…, or the folder that has it: config=…."
            )
        return tokenizer

    def write_small_files(self, folder: Path) -> None:
        """The files that the header carries, as they were in the folder that it was made from."""
        for name, text in self.embedded.items():
            files.write_text(folder / name, text)
        for name in {name.partition("/")[0] for name in self.embedded if name.startswith("tokenizer")}:
            is_clip = self.family.get("tokenizers", {}).get(name) not in VOCABULARIES
            held = any(TOKENIZER_FILES.search(one) for one in self.embedded if one.startswith(f"{name}/"))
            if is_clip and not held:
                CLIPTokenizer.published().save_vocabulary(folder / name)


def _text_config(
    config: dict[str, Any], part: Part, published_layers: int | None, head_width: int | None
) -> dict[str, Any]:
    """SD 2.x reads the last layer but one, and its published config leaves the last one out."""
    config.setdefault("hidden_act", "quick_gelu" if part.layout == "clip" and config["hidden_size"] <= 768 else "gelu")
    config.setdefault("num_attention_heads", max(1, config["hidden_size"] // (head_width or 64)))
    config.setdefault("eos_token_id", 2)  # the old configs' spelling of "the highest id of the row"
    if part.layout == "open_clip" and published_layers is not None:
        config["num_hidden_layers"] = min(config["num_hidden_layers"], published_layers)
    return config


def weight_map(part: Part, config: Mapping[str, Any], projection: bool) -> WeightMap:
    """The map from a part's layout to its class."""
    makers: dict[tuple[str, str], Callable[[Mapping[str, Any]], Any]] = {
        ("unet", "original"): unet_rows,
        ("controlnet", "original"): controlnet_rows,
        ("vae", "original"): autoencoder_rows,
        ("tiny", "original"): tiny_rows,
        ("flux", "original"): flux_rows,
        ("sd3", "original"): sd3_rows,
        ("wan", "original"): wan_rows,
        ("z_image", "original"): z_image_rows,
        ("ltx", "original"): ltx_rows,
        ("ltx_vae", "original"): ltx_autoencoder_rows,
        ("qwen3", "llama"): qwen3_llama_rows,
        ("qwen2_5_vl", "original"): qwen2_5_vl_rows,
        ("wan_vae", "original"): wan_autoencoder_rows,
        ("t5", "llama"): llama_rows,
        ("umt5", "llama"): llama_rows,
        ("t2i_adapter", "original"): t2i_adapter_rows,
        ("text", "clip"): lambda config: clip_rows(config, projection),
        ("text", "open_clip"): lambda config: open_clip_rows(config, projection),
    }
    return WeightMap(makers[part.kind, part.layout](config), f"the {TITLES[part.kind]}")


def computable(stored: Mapping[str, StoredTensor], keep: bool) -> dict[str, StoredTensor]:
    """fp8 is a way of storing: kept as it is, a weight becomes bf16, which holds every value of it."""
    opened = MappedFiles()
    made = dict(stored)
    for name, tensor in stored.items() if keep else ():
        if tensor.info.dtype in FLOAT8:
            like = torch.empty(tensor.info.shape, dtype=torch.bfloat16, device="meta")
            made[name] = MadeTensor.of(tensor.path, like, lambda tensor=tensor: opened.read(tensor).to(torch.bfloat16))  # type: ignore[misc]
    return made


def as_known(kind: type[ModelMixin], config: dict[str, Any]) -> dict[str, Any]:
    """Qwen-Image has Wan's autoencoder, and no words for what is always the same in it."""
    if kind.__name__ not in SAME_PARTS:
        return config
    known = {name: value for name, value in config.items() if name in config_defaults(kind)}
    return {"input_channels": config["in_channels"], **known} if "in_channels" in config else known


def component_of(kind: type[ModelMixin], file: SingleFile) -> str:
    """The component of a file that a class is asked to load."""
    ancestors = [base.__name__ for base in kind.__mro__]
    there = {name: file.class_name(name) for name in file.found.components}
    for fits in ([kind.__name__], ancestors):
        found = next((name for name, known in there.items() if known in fits), None)
        if found is not None:
            return found
    plain = [name.removesuffix("WithProjection") for name in ancestors]
    kinds = [part for part, known in CLASSES.items() if known in plain]
    kinds += [SAME_PARTS[name] for name in plain if name in SAME_PARTS]
    roles = [ROLES.get(part, part) for part in kinds]
    if not roles:
        raise UnsupportedError(f"{kind.__name__} is in none of the single files that Lockstep reads.")
    lone = [part.role for part in file.found.parts if part.role in roles]
    return "text_encoder_2" if lone == ["text_encoder"] and kind.__name__.endswith("WithProjection") else roles[0]


def load_single_file(
    kind: type[Model],
    path: str | Path,
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    family: str | None = None,
    allow_pickle: bool = False,
    **overrides: Any,
) -> Model:
    """A model of a class from a single file; further arguments replace values of its config."""
    given = dict(config) if isinstance(config, Mapping) else {}
    folder = config if isinstance(config, (str, Path)) else None
    shared, configured = _pipeline_folder(folder), folder is not None or bool(given)
    file = SingleFile(path, config=shared, family=family, allow_pickle=allow_pickle, configured=configured)
    component = component_of(kind, file)
    if folder is not None and not (Path(folder) / component).is_dir() and (Path(folder) / "config.json").is_file():
        given = {**files.read_json(Path(folder) / "config.json"), **given}
    return cast(Model, file.model(component, kind, dtype=dtype, device=device, overrides={**given, **overrides}))


def _pipeline_folder(folder: str | Path | None) -> str | Path | None:
    """A folder of one model's config is read by itself, one of a whole pipeline by component."""
    if folder is not None and (Path(folder) / "config.json").is_file():
        return None
    return folder
