"""What scripts over blocks ask of a pipeline: loading on demand, shared components, specs, folders, requirements."""

import json
import shutil

import diffusers
import pytest
import torch

import lockstep
from lockstep.errors import InputError, LoadError, UnknownNameError, UnsupportedError, WiringError
from lockstep.notes import say_once
from pipelines import tiny

LIBRARIES = (lockstep, diffusers)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tiny.save_folder(tmp_path_factory.mktemp("modular") / "xl", "xl"))


def opened(library, folder, **options):
    return library.ModularPipeline.from_pretrained(folder, **options)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_not_loaded_is_none(folder, library):
    pipe = opened(library, folder)
    assert pipe.vae is None
    pipe.load_components(names="unet", dtype=torch.float32)
    assert pipe.unet is not None
    assert pipe.vae is None
    before, spec = pipe.unet, pipe._component_specs["unet"]
    pipe.load_components()
    assert pipe.unet is before
    pipe.unload_components(["unet"])
    assert pipe.unet is pipe.components["unet"] is None
    assert pipe._component_specs["unet"] is spec
    with pytest.raises(ValueError, match="Invalid type for names"):
        pipe.unload_components(("vae",))
    pipe.unload_components(["vae", "not_a_component"])
    assert pipe.vae is None


def test_a_run_loads_what_it_needs_and_lora_and_schedulers_too(folder):
    pipe = opened(lockstep, folder)
    pipe.scheduler = lockstep.DDIMScheduler(**tiny.BETAS)
    assert pipe.unet is None
    assert pipe("a cat", num_inference_steps=1, height=16, width=16, output_type="pt").images.shape == (1, 3, 16, 16)
    assert pipe.unet is not None
    fresh = opened(lockstep, folder)
    fresh.enable_freeu(s1=0.9, s2=0.2, b1=1.2, b2=1.4)
    assert fresh.unet.up_blocks[0].s1 == 0.9
    assert lockstep.DiffusionPipeline.from_pretrained(folder, load=False).vae is not None


def test_components_are_shared_by_a_manager(folder):
    told, kept = [], []
    for library in LIBRARIES:
        manager = library.ComponentsManager()
        first = opened(library, folder, components_manager=manager, collection="first")
        first.load_components(names=["unet", "vae"])
        second = opened(library, folder, components_manager=manager, collection="second")
        second.update_components(**manager.get_components_by_names(["unet", "vae"], collection="first"))
        assert second.unet is first.unet
        assert manager.get_one(name="unet", collection="first") is first.unet
        held = {name: sorted({one.rpartition("_")[0] for one in ids}) for name, ids in manager.collections.items()}
        patterns = [
            sorted(one.rpartition("_")[0] for one in manager.search_components(names, return_dict_with_names=False))
            for names in ("unet", "va*", "!vae", "unet|vae")
        ]
        info = manager.get_model_info(manager.get_ids("unet")[0], ["class_name", "size_gb"])
        first.unload_components("unet")
        left = [len(manager.get_ids(name)) for name in ("unet", "vae")]
        told.append([held["first"] == held["second"], patterns, info, left])
        with pytest.raises(ValueError, match="nothing"):
            manager.search_components("nothing")
        for _ in range(2):
            kept.append(torch.nn.Linear(1, 1))
            manager.add("unet", kept[-1])
        with pytest.raises(ValueError, match="unet"):
            manager.get_components_by_names(["unet"])
    assert told[0] == told[1]


def test_a_manager_refuses_by_name(folder):
    manager = lockstep.ComponentsManager()
    with pytest.raises(InputError, match="ComponentsManager"):
        opened(lockstep, folder, components_manager=object())
    with pytest.raises(UnsupportedError, match="enable_model_cpu_offload"):
        manager.enable_auto_cpu_offload("cpu")
    with pytest.raises(UnknownNameError, match="component id"):
        manager.remove("unet_1")
    with pytest.raises(InputError, match="none"):
        manager.get_one(collection="mine")
    pipe = lockstep.StableDiffusionXLBlocks().init_pipeline(folder, components_manager=manager)
    pipe.load_components("vae")
    assert [one.rpartition("_")[0] for one in manager.components] == ["vae"]
    pipe.vae = tiny.vae()
    assert manager.get_ids("vae")[-1] == f"vae_{id(pipe.vae)}"
    assert "vae_" in repr(manager)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_component_tells_where_it_is_from(folder, library):
    pipe, other = opened(library, folder), opened(library, folder)
    pipe.load_components(names="unet")
    assert pipe.unet._diffusers_load_id == f"{folder}|unet|null|null"
    other.update_components(unet=pipe.unet)
    spec = other._component_specs["unet"]
    assert (spec.pretrained_model_name_or_path, spec.subfolder) == (folder, "unet")
    assert spec.load_id == pipe.unet._diffusers_load_id


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_spec_says_where_a_component_is_loaded_from(folder, library, tmp_path):
    net = lockstep.ControlNetModel.from_unet(tiny.unet(), conditioning_embedding_out_channels=(8, 16))
    net.save_pretrained(tmp_path)
    file = str(tmp_path / "diffusion_pytorch_model.safetensors")
    pipe = opened(library, folder)
    pipe._component_specs["controlnet"] = (
        library.ComponentSpec(name="controlnet", type_hint=library.ControlNetModel, pretrained_model_name_or_path=file)
        if library is lockstep
        else diffusers.modular_pipelines.ComponentSpec(
            name="controlnet", type_hint=library.ControlNetModel, pretrained_model_name_or_path=file
        )
    )
    pipe.load_components(names="controlnet", config=str(tmp_path))
    assert isinstance(pipe.controlnet, library.ControlNetModel)
    assert pipe._component_specs["controlnet"].pretrained_model_name_or_path == file
    mine = net.state_dict()
    assert all(torch.equal(tensor, mine[name]) for name, tensor in pipe.controlnet.state_dict().items())


def test_specs_that_mean_nothing(folder, caplog):
    pipe = opened(lockstep, folder)
    pipe._component_specs["other"] = lockstep.ComponentSpec("other", pretrained_model_name_or_path=folder)
    assert "'other'" in caplog.text
    assert "other" not in pipe._component_specs
    with pytest.raises(InputError, match="names no pretrained_model_name_or_path"):
        pipe._component_specs["unet"] = lockstep.ComponentSpec("unet")
    with pytest.raises(UnsupportedError, match="remove the block"):
        del pipe._component_specs["unet"]
    with pytest.raises(UnknownNameError, match="load_components"):
        pipe.load_components(nmaes="unet")


def test_a_saved_folder_is_loaded_by_the_reference_and_can_be_moved(folder, tmp_path):
    pipe = opened(lockstep, folder)
    saved = tmp_path / "saved"
    pipe.save_pretrained(saved)
    entry = json.loads((saved / "modular_model_index.json").read_text())["unet"][2]
    assert (entry["pretrained_model_name_or_path"], entry["subfolder"]) == (str(saved), "unet")
    theirs = opened(diffusers, str(saved))
    theirs.load_components()
    mine = pipe.unet.state_dict()
    assert all(torch.equal(tensor, mine[name]) for name, tensor in theirs.unet.state_dict().items())
    moved = tmp_path / "moved"
    shutil.copytree(saved, moved)
    shutil.rmtree(saved / "unet")
    again = opened(lockstep, str(moved))
    again.load_components("unet")
    assert again.get_component_spec("unet").pretrained_model_name_or_path == str(moved)
    pipe.save_pretrained(tmp_path / "kept", overwrite_modular_index=False)
    entry = json.loads((tmp_path / "kept" / "modular_model_index.json").read_text())["unet"][2]
    assert entry["pretrained_model_name_or_path"] == folder


def test_the_tree_of_a_workflow_is_a_plain_sequence(folder, tmp_path):
    for library in LIBRARIES:
        blocks = opened(library, folder).blocks.get_workflow("text2image")
        assert type(blocks).__name__ == "SequentialPipelineBlocks"
        pipe = blocks.init_pipeline(folder)
        pipe.load_components()
        pipe.save_pretrained(str(tmp_path / library.__name__), overwrite_modular_index=True)
        again = opened(library, str(tmp_path / library.__name__))
        assert type(again.blocks).__name__ == type(opened(library, folder).blocks).__name__
    pipe = lockstep.StableDiffusionXLBlocks().get_workflow("text2image").init_pipeline(folder)
    out = pipe("a cat", num_inference_steps=1, height=16, width=16, seed=1, output_type="pt")
    assert out.manifest["workflow"] == "text2image"
    assert torch.equal(
        out.images,
        opened(lockstep, folder)("a cat", num_inference_steps=1, height=16, width=16, seed=1, output_type="pt").images,
    )
    made_by_hand = lockstep.SequentialPipelineBlocks({"a": Named()}).init_pipeline()
    made_by_hand.save_pretrained(tmp_path / "hand")
    with pytest.raises(LockstepOrIndexError):
        lockstep.ModularPipeline.from_pretrained(tmp_path / "hand")


LockstepOrIndexError = (LoadError, lockstep.errors.FileFormatError)


class Named(lockstep.ModularPipelineBlocks):
    """Makes a name."""

    _requirements = {"xyz-not-there": ">=0.8.0", "numpy": ">=1.0"}
    outputs = [lockstep.OutputParam("name", str, "A name.")]

    def __call__(self, components, state):
        state.name = "Ada"


class Plain:
    _requirements = {"torch": ">=2.0"}


@pytest.mark.parametrize("kind", [lockstep.SequentialPipelineBlocks, lockstep.LoopSequentialPipelineBlocks])
def test_blocks_say_what_they_require(kind, tmp_path, caplog):
    say_once.cache_clear()
    kind.from_blocks_dict({"named": Named, "plain": Plain}).save_pretrained(tmp_path)
    content = json.loads((tmp_path / "modular_config.json").read_text())
    assert content["requirements"] == {**Named._requirements, **Plain._requirements}
    assert "xyz-not-there was specified in the requirements but wasn't found" in caplog.text
    assert "numpy was" not in caplog.text


def test_what_is_no_block_is_refused_where_it_would_have_to_flow():
    tree = lockstep.SequentialPipelineBlocks({"named": Named, "plain": Plain})
    assert "no block" in repr(tree.sub_blocks["plain"])
    for use in (lambda: tree.inputs, lambda: tree.expected_components, tree.init_pipeline):
        with pytest.raises(WiringError, match="A block is wanted"):
            use()


def test_blocks_of_ones_own_are_found_where_they_are_imported(tmp_path):
    Named().save_pretrained(tmp_path)
    content = json.loads((tmp_path / "modular_config.json").read_text())
    assert content["auto_map"] == {"ModularPipelineBlocks": "test_modular_surface.Named"}
    found = lockstep.ModularPipelineBlocks.from_pretrained(tmp_path, trust_remote_code=True)
    assert type(found) is Named
    content["_class_name"] = "Elsewhere"
    (tmp_path / "modular_config.json").write_text(json.dumps(content))
    with pytest.raises(UnsupportedError, match="import the class"):
        lockstep.ModularPipelineBlocks.from_pretrained(tmp_path, trust_remote_code=True)


def test_a_class_of_another_library_loads_by_its_own_means(tmp_path):
    torch.manual_seed(0)
    other = diffusers.AsymmetricAutoencoderKL(
        norm_num_groups=4, down_block_out_channels=(8,), up_block_out_channels=(8,)
    )
    other.save_pretrained(tmp_path)
    spec = lockstep.ComponentSpec("model", diffusers.AutoModel, pretrained_model_name_or_path=str(tmp_path))

    class Uses(lockstep.ModularPipelineBlocks):
        """Uses it."""

        expected_components = [spec]
        outputs = [lockstep.OutputParam("name", str, "A name.")]

        def __call__(self, components, state):
            state.name = type(components.model).__name__

    pipe = Uses().init_pipeline()
    pipe.load_components(dtype=torch.float16)
    assert type(pipe.model) is diffusers.AsymmetricAutoencoderKL
    assert pipe.model.dtype == torch.float16
    assert pipe(output="name") == "AsymmetricAutoencoderKL"
    with pytest.warns(FutureWarning, match="torch_dtype"):
        assert spec.load(torch_dtype=torch.bfloat16).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="passed both `dtype` and `torch_dtype`"):
        spec.load(dtype=torch.float16, torch_dtype=torch.float16)
