"""Degrees that cannot be, before any process is joined."""

import pytest

import lockstep
from lockstep.errors import ConfigError, InputError, UnknownNameError
from lockstep.parallel import ParallelConfig


def test_degrees_of_a_text():
    config = ParallelConfig.from_text("cfg=2, ulysses=3,timeout_s=5.5")
    assert (config.cfg, config.ulysses, config.ring, config.timeout_s) == (2, 3, 1, 5.5)
    assert config.degrees() == {"cfg": 2, "ulysses": 3}
    assert config.copies(6) == 1


@pytest.mark.parametrize("make", [lambda: ParallelConfig(ulyses=2), lambda: ParallelConfig.from_text("ulyses=2")])
def test_a_name_that_is_written_wrongly_is_told(make):
    with pytest.raises(UnknownNameError, match="did you mean 'ulysses'"):
        make()


@pytest.mark.parametrize("text", ["cfg=two", "cfg", "ring="])
def test_a_text_that_is_no_degree(text):
    with pytest.raises(InputError, match="is no degree"):
        ParallelConfig.from_text(text)


@pytest.mark.parametrize("values", [{"cfg": 0}, {"ring": 1.5}, {"fsdp": True}, {"timeout_s": 0}, {"lost_after_s": "1"}])
def test_values_that_cannot_be(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        ParallelConfig(**values)


def test_ranks_have_to_be_as_many_as_the_degrees_make():
    with pytest.raises(ConfigError, match=r"makes 4 ranks, and 1 is running. Start torchrun --nproc-per-node 4"):
        ParallelConfig(cfg=2, ring=2).copies(1)
    with pytest.raises(ConfigError, match="makes 2 ranks, and 3 are running"):
        ParallelConfig(cfg=2).copies(3)
    assert ParallelConfig(fsdp=4, cfg=2).copies(4) == 2


def test_a_pipeline_in_one_process_says_how_to_start_more(folder):
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(folder)
    with pytest.raises(ConfigError, match="torchrun --nproc-per-node 2"):
        pipe.enable_parallelism(cfg=2)
    with pytest.raises(UnknownNameError, match="did you mean 'cfg'"):
        pipe.enable_parallelism(cgf=2)
    assert pipe.parallelism is None
    pipe.enable_parallelism()
    assert pipe.parallelism.is_first
