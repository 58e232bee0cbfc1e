"""The eighteen pitfalls, each planted into a scaffolded family: what is changed where, and what has to catch it."""

from dataclasses import dataclass

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


def drawing(draw):
    """The first latents drawn otherwise."""
    return "before_denoise", (IMPORT_TORCH, (LATENTS, DRAWN.format(shape=LATENTS, draw=draw)))


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
        stage="denoise", evaluations=200,
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
        14, "stages", "model", (("self.norm_out = nn.LayerNorm(width, eps=norm_eps)", "self.norm_out = nn.LayerNorm(width, eps=1e-5)"),),
        stage="denoise", evaluations=200,
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
