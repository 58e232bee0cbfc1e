"""The processes of one parallel run: joined once, arranged in groups, and exchanging under watch.

Ranks are numbered copies × cfg × ring × ulysses, the last fastest: the ranks of a Ulysses group, which exchange most,
are neighbours.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import pad

from ..attention.parallel import Lengths, RankGroup
from ..errors import ConfigError, RankError
from .config import ParallelConfig
from .watching import ENDED, Watch

Tensor = torch.Tensor
ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun tells a process


class Ranks:
    """This process among the others, and the groups in which it exchanges."""

    def __init__(self, config: ParallelConfig) -> None:
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.copies = config.copies(self.world)
        self.config = config
        self.rank, self.device = 0, torch.device("cpu")
        self.watch: Watch | None = None
        if self.world > 1:
            self.rank, self.device, self.watch = joined(config.timeout_s, config.lost_after_s)
        self.everyone = RankGroup(dist.group.WORLD if self.world > 1 else None, self.world, self.rank)
        shape = (self.copies, config.cfg, config.ring, config.ulysses)
        self.branches = self._group(shape, (1,))
        self.ulysses = self._group(shape, (3,))
        self.ring = self._group(shape, (2,))
        self.tokens = self._group(shape, (2, 3))

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes files and draws bars."""
        return self.rank == 0

    def _group(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> RankGroup:
        """The ranks that differ from this one along these axes alone; every rank makes every group, in one order."""
        numbers = torch.arange(self.world).reshape(shape)
        if numbers[tuple(slice(None) if a in axes else 0 for a in range(4))].numel() == 1:
            return RankGroup()
        mine = RankGroup()
        for place in itertools.product(*(range(1 if a in axes else size) for a, size in enumerate(shape))):
            index = tuple(slice(None) if a in axes else place[a] for a in range(4))
            members = numbers[index].flatten().tolist()
            handle = made_group(members, self.config.timeout_s)
            if self.rank in members:
                mine = RankGroup(handle, len(members), members.index(self.rank))
        return mine

    @contextlib.contextmanager
    def exchanging(self, what: str) -> Iterator[None]:
        """Around an exchange: counted, and where it fails the rank that it failed for is named."""
        watch = self.watch
        if watch is None:
            yield
            return
        watch.exchanges, watch.doing, watch.waiting_since = watch.exchanges + 1, what, time.monotonic()
        try:
            yield
        except RankError:
            raise
        except RuntimeError as problem:
            raise watch.explained(problem) from problem
        finally:
            watch.waiting_since = 0.0

    def told_by_all(self, what: str, value: Any) -> list[Any]:
        """A small value of every rank, in the order of the ranks."""
        if self.world == 1:
            return [value]
        told: list[Any] = [None] * self.world
        with self.exchanging(what):
            dist.all_gather_object(told, value)
        return told

    def gathered(self, what: str, value: Tensor, group: RankGroup, lengths: Lengths, axis: int) -> Tensor:
        """The shares of a group's ranks one behind the other; the longest says how much room each gets on the way."""
        if group.size == 1:
            return value
        moved = value.movedim(axis, 0)
        rows = moved.reshape(len(moved), math.prod(moved.shape[1:]))
        room = pad(rows, (0, 0, 0, max(lengths) - len(rows))).contiguous()
        got = [torch.empty_like(room) for _ in lengths]
        with self.exchanging(what):
            dist.all_gather(got, room, group=group.handle)
        whole = torch.cat([one[:length] for one, length in zip(got, lengths, strict=True)])
        return whole.reshape(len(whole), *moved.shape[1:]).movedim(0, axis).contiguous()


_GROUPS: dict[tuple[float, ...], Any] = {}  # once made, used by everybody who asks for the same


def made_group(members: list[int], timeout_s: float) -> Any:
    """The group of these ranks; every rank asks for all groups in one order, so all of them make it, or none does."""
    key = (timeout_s, *members)
    if key not in _GROUPS:
        _GROUPS[key] = dist.new_group(members, timeout=timedelta(seconds=timeout_s))
    return _GROUPS[key]


_JOINED: list[tuple[int, torch.device, Watch]] = []  # this process, once it is among the others


def joined(timeout_s: float, lost_after_s: float) -> tuple[int, torch.device, Watch]:
    """This process in the group of all, which is made once: its rank, its device, its watch."""
    if _JOINED:
        return _JOINED[0]
    missing = [name for name in ENVIRONMENT if name not in os.environ]
    if missing:
        raise ConfigError(f"Ranks are started by torchrun, which sets {', '.join(missing)}. Here they are not set.")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = own_device()
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    patience = timedelta(seconds=timeout_s)
    if not dist.is_initialized():
        kept_by_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        store = dist.TCPStore(host, port, world, rank == 0 and not kept_by_launcher, patience)  # type: ignore[attr-defined]
        backend = "gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:{accelerator_backend(device)}"
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=patience)
    heard = dist.TCPStore(host, port, None, False, timedelta(seconds=max(lost_after_s, 5.0)), False)  # type: ignore[attr-defined]
    kept = dist.PrefixStore("lockstep/ranks", heard)  # type: ignore[attr-defined]
    watch = Watch(kept, rank, world, lost_after_s)
    atexit.register(left, watch)
    before = sys.excepthook

    def say_why(kind: type[BaseException], problem: BaseException, trace: Any) -> None:
        watch.leave(f"{kind.__name__}: {problem}")
        before(kind, problem, trace)

    sys.excepthook = say_why
    _JOINED.append((rank, device, watch))
    return _JOINED[0]


def left(watch: Watch) -> None:
    """At the end of the process: say so, and leave the group."""
    watch.leave(ENDED)
    if dist.is_initialized():
        dist.destroy_process_group()


def own_device() -> torch.device:
    """The accelerator of this process's number on its machine, or the processor."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return torch.device("cpu")
    device = torch.device(accelerator.type, int(os.environ.get("LOCAL_RANK", "0")))
    torch.accelerator.set_device_index(device.index)
    return device


def accelerator_backend(device: torch.device) -> str:
    """What exchanges tensors of an accelerator: NCCL for CUDA."""
    return dist.get_default_backend_for_device(device)
