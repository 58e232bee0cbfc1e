"""The queue's states, turns and keys; and the same under kill -9 at every point of a job's way."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lockstep.errors import InputError
from lockstep.serve.problems import Problem
from lockstep.serve.queue import Output, Queue, Room, Submission
from lockstep.serve.results import DataFolder
from lockstep.serve.workers import conclude

REFUSED = {"status": 500, "code": "worker_died", "message": "The worker died."}


@pytest.fixture
def told():
    return []


@pytest.fixture
def queue(tmp_path, told):
    queue = Queue(tmp_path / "queue.sqlite", tell=told.append)
    yield queue
    queue.close()


def wanted(prompt="a cat", **more):
    return Submission({"inputs": {"prompt": prompt}}, "emoji", text=prompt, **more)


def submitted(queue, *args, **more):
    return queue.submit(wanted(*args, **more))[0]


def output(n=0, name="x-0.png"):
    return Output(n, name, "image/png", "0" * 64, 3, {"seed": 7})


def test_a_job_goes_its_way_and_each_step_is_told_once(queue, told):
    job = submitted(queue)
    (claimed,) = queue.claim()
    assert (claimed.id, claimed.state, claimed.attempt) == (job.id, "running", 1)
    assert queue.claim() == []
    assert queue.finish(job.id, 1, [output()], {"seconds": 1})
    done = queue.get(job.id)
    assert (done.state, done.outputs, done.result) == ("done", [output()], {"seconds": 1})
    assert [event.kind for event in told] == ["queued", "running", "done"]
    assert queue.events_after(0) == told
    assert queue.events_after(told[1].seq) == told[2:]


def test_what_comes_late_from_an_older_attempt_is_dropped(queue):
    job = submitted(queue)
    queue.claim()
    assert queue.release(job.id, 1)
    (again,) = queue.claim()
    assert again.attempt == 2
    assert not queue.finish(job.id, 1, [output()], {})
    assert not queue.fail(job.id, 1, REFUSED)
    assert not queue.cancelled(job.id, 1)
    assert not queue.release(job.id, 1)
    assert queue.get(job.id).state == "running"
    assert queue.finish(job.id, 2, [output()], {})
    assert not queue.finish(job.id, 2, [output()], {}), "a job ends once"


def test_a_job_that_loses_two_workers_is_given_up_and_runs_alone_after_the_first(queue):
    bad, good = (submitted(queue, shape="a") for _ in range(2))
    assert len(queue.claim(4)) == 2
    for job in (bad, good):
        queue.release(job.id, 1, REFUSED)
    assert [job.id for job in queue.claim(4)] == [bad.id], "alone: it may be the one"
    queue.release(bad.id, 2, REFUSED)
    assert (queue.get(bad.id).state, queue.get(bad.id).error) == ("failed", REFUSED)
    assert [job.id for job in queue.claim(4)] == [good.id]


def test_what_ran_when_the_server_ended_waits_again_and_is_no_fault(queue):
    job = submitted(queue)
    for attempt in range(1, 6):
        assert queue.claim()[0].attempt == attempt
        assert queue.recover() == 1
    assert (queue.get(job.id).state, queue.get(job.id).faults) == ("queued", 0)


def test_one_shape_makes_a_batch_up_to_its_rows(queue):
    first, other, second = (submitted(queue, shape=shape) for shape in ("a", "b", "a"))
    large = submitted(queue, shape="a", rows=3)
    third = submitted(queue, shape="a")
    assert [job.id for job in queue.claim(4)] == [first.id, second.id, third.id], "the large one would be too much"
    assert [job.id for job in queue.claim(4)] == [other.id]
    assert [job.id for job in queue.claim(4)] == [large.id]


def test_a_long_queue_makes_larger_batches(queue):
    for _ in range(10):
        submitted(queue, shape="a")
    assert len(queue.claim(2, long_queue=10)) == 4
    assert len(queue.claim(2, long_queue=10)) == 2


def test_one_without_a_shape_runs_alone(queue):
    submitted(queue), submitted(queue)
    assert len(queue.claim(4)) == 1


def test_clients_take_turns_by_what_their_jobs_cost(queue):
    for _ in range(4):
        submitted(queue, "many", client="a", cost=10)
    for _ in range(2):
        submitted(queue, "few", client="b", cost=10)
    order = [queue.claim()[0].client for _ in range(6)]
    assert order == ["a", "b", "a", "b", "a", "a"]


def test_a_client_that_comes_late_does_not_get_what_it_did_not_ask_for(queue):
    for _ in range(6):
        submitted(queue, client="a", cost=10)
    for _ in range(3):
        queue.claim()
    for _ in range(3):
        submitted(queue, client="b", cost=10)
    assert [queue.claim()[0].client for _ in range(4)] in (["b", "a", "b", "a"], ["a", "b", "a", "b"])


def test_a_higher_priority_goes_first_and_can_be_changed(queue):
    low, high = submitted(queue), submitted(queue, priority=5)
    assert [job.id for job in queue.waiting()] == [high.id, low.id]
    queue.move(low.id, 9)
    assert queue.claim()[0].id == low.id


def test_a_key_names_one_job(queue):
    job, new = queue.submit(wanted(key="k"))
    again, renewed = queue.submit(wanted(key="k"))
    assert (new, renewed, again.id) == (True, False, job.id)
    with pytest.raises(Problem, match="another request") as refused:
        queue.submit(wanted("a dog", key="k"))
    assert refused.value.status == 422
    assert len(queue.find()) == 1


def test_a_full_queue_refuses_with_429(tmp_path):
    queue = Queue(tmp_path / "queue.sqlite", Room(jobs=3, per_client=2))
    for _ in range(2):
        submitted(queue, client="a")
    with pytest.raises(Problem, match="of yours") as own:
        submitted(queue, client="a")
    submitted(queue, client="b")
    with pytest.raises(Problem, match="jobs are waiting") as all_of_them:
        submitted(queue, client="c")
    assert own.value.status == all_of_them.value.status == 429


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_by_the_worker(queue):
    waiting = submitted(queue)
    assert queue.stop(waiting.id).state == "cancelled"
    running = submitted(queue)
    queue.claim()
    assert queue.stop(running.id).state == "running"
    assert queue.cancelled(running.id, 1)
    assert queue.get(running.id).state == "cancelled"
    assert queue.stop(running.id).state == "cancelled", "once more changes nothing"


@pytest.mark.parametrize("how", ["cancel", "shorten"])
def test_what_nobody_wants_any_more_never_runs_again(tmp_path, how):
    """The wish is on the disk before it is answered: neither the death of the server nor of a worker forgets it."""
    queue = Queue(tmp_path / "queue.sqlite")
    job, lost = submitted(queue), submitted(queue)
    queue.claim(), queue.claim()
    queue.stop(job.id, how), queue.stop(lost.id, how)
    assert queue.release(lost.id, 1, REFUSED)
    queue.close()  # and not a word more
    again = Queue(tmp_path / "queue.sqlite")
    again.recover()
    assert [again.get(one.id).state for one in (job, lost)] == ["cancelled"] * 2
    assert again.claim() == []
    again.close()


def test_a_result_of_a_cancelled_job_is_dropped(queue, tmp_path):
    folder = DataFolder(tmp_path / "data")
    job = submitted(queue)
    (running,) = queue.claim()
    queue.stop(job.id)
    assert queue.stop(job.id, "shorten").unwanted == "cancel"
    conclude(queue, folder, running, {"tell": "done", "outputs": [], "result": {}})
    assert queue.get(job.id).state == "cancelled"
    folder.close()


def test_a_queue_from_before_is_read(tmp_path):
    queue = Queue(tmp_path / "queue.sqlite")
    job = submitted(queue)
    queue._db.execute("ALTER TABLE jobs DROP COLUMN unwanted")
    queue.close()
    again = Queue(tmp_path / "queue.sqlite")
    assert again.stop(job.id).state == "cancelled"
    again.close()


def test_a_deadline_ends_what_has_not_begun(queue):
    late, timely = submitted(queue, deadline=time.time() - 1), submitted(queue, deadline=time.time() + 60)
    assert [job.id for job in queue.claim()] == [timely.id]
    assert queue.get(late.id).error["code"] == "deadline"


def test_jobs_are_found_by_text_model_and_star(queue):
    cat, dog = submitted(queue, "a Cat"), submitted(queue, "a dog")
    queue.claim()
    queue.finish(cat.id, 1, [output()], {})
    queue.star(cat.id, 0, True)
    assert [job.id for job in queue.find()] == [dog.id, cat.id]
    for found in (
        queue.find(text="cAT"),
        queue.find(starred=True),
        queue.find(states=["done"]),
        queue.find(before=dog.seq),
    ):
        assert [job.id for job in found] == [cat.id]
    assert queue.find(model="other") == []
    with pytest.raises(Problem, match="no such picture"):
        queue.star(dog.id, 0, True)


def test_only_what_has_ended_can_be_deleted(queue):
    job = submitted(queue)
    with pytest.raises(Problem, match="cancel it"):
        queue.delete(job.id)
    queue.stop(job.id)
    assert queue.delete(job.id) == []
    with pytest.raises(Problem, match="no such job"):
        queue.get(job.id)
    assert queue.events_after(0) == []


def test_two_servers_cannot_share_a_folder(tmp_path):
    folder = DataFolder(tmp_path)
    with pytest.raises(InputError, match="Another server"):
        DataFolder(tmp_path)
    folder.close()
    DataFolder(tmp_path).close()


def test_the_same_bytes_may_come_twice_at_once(tmp_path):
    folder = DataFolder(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        for k in range(10):
            names = list(threads.map(folder.keep_input, [b"new" * 10_000 + bytes([k])] * 8, [".png"] * 8))
            assert len(set(names)) == 1
    assert len(list(folder.inputs.iterdir())) == 10, "and no part of one is left"
    folder.close()


def test_only_the_owner_reads_what_is_kept(tmp_path):
    folder = DataFolder(tmp_path / "data")
    Queue(folder.database).close()
    assert folder.root.stat().st_mode & 0o777 == 0o700
    assert folder.database.stat().st_mode & 0o777 == 0o600
    folder.close()


def test_a_sweep_takes_work_at_once_and_what_no_row_names_when_it_is_old(tmp_path):
    folder = DataFolder(tmp_path)
    kept, loose = folder.keep_input(b"kept", ".png"), folder.keep_input(b"loose", ".png")
    folder.place_for("job", 1).mkdir()
    folder.sweep(set(), {kept})
    assert not folder.place_for("job", 1).exists()
    assert (folder.inputs / loose).exists()
    folder.sweep(set(), {kept}, now=time.time() + 4000)
    assert [path.name for path in folder.inputs.iterdir()] == [kept]
    folder.close()


def test_killed_at_every_point_a_job_still_ends_exactly_once(tmp_path):
    """One child for each point (a statement of SQL, a sync, a rename) at which kill -9 can come."""
    script = Path(__file__).parent / "killed_at_every_point.py"
    ran = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=True, timeout=120)
    report = json.loads(ran.stdout)
    assert report["points"] > 40
    assert report["wrong"] == []
