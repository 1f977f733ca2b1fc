"""Tasks: the data a spec stands for, and every way a spec can be wrong."""

import zipfile

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from capax.boolean import is_unique, parse
from capax.data import (
    Spec,
    TaskSpec,
    draw_support,
    draw_task,
    draw_training,
    validation_inputs,
    write_task,
)
from capax.errors import InfeasibleError, InputError


def small(**fields) -> TaskSpec:
    return TaskSpec(**{"T": 19, "m": 29, "validation_size": 41, **fields})


@pytest.mark.parametrize("function", ["and3", "or2", "parity3", "maj3", "x0 & (x1 | ~x2)", "~x3"])
def test_labels_are_the_function_of_the_hidden_bits(function):
    spec = small(function=function, m=47)
    task = draw_task(spec)
    f = parse(function).on(task.support, 19)
    assert task.X_train.shape == (47, 19) and task.X_validation.shape == (41, 19)
    assert np.array_equal(task.y_train, f(task.X_train))
    assert np.array_equal(task.y_validation, f(task.X_validation))
    assert task.support == draw_support(spec) == spec.target.support
    assert is_unique(f, task.X_train, task.y_train)
    assert {a.dtype for a in (task.X_train, task.y_train, task.y_validation)} == {
        np.dtype(np.uint8)
    }


def test_symbols_of_a_larger_alphabet():
    many = {"alphabet": 5, "p": "uniform", "reject_ambiguous": False}
    spec = small(function="x0 == x1 & x2 >= 3", m=400, **many)
    task = draw_task(spec)
    counts = np.bincount(task.X_train.reshape(-1), minlength=5) / task.X_train.size
    assert np.abs(counts - 0.2).max() < 0.03  # 5.5 standard deviations of 7600 symbols
    assert np.array_equal(task.y_train, spec.target(task.X_train)) and spec.probability == 0.2
    assert "alphabet" not in small().model_dump() and spec.model_dump()["alphabet"] == 5
    assert small(p="uniform").probability == 0.5
    for wrong, words in (
        ({"alphabet": 5, "reject_ambiguous": False, "function": "x0 == 1"}, 'p: wanted "uniform"'),
        ({"alphabet": 5, "p": "uniform", "function": "x0 == 1"}, "reject_ambiguous: wanted false"),
        ({"alphabet": 1, "p": "uniform"}, "alphabet: wanted"),
    ):
        with pytest.raises(InputError, match=words):
            small(**wrong)


def test_order_and_company_do_not_matter():
    specs = [small(seed=seed) for seed in range(6)]
    forwards = [draw_task(spec) for spec in specs]
    backwards = [draw_task(spec) for spec in reversed(specs)][::-1]
    for a, b in zip(forwards, backwards, strict=True):
        assert a.support == b.support and np.array_equal(a.X_train, b.X_train)
    assert len({task.support for task in forwards}) > 1


def test_every_field_that_means_other_data_changes_the_data():
    first = draw_training(small()).X
    for change in ({"seed": 1}, {"function": "or3"}, {"noise": 0.1}, {"support": (1, 2, 3)}):
        assert not np.array_equal(draw_training(small(**change)).X, first)
    for same in ({"validation_size": 5}, {"max_tries": 7}):
        assert np.array_equal(draw_training(small(**same)).X, first)


def test_validation_inputs_are_shared_by_all_tasks_of_one_length_and_p():
    a, b = draw_task(small(seed=1)), draw_task(small(seed=2, m=31))
    assert np.array_equal(a.X_validation, b.X_validation)
    assert np.array_equal(a.X_validation, validation_inputs(19, small().probability, 41))
    other = draw_task(small(p=0.5)).X_validation
    assert not np.array_equal(other, a.X_validation)


def test_supports():
    assert draw_support(small(function="maj(x1,x5,x9)", support="formula")) == (1, 5, 9)
    assert draw_support(small(support=(4, 18, 0))) == (4, 18, 0)
    supports = [draw_support(small(seed=seed)) for seed in range(40)]
    assert all(list(s) == sorted(s) and max(s) < 19 for s in supports)
    orders = [draw_support(small(function="x0 & ~x1", p=0.5, seed=seed)) for seed in range(40)]
    assert any(a > b for a, b in orders) and any(a < b for a, b in orders)


def test_balanced_labels():
    """Label mean of 20 000 examples within 5 standard errors of 1/2: once in 10^6."""
    for function in ("and3", "or4", "maj3", "sym(0110; x0,x1,x2)"):
        y = draw_task(small(function=function, validation_size=20_000)).y_validation
        assert abs(y.mean() - 0.5) < 5 * 0.5 / 20_000**0.5


def test_noise_flips_training_labels_only():
    """500 labels, 10 % flipped: between 20 and 90 flips, fails once in 10^6."""
    spec = small(noise=0.1, m=500)
    task = draw_task(spec)
    clean = spec.target(task.X_train)
    assert 20 < (clean != task.y_train).sum() < 90
    assert np.array_equal(task.y_validation, spec.target(task.X_validation))
    assert is_unique(spec.target, task.X_train, clean)


def test_rejections_are_counted_and_bounded():
    counts = [draw_training(small(m=14, seed=seed)).rejections for seed in range(30)]
    assert sum(counts) > 0
    kept = [draw_training(small(m=14, seed=seed, reject_ambiguous=False)) for seed in range(30)]
    assert all(t.rejections == 0 for t in kept)
    ambiguous = [not is_unique(parse("and3"), t.X, t.y) for t in kept]
    assert ambiguous == [count > 0 for count in counts]
    with pytest.raises(InfeasibleError, match=r"5 training sets of m = 1 .* larger m"):
        draw_training(small(m=1, max_tries=5))
    with pytest.raises(InfeasibleError, match="version space"):
        draw_training(TaskSpec(function="parity8", T=300, m=100))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"T": 2}, "T: wanted T >= s = 3, got 2"),
        ({"T": 0}, "T: input should be greater than or equal to 1, got 0"),
        ({"m": 0}, "m: "),
        ({"m": "many"}, "m: .*valid integer.*got 'many'"),
        ({"p": 1.0}, "p: wanted 0 < p < 1"),
        ({"p": float("nan")}, "p: "),
        ({"p": "half"}, "p: .*'balanced' or 'uniform', got 'half'"),
        ({"function": "0"}, "p: no p in \\(0, 1\\) balances 0"),
        ({"function": "x0 &"}, "formula: wanted .* column 5"),
        ({"function": "x30", "support": "formula"}, "x30: out of range for T = 19"),
        ({"support": (1, 2)}, "support: wanted 3 positions"),
        ({"support": (1, 2, 19)}, "x19: out of range for T = 19; positions are 0-based"),
        ({"support": (1, 2, 2)}, "support: wanted distinct"),
        ({"support": "rnd"}, "support: .*'random', 'contiguous' or 'formula'"),
        ({"noise": 0.5}, "noise: .*less than 0.5"),
        ({"max_tries": 0}, "max_tries: "),
        ({"seed": -1}, "seed: "),
        ({"sed": 1}, "sed: unknown field of TaskSpec; did you mean 'seed'\\?"),
        ({"zzz": 1}, "zzz: unknown field of TaskSpec; known: function, T"),
    ],
)
def test_mistakes_are_one_line(fields, message):
    with pytest.raises(InputError, match=message) as caught:
        small(**fields)
    assert "\n" not in str(caught.value)


def test_missing_fields_nesting_and_freezing():
    with pytest.raises(InputError, match="m: missing field of TaskSpec"):
        TaskSpec(T=5)

    class Outer(Spec):
        task: TaskSpec

    with pytest.raises(InputError, match="sed: unknown field of TaskSpec"):
        Outer(task={"T": 5, "m": 5, "sed": 1})
    with pytest.raises(ValidationError, match="frozen"):
        small().T = 20
    spec = small(support=(3, 4, 5))
    assert TaskSpec.model_validate_json(spec.model_dump_json()) == spec


@settings(max_examples=15)
@given(st.integers(3, 40), st.integers(1, 50), st.integers(0, 10**6))
def test_any_size_can_be_drawn(T, m, seed):
    task = draw_task(TaskSpec(T=T, m=m, seed=seed, validation_size=3, reject_ambiguous=False))
    assert task.X_train.shape == (m, T) and len(task.support) == 3


def test_files_hold_the_same_data(tmp_path):
    spec = small(function="maj(x1,x5,x9)", support="formula")
    task = draw_task(spec)
    with np.load(write_task(tmp_path / "d.npz", spec, task)) as stored:
        assert np.array_equal(stored["X_train"], task.X_train)
        assert np.array_equal(stored["y_validation"], task.y_validation)
        assert TaskSpec.model_validate_json(str(stored["spec"])) == spec
        assert tuple(stored["support"]) == (1, 5, 9)
    rows = np.concatenate([task.X_train, task.X_validation])
    labels = np.concatenate([task.y_train, task.y_validation])
    text = write_task(tmp_path / "d.csv", spec, task).read_text().splitlines()
    assert text[0].replace('"', "").split(",")[:3] == ["split", "y", "x0"]
    cells = [line.replace('"', "").split(",") for line in text[1:]]
    assert [c[0] for c in cells] == ["train"] * 29 + ["validation"] * 41
    assert np.array_equal(np.array([c[1:] for c in cells], dtype=int), np.c_[labels, rows])
    table = pyarrow.parquet.read_table(write_task(tmp_path / "d.parquet", spec, task))
    assert np.array_equal(np.stack([table[f"x{t}"] for t in range(19)], axis=1), rows)
    assert TaskSpec.model_validate_json(table.schema.metadata[b"capax_spec"]) == spec
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.csv", "d.npz", "d.parquet"]


def test_the_bytes_of_a_file_do_not_depend_on_python(tmp_path):
    """No time, and no headers for files beyond 4 GB, which some versions of Python always write."""
    spec = small()
    with zipfile.ZipFile(write_task(tmp_path / "d.npz", spec, draw_task(spec))) as archive:
        entries = archive.infolist()
    assert {(e.date_time, e.extra, e.extract_version, e.create_system) for e in entries} == {
        ((1980, 1, 1, 0, 0, 0), b"", 20, 3)
    }
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_DEFLATED}


def test_files_that_cannot_be_written(tmp_path):
    spec = small(validation_size=1)
    task = draw_task(spec)
    with pytest.raises(InputError, match=r"\.npz, \.csv or \.parquet"):
        write_task(tmp_path / "d.txt", spec, task)
    with pytest.raises(InputError, match="does not exist"):
        write_task(tmp_path / "no" / "d.npz", spec, task)
    with pytest.raises(InputError, match="too wide"):
        write_task(tmp_path / "d.csv", small(T=20_001), task)
    assert list(tmp_path.iterdir()) == []


def test_contiguous_supports_are_neighbours_that_start_anywhere():
    specs = [TaskSpec(T=11, m=5, support="contiguous", seed=s, function="and3") for s in range(60)]
    supports = {draw_support(spec) for spec in specs}
    assert {support[0] for support in supports} == set(range(9))
    assert all(support == tuple(range(support[0], support[0] + 3)) for support in supports)
    mixed = {"function": "x0 & !x1", "p": 0.5, "support": "contiguous"}
    placed = {draw_support(TaskSpec(T=7, m=5, seed=seed, **mixed)) for seed in range(90)}
    assert all(abs(a - b) == 1 for a, b in placed) and len(placed) == 12  # both orders, 6 places
