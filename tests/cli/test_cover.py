"""`capax cover` as a user meets it: numbers, JSON, pictures, mistakes."""

import json

import numpy as np
import pytest

from capax.capacity.covers.point_files import read_table
from capax.errors import InputError
from one_line import one_line
from typed_command import typed

pytestmark = pytest.mark.usefixtures("without_layout")

POINTS = "x,y\n0.5,0.7\n0.2,0.3\n0.6,0.65\n"


@pytest.fixture
def points(tmp_path):
    file = tmp_path / "points.csv"
    file.write_text(POINTS)
    return file


def test_json_has_the_promised_keys(points, warm_commands):
    result = warm_commands.capax("cover", points, "--eps", 0.45, "--curve", "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert {"eps", "exact", "greedy", "packing", "centres"} <= set(answer)
    assert (answer["eps"], answer["exact"], answer["greedy"], answer["packing"]) == (0.45, 2, 2, 2)
    assert len(answer["centres"]) == 2
    assert [row["upper"] for row in answer["curve"]] == [3, 2, 1]


def test_text_shows_number_and_centres(points):
    result = typed("cover", points, "--eps", 0.5)
    assert "N(0.5) = 1" in result.stdout
    assert "#0 (0.5, 0.7)" in result.stdout


def test_time_limit_gives_lower_and_upper(tmp_path):
    file = tmp_path / "many.npy"
    np.save(file, np.random.default_rng(0).random((150, 2)))
    answer = json.loads(typed("cover", file, "--eps", 0.15, "--time-limit", 0, "--json").stdout)
    assert "exact" not in answer
    assert answer["lower"] < answer["upper"] == len(answer["centres"])
    assert answer["lower"] >= answer["packing_2eps"]


def test_pictures_are_written(points, tmp_path):
    balls, curve = tmp_path / "balls.png", tmp_path / "curve.svg"
    assert typed("cover", points, "--eps", 0.45, "--plot", balls).returncode == 0
    assert typed("cover", points, "--curve", "--plot", curve).returncode == 0
    assert balls.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in curve.read_bytes()


@pytest.mark.parametrize(
    "content, options, message",
    [
        (POINTS, ["--eps", "0"], "error: eps: wanted a finite number > 0, got 0.0"),
        (POINTS, [], "error: --eps: wanted a radius (or --curve), got 'neither'"),
        ("0,1\n2,0\n", ["--eps", "1", "--distances"], "error: distances: wanted a symmetric"),
        (POINTS, ["--eps", "1", "--plot", "a.gif"], "error: --plot: wanted a file name ending"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(tmp_path, content, options, message):
    file = tmp_path / "table.csv"
    file.write_text(content)
    result = typed("cover", file, *options)
    assert result.returncode == 2
    assert result.stderr.startswith(message)
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_tables_are_read_with_or_without_names(tmp_path):
    for name, text in (
        ("a.csv", "1,2\n3,4\n"),
        ("b.tsv", "u\tv\n1\t2\n\n3\t4\n"),
        ("c.txt", "1 2\n3  4"),
    ):
        file = tmp_path / name
        file.write_text(text)
        assert read_table(file).tolist() == [[1, 2], [3, 4]]
    np.save(tmp_path / "d.npy", np.array([1.0, 2.0]))
    assert read_table(tmp_path / "d.npy").tolist() == [[1], [2]]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b"1,2\n3\n", "line 2: wanted 2 numbers like the first row, got 1"),
        ("a.csv", b"1,2\n3,x\n", "line 2: wanted numbers only, got 'x'"),
        ("a.csv", b"", "wanted at least one row of numbers"),
        ("a.csv", b"x,y\n", "wanted at least one row of numbers"),
        ("a.csv", b"\xff\xfe\x00", "wanted a text file"),
        ("a.npy", b"no", "not an array in NumPy's format"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with one_line(message):
        read_table(file)


def test_missing_file():
    with pytest.raises(InputError, match="file not found"):
        read_table("nowhere.csv")
