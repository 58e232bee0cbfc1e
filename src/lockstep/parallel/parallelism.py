"""`Parallelism`: models that are spread over ranks, from the first comparison of the ranks to the last exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..blocks.manifest import hash_weights
from ..errors import RankError, UnsupportedError
from ..models.text_encoders.encoder import TextEncoder
from ..notes import say_once
from .agreeing import agree, software
from .branches import SpreadBranches
from .config import ParallelConfig
from .ranks import Ranks
from .sequence import SharedSequence
from .tiles import SpreadTiles
from .weights import check_shardable, is_sharded, shard

# of what a run records about itself, what has to be the same on all ranks
SAME = ("pipeline", "workflow", "seed", "adapters", "embeddings", "accelerated", "changed_by")


class Parallelism:
    """What a pipeline's (or a bare model's) ranks share; made on every rank with the same arguments.

    `denoisers` share branches, tokens and weights; of the `others`, text encoders share weights and autoencoders the
    tiles that they decode in.
    Nothing is changed where a model cannot do what the config asks, or where a rank differs.
    """

    def __init__(
        self, config: ParallelConfig, denoisers: Mapping[str, nn.Module], others: Mapping[str, nn.Module] | None = None
    ) -> None:
        self.config, self.ranks = config, Ranks(config)
        self.branches: SpreadBranches | None = None
        self.sequences: list[SharedSequence] = []
        self._denoisers, self._others = dict(denoisers), dict(others or {})
        models = {**self._denoisers, **self._others}
        for model in self._sharded().values():
            check_shardable(model)
        hashes = {name: hash_weights(model) for name, model in models.items()} if config.check_weights else {}
        facts = {f"weights of {name}": digest for name, digest in hashes.items()}
        classes = {f"class of {name}": type(model).__name__ for name, model in models.items()}
        threads = {"threads": torch.get_num_threads()}
        agree(self.ranks, "sharing the models", {**software(), **threads, **config.to_dict(), **classes, **facts})
        self._spread(hashes)

    def _spread(self, hashes: Mapping[str, str]) -> None:
        if self.config.tokens > 1:
            try:
                for model in self._denoisers.values():
                    self.sequences.append(SharedSequence(model, self.ranks))
            except BaseException:
                self.end()
                raise
        if self.config.cfg > 1:
            self.branches = SpreadBranches(self.ranks)
        for model in self._denoisers.values():
            model._branch_ranks = self.branches  # type: ignore[assignment]
        for name, model in self._sharded().items():
            shard(model, self.ranks, by_block=name in self._denoisers)
            model._weights_sha256 = hashes.get(name)  # type: ignore[assignment]
        for model in self._others.values():
            if self.ranks.world > 1 and hasattr(model, "_tile_ranks"):
                model._tile_ranks = SpreadTiles(self.ranks)  # type: ignore[assignment]

    def _sharded(self) -> dict[str, nn.Module]:
        """The models whose weights are laid over the ranks: denoisers and text encoders."""
        encoders = {name: model for name, model in self._others.items() if isinstance(model, TextEncoder)}
        return {**self._denoisers, **encoders} if self.config.fsdp > 1 else {}

    def end(self) -> None:
        """Models as they were; weights that lie on several ranks cannot come back."""
        if any(map(is_sharded, self._sharded().values())):
            raise UnsupportedError("Weights that lie on several ranks (fsdp) stay there. Load the pipeline again.")
        for sequence in self.sequences:
            sequence.remove()
        self.sequences = []
        for model in self._denoisers.values():
            model._branch_ranks = None  # type: ignore[assignment]
        for model in self._others.values():
            if hasattr(model, "_tile_ranks"):
                model._tile_ranks = None  # type: ignore[assignment]

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes files and draws bars."""
        return self.ranks.is_first

    def same_seed(self, seed: int) -> int:
        """The seed that rank 0 has chosen."""
        chosen: int = self.ranks.told_by_all("the seed", seed)[0]
        return chosen

    def agree_on(self, record: Mapping[str, Any]) -> None:
        """Refuse a run that is another one on some rank; `record` is what its manifest says."""
        if self.branches is not None:
            self.branches.counts.clear()
        facts = {name: record.get(name) for name in SAME}
        for group in ("inputs", "components"):
            facts |= {f"{group} {name!r}": value for name, value in record.get(group, {}).items()}
        agree(self.ranks, "a run", facts)

    def agree_on_result(self, latents: Any) -> None:
        """Refuse a result that is another one on some rank; on accelerators, which may round by chance, say it."""
        try:
            agree(self.ranks, "giving the result", {"latents": latents})
        except RankError as problem:
            if self.ranks.device.type == "cpu":
                raise
            say_once(str(problem))

    def described(self) -> dict[str, Any]:
        """What a trace of this rank has to say, to be put together with those of the others."""
        ranks = self.ranks
        streams = {stream: list(one.lengths(stream)) for one in self.sequences for stream in one.totals}
        orders = {streams for one in self.sequences for streams in one.plan.attends.values()}
        return {
            "rank": ranks.rank,
            "world": ranks.world,
            "degrees": self.config.degrees(),
            "branch": ranks.branches.place,
            "token": ranks.tokens.place,
            "denoisers": list(self._denoisers),
            "streams": streams,
            "orders": sorted(map(list, orders), key=len, reverse=True),
            "branches": [] if self.branches is None else self.branches.counts,
        }
