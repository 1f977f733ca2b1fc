"""Finding the user's learner, and telling its mistakes by its own line."""

import random
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from capax.errors import InputError
from capax.learners.adapters import fit_of, made_by, seed_everything, takes_data
from capax.learners.fitting import attempt
from capax.learners.names import Entry, entry_of, known_names, travels
from capax.learners.references import load, source_digest
from capax.learners.setting import Setting
from capax.learners.zoo import scikit
from capax.learners.zoo.scikit import lasso

BAD = Path(__file__).parent / "bad_learners.py"
X, y = np.zeros((4, 3), np.uint8), np.zeros(4, np.uint8)


def test_a_file_and_a_dotted_name_are_found():
    assert load(f"{BAD}:majority").__name__ == "majority"
    assert load("collections.OrderedDict")().__len__() == 0
    assert load("collections:OrderedDict") is load("collections.OrderedDict")


@pytest.mark.parametrize(
    "reference, said",
    [
        ("nowhere.py:build", "file not found: nowhere.py"),
        (f"{BAD}:majorty", "has no 'majorty'; it has os, time, np, majority"),
        ("no_such_module_xyz.name", "no module 'no_such_module_xyz'"),
        ("collections._sys", "wanted file.py:name"),
        (":", "wanted file.py:name"),
    ],
)
def test_what_cannot_be_found_is_said_in_one_line(reference, said):
    with pytest.raises(InputError) as raised:
        load(reference)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_fails_names_its_line(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import math\n\nx = math.no_such_thing\n")
    with pytest.raises(InputError, match=r"broken\.py, line 3: AttributeError"):
        load(f"{broken}:x")
    broken.write_text("def f(:\n")
    with pytest.raises(InputError, match=r"broken\.py, line 1: SyntaxError"):
        load(f"{broken}:f")


def test_another_source_is_another_learner(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def build(T): ...\n")
    before = source_digest(f"{mine}:build")
    mine.write_text("def build(T): pass\n")
    assert len(before) == 64
    assert source_digest(f"{mine}:build") != before


def test_names_are_known_and_misspelt_ones_corrected():
    assert {"transformer", "mlp", "lstm", "tree", "version_space"} <= set(known_names())
    assert entry_of("mlp").in_lanes
    assert entry_of("mlp").tuned
    assert not entry_of("tree").in_lanes
    assert entry_of("tree").reference.endswith(":tree") and entry_of("tree").name == "tree"

    def fit(X, y): ...

    assert (entry_of(fit, "mine").name, entry_of(fit).name) == ("mine", "fit")
    with pytest.raises(InputError, match="did you mean 'forest'"):
        entry_of("forrest")


def test_factories_get_what_they_ask_for():
    setting = Setting(T=11, function="and3")
    assert made_by(lambda T: T, setting, 5) == 11
    assert made_by(lambda length: length, setting, 5) == 11
    assert made_by(lambda T, key: (T, key), setting, 5) == (11, 5)
    assert made_by(lambda function: function, setting, 5) == "and3"
    with pytest.raises(InputError, match="this one needs width"):
        made_by(lambda T, width: None, setting, 5)


def test_settings_reach_the_learner_that_knows_them():
    def narrow(X, y, depth=1):
        return lambda inputs: [depth] * len(inputs)

    def wide(X, y, **settings):
        return lambda inputs: [settings["depth"]] * len(inputs)

    for learner in (narrow, wide):
        fit = fit_of(learner, Setting(T=3, options={"depth": 7}))
        assert fit(X, y, key=0)(X) == [7] * 4
    with pytest.raises(InputError, match="width: unknown setting of the learner; known: X, y, d"):
        fit_of(narrow, Setting(T=3, options={"width": 7}))
    with pytest.raises(InputError, match="an object takes no settings"):
        fit_of(7, Setting(T=3, options={"width": 7}))


def test_only_two_parameters_of_their_own_are_data():
    assert takes_data(lambda X, y: None) and takes_data(lambda X, y, *, key: None)
    assert not takes_data(lambda length: None) and not takes_data(lambda a, b, c: None)
    assert not takes_data(lambda T, key: None) and not takes_data(lambda a, function: None)

    class Unread:
        __signature__ = "none that Python reads"

        def __call__(self, X, y): ...

    assert takes_data(Unread())


def test_entries_say_where_they_come_from():
    """Learners of the zoo and of a file travel to other processes, objects and names of none."""

    def mlp(X, y): ...

    zoo, file, thing = entry_of("mlp"), entry_of(f"{BAD}:build"), entry_of(mlp)
    assert [entry.in_zoo for entry in (zoo, file, thing)] == [True, False, False]
    assert [travels(entry) for entry in (zoo, file, thing)] == [True, True, False]
    assert not travels(Entry("nobody"))


def test_a_factory_in_a_file_is_built_from_that_file(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import equinox as eqx\nimport jax\n\n\nclass Sum(eqx.Module):\n    w: jax.Array\n\n"
        "    def __call__(self, x):\n        return (self.w * x).sum()\n\n\n"
        "def build(T, key):\n    return Sum(jax.numpy.ones(T))\n"
    )
    spec = entry_of(f"{mine}:build").spec(T=5)
    assert (spec.architecture, spec.source) == (f"{mine}:build", source_digest(f"{mine}:build"))
    assert [leaf.shape for leaf in jax.tree.leaves(spec.init(jax.random.key(0)))] == [(5,)]


def test_every_key_is_another_seed():
    """Global generators, and the random state of an estimator that has none."""

    class Estimator:
        def get_params(self):
            return {"random_state": None}

        def set_params(self, random_state):
            states.append(random_state)

        def fit(self, X, y): ...

        def predict(self, inputs): ...

    states, drawn, keys = [], set(), [3, 5, 7, 2**31 + 9, 2**33 + 1]
    for key in keys:
        seed_everything(key)
        drawn.add((np.random.random(), random.random()))  # noqa: NPY002
        fit_of(Estimator, Setting(T=3))(X, y, key=key)
    assert len({first for first, _ in drawn}) == len({second for _, second in drawn}) == 5
    assert states == [key % 2**31 for key in keys]


def test_a_fit_that_fails_took_its_time():
    for reason in (RuntimeError("no"), InputError("no")):

        def fit(X, y, *, key, reason=reason):
            time.sleep(0.01)
            raise reason

        assert attempt(fit, X, y, X, 0).seconds >= 0.01


def test_few_examples_of_a_label_need_no_cross_validation(monkeypatch):
    pytest.importorskip("sklearn", reason="the learner is scikit-learn's")
    bits = np.random.default_rng(0).integers(0, 2, (12, 4)).astype(np.uint8)
    few = np.zeros(12, np.uint8)
    few[:3], bits[:3, 0], bits[3:, 0] = 1, 1, 0
    for label in (few, np.zeros(12, np.uint8), np.ones(12, np.uint8), 1 - few):
        predict = fit_of(lasso, Setting(T=4))(bits, label, key=0)
        assert list(predict(bits)) == list(label)
    for known in (True, False):
        monkeypatch.setattr(scikit, "_liblinear_is_known", lambda known=known: known)
        for zeros, fitted in (
            (4, "LogisticRegression"),
            (5, "_FittedLine" if known else "LogisticRegressionCV"),
        ):
            model = lasso().fit(bits, np.arange(12) >= zeros)._model
            assert type(model).__name__ == fitted  # five folds, each with both labels


@pytest.mark.parametrize("l1_ratio", [1.0, 0.0])
def test_the_quick_fit_is_that_of_scikit_learn_to_the_last_bit(l1_ratio):
    pytest.importorskip("sklearn", reason="the learner is scikit-learn's")
    assert scikit._liblinear_is_known()
    rng = np.random.default_rng(3)
    for T, m in ((7, 23), (31, 61)):
        signs = 2.0 * rng.integers(0, 2, (m, T)) - 1.0
        label = ((signs[:, 0] > 0) & (signs[:, 2] > 0) | (rng.random(m) < 0.1)).astype(int)
        fits = []
        for fit in (partial(scikit._by_the_book, choose=True), scikit._in_one_go):
            np.random.seed(5)  # noqa: NPY002, the generator that scikit-learn draws from
            fits.append((fit(signs, label, l1_ratio), np.random.random()))  # noqa: NPY002
        (book, after), (quick, then) = fits
        assert np.array_equal(book.coef_, quick.coef_) and after == then
        assert np.array_equal(book.intercept_, quick.intercept_)
        assert np.array_equal(book.predict(-signs), quick.predict(-signs))


def test_objects_that_cannot_be_fitted_are_refused():
    with pytest.raises(InputError, match="wanted an estimator, a fit function or a factory, got 7"):
        fit_of(7, Setting(T=3))


def test_the_users_line_is_in_the_reason():
    made = attempt(fit_of(load(f"{BAD}:raises"), Setting(T=3)), X, y, X, 0)
    assert made.reason == "bad_learners.py, line 16: KeyError: 'missing'"
