"""Ranks that end badly, one way for each group of them; whoever is left tells how long it took, and of whom."""

import os
import signal
import sys
import time

import torch.distributed as dist

from lockstep.errors import RankError
from lockstep.parallel.agreeing import agree
from lockstep.parallel.config import ParallelConfig
from lockstep.parallel.ranks import Ranks

LOST_AFTER, TIMEOUT = 2.0, 8.0


def told(ranks, what):
    """An exchange that cannot be, and what it ends with."""
    started = time.monotonic()
    try:
        ranks.told_by_all(what, ranks.rank)
    except RankError as problem:
        print(f"after {time.monotonic() - started:.1f} s: {problem}", file=sys.stderr, flush=True)


def killed(ranks):
    """The last rank is killed without a word; then rank 1 ends with an exception."""
    if ranks.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    told(ranks, "what never comes")
    time.sleep(0.5 if ranks.rank == 1 else 1.5)
    if ranks.rank == 1:
        raise ValueError("rank 1 has had enough")
    ranks.told_by_all("what never comes either", ranks.rank)


def first_killed(ranks):
    """Rank 0, which keeps what all ranks see, is killed while the others are at work."""
    for turn in range(1000):
        if ranks.rank == 0 and turn == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        ranks.told_by_all(f"turn {turn}", turn)


def frozen(ranks):
    """Rank 1 stops in the middle with its connections open, so no exchange fails by itself."""
    if ranks.rank == 1:
        own = os.getpid()
        if os.fork() == 0:
            time.sleep(TIMEOUT + 2)
            os.kill(own, signal.SIGKILL)
            os._exit(0)
        os.kill(own, signal.SIGSTOP)
    with ranks.exchanging("what never comes"):
        dist.barrier()


def ended(ranks):
    """Rank 1 is done before the others."""
    if ranks.rank == 0:
        time.sleep(0.5)
        told(ranks, "what rank 1 does not wait for")


GROUPS = {"killed": 3, "first_killed": 3, "frozen": 2, "ended": 2}


def run(_, group):
    timeout = 60.0 if group == "frozen" else TIMEOUT
    ranks = Ranks(ParallelConfig(cfg=GROUPS[group], timeout_s=timeout, lost_after_s=LOST_AFTER))
    agree(ranks, "the end", {})
    print(f"began at {time.time()}", file=sys.stderr, flush=True)
    try:
        globals()[group](ranks)
    finally:
        print(f"ended at {time.time()}", file=sys.stderr, flush=True)
