"""The driver, with workers that do as they are told: what is lost is handed out again, what kills is given up."""

import time

import pytest

from lockstep.errors import InputError, MachineError, WriteError
from lockstep.fleet import driving
from lockstep.fleet.driving import Driver, Ledger, locked
from lockstep.fleet.plan import Plan
from lockstep.fleet.workers import Died, Failed, Made, Ready

SHARED = {"weights": {}}


class Obedient:
    """Workers in this process; `fates` says how the n-th try of a row ends: made, error, refused, death, silence."""

    def __init__(self, folder, count=2, fates=None, shared=None, unready=()):
        self.folder, self.count, self.fates, self.unready = folder, count, fates or {}, list(unready)
        self.shared = shared or (lambda worker: SHARED)
        self.queue, self.tries, self.given, self.ended = [], {}, {worker: [] for worker in range(count)}, []

    def start(self, worker):
        self.given[worker] = []
        self.queue.append(Died(worker, "SIGKILL") if self.unready else Ready(worker, self.shared(worker)))
        if self.unready:
            self.unready.pop()

    def give(self, worker, row):
        self.given[worker].append(row)

    def events(self, seconds):
        found, self.queue = self.queue, []
        for worker, rows in self.given.items():
            if rows and not any(event.worker == worker for event in found):
                found += self._end_of(worker, rows)
        if not found:
            time.sleep(0.01)
        return found

    def _end_of(self, worker, rows):
        row = rows[0]
        nth = self.tries.get(row.number, 0)
        fate = (self.fates.get(row.number) or ["made"])[min(nth, len(self.fates.get(row.number) or [""]) - 1)]
        if fate == "silence":
            return []
        self.tries[row.number] = nth + 1
        if fate == "death":
            self.given[worker] = []
            return [Died(worker, "SIGKILL")]
        rows.pop(0)
        if fate == "made":
            (self.folder / row.file).write_text("x")
            return [Made(worker, row, {"key": row.key, "pixels": "p", "seconds": 0.1})]
        return [Failed(worker, row, fate, fate == "refused")]

    def end(self, worker):
        self.ended.append(worker)
        row = self.given[worker][0]
        self.tries[row.number] = self.tries.get(row.number, 0) + 1
        self.given[worker] = []
        self.queue.append(Died(worker, "SIGKILL"))

    def close(self):
        self.given = {}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(driving, "BREAK", 0.0)


def driven(folder, rows=5, kind=Obedient, **options):
    own = {name: options.pop(name) for name in ("attempts", "stall") if name in options}
    inputs = [{"prompt": str(number), "seed": number} for number in range(rows)]
    workers = kind(folder, **options)
    return Driver(workers, folder, lambda shared: Plan.of(shared, inputs, inputs, ".png"), **own).run(), workers


def test_every_row_once(tmp_path):
    report, workers = driven(tmp_path)
    assert (report.rows, report.made, report.there, report.failed, report.deaths) == (5, 5, 0, {}, 0)
    assert set(workers.tries.values()) == {1}
    assert sorted(entry["row"] for entry in Ledger.read(tmp_path)) == list(range(5))
    again, workers = driven(tmp_path)
    assert (again.made, again.there, workers.tries) == (0, 5, {})


def test_what_a_dead_worker_held_is_made_by_others(tmp_path):
    report, workers = driven(tmp_path, fates={1: ["death", "made"], 3: ["death", "error", "made"]})
    assert (report.made, report.deaths, report.failed) == (5, 2, {})
    assert (workers.tries[1], workers.tries[3]) == (2, 3)
    attempts = {entry["row"]: entry["attempt"] for entry in Ledger.read(tmp_path)}
    assert attempts == {0: 1, 1: 2, 2: 1, 3: 3, 4: 1}


def test_a_row_that_kills_is_given_up_and_the_others_are_made(tmp_path):
    report, workers = driven(tmp_path, fates={2: ["death"]}, attempts=3)
    assert (report.made, report.deaths, workers.tries[2]) == (4, 3, 3)
    assert report.failed == {2: "the worker died (SIGKILL)"}
    assert [entry["failed"] for entry in Ledger.read(tmp_path) if "failed" in entry] == ["the worker died (SIGKILL)"]


def test_what_is_refused_is_not_tried_again(tmp_path):
    report, workers = driven(tmp_path, fates={0: ["refused"], 1: ["error"]}, attempts=2)
    assert (workers.tries[0], workers.tries[1]) == (1, 2)
    assert report.failed == {0: "refused", 1: "error"}


def test_a_full_disk_ends_the_batch_which_goes_on_when_there_is_room(tmp_path):
    full = "OSError: [Errno 28] No space left on device: '000002.png'"
    with pytest.raises(WriteError, match="no room for the file of row 3 .* Make room and run the same command again"):
        driven(tmp_path, fates={2: [full]})
    assert not any("failed" in entry for entry in Ledger.read(tmp_path))
    again, workers = driven(tmp_path)
    assert again.made + again.there == 5
    assert 2 in workers.tries


def test_a_silent_worker_is_replaced(tmp_path):
    report, workers = driven(tmp_path, fates={0: ["silence", "made"]}, stall=0.2)
    assert (report.made, report.failed) == (5, {})
    assert workers.ended


def test_workers_have_to_agree(tmp_path):
    other = {"weights": {"unet": "other"}}
    with pytest.raises(MachineError, match="Worker 1 has other weights than the rest"):
        driven(tmp_path, shared=lambda worker: other if worker else SHARED)


def test_workers_that_cannot_start_end_the_batch(tmp_path):
    assert driven(tmp_path, count=1, unready=[1, 1])[0].made == 5
    (tmp_path / "b").mkdir()
    with pytest.raises(MachineError, match="died 3 times before it was ready"):
        driven(tmp_path / "b", count=1, unready=[1] * 9)


def test_a_worker_that_cannot_start_is_given_up_where_others_work(tmp_path):
    class Lame(Obedient):
        def start(self, worker):
            if worker:
                self.queue.append(Died(worker, "no room"))
            else:
                super().start(worker)

    report, _ = driven(tmp_path, rows=20, kind=Lame)
    assert (report.made, report.deaths, report.failed) == (20, 3, {})


def test_a_death_is_blamed_on_what_has_no_file(tmp_path):
    """The first row was written and not yet told of: what the worker died of is the second."""

    class Late(Obedient):
        def _end_of(self, worker, rows):
            if rows[0].number == 0 and len(rows) > 1 and not self.tries:
                (self.folder / rows[0].file).write_text("x")
                self.tries[1], self.given[worker] = 1, []
                return [Died(worker, "SIGKILL")]
            return super()._end_of(worker, rows)

    inputs = [{"prompt": str(number), "seed": number} for number in range(3)]
    workers = Late(tmp_path, count=1)
    report = Driver(workers, tmp_path, lambda shared: Plan.of(shared, inputs, inputs, ".png")).run()
    assert (report.made, report.deaths) == (3, 1)
    assert {entry["row"]: entry["attempt"] for entry in Ledger.read(tmp_path)} == {0: 1, 1: 2, 2: 1}


def test_a_ledger_that_was_cut_off_goes_on(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.write(key="a")
    ledger.close()
    with ledger.path.open("a") as file:
        file.write('{"key": "b", "pix')
    ledger = Ledger(tmp_path)
    ledger.write(key="c")
    ledger.close()
    assert [entry["key"] for entry in Ledger.read(tmp_path)] == ["a", "c"]


def test_a_folder_is_for_one_driver(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="Another batch is at work"), locked(tmp_path):
        pass
