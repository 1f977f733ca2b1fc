"""From any model to its formula, its proof and its certificate."""

import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from decompile_cases import random_transformer

import capax
from capax.attention import save
from capax.boolean import SparseFunction, parse
from capax.compiler import ENCODINGS, compile, save_compiled
from capax.data import TaskSpec, draw_task
from capax.data.examples import Examples, read_examples
from capax.decompile import decompiling
from capax.decompile.anatomy import classify, tally
from capax.decompile.decompiling import Effort, agreement_of, decompile
from capax.decompile.proof.all_inputs import on_all_inputs
from capax.decompile.reading.influence import bisect, find_candidates
from capax.decompile.reading.oracle import oracle
from capax.errors import InputError
from typed_command import typed

QUICK = Effort(pairs=400, fillers=16, fresh=500)
UNPROVED = Effort(pairs=400, fillers=16, fresh=500, cells=0)


def function_model(text, T):
    f = parse(text, T)
    return lambda X: f(X) - 0.5


def equal(f, g, T, seed=0):
    X = np.random.default_rng(seed).integers(0, 2, (2000, T)).astype(np.uint8)
    return (f(X) == g(X)).all() and set(f.support) == set(g.relevant().support)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_compiled_networks_come_back_proved(encoding):
    rng = np.random.default_rng(5)
    for s in (3, 3, 3, 4):
        bits = tuple(rng.choice(17, s, replace=False).tolist())
        f = SparseFunction(bits, rng.integers(0, 2, 1 << s).astype(float), 17)
        found = decompile(compile(f, 17, encoding=encoding).model, effort=QUICK)
        assert equal(found.function, f, 17)
        assert found.all_inputs.status == "proved" and found.all_inputs.margin > 0
        assert found.all_inputs.ones == (0, 17 - found.function.s)
        assert 0 < found.all_inputs.float32_margin < found.all_inputs.margin


def test_a_proof_about_symbols_counts_no_ones():
    made = compile("x1 == x3", 5, alphabet=3)
    f, rng = made.construction.function, np.random.default_rng(0)
    verdict = on_all_inputs(oracle(made.model), f, rng, p=0.5)
    assert verdict.status == "proved" and verdict.ones is None


@pytest.mark.parametrize(
    "text",
    ["parity(x3, x700, x9999)", "x5 & x17 & ~x8000", "maj(x1, x2, x3, x4, x5, x6, x7)", "0"],
)
def test_ten_thousand_bits_in_thousands_of_questions(text):
    model = oracle(function_model(text, 10_000), 10_000)
    found = find_candidates(model, np.random.default_rng(0), pairs=1000)
    assert found.bits == parse(text, 10_000).support
    assert found.complete and model.queries < 15_000


def test_eight_bits():
    found = decompile(
        function_model("maj(x0,x9,x3) ^ (x11 & x20) ^ thr2(x31,x33,x35)", 40), T=40, effort=QUICK
    )
    assert found.support == (0, 3, 9, 11, 20, 31, 33, 35)
    assert found.agreement.value == 1.0


def test_bisection_gives_witnesses():
    f = parse("maj(x2, x5, x7)", 9)
    model = oracle(lambda X: f(X) - 0.5, 9)
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 2, (2, 200, 9)).astype(np.uint8)
    differ = model(x) != model(y)
    bits = bisect(model, x[differ], y[differ], model(x[differ]))
    assert set(bits.tolist()) <= {2, 5, 7}


def test_missed_influence_is_kept():
    """A bit of the stated influence is missed with at most the stated probability."""
    f = parse("x0 & x1 & x2 & x3 & x4", 30)
    missed = 0
    for seed in range(60):
        model = oracle(lambda X: f(X) - 0.5, 30)
        found = find_candidates(model, np.random.default_rng(seed), pairs=60, delta=0.2)
        lost = set(f.support) - set(found.bits)
        missed += bool(lost) and found.missed_influence <= 1 / 16
    assert missed <= 0.2 * 60 + 8


def test_bits_left_out_of_the_formula_count_as_missed(monkeypatch):
    """Seven bits of influence 1/64 are found, and dropped because 0 agrees almost as often: the
    search alone would say that every missed bit has an influence below 1 %."""
    monkeypatch.setattr(decompiling, "STEADY", 2.0)  # as for a model that no table fits
    f = parse("x1 & x2 & x3 & x4 & x5 & x6 & x7", 12)
    effort = Effort(pairs=2000, fillers=8, fresh=100, cells=0)
    found = decompile(lambda X: f(X) - 0.5, T=12, effort=effort)
    assert found.formula.text == "0" and found.missed.complete
    assert {one.bit for one in found.missed.dropped} == set(range(1, 8))
    assert 1 / 64 < found.missed.influence < 0.05
    text = dict(found.lines())["may be missed"]
    assert "found to matter, but not in the formula: x1, x2" in text
    shown = found.to_json()["missed"]
    assert shown["influence_below"] > 1 / 64 and len(shown["dropped"]) == 7


def test_the_limit_of_dropped_bits_shares_its_delta():
    from scipy.stats import beta

    from capax.decompile.reading.influence import Candidates, Influence, missed

    found = Candidates((1, 2, 3), 2000, 0, 0.01, 1e-3, True)
    dropped = (Influence(1, 40, 1000), Influence(3, 7, 1000))
    told = missed(found, dropped, 0.02)
    assert told.influence == pytest.approx(beta.isf(0.01, 41, 960), rel=1e-9)
    assert told.delta == pytest.approx(1e-3 + 0.02)
    assert missed(found, ()).influence == 0.01


def test_a_model_that_answers_at_random_is_refused():
    """An irrelevant bit once "mattered for certain"; one answer in a thousand is enough for it."""
    for share in (0.5, 1e-3):
        rng = np.random.default_rng(0)

        def model(X, rng=rng, share=share):
            return np.where(rng.random(len(X)) < share, 1 - X[:, 3], X[:, 3]) - 0.5

        with pytest.raises(InputError, match="model: not deterministic"):
            decompile(model, T=12, effort=UNPROVED)


@pytest.mark.parametrize(
    "of_batch", [lambda X: X.sum() % 2, lambda X: X[:, 5].mean() > 0.5], ids=["parity", "mean"]
)
def test_a_model_whose_answer_depends_on_the_batch_is_refused(of_batch):
    """In the same company, in another order, such a model answers the same."""
    with pytest.raises(InputError, match="model: not deterministic"):
        decompile(lambda X: (X[:, 3] ^ int(of_batch(X))) - 0.5, T=12, effort=UNPROVED)


def test_a_noisy_model_gets_the_short_formula():
    f, weights = parse("x1 & x4", 30), np.random.default_rng(0).integers(1, 61, 30)

    def model(X):  # wrong on one input in sixty-one, depending on all bits
        return np.where((X @ weights) % 61 == 0, 1 - f(X), f(X)) - 0.5

    found = decompile(model, T=30, effort=QUICK)
    assert found.formula.text == "and(x1, x4)"
    assert 0.95 < found.agreement.value < 1.0


def test_other_libraries_by_queries_alone():
    sklearn = pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (600, 12)).astype(np.uint8)
    tree = sklearn.DecisionTreeClassifier(random_state=0).fit(X, parse("x2 & x7 | x9", 12)(X))
    found = decompile(tree, effort=QUICK)
    assert found.formula.text == "x9 | x2 & x7" or equal(found.function, parse("x2&x7|x9", 12), 12)
    assert found.all_inputs.status == "proved" and found.all_inputs.asked_all


def test_few_bits_are_decided_by_asking_about_all_inputs():
    """One wrong input among 2^11 is found, and no wrong one is a proof; more bits stay open."""
    alone = 0b10110101101

    def nearly(X, wrong=True):
        number = X.astype(np.int64) @ (1 << np.arange(X.shape[1]))
        return (X[:, 3] ^ ((number == alone) & wrong)) - 0.5

    f = parse("x3", 11)
    found = on_all_inputs(oracle(nearly, T=11), f, np.random.default_rng(0), p=0.5)
    assert found.status == "refuted"
    assert sum(1 << t for t in found.counterexample) == alone
    right = on_all_inputs(
        oracle(lambda X: nearly(X, False), T=11), f, np.random.default_rng(0), p=0.5
    )
    assert right.status == "proved" and right.asked_all and right.margin == 0.5
    last = oracle(lambda X: (X[:, 3] ^ X.all(axis=1)) - 0.5, T=17)  # beyond the first block
    late = on_all_inputs(last, parse("x3", 17), np.random.default_rng(0), p=0.5)
    assert late.status == "refuted" and late.counterexample == tuple(range(17))
    wide = oracle(lambda X: X[:, 3] - 0.5, T=23)
    assert on_all_inputs(wide, parse("x3", 23), np.random.default_rng(0), p=0.5).status == "open"


def test_torch_modules_are_asked_in_evaluation_mode():
    torch = pytest.importorskip("torch")

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([0.0, 1.0, 0.0, 1.0]))
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x) @ self.w - 1.5

    module = Both().train()
    found = decompile(module, T=4, effort=QUICK)
    assert found.formula.text == "and(x1, x3)" and module.training


def test_two_layers_are_searched_and_a_rare_counterexample_is_found():
    simple = {"layer_norm": False, "activation": "relu"}  # half as long to compile
    model = random_transformer(0, T=23, layers=2, scale=0.7, **simple)
    X = np.random.default_rng(1).integers(0, 2, (2000, 23), dtype=np.uint8)
    least = float(oracle(model).values(X).min())
    for room, status in ((0.01, "refuted"), (100.0, "open")):  # right on all of X, by a little
        asked = oracle(eqx.tree_at(lambda m: m.b, model, model.b - least + room))
        assert asked(X).all()
        found = on_all_inputs(asked, parse("1", 23), np.random.default_rng(0), p=0.5)
        assert found.status == status and "2 layers" in found.method
        if found.counterexample is not None:
            assert not asked(np.isin(np.arange(23), found.counterexample)[None].astype(np.uint8))[0]


def test_a_counterexample_is_confirmed_and_decides():
    model = random_transformer(4, T=9, scale=1.0)
    asked = oracle(model)
    X = np.array([[i >> t & 1 for t in range(9)] for i in range(512)], np.uint8)
    truth = asked(X)
    for text in ("0", "1", "x3"):
        f = parse(text, 9)
        verdict = on_all_inputs(asked, f, np.random.default_rng(0), p=0.5)
        wrong = truth != (f(X) > 0.5)
        assert (verdict.status == "proved") <= (not wrong.any())
        if verdict.status == "refuted":
            bad = np.zeros(9, np.uint8)
            bad[list(verdict.counterexample)] = 1
            assert asked(bad[None])[0] != (f(bad) > 0.5)
        assert verdict.proved_share <= (~wrong).mean() + 1e-9


def test_agreement_interval_is_clopper_pearson():
    from scipy.stats import beta

    found = agreement_of(95, 100, 0.05)
    assert found.low == pytest.approx(beta.ppf(0.025, 95, 6), abs=1e-9)
    assert found.high == pytest.approx(beta.ppf(0.975, 96, 5), abs=1e-9)


def test_anatomy_names_what_was_learnt():
    target = parse("x1 & x2 & x3", 20)
    kinds = {}
    for text in ("x1&x2&x3", "x1&x2", "x1&x2&x3&x9", "x1&x9", "x8", "x1|x2|x3", "0"):
        found = decompile(function_model(text, 20), T=20, effort=UNPROVED)
        kinds[text] = classify(found, target).kind
    assert list(kinds.values()) == [
        "target", "too few bits", "too many bits", "wrong bits", "other bits",
        "another function", "constant",
    ]  # fmt: skip
    found = [classify(decompile(function_model("x1", 20), T=20, effort=UNPROVED), target)] * 2
    assert tally(found)[0][:2] == ("too few bits", 2)


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: decompile(lambda X: X[:, 0]), "T: give the number of input bits"),
        (lambda: decompile(3, T=4), "model: wanted a module"),
        (
            lambda: decompile(lambda X: np.nan * X[:, 0], T=4),
            "model: wanted outputs that are numbers, got 'NaN'",
        ),
        (lambda: decompile(lambda X: X, T=4), "model: wanted"),
        (lambda: decompile(lambda X: X[:, 0], T=4, p=1.0), "p: wanted a probability"),
        (lambda: decompile(lambda X: X[:, 0], T=4, effort=Effort(99)), "max_support: wanted"),
        (lambda: read_examples("/no/such.npz", "train"), "file not found"),
        (lambda: Examples(np.zeros((3, 2), np.uint8), np.zeros(2, np.uint8)), "3 labels"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(call, told):
    with pytest.raises(InputError, match=told.replace("(", r"\(")) as error:
        call()
    assert "\n" not in str(error.value)


def test_command(tmp_path, warm_commands):
    f = compile("maj(x1, x5, x9)", 30)
    save_compiled(tmp_path / "net.safetensors", f)
    task = TaskSpec(function="maj3", T=30, m=40, support=(1, 5, 9), reject_ambiguous=False)
    drawn = draw_task(task)
    np.savez(tmp_path / "train.npz", X=drawn.X_train, y=drawn.y_train)
    out = tmp_path / "again.safetensors"
    data = ("--data", tmp_path / "train.npz", "--p", 0.5, "--json", "--out", out)
    done = warm_commands.capax("decompile", tmp_path / "net.safetensors", *data)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["formula"] == "maj(x1, x5, x9)" and found["support"] == [1, 5, 9]
    assert found["table"] == "0xe8" and found["all_inputs"]["status"] == "proved"
    assert set(found["agreement"]) >= {"value", "low", "high", "n"}
    assert set(found["certificate"]) >= {"value", "bits", "m", "portfolio"}
    assert found["certificate"]["m"] == 40 and 0 < found["certificate"]["value"] < 1
    assert set(found["all_inputs"]) >= {"status", "margin", "counterexample", "proved_share"}
    assert typed("verify", out).returncode == 0
    wrong = typed("decompile", tmp_path / "nothing.safetensors")
    assert wrong.returncode == 2 and "Traceback" not in wrong.stderr
    alone = typed("decompile", tmp_path / "net.safetensors", "--prior-size", "5")
    assert alone.returncode == 2 and "--prior-size: wanted a checkpoint" in alone.stderr


def test_the_folder_can_be_called_and_shows_itself():
    found = capax.decompile(function_model("x1 & x2", 6), T=6, effort=QUICK)
    assert "and(x1, x2)" in found._repr_html_() and "and(x1, x2)" in str(found)
    assert capax.decompile(function_model("x1", 6), T=6, effort=QUICK).formula.text == "x1"


def test_a_checkpoint_file_of_a_transformer(tmp_path):
    model = random_transformer(2, T=6)
    save(tmp_path / "m.safetensors", model)
    done = typed("decompile", tmp_path / "m.safetensors", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "Transformer"
    assert jnp.float32 == model.w.dtype
