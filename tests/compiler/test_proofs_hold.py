"""Claims that were once believed and are false, and what the verifier now says about them."""

import json
from functools import partial
from itertools import product

import numpy as np
import pytest
import tampering
from extended_forward import extended_outputs
from forward_pass import outputs

import capax
from capax.compiler import save_compiled, verify
from capax.compiler.certificate import worst_case
from capax.compiler.proof.adversary import attack
from capax.compiler.proof.output_range import hidden_units, output_range
from capax.compiler.proof.tables import head_tables, readout_output


def opposite_units(T: int):
    """XOR of 3 bits with two units of gain 8.8e12 that differ by 4e-13, and a small decoy."""
    made = capax.compile("x1 ^ x4 ^ x6", T, dtype=np.float64)
    arrays = tampering.arrays_of(made.model)
    direction, gain = np.array([0.6, -0.8]), 8.8e12
    for column, bias, weight in (
        (gain * direction, 0.0, 0.4),
        (gain * (direction + np.array([4e-13, 3e-13])), 0.0, -0.4),
        (1e-4 * direction, 0.0, 1e-4),
    ):
        tampering._unit(arrays, column, bias, weight)
    return made, tampering.with_arrays(made.model, arrays)


@pytest.mark.parametrize("T", [12, 20])
def test_opposite_units_of_huge_gain_are_not_merged(tmp_path, T: int):
    made, model = opposite_units(T)
    claims, path = made.certificate.to_json(), tmp_path / "w.safetensors"
    tampering.write(path, model, claims)
    claims = tampering.repaired(claims, verify(path).failed)
    tampering.write(path, model, claims)
    verdict = verify(path)
    failed = {claim.name: claim for claim in verdict.failed}
    assert not verdict.ok and {"margin", "worst_case_error"} <= set(failed)
    assert verdict.margin < 0.45
    if T == 12:  # what the verifier allows for is what the network does
        out, noise = extended_outputs(model)
        y = np.array([bin(code & 0b1010010).count("1") % 2 for code in range(1 << T)])
        margin = float(np.where(y == 1, out - 0.5, 0.5 - out).min())
        assert margin < 0.45 and noise < 1e-3
        assert verdict.margin <= margin + float(noise)
        assert failed["margin"].status == "refuted"


def test_only_bit_equal_columns_form_one_ridge():
    _, model = opposite_units(9)
    columns = hidden_units(model).columns
    assert len(np.unique(np.asarray(model.W_1), axis=1).T) == columns.shape[1] == 6


def test_the_range_holds_every_output_of_networks_with_arbitrary_units():
    g = np.random.default_rng(5)
    made = capax.compile("x1 ^ x4 ^ x6", 8, dtype=np.float64)
    rows = (np.arange(256)[:, None] >> np.array([1, 4, 6]) & 1) @ np.array([1, 2, 4])
    for _ in range(6):
        arrays = tampering.arrays_of(made.model)
        n = 5
        arrays["W_1"] = g.normal(size=(2, n)) * 10.0 ** g.uniform(-1, 6, n)
        arrays["W_1"][:, 1] = arrays["W_1"][:, 0] * (1 + 1e-9)
        arrays["b_1"], arrays["w_2"] = g.normal(size=n), g.normal(size=n)
        model = tampering.with_arrays(made.model, arrays)
        out, noise = extended_outputs(model)
        low, high = output_range(model, head_tables(model), (1, 4, 6))
        for row in range(8):
            assert low[row] <= out[rows == row].min() + noise
            assert out[rows == row].max() - noise <= high[row]


def test_the_attack_looks_at_every_pattern_whatever_seems_harmless():
    """A pattern whose computed error is small is searched like the others."""
    made = capax.compile("x1 ^ x4 ^ x6", 20, dtype=np.float64)
    arrays = tampering.arrays_of(made.model)
    arrays["W_V"][11], arrays["W_K"][11] = arrays["W_V"][1], arrays["W_K"][1]  # one bit more
    model = tampering.with_arrays(made.model, arrays)
    tables, f = head_tables(model), made.construction.function
    errors = [
        attack(tables, f.support, f.table, lambda u: readout_output(model, u), rows=[row]).error
        for row in range(8)
    ]
    harmless = -np.array(errors)  # the truth turned upside down
    found = attack(
        tables, f.support, f.table, lambda u: readout_output(model, u), suspicion=harmless
    )
    assert found.error == pytest.approx(max(errors)) and max(errors) > 0.1


def test_weights_of_or_with_the_metadata_of_xor_are_refuted(tmp_path):
    made = capax.compile("x1 | x4", 20, dtype=np.float64)
    path, claims = tmp_path / "w.safetensors", made.certificate.to_json()
    claims |= {"function": "x1 ^ x4", "family": "symmetric", "encoding": "bag", "target": "none"}
    claims["sample_size"]["occam"] = 1
    tampering.write(path, made.model, claims)
    verdict = verify(path)
    refuted = {claim.name for claim in verdict.claims if claim.status == "refuted"}
    wanted = {"function", "family", "encoding", "target", "sample_size.occam"}
    assert not verdict.ok and wanted <= refuted
    claims["table"] = "0x6"
    tampering.write(path, made.model, claims)
    table = next(claim for claim in verify(path).claims if claim.name == "table")
    assert (table.status, table.recomputed) == ("refuted", "0xe")


def test_the_sample_size_of_trainable_positions_absorbs_their_norms():
    certificate = capax.compile("x2 & x3 & x10", 1000, encoding="trainable").certificate
    assert certificate.sample_size["corollary_4_5"] == 372_429
    fixed = capax.compile("x2 & x3 & x10", 1000).certificate
    assert fixed.sample_size["corollary_4_5"] == 371_935


@pytest.mark.parametrize(
    ("formula", "encoding"),
    [
        *product(["x1 & x4 & x6"], ["deterministic", "trainable", "bag", "incoherent"]),
        *product(["x1 ^ x4"], ["deterministic", "incoherent"]),
        ("(x1 & x4) | (~x1 & x6)", "bag"),
    ],
)
def test_float32_outputs_keep_the_margin_that_is_promised(tmp_path, formula, encoding):
    made = capax.compile(formula, 10, encoding=encoding, dtype=np.float32)
    verdict = verify(save_compiled(tmp_path / "w.safetensors", made))
    bits = np.arange(1 << 10)[:, None] >> np.arange(10) & 1
    out = outputs(made.model, bits).astype(np.float64)
    assert np.asarray(made.model.W_K).dtype == np.float32
    f = made.construction.function
    y = f.table[worst_case.rows_of(bits, f)]
    target, cut = (2 * y - 1, 0.0) if made.certificate.mlp_units == 0 else (y, 0.5)
    margin = np.where(y > 0.5, out - cut, cut - out).min()
    assert verdict.float32.decided and verdict.float32.margin <= margin
    assert np.abs(out - target).max() <= verdict.float32.error
    assert verdict.margin - 0.01 < verdict.float32.margin < verdict.margin


def test_the_command_lists_claims_and_shows_foreign_text_as_text(tmp_path, warm_commands):
    made = capax.compile("x1 | x4", 20, dtype=np.float64)
    path, claims = tmp_path / "w.safetensors", made.certificate.to_json()
    claims |= {"note": "[bold red]trust me[/bold red]\x1b[2J", "function": "x4 | x1"}
    tampering.write(path, made.model, claims)

    run = partial(warm_commands.capax, "verify", path, COLUMNS="200")
    told = run("--json")
    content = json.loads(told.stdout)
    assert told.returncode == 0 and content["ok"] is True
    rows = {claim["name"]: claim for claim in content["claims"]}
    assert rows["note"]["status"] == "stated" and rows["function"]["status"] == "proved"
    low, high = rows["worst_case_error"]["recomputed"]
    assert low <= high <= rows["worst_case_error"]["claimed"]
    assert 0 < content["float32"]["margin"] < content["margin"]
    assert content["arithmetic"].startswith("real arithmetic")
    shown = run()
    assert "[bold red]trust me" in shown.stdout and "\x1b[2J" not in shown.stdout
    assert "stated, not checked" in shown.stdout

    claims["function"] = "x1 & x4"
    tampering.write(path, made.model, claims)
    assert run("--json").returncode == 1
