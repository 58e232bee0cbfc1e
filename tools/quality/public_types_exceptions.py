"""The public names that may be `Any`, as patterns of `module.Class.member(parameter)`, each with its reason."""

TYPES = "a type expression of any kind (a class, a union, list[…]), for which Python has no type yet"
VALUE = "a value of any type: what it has to be stands in the vocabulary or in the block that declares it"
COMPONENT = "an object of the class that `type_hint` names, which is known only when the program runs"
CONFIG = "config values: each class has its own, checked by name and type when they are given"
VIEW = "a block narrows it to its own view; a wider type here would forbid that"
BY_BLOCKS = "what follows from blocks that are known only when the program runs; a loaded class has it in its stub"
LOADING = "what the loading of a folder takes, checked by name when it is given"
UPLOAD = "arguments of the hub's own upload, checked by it"
INDEX = "any of the values that the run made, chosen by its name"

EXCEPTIONS: dict[str, str] = {
    "blocks.params.*.type_hint": TYPES,
    "blocks.params.*.default": VALUE,
    "blocks.params.InputParam.check(value)": VALUE,
    "blocks.params.*.template(overrides)": "the fields of the class itself, checked by its __init__",
    "blocks.params.ComponentSpec.located(where)": "the fields of the class itself, checked by its __init__",
    "blocks.params.ComponentSpec.gathered": COMPONENT,
    "blocks.params.ComponentSpec.create": COMPONENT,
    "blocks.params.ComponentSpec.create(overrides)": CONFIG,
    "blocks.params.ComponentSpec.load": COMPONENT,
    "blocks.params.ComponentSpec.load(options)": COMPONENT,
    "blocks.params.ComponentSpec.load_outline": COMPONENT,
    "blocks.params.ComponentSpec.load_outline(options)": COMPONENT,
    "blocks.state.PipelineState.get": VALUE,
    "blocks.state.PipelineState.get(default)": VALUE,
    "blocks.state.PipelineState.set(value)": VALUE,
    "blocks.state.PipelineState.__getattr__": VALUE,
    "blocks.named_values.NamedValues.__getattr__": "the values that are some block's own, not of the vocabulary",
    "blocks.named_values.NamedValues.[!_]*": "`T | Any`: may be None for one block and is there for another",
    "blocks.block.ModularPipelineBlocks.check(*)": VIEW,
    "blocks.block.ModularPipelineBlocks.unneeded(inputs)": VIEW,
    "blocks.block.ModularPipelineBlocks.init_pipeline": "pipelines lie above blocks, which may not know their class",
    "blocks.block.ModularPipelineBlocks.init_pipeline(options)": "those of the pipeline's own constructor or loading",
    "blocks.compose.LoopSequentialPipelineBlocks.loop_items(*)": VIEW,
    "blocks.compose.LoopSequentialPipelineBlocks.loop_step(*)": VIEW,
    "blocks.compose.ConditionalPipelineBlocks.select_block(triggers)": VALUE,
    "configuration.FrozenDict.__getattr__": CONFIG,
    "configuration.ConfigMixin.register_to_config(values)": CONFIG,
    "*.from_config(overrides)": CONFIG,
    "guiders.guidance.BaseGuidance.new(values)": CONFIG,
    "models.modeling.ModelMixin.from_pretrained(config_and_hub)": CONFIG,
    "models.controlnets.multi.MultiControlNetModel.forward(shared)": "goes to each net's own forward",
    "models.controlnets.multi.MultiControlNetModel.from_pretrained(options)": "goes to each net's own from_pretrained",
    "models.controlnets.multi.MultiControlNetModel.save_pretrained(options)": "goes to each net's own save_pretrained",
    "schedulers.scheduling.SchedulerMixin.from_pretrained(options)": CONFIG,
    "schedulers.scheduling.SchedulerMixin.set_timesteps(*)": "each scheduler has options of its own",
    "schedulers.scheduling.SchedulerMixin.step(*)": "each scheduler has options of its own",
    "schedulers.unipc.UniPCMultistepScheduler.__init__(solver_p)": "refused whatever it is: a config cannot hold it",
    "pipelines.pipeline.DiffusionPipeline.__init__(parts)": BY_BLOCKS,
    "pipelines.pipeline.DiffusionPipeline.update_components(parts)": BY_BLOCKS,
    "pipelines.pipeline.DiffusionPipeline.from_pretrained(parts_and_hub)": BY_BLOCKS,
    "pipelines.pipeline.DiffusionPipeline.run(*)": BY_BLOCKS,
    "pipelines.pipeline.DiffusionPipeline.stream(*)": BY_BLOCKS,
    "pipelines.pipeline.DiffusionPipeline.__getattr__": BY_BLOCKS,
    "pipelines.pipeline.DiffusionPipeline.outline": COMPONENT,
    "pipelines.*Pipeline.__call__": INDEX,
    "pipelines.pipeline.DiffusionPipeline.*_callback(values)": VIEW,
    "pipelines.*.from_pipe(pipe)": "a pipeline of ours, or of another library with the same components",
    "pipelines.*.from_pipe(changes)": COMPONENT,
    "pipelines.*.from_single_file(options)": LOADING,
    "pipelines.published.classes.AutoPipeline.from_pretrained(options)": LOADING,
    "models.modeling.ModelMixin.from_single_file(options)": LOADING,
    "models.modeling.ModelMixin.save_pretrained(hub)": UPLOAD,
    "models.modeling.ModelMixin.push_to_hub(options)": UPLOAD,
    "models.modeling.ModelMixin.__getattr__": CONFIG,
    "models.lora_layers.LoraLayersMixin.add_adapter(adapter_config)": "a config of peft, which is an extra",
    "models.lora_layers.LoraLayersMixin.load_lora_adapter(options)": LOADING,
    "models.vision.safety_checker.StableDiffusionSafetyChecker.forward(images)": "whatever holds pictures by index",
    "loaders.single_file.load_single_file(overrides)": CONFIG,
    "blocks.compose.CompositeBlocks.get_execution_blocks(given)": VALUE,
    "tokenizers.clip.CLIPTokenizer.published(settings)": "special tokens by name beside the settings of the class",
}
