"""The tiles of an autoencoder on several ranks: each computes some, all of them get all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from .ranks import Ranks

Place = tuple[int, int]


class SpreadTiles:
    """Tile k is computed by rank k mod n; it is the same tile that one process would compute."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks

    def __call__(self, places: Sequence[Place], compute: Callable[[Place], torch.Tensor]) -> dict[Place, torch.Tensor]:
        """What each place gave; nothing where there is one tile alone, which every rank computes."""
        if len(places) == 1:
            return {}
        rank, world = self._ranks.rank, self._ranks.world
        made = {place: compute(place).contiguous() for place in places[rank::world]}
        told = {place: (tuple(tile.shape), tile.dtype) for place, tile in made.items()}
        kinds = {place: kind for of_rank in self._ranks.told_by_all("tiles", told) for place, kind in of_rank.items()}
        for number, place in enumerate(places):
            shape, dtype = kinds[place]
            tile = made.setdefault(place, torch.empty(shape, dtype=dtype, device=self._ranks.device))
            with self._ranks.exchanging("tiles of the autoencoder"):
                dist.broadcast(tile, src=number % world)
        return made
