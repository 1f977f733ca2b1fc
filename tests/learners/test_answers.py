"""The rule for answers: labels, probabilities, two columns; everything else says why not."""

import numpy as np
import pytest

from capax.learners.answers import BadAnswer, accuracy_of, labels_of

TRUTH = [True, False, True]


@pytest.mark.parametrize(
    "answer",
    [
        [1, 0, 1],
        [True, False, True],
        np.array([1.0, 0.0, 1.0]),
        [0.51, 0.5, 1.0],
        np.array([[0.2, 0.8], [0.9, 0.1], [0.0, 1.0]]),
        np.array([[1], [0], [1]]),
    ],
)
def test_labels_probabilities_and_columns_mean_the_same(answer):
    assert labels_of(answer, 3).tolist() == TRUTH
    assert accuracy_of(answer, np.array([1, 0, 0])) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "answer, said",
    [
        ([1, 0], "wanted 3 labels, got an array of shape (2,)"),
        ([[1, 0, 0]] * 3, "shape (3, 3)"),
        ([1.0, np.nan, 0.0], "NaN in 1 of 3 answers"),
        ([-1, 1, 1], "from -1 to 1"),
        ([0.2, 1.7, 0.0], "from 0 to 1.7"),
        ("abc", "got str"),
        (None, "shape ()"),
        ([np.inf, 0, 0], "from 0 to inf"),
    ],
)
def test_what_is_no_answer_says_why(answer, said):
    with pytest.raises(BadAnswer) as raised:
        labels_of(answer, 3)
    assert said in str(raised.value)
