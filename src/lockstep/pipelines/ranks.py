"""`pipe.enable_parallelism`: a pipeline's models over the ranks that torchrun started."""

from __future__ import annotations

from typing import Any, Self

from ..blocks.manifest import encode
from ..blocks.randomness import choose_seed
from ..blocks.run import Run
from ..errors import InputError
from ..parallel import ParallelConfig, Parallelism
from .placement import PlacementMixin


class RanksMixin(PlacementMixin):
    """What is spread over ranks, and what the ranks agree on at each call."""

    _parallelism: Parallelism | None = None

    def enable_parallelism(self, config: ParallelConfig | None = None, **degrees: float) -> Self:
        """Spread the models over the ranks that torchrun started: `ParallelConfig(cfg=2)`, or `cfg=2` alone.

        Every rank calls it, and then the pipeline, with the same arguments; every rank gets the result, and
        `pipe.parallelism.is_first` says which of them writes it.
        """
        if config is not None and degrees:
            raise InputError(f"Give a ParallelConfig or its values ({', '.join(degrees)}), not both.")
        if self._parallelism is not None:
            raise InputError("This pipeline is spread over ranks already. Call disable_parallelism() first.")
        values: dict[str, Any] = degrees  # checked by name and type when they are given
        chosen = ParallelConfig(**values) if config is None else config
        if not isinstance(chosen, ParallelConfig):
            raise InputError(f"enable_parallelism wants a ParallelConfig, got {type(chosen).__name__}.")
        self.load_components()  # type: ignore[attr-defined]
        names = self._assembly.players.get("denoiser", [])
        models = self._modules()
        denoisers = {name: models.pop(name) for name in names if name in models}
        self._parallelism = Parallelism(chosen, denoisers, models)
        ranks = self._parallelism.ranks
        if ranks.device.type != "cpu":
            self.to(ranks.device)
        if not ranks.is_first:
            self.set_progress_bar_config(disable=True)  # type: ignore[attr-defined]
        return self

    def disable_parallelism(self) -> None:
        """Every rank by itself again, each with the whole models."""
        if self._parallelism is not None:
            self._parallelism.end()
            self._parallelism = None

    @property
    def parallelism(self) -> Parallelism | None:
        """What is spread over ranks, or None."""
        return self._parallelism

    def parallel_degrees(self) -> dict[str, int]:
        """Over how many ranks, in each of the ways that are in use."""
        return {} if self._parallelism is None else self._parallelism.config.degrees()

    def describe_ranks(self) -> dict[str, Any]:
        """What a trace of this rank says, to be put together with those of the others."""
        return {} if self._parallelism is None else self._parallelism.described()

    def choose_seed(self) -> int:
        """A seed for a run that was given none; that of rank 0 where there are several."""
        seed = choose_seed()
        return seed if self._parallelism is None else self._parallelism.same_seed(seed)

    def ranks_agree(self, run: Run) -> None:
        """Refuse a run that is not the same on all ranks."""
        if self._parallelism is not None:
            self._parallelism.agree_on(run.record)

    def ranks_agree_after(self, run: Run) -> None:
        """Refuse latents that came out otherwise on some rank: something was not the same after all."""
        if self._parallelism is not None:
            self._parallelism.agree_on_result(encode(run.state.get("latents")))
