"""Formulas against what they are known to say, played services against formulas, and real workers against both."""

import json
import math
import queue
import random
import threading
import time

import pytest

from lockstep.capacity.events import play, poisson
from lockstep.capacity.forecast import Planner, Service, batch_seconds
from lockstep.capacity.measured import Link, Measured, Run, Split
from lockstep.capacity.queueing import Line
from lockstep.errors import FileFormatError, InputError, NotFoundError

ONE = Measured(10, {1: Run(0.08, 0.2)}, load=30.0)  # a second a picture
BATCHES = Measured(1, {1: Run(1.0, 0.0), 2: Run(1.75, 0.0), 4: Run(3.25, 0.0)})


@pytest.mark.parametrize(("load", "workers", "time"), [(0.7, 1, 10 / 3), (0.7, 2, 1.9608), (0.8, 4, 1.7455)])
def test_exponential_services_wait_as_erlang_says(load, workers, time):
    line = Line(load * workers, 1.0, workers, spread=1.0)
    assert line.load == pytest.approx(load)
    assert line.time == pytest.approx(time, rel=1e-3)


def test_one_worker_waits_as_pollaczek_and_khinchine_say():
    for spread in (0.0, 0.5, 1.0, 2.0):
        line = Line(0.6, 1.0, 1, spread)
        assert line.wait == pytest.approx(0.6 * (1 + spread**2) / (2 * 0.4))
    assert Line(0.6, 1.0, 1, 1.0).wait_quantile(0.99) == pytest.approx(math.log(60) / 0.4)
    assert Line(0.01, 1.0, 4, 1.0).wait_quantile(0.5) == 0.0


def test_a_line_that_is_full_grows_for_ever():
    line = Line(2.0, 1.0, 2)
    assert (line.load, line.delayed, line.wait, line.wait_quantile(0.5)) == (1.0, 1.0, math.inf, math.inf)


@pytest.mark.parametrize(
    ("workers", "load", "spread", "tolerance"),
    [(1, 0.7, 1.0, 0.03), (2, 0.7, 1.0, 0.03), (4, 0.8, 1.0, 0.03), (1, 0.7, 0.0, 0.03), (2, 0.8, 0.0, 0.03),
     (4, 0.7, 0.0, 0.03), (8, 0.9, 0.3, 0.04)],
)  # fmt: skip
def test_a_service_that_is_played_through_agrees_with_the_formula(workers, load, spread, tolerance):
    chance = random.Random(1)
    line = Line(load * workers, 1.0, workers, spread)
    played = play(poisson(line.rate, 100_000, chance), workers, lambda size: 1.0, spread=spread, chance=chance)
    assert played.mean == pytest.approx(line.time, rel=tolerance)
    assert played.busy == pytest.approx(load, rel=0.02)
    late = line.wait_quantile(0.99) + 1.0
    if not spread:  # the service is constant: all that differs is the wait
        assert played.quantile(0.99) == pytest.approx(late, rel=0.15)


def test_the_99th_of_an_exponential_service():
    chance = random.Random(2)
    played = play(poisson(0.5, 100_000, chance), 1, lambda size: 1.0, spread=1.0, chance=chance)
    assert played.quantile(0.99) == pytest.approx(math.log(100) / 0.5, rel=0.05)


def test_batches_carry_what_single_runs_cannot():
    arrivals = poisson(2.15, 20_000, random.Random(3))
    single = play(arrivals, 2, BATCHES.seconds)
    batched = play(arrivals, 2, BATCHES.seconds, most=4, gather=0.03)
    assert single.quantile(0.99) > 100 > 15 > batched.quantile(0.99)
    assert batched.runs < single.runs == 20_000


def test_every_arrival_is_served_once_and_in_its_turn():
    played = play([0.0, 0.1, 0.2, 10.0], 1, lambda size: float(size), most=2)
    assert sorted(played.times) == pytest.approx([1.0, 1.0, 2.8, 2.9])


def work_off(arrivals, workers, seconds):
    """Threads that sleep for real: from each arrival to its end, and how long the sleeps were."""
    waiting, times, slept = queue.Queue(), [], []

    def worker():
        while (came := waiting.get()) is not None:
            began = time.perf_counter()
            time.sleep(seconds)
            slept.append(time.perf_counter() - began)
            times.append(time.perf_counter() - came)

    threads = [threading.Thread(target=worker) for _ in range(workers)]
    for thread in threads:
        thread.start()
    begin, came = time.perf_counter(), []
    for arrival in arrivals:
        time.sleep(max(begin + arrival - time.perf_counter(), 0.0))
        came.append(time.perf_counter() - begin)
        waiting.put(begin + came[-1])
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    return came, times, slept


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_that_sleep_take_as_long_as_foretold(workers):
    came, times, slept = work_off(poisson(0.7 * workers / 0.02, 60, random.Random(4)), workers, 0.02)
    mean = sum(slept) / len(slept)
    foretold = play(came, workers, lambda size: mean)
    kept = times[len(times) // 10 :]
    assert sum(kept) / len(kept) == pytest.approx(foretold.mean, rel=0.15)


def test_a_forecast_has_all_of_it():
    planner = Planner(ONE, Service(1.4, promise=3.0, price=3.6))
    found = planner.forecast(2)
    assert (found.load, found.most, found.cost) == pytest.approx((0.7, 2.0, 2 * 3.6 / 3600 / 1.4 * 1000))
    assert found.by_formula == pytest.approx(found.mean, rel=0.03)
    assert found.median < found.mean < found.p99
    assert planner.forecast(1).mean == math.inf


def test_the_fewest_workers_that_keep_a_promise():
    planner = Planner(ONE, Service(20.0, promise=2.0))
    fewest = planner.fewest()
    assert fewest.kept >= 0.99
    assert planner.forecast(fewest.workers - 1).kept < 0.99
    assert Planner(ONE, Service(20.0)).fewest().workers == 21
    with pytest.raises(InputError, match="no number of workers helps"):
        Planner(ONE, Service(20.0, promise=0.5)).fewest()


def test_neighbours_deaths_and_links_cost_what_they_cost():
    crowded = Measured(10, {1: Run(0.08, 0.2)}, load=30.0, crowding={2: 1.25}, result_bytes=1e6)
    assert crowded.seconds() == pytest.approx(1.0)
    assert crowded.seconds(neighbours=2) == pytest.approx(1.25)
    with pytest.raises(InputError, match="3 workers on one machine were not measured, at the most 2.*--beside 3"):
        crowded.seconds(neighbours=3)
    assert crowded.seconds(link=Link(1e7, 0.01)) == pytest.approx(1.11)
    assert Planner(crowded, Service(1.0, a_machine=2)).most(2) == pytest.approx(1.6)
    assert Planner(ONE, Service(1.0, deaths=10.0)).up(1) == pytest.approx(1 / (1 + 10 * 30.5 / 3600))
    split = Split(ranks=2, messages=4, bytes=1e6, imbalance=0.1)
    assert ONE.seconds(split=split, link=Link(1e9, 1e-4)) == pytest.approx(0.2 + 10 * (0.044 + 4e-4 + 1e-3) + 1e-4)
    assert batch_seconds(ONE, 101, 2) == pytest.approx(30 + 51)


def test_batches_between_the_measured_ones():
    assert [BATCHES.seconds(size) for size in (1, 2, 3, 4)] == pytest.approx([1.0, 1.75, 2.5, 3.25])
    for measured, size in ((BATCHES, 5), (ONE, 3)):
        with pytest.raises(InputError, match=f"Batches of {size} were not measured.*--batch 1,{size}"):
            measured.seconds(size)


def test_a_measurement_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "here.json"
    BATCHES.write(path)
    assert Measured.read(path) == BATCHES
    for text in ("{}", '{"lockstep_capacity": 1}', path.read_text().replace("step", "stepp")):
        path.write_text(text)
        with pytest.raises(FileFormatError, match="no measurement|damaged"):
            Measured.read(path)
    with pytest.raises(NotFoundError, match="capacity measure"):
        Measured.read(tmp_path / "nowhere.json")
    for wrong in ({"runs": {2: Run(1, 1)}}, {"runs": {1: Run(-1, 1)}}, {"runs": {1: Run(0, 0)}}, {"steps": 0}):
        with pytest.raises(InputError):
            Measured(**{"steps": 1, "runs": {1: Run(1, 1)}, **wrong})


def test_measure_and_plan(lockstep, folder, tmp_path):
    words = ("-m", folder, "--batch", "1,2", "--repeats", 2, "--num-inference-steps", 3, "--height", 32, "--width", 32)
    code, out, err = lockstep("capacity", "measure", "-o", "here.json", *words)
    assert (code, "2 at once" in out) == (0, True), err
    found = Measured.read(tmp_path / "here.json")
    assert (found.steps, set(found.runs), found.model) == (3, {1, 2}, str(folder))
    assert found.result_bytes > 100
    code, out, err = lockstep(
        "capacity", "plan", "here.json", "--rate", 0.01, "--within", 600, "--workers", "3", "--json"
    )
    told = json.loads(out)
    assert (code, told["fewest"], [row["workers"] for row in told["forecasts"]]) == (0, 1, [1, 2, 3]), err
    code, out, _ = lockstep("capacity", "plan", "here.json", "--per-day", 10**5, "--peak", 2, "--within", 600)
    assert (code, "pictures a second and 99% of them within 600 s" in out) == (0, True)


def test_a_batch_s_ledger_is_a_measurement(lockstep, tmp_path):
    (tmp_path / "ledger.jsonl").write_text("".join(f'{{"key": "a", "seconds": {s}}}\n' for s in (0.9, 1.1)))
    code, out, err = lockstep("capacity", "plan", tmp_path, "--rate", 0.5, "--json")
    assert (code, json.loads(out)["forecasts"][0]["most"]) == (0, pytest.approx(1.0)), err
    code, out, _ = lockstep("capacity", "plan", tmp_path, "--rate", 0.5)
    assert (code, "helps 0 s" in out) == (0, False)
    code, _, err = lockstep("capacity", "plan", tmp_path, "--rate", 0.5, "--deaths", 1)
    assert (code, "this measurement has none" in err) == (2, True)
    code, out, _ = lockstep("capacity", "plan", tmp_path, "--rate", 1.5, "--workers", 1, "--json")
    assert (code, json.loads(out)["forecasts"][0]["mean"]) == (0, None)
    (tmp_path / "ledger.jsonl").write_text("")
    code, _, err = lockstep("capacity", "plan", tmp_path, "--rate", 0.5)
    assert (code, "has no times" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Give --rate"),
        (("--rate", "1", "--per-day", "5"), "Give --rate"),
        *[(("--rate", bad), "Pictures a second: wanted a number above 0") for bad in ("0", "-1", "nan", "inf")],
        *[(("--per-day", bad), "Pictures a second: wanted a number above 0") for bad in ("0", "nan")],
        *[(("--rate", "1", "--within", bad), "Seconds of a promise: wanted") for bad in ("0", "-2", "nan", "inf")],
        (("--rate", "1", "--price", "inf"), "Price of an hour: wanted a number from 0 on"),
        (("--rate", "1", "--latency", "inf"), "Latency: wanted"),
        (("--rate", "1", "--bandwidth", "nan"), "--bandwidth"),
        (("--rate", "1", "--batch", "2"), "Batches of 2 were not measured"),
        (("--rate", "3", "--a-machine", "4"), "workers on one machine were not measured"),
        (("--rate", "1", "--share", "1.5"), "between 0 and 1"),
        (("--rate", "1", "--workers", "two"), "whole numbers above 0"),
        (("--rate", "1", "--within", "0.5"), "One picture alone takes 1.00 s"),
    ],
)
def test_what_cannot_be_planned_is_told(lockstep, tmp_path, words, told):
    ONE.write(tmp_path / "here.json")
    code, _, err = lockstep("capacity", "plan", tmp_path / "here.json", *words)
    assert (code, told in err) == (2, True), err
