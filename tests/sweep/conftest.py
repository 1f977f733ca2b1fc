"""Fixtures of the sweep tests."""

import pytest
from experiments_for_tests import fields

from capax.sweep.experiments.spec import build_experiment


@pytest.fixture
def experiment():
    return build_experiment(fields())
