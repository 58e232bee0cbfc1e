import torch
from diffusers import (
    AutoencoderKL,
    ComponentSpec,
    EulerDiscreteScheduler,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    UNet2DConditionModel,
)


class Prepare(ModularPipelineBlocks):
    model_name = "small"
    expected_components = [ComponentSpec("scheduler", EulerDiscreteScheduler)]

    @property
    def inputs(self):
        return [InputParam("steps", default=4), InputParam("generator"), InputParam("words", required=True)]

    @property
    def intermediate_outputs(self):
        return [OutputParam("latents"), OutputParam("timesteps")]

    def __call__(self, components, state):
        block_state = self.get_block_state(state)
        components.scheduler.set_timesteps(block_state.steps)
        noise = torch.randn(len(block_state.words), 4, 8, 8, generator=block_state.generator)
        block_state.latents = noise * components.scheduler.init_noise_sigma
        block_state.timesteps = components.scheduler.timesteps
        self.set_block_state(state, block_state)
        return components, state


class Predict(ModularPipelineBlocks):
    model_name = "small"
    expected_components = [
        ComponentSpec("unet", UNet2DConditionModel), ComponentSpec("scheduler", EulerDiscreteScheduler),
    ]  # fmt: skip

    @property
    def inputs(self):
        return [InputParam("latents", required=True), InputParam("words", required=True)]

    @property
    def intermediate_outputs(self):
        return [OutputParam("noise")]

    @torch.no_grad()
    def __call__(self, components, block_state, i, t):
        scaled = components.scheduler.scale_model_input(block_state.latents, t)
        block_state.noise = components.unet(scaled, t, encoder_hidden_states=block_state.words).sample
        return components, block_state


class Step(ModularPipelineBlocks):
    model_name = "small"
    expected_components = [ComponentSpec("scheduler", EulerDiscreteScheduler)]

    @property
    def inputs(self):
        return [InputParam("noise", required=True), InputParam("latents", required=True)]

    @property
    def intermediate_outputs(self):
        return [OutputParam("latents")]

    def __call__(self, components, block_state, i, t):
        block_state.latents = components.scheduler.step(block_state.noise, t, block_state.latents).prev_sample
        return components, block_state


class Loop(LoopSequentialPipelineBlocks):
    model_name = "small"
    block_classes = [Predict, Step]
    block_names = ["predict", "step"]

    @property
    def loop_inputs(self):
        return [InputParam("timesteps", required=True)]

    @torch.no_grad()
    def __call__(self, components, state):
        block_state = self.get_block_state(state)
        for i, t in enumerate(block_state.timesteps):
            components, block_state = self.loop_step(components, block_state, i=i, t=t)
        self.set_block_state(state, block_state)
        return components, state


class Decode(ModularPipelineBlocks):
    model_name = "small"
    expected_components = [ComponentSpec("vae", AutoencoderKL)]

    @property
    def inputs(self):
        return [InputParam("latents", required=True)]

    @property
    def intermediate_outputs(self):
        return [OutputParam("images")]

    @torch.no_grad()
    def __call__(self, components, state):
        block_state = self.get_block_state(state)
        decoded = components.vae.decode(block_state.latents / components.vae.config.scaling_factor).sample
        block_state.images = (decoded / 2 + 0.5).clamp(0, 1)
        self.set_block_state(state, block_state)
        return components, state


class Small(SequentialPipelineBlocks):
    model_name = "small"
    block_classes = [Prepare, Loop, Decode]
    block_names = ["prepare", "loop", "decode"]


pipe = Small().init_pipeline()
pipe.update_components(
    unet=UNet2DConditionModel.from_pretrained(folders["sd1"], subfolder="unet"),
    vae=AutoencoderKL.from_pretrained(folders["sd1"], subfolder="vae"),
    scheduler=EulerDiscreteScheduler(beta_schedule="scaled_linear"),
)
words = torch.randn(2, 7, 16, generator=torch.manual_seed(1))
pictures = pipe(words=words, generator=torch.manual_seed(2), output="images")
