"""Three ranks that end badly: rank 2 is killed without a word, then rank 1 ends with an exception; rank 0 tells."""

import os
import signal
import sys
import time

from lockstep.errors import RankError
from lockstep.parallel.agreeing import agree
from lockstep.parallel.config import ParallelConfig
from lockstep.parallel.ranks import Ranks


def run(_):
    ranks = Ranks(ParallelConfig(cfg=3, timeout_s=8.0, lost_after_s=2.0))
    agree(ranks, "the end", {})
    if ranks.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    try:
        ranks.told_by_all("what never comes", ranks.rank)
    except RankError as problem:
        print(f"after {time.monotonic() - started:.1f} s: {problem}", file=sys.stderr, flush=True)
    time.sleep(2.0 if ranks.rank == 1 else 4.0)
    if ranks.rank == 1:
        raise ValueError("rank 1 has had enough")
    ranks.told_by_all("what never comes either", ranks.rank)
