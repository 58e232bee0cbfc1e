"""The eighteen pitfalls, each planted into a scaffolded family: what is changed where, and what has to catch it."""

from dataclasses import dataclass

from lockstep.kit.pitfalls import PITFALLS

IMPORT_TORCH = (
    "from lockstep.blocks import BlockView\n",
    "import torch\n\nfrom lockstep.blocks import BlockView, randn_tensor\n",
)
LATENTS = "        return (samples, latent_channels(components.denoiser), *latent_size(components, state))\n"
DRAWN = """{shape}
    def __call__(self, components: Components, state: BlockView) -> None:
        shape = self.shape(components, state, len(state.prompt_embeds))
        {draw}
"""


def drawing(draw, imports=IMPORT_TORCH):
    """The first latents drawn otherwise."""
    return "before_denoise", (imports, (LATENTS, DRAWN.format(shape=LATENTS, draw=draw)))


@dataclass(frozen=True)
class Plant:
    """One pitfall: the part of the family that is edited, and the command that has to name it."""

    number: int
    by: str  # check, stages, or parity for an injection of one's own
    part: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    family: str = "sunrise"
    stage: str = ""
    evaluations: int = 0  # hypotheses on the live models, where the recorded values do not tell
    way: str = ""  # another way to make the same mistake
    slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.number} {PITFALLS[self.number]}{f': {self.way}' if self.way else ''}"


TIMESTEP = "        timestep = t.expand(len(sample))\n"
ROTARY = (
    "        rotary = rotary_table(places(words, rows, columns, text.device), (half, half), self.config.rope_theta)\n"
)
MIXED = """        return components.denoiser(sample, timestep, **inputs, return_dict=False)[0]

    def mixed(self, components, state, t, guided):
        sigma = t / 1000
        clean = (state.model_input - sigma * guided.pred).bfloat16().float()
        return (state.model_input - clean) / sigma
"""
PLANTS = [
    Plant(1, "check", *drawing("state.latents = torch.randn(shape)")),
    Plant(2, "stages", "denoise", ((TIMESTEP, "        timestep = t.expand(len(sample)).long()\n"),), stage="denoise"),
    Plant(
        3, "stages", "encoders",
        (('config={"guidance_scale": 4.0}', 'config={"guidance_scale": 4.0, "use_original_formulation": True}'),),
        stage="denoise",
    ),
    Plant(
        4, "stages",
        *drawing(
            "noise = randn_tensor((shape[0], 4, 4, 2, 2, 4), state.generator, components.device, torch.float32)\n"
            "        state.latents = noise.permute(0, 5, 1, 3, 2, 4).reshape(shape)"
        ),
        stage="encode",
    ),
    Plant(
        5, "stages", "denoise", ((TIMESTEP, "        timestep = state.timesteps[0].expand(len(sample))\n"),),
        stage="denoise",
    ),
    Plant(
        6, "stages", "model", (("self.attn(self.norm1(hidden_states) *", "self.attn(self.norm1(hidden_states).bfloat16().float() *"),),
        stage="denoise",
    ),
    Plant(
        7, "check", "scheduler",
        (
            ("    @register_to_config\n", "    outputs: list = []\n\n    @register_to_config\n"),
            ("        here, there =", "        self.outputs.append(at.output)\n        here, there ="),
        ),
        family="half_moon",
    ),
    Plant(
        8, "check", "decoders",
        (
            ("class Decode", "class Reads(Decode):\n    def __call__(self, components, state):\n        return components.text_encoder\n\n\nclass Decode"),
        ),
    ),
    Plant(
        9, "check", "guider",
        (
            ("    fade: float = 1.0\n", "    fade: float = 1.0\n    _seen = {}\n"),
            ("        done =", "        self._seen[self._step] = cond\n        done ="),
        ),
        family="fading",
    ),
    Plant(10, "check", "port", (('    made = {}\n', '    made = {}\n    folder = "/tmp/sunrise/weights.safetensors"\n'),)),
    Plant(
        11, "stages",
        *drawing(
            "noise = randn_tensor(shape, state.generator, components.device, torch.float32)\n"
            "        state.latents = noise.bfloat16().float()"
        ),
        stage="encode",
    ),
    Plant(
        12, "stages", "model",
        ((ROTARY, f"{ROTARY}        rotary = (rotary[0].bfloat16().float(), rotary[1].bfloat16().float())\n"),),
        stage="denoise",
    ),
    Plant(
        13, "stages", "denoise",
        (("        return components.denoiser(sample, timestep, **inputs, return_dict=False)[0]\n", MIXED),),
        stage="denoise",
    ),
    Plant(
        14, "stages", "port_pipeline", (("Scheduler(shift=3.0)", "Scheduler(shift=1.0)"),),
        stage="encode",
    ),
    Plant(
        15, "stages", "port_pipeline",
        (("    pipe.set_progress_bar_config", "    pipe.vae.register_to_config(scaling_factor=0.13)\n    pipe.set_progress_bar_config"),),
        stage="decode",
    ),
    Plant(16, "parity"),
    Plant(
        17, "stages", "port_pipeline",
        (("    pipe = pipeline()\n", '    pipe = pipeline().to(torch.bfloat16)\n'),),
        stage="encode",
    ),
    Plant(18, "check", "model", (("rope_theta: float = 10_000.0", "rope_theta: float = 9_999.0"),)),
]  # fmt: skip

DENOISE_TORCH = ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n")
CALLED = "        return components.denoiser(sample, timestep, **inputs, return_dict=False)[0]\n"
NOISE = "randn_tensor(shape, state.generator, components.device, torch.float32)"
CONDITIONS = "(state.prompt_embeds, state.negative_prompt_embeds)"
STEP = "        here, there ="
LOADED = "    model.load_state_dict(to_ours(reference_sunrise.reference_model().state_dict()))\n"
REFERENCE = "import reference_sunrise\n"
ROUNDED_STEP = """class RoundedStep(SchedulerStep):
    def stepped(self, components, state, t):
        return (super().stepped(components, state, t)[0].bfloat16().float(),)


class SunriseBlocks"""


def mixing(formula):
    """The branches mixed otherwise."""
    return CALLED, f"{CALLED}\n    def mixed(self, components, state, t, guided):\n        return {formula}\n"


def imported(line):
    return ("from lockstep.blocks import BlockView\n", f"{line}\n\nfrom lockstep.blocks import BlockView\n")


def staged(number, way, part, *changes, stage="denoise", evaluations=0, slow=True):
    return Plant(number, "stages", part, changes, stage=stage, evaluations=evaluations, way=way, slow=slow)


def drawn(number, way, draw, slow=True):
    part, changes = drawing(draw)
    return Plant(number, "stages", part, changes, stage="encode", way=way, slow=slow)


def checked(number, way, part, *changes, family="sunrise"):
    return Plant(number, "check", part, changes, family=family, way=way)


OTHER_WAYS = [
    drawn(1, "seen in the values", "state.latents = torch.randn(shape)"),
    checked(1, "in place", "before_denoise", *drawing("state.latents = torch.empty(shape).normal_()")[1]),
    checked(1, "by another name", "before_denoise", *drawing("state.latents = randn(shape)", imported("from torch import randn"))[1]),
    checked(1, "a generator of its own", "before_denoise", *drawing("state.latents = randn_tensor(shape, torch.Generator(), components.device, torch.float32)")[1]),
    checked(1, "no generator", "before_denoise", *drawing("state.latents = randn_tensor(shape, None, components.device, torch.float32)")[1]),
    drawn(1, "added to noise that is right", f"noise = {NOISE}\n        state.latents = noise + 0.01 * torch.randn_like(noise)"),
    staged(1, "in the loop", "denoise", (TIMESTEP, "        sample = sample + 1e-3 * torch.randn_like(sample)\n" + TIMESTEP), DENOISE_TORCH, stage="encode", slow=False),
    staged(2, "bfloat16", "denoise", (TIMESTEP, "        timestep = t.expand(len(sample)).bfloat16().float()\n")),
    staged(2, "rounded", "denoise", (TIMESTEP, "        timestep = t.round().expand(len(sample))\n")),
    staged(2, "inside of the model", "model", ("self.time_proj(timestep)", "self.time_proj(timestep.half())")),
    staged(3, "prompts exchanged", "denoise", (CONDITIONS, "(state.negative_prompt_embeds, state.prompt_embeds)"), stage="encode", slow=False),
    staged(3, "rows exchanged", "denoise", ("timestep, **inputs", "timestep, **{name: value.flip(0) for name, value in inputs.items()}"), stage="encode"),
    staged(3, "predictions exchanged", "denoise", (CALLED, CALLED.replace("[0]\n", "[0].flip(0)\n"))),
    staged(3, "w - 1", "denoise", mixing("guided.pred_uncond + 3.0 * (guided.pred_cond - guided.pred_uncond)")),
    staged(3, "a zero step too many", "denoise", mixing("0 * guided.pred if state.timesteps[0] == t else guided.pred")),
    drawn(4, "a number for each patch", "noise = randn_tensor((*shape[:2], 4, 4), state.generator, components.device, torch.float32)\n        state.latents = noise.repeat_interleave(2, 2).repeat_interleave(2, 3)", slow=False),
    drawn(4, "drawn as tokens", "noise = randn_tensor((shape[0], 16, 16), state.generator, components.device, torch.float32)\n        state.latents = noise.unflatten(1, (4, 4)).unflatten(3, (4, 2, 2)).permute(0, 3, 1, 4, 2, 5).reshape(shape)"),
    staged(5, "each layer begins anew", "model", ("            tokens = checkpointed(", "            hidden = checkpointed("), ("self.norm_out(tokens[", "self.norm_out(hidden[")),
    staged(5, "the other pair of numbers", "model", ("(1 + ff_scale) + ff_shift)", "(1 + scale) + shift)")),
    staged(6, "told by the search", "model", ("self.attn(self.norm1(hidden_states) *", "self.attn(self.norm1(hidden_states).bfloat16().float() *"), evaluations=200),
    staged(6, "what the model gives", "model", ("self.norm_out(tokens[:, words:]))\n", "self.norm_out(tokens[:, words:])).half().float()\n")),
    staged(6, "the residual", "model", ("        hidden_states = hidden_states + gate * mixed\n", "        hidden_states = (hidden_states.bfloat16() + (gate * mixed).bfloat16()).float()\n")),
    checked(7, "a list that is begun once", "scheduler", ("        self._prepare(shift)\n", "        self._prepare(shift)\n        self.outputs = []\n"), (STEP, f"        self.outputs.append(at.output)\n{STEP}"), family="half_moon"),
    checked(7, "a counter", "scheduler", ("        self._prepare(shift)\n", "        self._prepare(shift)\n        self.taken = 0\n"), (STEP, f"        self.taken += 1\n{STEP}"), family="half_moon"),
    checked(7, "beside the class", "scheduler", ("class HalfMoonScheduler", "SEEN: dict = {}\n\n\nclass HalfMoonScheduler"), (STEP, f"        SEEN[at.index] = at.output\n{STEP}"), family="half_moon"),
    checked(7, "the output before", "scheduler", (STEP, f"        before = getattr(self, 'before', at.output)\n        self.before = before\n{STEP}"), family="half_moon"),
    checked(7, "in a block", "denoise", (TIMESTEP, "        self.count = getattr(self, 'count', 0) + 1\n" + TIMESTEP)),
    checked(8, "another family's name", "denoise", ("components.denoiser(", "components.unet(")),
    checked(8, "by name", "denoise", (TIMESTEP, '        getattr(components, "image_encoder")\n' + TIMESTEP)),
    staged(8, "a component left out", "port_pipeline", ("        text_encoder=tiny.text_encoder(tokenizer),\n", ""), stage="encode"),
    checked(9, "a counter", "guider", ("        done =", "        self._count = getattr(self, '_count', 0) + 1\n        done ="), family="fading"),
    checked(9, "beside the class", "guider", ("class FadingGuidance", "CALLS: list = []\n\n\nclass FadingGuidance"), ("        done =", "        CALLS.append(cond)\n        done ="), family="fading"),
    checked(10, "tempfile by another name", "port", (REFERENCE, f"from tempfile import mkdtemp\n\n{REFERENCE}"), ("    made = {}\n", "    made = {}\n    folder = mkdtemp()\n")),
    checked(10, "the environment's", "port", (REFERENCE, f"import os\n\n{REFERENCE}"), ("    made = {}\n", '    made = {}\n    folder = os.environ["TMPDIR"]\n')),
    staged(10, "none loaded", "port", (LOADED, "    torch.manual_seed(3)\n")),
    staged(10, "one lost", "port", (LOADED, f"{LOADED}    model.proj_out.bias.data.zero_()\n")),
    drawn(11, "drawn in bfloat16", "state.latents = randn_tensor(shape, state.generator, components.device, torch.bfloat16).float()"),
    drawn(11, "drawn in float64", "state.latents = randn_tensor(shape, state.generator, components.device, torch.float64).float()"),
    drawn(11, "float16", f"noise = {NOISE}\n        state.latents = noise.half().float()"),
    staged(13, "the guided prediction", "denoise", mixing("guided.pred.bfloat16().float()")),
    staged(13, "the latents of each step", "blocks", ("class SunriseBlocks", ROUNDED_STEP), ("predict=PredictSunrise)", "predict=PredictSunrise, step=RoundedStep)"), ("import Denoise\n", "import Denoise, SchedulerStep\n"), stage="decode"),
    staged(12, "queries and keys", "model", ("        query, key = rotate(attn.norm_q(query), rotary), rotate(attn.norm_k(key), rotary)\n", "        low = (rotary[0].bfloat16(), rotary[1].bfloat16())\n        query, key = rotate(attn.norm_q(query).bfloat16(), low).float(), rotate(attn.norm_k(key).bfloat16(), low).float()\n")),
    staged(12, "float16", "model", (ROTARY, f"{ROTARY}        rotary = (rotary[0].half().float(), rotary[1].half().float())\n")),
    staged(14, "theta in the code", "model", (ROTARY, ROTARY.replace("self.config.rope_theta", "5_000.0"))),
    staged(14, "eps of a norm", "model", ("self.norm_out = nn.LayerNorm(width, eps=norm_eps)", "self.norm_out = nn.LayerNorm(width, eps=1e-5)"), evaluations=200),
    staged(14, "a scheduler's grid", "port_pipeline", ("Scheduler(shift=3.0)", "Scheduler(shift=3.0, use_karras_sigmas=True)"), stage="encode"),
    staged(15, "the range of pixels", "decoders", ("        return VaeImageProcessor", "        pixels = pixels * 0.5 + 0.5\n        return VaeImageProcessor"), stage="decode"),
    staged(15, "eps of the decoder", "port_pipeline", ("    pipe.set_progress_bar_config", "    pipe.vae.decoder.conv_norm_out.eps = 1e-3\n    pipe.set_progress_bar_config"), stage="decode", evaluations=200),
    Plant(16, "parity", way="a trace that holds a part", slow=True),
    staged(17, "float16", "port_pipeline", ("    pipe = pipeline()\n", "    pipe = pipeline().to(torch.float16)\n"), stage="encode"),
    staged(18, "another prompt", "port_pipeline", ('"prompt": reference.PROMPT', '"prompt": "a photo of a blue dog"'), stage="encode"),
    staged(18, "another number of steps", "port_pipeline", ('"num_inference_steps": reference.STEPS', '"num_inference_steps": 5'), stage="encode"),
    staged(18, "another seed", "port_pipeline", ("manual_seed(reference.SEED)", "manual_seed(8)"), stage="encode", slow=False),
]  # fmt: skip
