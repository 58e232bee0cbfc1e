"""Workers of this process, one row after the other: for what is not about processes."""

from lockstep.fleet.local import told_error
from lockstep.fleet.making import Maker
from lockstep.fleet.workers import Failed, Made, Ready


class InProcess:
    """Stands where `LocalWorkers` does."""

    def __init__(self, setup, count):
        self.setup, self.count = setup, count
        self._makers, self._given = {}, []

    def start(self, worker):
        self._makers[worker] = None

    def give(self, worker, row):
        self._given.append((worker, row))

    def events(self, seconds):
        for worker, maker in self._makers.items():
            if maker is None:
                return [self._begin(worker)]
        return [self._end_of(*self._given.pop(0))] if self._given else []

    def _begin(self, worker):
        try:
            self._makers[worker] = Maker(self.setup)
            self._makers[worker].check()
            return Ready(worker, self._makers[worker].shared())
        except Exception as problem:
            return Failed(worker, None, *told_error(problem))

    def _end_of(self, worker, row):
        try:
            return Made(worker, row, self._makers[worker].make(row).result())
        except Exception as problem:
            return Failed(worker, row, *told_error(problem))

    def close(self):
        self._given = []
