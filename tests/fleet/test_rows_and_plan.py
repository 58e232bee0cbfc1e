"""Rows as people write them, and the keys that name their files."""

import json
import sys

import pytest

from lockstep.errors import FileFormatError, InputError, MachineError, NotFoundError
from lockstep.fleet.plan import NAME, Plan, key_of, told_differences, with_seeds
from lockstep.fleet.ray import require_answer
from lockstep.fleet.rows import read_rows

SHARED = {"weights": {"unet": "aa"}, "lockstep": "1"}


def plan_of(rows, shared=SHARED, suffix=".png"):
    return Plan.of(shared, rows, rows, suffix)


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.txt", "a dog\n\n# no prompt\n  a cat  \n", [{"prompt": "a dog"}, {"prompt": "a cat"}]),
        ("a.prompts", "a dog", [{"prompt": "a dog"}]),
        ("a.csv", 'prompt,seed\n"a, b",5\na cat,\n', [{"prompt": "a, b", "seed": "5"}, {"prompt": "a cat"}]),
        ("a.tsv", "prompt\tcfg\na dog\t3\n", [{"prompt": "a dog", "cfg": "3"}]),
        ("a.jsonl", '{"prompt": "a dog", "seed": 3}\n\n{"prompt": "b", "eta": null}\n',
         [{"prompt": "a dog", "seed": 3}, {"prompt": "b"}]),
    ],
)  # fmt: skip
def test_rows_of_every_kind_of_file(tmp_path, name, text, rows):
    (tmp_path / name).write_text(text)
    assert read_rows(tmp_path / name) == rows


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.txt", b"# nothing\n", "has no rows"),
        ("a.txt", b"\xff\xfe\x00", "no text in UTF-8"),
        ("a.csv", b"prompt,seed\na,1,2\n", "line 2: the head has 2 columns"),
        ("a.csv", b"prompt,seed\na\n", "line 2: the head has 2 columns, this row fewer"),
        ("a.csv", b'prompt\n"a\n', "cannot be read as a table"),
        ("a.csv", b"prompt,\na,1\n", "line 1: column 2 has no name"),
        ("a.csv", b"prompt,seed,prompt\na,1,b\n", "line 1: two columns are called 'prompt'"),
        ("a.csv", b"prompt\n" + b"a" * 200_000, "cannot be read as a table"),
        ("a.csv", b"prompt,seed\n", "has no rows"),
        ("a.jsonl", b"", "has no rows"),
        ("a.jsonl", b'{"prompt": 1}\n[1]\n', "line 2 has to be an object"),
        ("a.jsonl", b"{\n", "line 1 is no JSON"),
    ],
)
def test_a_file_that_is_none_is_told_with_its_line(tmp_path, name, data, problem):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=problem):
        read_rows(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(NotFoundError, match="with rows"):
        read_rows(tmp_path / "nowhere.csv")


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"prompt": ["a", "b"], "seed": [1, None]}), tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet") == [{"prompt": "a", "seed": 1}, {"prompt": "b"}]
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="is no Parquet file"):
        read_rows(tmp_path / "b.parquet")


def test_parquet_without_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(MachineError, match=r"lockstep-diffusion\[batch\]"):
        read_rows(tmp_path / "a.parquet")


def test_seeds_go_on_where_a_row_names_none():
    rows = with_seeds([{"prompt": "a"}, {"prompt": "b", "seed": "7"}, {"prompt": "c"}], 100, 2)
    assert [row["seed"] for row in rows] == [100, 101, 7, 8, 104, 105]
    for bad in ("x", 1.5, [1], True, -1, 2**63, float("inf")):
        with pytest.raises(InputError, match="whole number"):
            with_seeds([{"seed": bad}], 0)


def test_a_key_is_of_what_decides_the_pixels():
    row = {"prompt": "a", "seed": 1}
    assert key_of(SHARED, row) == key_of(dict(reversed(SHARED.items())), dict(reversed(row.items())))
    others = [({**SHARED, "lockstep": "2"}, row), (SHARED, {**row, "seed": 2}), (SHARED, {**row, "eta": 0.5})]
    assert len({key_of(SHARED, row), *(key_of(*other) for other in others)}) == 4


def test_equal_rows_have_one_file():
    plan = plan_of([{"prompt": "a", "seed": 1}, {"prompt": "b", "seed": 1}, {"prompt": "a", "seed": 1}])
    assert (len(plan.rows), len(plan.files)) == (3, 2)


def test_a_plan_is_read_as_it_was_written(tmp_path):
    plan = plan_of([{"prompt": "ä — 🦊", "seed": 1}])
    assert Plan.read(tmp_path) is None
    plan.write(tmp_path)
    assert Plan.read(tmp_path) == plan
    lines = (tmp_path / NAME).read_text().splitlines()
    for damaged in ("", lines[0], "\n".join([lines[0], lines[1][:-4]]), json.dumps({"rows": 0})):
        (tmp_path / NAME).write_text(damaged)
        with pytest.raises(FileFormatError, match="no plan of a batch, or damaged"):
            Plan.read(tmp_path)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            plan_of([{"prompt": "a", "seed": 1}], {**SHARED, "weights": {"unet": "bb"}}),
            'weights.unet was "bb", now "aa" (--model)',
        ),
        (plan_of([{"prompt": "a", "seed": 1}], {"weights": {"unet": "aa"}}), 'lockstep was not given, now "1"'),
        (plan_of([{"prompt": "a" * 99, "seed": 1}]), 'row 1: prompt was "a{39}…, now "a"'),
        (plan_of([{"prompt": "a", "seed": 1}] * 2), "it had 2 rows, now there are 1"),
        (plan_of([{"prompt": "a", "seed": 2}]), "row 1: seed was 2, now 1"),
        (plan_of([{"prompt": "a", "seed": 1}], suffix=".webp"), "its files end in .webp, now .png"),
    ],
)
def test_another_plan_is_refused_with_what_is_different(tmp_path, other, told):
    with pytest.raises(InputError, match=told.replace("(", r"\(").replace(")", r"\)")):
        plan_of([{"prompt": "a", "seed": 1}]).require_same(other, tmp_path)


def test_of_another_class_nothing_else_is_told():
    was = {"settings": {"scheduler": {"class": "DDIMScheduler", "eta": 0, "beta": 1}}, "dtype": ["float32"]}
    now = {"settings": {"scheduler": {"class": "Euler", "beta": 2}}, "dtype": ["bfloat16"]}
    assert told_differences(was, now) == (
        'settings.scheduler.class was "DDIMScheduler", now "Euler" (--scheduler); '
        'dtype was ["float32"], now ["bfloat16"] (--dtype)'
    )


def test_a_character_in_two_halves_is_one(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a \\ud83d\\ude00 cat"}\n')
    assert read_rows(tmp_path / "rows.jsonl") == [{"prompt": "a \U0001f600 cat"}]


def test_all_lines_that_are_no_rows_are_told_at_once(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n{\n[1]\n{"prompt": "a", "prompt": "b"}\n')
    with pytest.raises(InputError) as told:
        read_rows(tmp_path / "rows.jsonl")
    assert "line 2 is no JSON" in str(told.value)
    assert "line 3 has to be an object of inputs, got list" in str(told.value)
    assert "line 4 is no JSON: 'prompt' is there twice" in str(told.value)


def test_a_file_of_another_kind_is_no_list_of_prompts(tmp_path):
    (tmp_path / "rows.xlsx").write_text("a cat")
    with pytest.raises(InputError, match=r"rows come as a text with one prompt a line .* not as \.xlsx"):
        read_rows(tmp_path / "rows.xlsx")


def test_an_address_where_nobody_answers_is_told_at_once():
    with pytest.raises(MachineError, match="No Ray cluster answers at 127.0.0.1:1: .*ray start --head"):
        require_answer("127.0.0.1:1")
    require_answer(None)
    require_answer("auto")
