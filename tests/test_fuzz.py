"""Hostile input of every kind, bounded in time; `make fuzz` goes on by the hundred thousand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzing import named
from fuzzing.commands import commands
from fuzzing.judge import judge
from fuzzing.kinds import KINDS, drawn
from fuzzing.samples import good_files
from fuzzing.seams import seams

pytestmark = pytest.mark.usefixtures("without_layout")

CASES = {"formula": 10, "experiment": 15, "weights": 4, "points": 20, "data": 3, "store": 5,
         "command": 15, "checkpoint": 12, "special": 8, "card": 8}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def stopped_before_training():
    good_files()  # a store among them, of a sweep that may still run
    with seams():
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_one_line_in_time_and_nothing_half_done(kind):
    @settings(max_examples=CASES[kind], database=None)
    @given(seed=st.integers(0, 2**31))
    def search(seed):
        case = drawn(seed, kind)
        verdict = judge(case)
        assert not verdict.faults, (case.argv, verdict.faults)

    search()


def test_every_command_of_the_tree_is_fuzzed():
    seen = {drawn(seed, "command").argv[0] for seed in range(1500)}
    assert {name.split()[0] for name in commands()} <= seen


@pytest.mark.parametrize("name", named.everything())
def test_what_once_broke_is_one_line(name):
    verdict = judge(named.everything()[name]())
    assert not verdict.faults and verdict.code in (1, 2), (verdict.code, verdict.faults)
    assert all(len(line) < 400 for line in verdict.err.splitlines())
