"""PyTorch modules of the usual shapes, made without Capax, are read, enclosed and proved."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from decompile_cases import all_inputs

from capax.boolean import parse
from capax.decompile.decompiling import Effort, _flat_numbers, decompile
from capax.decompile.modules.leaf_calls import NotRead
from capax.decompile.modules.module_reading import log_odds, read_module
from capax.decompile.modules.state_files import module_with
from capax.decompile.proof import all_inputs as all_inputs_module
from capax.decompile.proof.all_inputs import AllInputs, _finite, on_all_inputs
from capax.decompile.proof.enclosure import enclose
from capax.decompile.proof.head_sets import Cells, HeadSets
from capax.decompile.proof.query_cases import restricted, with_bit
from capax.decompile.proof.table_forward import TableForward
from capax.decompile.reading.oracle import oracle
from capax.errors import InputError
from typed_command import typed

torch = pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from torch_models import MODELS, Encoder, MinGPT, Tokens, made  # noqa: E402

T = 9
OF_THE_FORM = [name for name in MODELS if "mean" not in name]
QUICK = Effort(pairs=300, fillers=8, fresh=300, cells=32)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def moved(name, scale, seed=0):
    """A model of this shape whose weights are all away from their start, gains included."""
    module = made(name, T=T, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_THE_FORM)
def test_every_shape_is_read_and_its_enclosures_hold_on_every_input(name):
    for seed, scale in enumerate((0.1, 0.6)):
        module = moved(name, scale, seed)
        reading = read_module(module, _flat_numbers, T)
        truth = _flat_numbers(module.double())
        for case in reading.cases:
            X = all_inputs(T - (case.position is not None))
            z = TableForward(case.layer).numbers(X)
            np.testing.assert_allclose(reading.as_logits(truth(with_bit(X, case))), z, atol=1e-7)
            F = X.shape[1] - 2
            rows = np.repeat(np.arange(4), 3)
            first, last = np.tile([0, 0, F // 2], 4), np.tile([F, F // 2, F // 2], 4)
            cells = Cells.at((1, 4), rows, first, last)
            found = enclose(case.layer, HeadSets(case.layer.tables, cells))
            ones = X.sum(1) - X[:, 1] - X[:, 4]
            pattern = X[:, 1] + 2 * X[:, 4]
            for i in range(len(rows)):
                inside = (pattern == rows[i]) & (ones >= first[i]) & (ones <= last[i])
                assert (found.low[i] <= z[inside]).all() and (z[inside] <= found.high[i]).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BERT", "GPT-2", OF_THE_FORM[0], OF_THE_FORM[2]])
def test_an_enclosure_of_one_input_is_a_point_and_a_narrower_one_is_caught(name):
    layer = read_module(moved(name, 0.3), _flat_numbers, T).cases[0].layer
    X, rows = all_inputs(T)[:64], np.arange(64)
    cells = Cells.at(tuple(range(T)), rows, 0 * rows, 0 * rows)
    found = enclose(layer, HeadSets(layer.tables, cells))
    z = TableForward(layer).numbers(X)
    width = found.high - found.low
    assert (found.low <= z).all() and (z <= found.high).all()
    assert width.max() < 1e-3 * np.ptp(z) and width.min() > 0
    assert (z < found.low + 0.75 * width).any()


class Repaired(torch.nn.Module):
    """Another module with its numbers changed."""

    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, bits):
        return self.change(self.inner(bits), bits)


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = Tokens(T, 8), torch.nn.Linear(8, 1)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, bits):
        return self.head(self.encoder(self.tokens(bits))[:, 0])


class Convolved(Encoder):
    """Tokens that depend on their neighbours."""

    def __init__(self):
        super().__init__(T, 8, 2)
        self.mix = torch.nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, bits):
        x = self.mix(self.tokens(bits).transpose(1, 2)).transpose(1, 2)
        return self.head(self.encoder(x)[:, 0])


REFUSED = {
    "the mean over all tokens": lambda: made("encoder layer, mean over tokens", T=T),
    "2 attention layers": TwoLayers,
    "no softmax attention": lambda: torch.nn.Sequential(torch.nn.Linear(T, 1)),
    "numbers that are not those": lambda: Repaired(
        Encoder(T, 8, 2), lambda z, bits: z + 0.01 * bits[:, 0]
    ),
    "more than its own bit|tokens depend on a bit": Convolved,
    "which does not see all tokens": lambda: Repaired(Rows(), lambda z, _: z[:, 0]),
}


class Rows(MinGPT):
    """All rows of one logit; a causal mask."""

    def __init__(self):
        super().__init__(T, 8, 2)

    def forward(self, bits):
        x = self.tokens(bits)
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return self.lm_head(self.ln_f(x))[..., 0]


@pytest.mark.parametrize("reason", REFUSED)
def test_other_shapes_are_refused_with_a_reason(reason):
    with pytest.raises(NotRead, match=reason):
        read_module(REFUSED[reason](), _flat_numbers, T)


def test_a_rare_deviation_that_no_check_sees_is_found_by_the_search_or_by_asking():
    """The reading is checked on inputs, not proved; few bits are asked about in full."""
    odd = Repaired(
        Encoder(T, 8, 2),
        lambda z, bits: torch.where(bits.sum(1) == T, -100.0, 5.0 + 0 * z),
    )
    found = on_all_inputs(oracle(odd, T=T), parse("1", T), np.random.default_rng(0), p=0.5)
    assert found.status == "refuted" and found.counterexample == tuple(range(T))


def test_probabilities_are_read_as_logits():
    module = Repaired(moved(OF_THE_FORM[0], 0.3), lambda z, _: torch.sigmoid(z))
    reading = read_module(module, _flat_numbers, T)
    assert reading.logit_threshold(0.5) == 0 and reading.as_logits is log_odds


def test_a_bit_that_asks_is_two_cases_and_the_verdict_is_about_all_bits():
    module = made("encoder, pre-norm, last bit asks", T=T)
    reading = read_module(module, _flat_numbers, T)
    assert [(c.position, c.bit) for c in reading.cases] == [(T - 1, 0), (T - 1, 1)]
    f = parse(f"x2 & x{T - 1}", T)
    X = all_inputs(T - 1)
    for case in reading.cases:
        np.testing.assert_array_equal(restricted(f, case)(X), f(with_bit(X, case)))
    with torch.no_grad():  # always 1, at a margin that a proof reaches
        module.head.weight *= 0.01
        module.head.bias += 1.0
    found = decompile(module, T=T, effort=QUICK)
    assert found.formula.text == "1" and found.all_inputs.status == "proved"
    assert "bit 8 asks" in found.all_inputs.method and not found.all_inputs.asked_all
    lowest = _flat_numbers(module)(all_inputs(T)).min()
    assert 0 < found.all_inputs.margin <= lowest


@pytest.mark.parametrize("order", [1, -1])
def test_the_verdict_about_a_bit_that_asks_is_the_worse_of_its_two(order, monkeypatch):
    """The smaller margin of two proofs; one that is open or refuted is not hidden by a proof."""
    module = made("encoder, pre-norm, last bit asks", T=T)
    reading, f = read_module(module, _flat_numbers, T), parse("x2", T)

    def joined(*margins):
        kinds = ["proved" if m > 0 else "open" for m in margins[::order]]
        said = [AllInputs(kind, m, None, None, float(m > 0), (0, 7), 1.0, "")
                for kind, m in zip(kinds, margins[::order], strict=True)]  # fmt: skip
        monkeypatch.setattr(all_inputs_module, "_one_layer", lambda *_: said.pop(0))
        asked, rng = oracle(module, T=T), np.random.default_rng(0)
        return all_inputs_module._read_module(asked, reading, f, rng, 0.5, 4)

    proved = joined(0.3, 0.1)
    assert (proved.status, proved.margin, proved.ones) == ("proved", 0.1, (0, T - 1))
    unsure = joined(0.3, -0.2)
    assert (unsure.status, unsure.margin, unsure.ones) == ("open", -0.2, None)
    assert unsure.proved_share == 0.5
    assert [_finite(x) for x in (0.5, math.inf, -math.inf, math.nan)] == [0.5, None, None, None]


def test_weights_go_into_the_module_that_the_user_names(tmp_path):
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
    code += "from torch_models import Encoder\n\n"
    code += "def build(T):\n    return Encoder(T, 8, 2)\n\nsome = 3\n"
    (tmp_path / "mine.py").write_text(code)
    model = Encoder(T, 8, 2)
    tensors = {name: value.numpy() for name, value in model.state_dict().items()}
    again = module_with(f"{tmp_path}/mine.py:build", tensors, T)
    X = all_inputs(T)[::37]
    np.testing.assert_array_equal(_flat_numbers(again)(X), _flat_numbers(model)(X))
    torch.save(model.state_dict(), tmp_path / "net.pt")
    alone = typed("decompile", tmp_path / "net.pt")
    assert (
        alone.returncode == 2
        and "not its code; name the function or class that builds it" in alone.stderr
    )
    words = ("--module", f"{tmp_path}/mine.py:build", "-T", T, "--json")
    told = json.loads(typed("decompile", tmp_path / "net.pt", *words).stdout)
    assert told["model"] == "Encoder" and told["all_inputs"]["status"] != "open"
    for reference, given, length, message in (
        ("build", {**tensors, "extra": np.ones(2)}, T, "no place for 1 tensor: extra"),
        ("build", dict(list(tensors.items())[1:]), T, "the file lacks 1 tensor"),
        ("build", tensors, T + 1, "has shape"),
        ("build", tensors, None, "-T: give the number of input bits"),
        ("some", tensors, T, "wanted a torch.nn.Module, got int"),
    ):
        with pytest.raises(InputError, match=message):
            module_with(f"{tmp_path}/mine.py:{reference}", given, length)
