"""One model over several ranks that torchrun starts: branches of the guidance, tokens, weights, tiles.

config.py       `ParallelConfig`: over how many ranks, in which ways
ranks.py        the processes: joined once, arranged in groups, exchanging under watch
watching.py     who lives; a rank that dies is named
agreeing.py     what ranks compare before they compute
branches.py     branches of the guidance, each on its rank
sequence.py     tokens shared out by a model's plan (the attention itself is `attention/parallel.py`)
weights.py      weights that lie on several ranks (FSDP2)
tiles.py        tiles of an autoencoder, each on its rank
parallelism.py  `Parallelism`: all of it on a pipeline's models
"""

from .config import ParallelConfig
from .parallelism import Parallelism

__all__ = ["ParallelConfig", "Parallelism"]
