"""What heads do on text: the statistics of whole maps, exponents of known growth, kinds."""

import json

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress
from scipy.stats import t as student

from capax.audit.auditing import audit
from capax.audit.layouts.table import recognise
from capax.audit.reading.opening import open_checkpoint
from capax.audit.text.ablation import ablation, interval, pieces_of
from capax.audit.text.attention_watch import NAME, register, watch
from capax.audit.text.growth import growth, slope_interval
from capax.audit.text.kinds import RULES, kind_of
from capax.audit.text.looking import FIRST, Looks
from capax.audit.text.model import TEXT, build_model
from capax.audit.text.statistics import row_statistics
from capax.audit.text.telling import telling_heads, why_telling
from capax.audit.text.text_tokens import Tokens
from capax.audit.text.windows import Window, bidirectional_windows, causal_windows, shuffled
from capax.errors import InputError
from one_line import one_line
from typed_command import typed

TEXT_MODELS = [name for name in tiny_models.CONFIGS
               if name not in ("t5", "vit", "whisper") and "relative" not in name]  # fmt: skip


def rows_of(weights):
    A = np.asarray(weights, np.float64)
    return A / A.sum(-1, keepdims=True)


@given(st.lists(st.floats(0.001, 1.0), min_size=3, max_size=12), st.integers(0, 11))
def test_statistics_of_a_row_are_their_definitions(weights, position):
    a = rows_of(weights)
    i = min(position, len(a) - 1)
    found = row_statistics(a[None, None], np.array([i]), causal=False).values
    sorted_mass = np.cumsum(sorted(a, reverse=True))
    n95 = next(n for n, mass in enumerate(sorted_mass, 1) if mass >= 0.95 * sorted_mass[-1])
    assert found["n95"][0, 0] == n95
    assert found["effective_tokens"][0, 0] == pytest.approx(np.exp(-(a * np.log(a)).sum()))
    distance = np.abs(np.arange(len(a)) - i)
    assert found["mean_distance"][0, 0] == pytest.approx(a @ distance)
    assert found["first_token_share"][0, 0] == a[0]
    assert found["near_share"][0, 0] == pytest.approx(a[distance <= 8].sum())
    assert found["far_peak"][0, 0] == max([0.0, *a[(distance > 8) & (np.arange(len(a)) > 0)]])
    assert 1 <= found["effective_tokens"][0, 0] <= len(a) * (1 + 1e-9)


def test_uniform_and_sharp_rows():
    A = np.stack([np.full((1, 40), 1 / 40), np.eye(40)[[7]]])
    found = row_statistics(A, np.array([8]), causal=False).values
    np.testing.assert_allclose(found["effective_tokens"][:, 0], [40, 1])
    np.testing.assert_array_equal(found["n95"][:, 0], [38, 1])
    assert found["previous_token_share"][1, 0] == 1


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_streamed_statistics_equal_those_of_whole_eager_maps(name, tmp_path, monkeypatch):
    """Weights through our reader, attention in strips: the maps `transformers` returns eagerly."""
    monkeypatch.setattr("capax.audit.text.attention_watch.STRIP", 4)
    model = tiny_models.build(name)
    model.save_pretrained(tmp_path)
    recognised = recognise(open_checkpoint(tmp_path))
    assert recognised.facts.family in TEXT
    causal = recognised.facts.family not in ("BERT", "RoBERTa", "DistilBERT", "ALBERT")
    tokens = tuple(int(t) for t in tiny_models.inputs_of(model)["input_ids"][0])
    window = Window(tokens, (0, 2, 3, 7, 10))
    register()
    built, looks = build_model(recognised, attention=NAME, causal=causal), Looks()
    seen = watch(built.body, [window], causal, looks=looks)
    found = looks.found({token: f"<{token}>" for token in tokens})
    with torch.no_grad():
        maps = model(torch.tensor([tokens]), output_attentions=True).attentions
    rows = np.array(window.positions)
    for layer, A in enumerate(maps):
        truth = row_statistics(A[0].numpy()[:, rows], rows, causal)
        np.testing.assert_array_equal(seen["T"], truth.T)
        for quantity, values in truth.values.items():
            np.testing.assert_allclose(seen[quantity][layer], values, rtol=2e-4, atol=2e-5)
        for h, kept in enumerate(A[0].numpy()[:, rows]):
            check_looks(found[layer, h], kept, rows, tokens)


def check_looks(found, A, rows, tokens):
    """Shares of words added up one by one; the first example is the largest weight there is."""
    shares = {FIRST: A[:, 0].mean()}
    for key, token in enumerate(tokens[1:], 1):
        shares[f"<{token}>"] = shares.get(f"<{token}>", 0.0) + A[:, key].mean()
    best = sorted(shares.values(), reverse=True)[:3]
    np.testing.assert_allclose([one["share"] for one in found["looks_at"]], best, atol=2e-4)
    for one in found["looks_at"]:
        assert shares[one["word"]] == pytest.approx(one["share"], abs=2e-4)
    tops = [(int(row.argmax()) == 0, -row.max(), i) for i, row in enumerate(A)]
    first, weight, i = min(tops)
    example = found["examples"][0]
    assert example["weight"] == pytest.approx(-weight, abs=2e-4)
    assert example["from"] == f"<{tokens[rows[i]]}>"
    assert (example["to"] == FIRST) == first
    assert tokens[rows[i] - example["back"]] == tokens[int(A[i].argmax())]


@pytest.fixture(scope="module")
def speakers(tmp_path_factory):
    """Tiny models with a head for language: one that looks back, one that looks both ways."""
    import transformers

    made = {}
    for name, kind in (("llama", "LlamaForCausalLM"), ("bert", "BertForMaskedLM")):
        config = getattr(transformers, tiny_models.CONFIGS[name][0])(**tiny_models.CONFIGS[name][1])
        torch.manual_seed(1)
        model = getattr(transformers, kind)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        folder = tmp_path_factory.mktemp(kind)
        model.save_pretrained(folder)
        made[name] = folder, model
    return made


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_taking_a_head_out_is_zeroing_its_part_of_the_output_matrix(name, speakers):
    folder, model = speakers[name]
    causal = name == "llama"
    register()
    built = build_model(recognise(open_checkpoint(folder)), attention=NAME, causal=causal)
    rng = np.random.default_rng(2)
    pieces = [tuple(int(t) for t in rng.integers(0, 30, 20)) for _ in range(9)]
    found = ablation(built.whole, pieces, (2, 4), causal=causal, mask_token=30)
    layers = model.model.layers if causal else model.bert.encoder.layer
    for layer, h in [(0, 1), (1, 3)]:
        weight = (layers[layer].self_attn.o_proj if causal
                  else layers[layer].attention.output.dense).weight  # fmt: skip
        k, whole = weight.shape[1] // 4, [plain_loss(model, piece, causal) for piece in pieces]
        kept = weight.data.clone()
        weight.data[:, h * k : (h + 1) * k] = 0
        without = [plain_loss(model, piece, causal) for piece in pieces]
        weight.data.copy_(kept)
        differences = np.array(without) - np.array(whole)
        row = found.rows[layer, h]
        assert row["loss_difference"] == pytest.approx(differences.mean(), abs=1e-5)
        half = student.ppf(1 - 0.05 / 16, 8) * differences.std(ddof=1) / 3
        assert row["loss_difference_high"] - row["loss_difference"] == pytest.approx(half, abs=1e-5)
    few = ablation(built.whole, pieces, (2, 4), causal=causal, mask_token=30, most=2)
    assert len(few.rows) == 2 and few.about["pieces"] == 3 and few.about["of"] == 8


def plain_loss(model, piece, causal):
    """The same loss by transformers' own labels."""
    ids = torch.tensor([piece])
    labels = ids.clone()
    if not causal:
        labels[:] = -100
        labels[0, 3:-1:7] = ids[0, 3:-1:7]
        ids[0, 3:-1:7] = 30
    with torch.no_grad():
        return float(model(input_ids=ids, labels=labels).loss)


def test_intervals_of_all_heads_hold_together():
    """400 audits of 20 heads; P(fewer than 360 cover all 20 at 95 %) < 1e-4."""
    rng = np.random.default_rng(3)
    whole = 0
    for _ in range(400):
        mean, half = interval(0.3 + rng.normal(size=(10, 20)))
        whole += bool((np.abs(mean - 0.3) <= half).all())
    assert 360 <= whole < 400


def test_pieces_do_not_overlap_and_are_long_enough():
    stream = tuple(range(1000))
    pieces = pieces_of(Tokens((stream,), 7, 8), 32, lines=False)
    assert len(pieces) == 16 and {len(piece) for piece in pieces} == {32}
    inside = [token for piece in pieces for token in piece[1:-1]]
    assert inside == list(range(480))
    assert pieces_of(Tokens((stream[:100],)), 32, lines=False) == []
    lines = pieces_of(Tokens((stream[:5], stream[:20], stream[:90])), 512, lines=True)
    assert [len(line) for line in lines] == [20, 64]


def test_the_most_telling_heads_come_first():
    row = {"looks_at": [{"word": "a", "share": 0.5}], "far_peak": 0.1}
    rows = [row | {"head": h, "loss_difference": loss, "loss_difference_low": low}
            for h, (loss, low) in enumerate([(0.1, -1.0), (None, None), (0.5, 0.2)])]  # fmt: skip
    assert [one["head"] for one in telling_heads(rows)] == [2, 0]
    peaks = [row | {"head": h, "far_peak": peak} for h, peak in enumerate([0.2, 0.9])]
    assert [one["head"] for one in telling_heads(peaks)] == [1, 0]
    assert telling_heads([{"head": 0}]) == []
    done = {"heads": 2, "of": 3, "pieces": 9, "piece_tokens": 64, "loss": "next token"}
    assert "above 0 for 1 of these heads" in why_telling(rows, {"ablation": done})
    why = why_telling(peaks, {"ablation": {"heads": 0, "reason": "no words"}})
    assert why.startswith("No head was taken out: no words.")


def test_exponents_of_known_growth():
    T = np.repeat(np.arange(16, 2000, 7), 1)
    n95 = np.stack([np.stack([3 * T**0.0, 0.95 * T**1.0, 2 * T**0.37])])
    found = growth(T, n95)
    np.testing.assert_allclose(found.slope, [[0.0, 1.0, 0.37]], atol=1e-9)
    assert growth(T[:3], n95[..., :3]).slope is None


def test_the_interval_covers_at_its_level():
    """500 fits of noisy lines; P(fewer than 455 cover at 95 %) < 1e-4."""
    rng = np.random.default_rng(0)
    x = np.linspace(3, 8, 11)
    y = 0.4 * x + rng.normal(size=(500, 11))
    slope, half = slope_interval(x, y)
    assert (np.abs(slope - 0.4) <= half).sum() >= 455


def test_the_interval_of_a_slope_is_the_textbook_one():
    """With so few points the quantile of a t-distribution depends much on its freedom."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=5), rng.normal(size=5)
    (slope,), (half,) = slope_interval(x, y[None])
    line = linregress(x, y)
    assert slope == pytest.approx(line.slope)
    assert half == pytest.approx(student.ppf(0.975, 3) * line.stderr)


def test_windows_keep_rows_of_every_half_octave():
    stream = tuple(range(700))
    windows = causal_windows(Tokens((stream,)), 512, lines=False)
    assert windows[0].tokens == stream[:512] and len(windows) == 7
    bins = {int(2 * np.log2(p + 1) + 1e-9) for p in windows[0].positions}
    assert bins == set(range(8, 19))
    both = bidirectional_windows(Tokens((stream,), 7, 8), 100, lines=False)
    assert {len(window.tokens) for window in both} == {16, 32, 64}
    assert all(window.tokens[0] == 7 and window.tokens[-1] == 8 for window in both)
    mixed = shuffled(Tokens((stream,)), 3).sequences[0]
    assert sorted(mixed) == list(stream) and mixed != stream


@pytest.mark.parametrize(
    "changes, kind",
    [
        ({"first_token_share": 0.6}, "first-token"),
        ({"previous_token_share": 0.6}, "previous-token"),
        ({"near_share": 0.9}, "local"),
        ({"n95_exponent_low": 0.1, "n95_exponent_high": 0.4}, "sparse"),
        ({"n95_exponent_low": 0.6, "n95_exponent_high": 1.0}, "broad"),
        ({"n95_exponent_low": 0.4, "n95_exponent_high": 0.6}, "mixed"),
        ({"n95_exponent_low": None, "n95_exponent_high": None}, "mixed"),
    ],
)
def test_kinds_follow_their_rules(changes, kind):
    row = {"first_token_share": 0.1, "previous_token_share": 0.1, "near_share": 0.2,
           "n95_exponent_low": 0.0, "n95_exponent_high": 1.0}  # fmt: skip
    assert kind_of(row | changes) == kind
    assert kind in dict(RULES)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A tiny Llama with a vocabulary of words, and a text in them."""
    folder = tmp_path_factory.mktemp("spoken")
    tiny_models.build("llama").save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(31)))
    words = np.random.default_rng(0).integers(0, 31, 400)
    (folder / "text.txt").write_text(" ".join(f"w{i}" for i in words))
    return folder


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    """A tiny GPT-2 without a tokenizer."""
    folder = tmp_path_factory.mktemp("silent")
    tiny_models.build("gpt2").save_pretrained(folder)
    return folder


def test_the_command_with_text_in_pieces(spoken):
    done = typed("audit", spoken, "--text", spoken / "text.txt", "--split", "spaces", "--context",
                 256, "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    payload = json.loads(done.stdout)
    wanted = {"effective_tokens", "n95", "n95_exponent", "n95_exponent_low", "n95_exponent_random",
              "n95_exponent_shuffled", "first_token_share", "mean_distance", "kind"}  # fmt: skip
    assert all(row.keys() >= wanted for row in payload["rows"])
    assert all(len(row["looks_at"]) == len(row["examples"]) == 3 for row in payload["rows"])
    assert payload["text"]["text_tokens"] == 400
    assert "no output layer" in payload["text"]["ablation"]["reason"]
    assert payload["text"]["longest_context"] == 256
    curves = payload["text"]["curves"]
    assert np.array(curves["n95"]).shape == (2, 4, len(curves["T"]))
    assert set(curves["median_n95"]) == {"text", "shuffled", "random"}
    table = typed("audit", spoken, "--text", spoken / "text.txt", "--split", "spaces", "--sort",
                  "n95").stdout  # fmt: skip
    assert "shuffled" in table and "first-token: at least half" in table
    assert "The text has 400 tokens. The model read" in table and "Most telling heads" in table


@pytest.mark.parametrize("take_out", [0, 3, 8, 100, None])
def test_the_number_of_heads_taken_out_is_a_choice(take_out, speakers, spoken):
    folder, text = speakers["llama"][0], spoken / "text.txt"
    (folder / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(31)))
    found = audit(folder, text=text, split="spaces", take_out=take_out)
    done = found.text["ablation"]
    measured = [row for row in found.rows if row.get("loss_difference") is not None]
    assert len(measured) == done["heads"] == min(8, 8 if take_out is None else take_out)
    assert done["heads"] > 0 or "none was asked for" in why_telling(found.rows, found.text)
    with pytest.raises(InputError, match="take_out: wanted a number of heads >= 0, got -1"):
        audit(folder, text=text, take_out=-1)
    with pytest.raises(InputError, match="take_out: wanted a text for the model to read, got None"):
        audit(folder, take_out=1)
    assert typed("audit", folder, "--text", text, "--take-out", -1).returncode == 2


@pytest.mark.parametrize(
    "content, options, message",
    [
        (None, {}, "file not found"),
        (b"\xe4\xff", {}, "UTF-8"),
        (b"w1 w2", {"split": "spaces"}, "at least 64 tokens"),
        (b"zebra " * 100, {"split": "spaces"}, "'zebra' is not in vocab.txt"),
        (b"w1 " * 400, {"split": "letters"}, "tokenizer or spaces"),
        (b"w1 " * 400, {}, "no readable tokenizer"),
    ],
    ids=["absent", "latin", "short", "unknown", "letters", "no tokenizer"],
)
def test_mistakes_with_text_are_one_line(content, options, message, spoken, tmp_path):
    if content is not None:
        (tmp_path / "text").write_bytes(content)
    with one_line(message):
        audit(spoken, text=tmp_path / "text", **options)


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("", {}, "--text: wanted at least 64 tokens, got '0 at most'"),
        (" " * 500, {}, "at least 64 tokens"),
        ("a" * 62, {}, "at least 64 tokens, got '63 at most'"),
        ("ä" * 2, {}, "at least 64 tokens"),
        ("a" * 70, {"context": 15}, "a context of at least 16 tokens, got 15"),
        ("a\n" * 70, {"lines": True}, "a line of at least 16 tokens"),
        ("a" * 70, {"split": "letters"}, "tokenizer or spaces"),
        ("a" * 70, {}, "a tokenizer beside the weights"),
        ("a" * 70, {"scale": float("-inf")}, "--scale: wanted a finite number"),
        ("a" * 70, {"heads": 3}, "--heads: wanted 4, as config.json says"),
        ("a" * 70, {"kv_heads": 2**63 - 1}, "--kv-heads: wanted a whole number"),
        ("a" * 70, {"kv_heads": 2}, "--kv-heads: wanted 4: every head of GPT-2 has its own"),
        ("a" * 70, {"head_width": 0}, "--head-width"),
        ("a" * 70, {"init_std": float("nan")}, "--init-std"),
        ("a" * 70, {"context": 2**31}, "--context"),
    ],
)
def test_what_is_seen_at_once_is_said_before_the_heavy_imports(
    silent, tmp_path, monkeypatch, text, options, message
):
    def imported():
        raise AssertionError("torch and transformers imported")

    monkeypatch.setattr("capax.audit.text.text_tokens.packages", imported)
    monkeypatch.setattr("capax.audit.auditing.measured", lambda *_: imported())
    (tmp_path / "text").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        audit(silent, text=tmp_path / "text", **options)


def test_a_text_that_may_be_long_enough_is_read(silent, tmp_path, monkeypatch):
    """One token a byte, or eleven where characters are taken apart, is not refused unread."""
    (tmp_path / "vocab.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes((silent / "model.safetensors").read_bytes())
    (tmp_path / "config.json").write_bytes((silent / "config.json").read_bytes())
    monkeypatch.setattr("capax.audit.auditing.measured", lambda *_: 1 / 0)
    for text in ("a" * 63, "\ufdfa" * 2, "a b" * 50):
        (tmp_path / "text").write_text(text, encoding="utf-8")
        with pytest.raises(ZeroDivisionError):
            audit(tmp_path, text=tmp_path / "text")


def test_vision_models_read_no_text(tmp_path):
    tiny_models.build("vit").save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("a")
    (tmp_path / "text.txt").write_text("a " * 100)
    with pytest.raises(InputError, match="--text: wanted a family among"):
        audit(tmp_path, text=tmp_path / "text.txt", split="spaces")


def test_distance_vectors_that_transformers_would_drop_are_refused(tmp_path):
    tiny_models.build("bert-relative_key").save_pretrained(tmp_path)
    (tmp_path / "text.txt").write_text("a " * 100)
    with pytest.raises(InputError, match=r"--text: wanted absolute positions .* 'relative_key'"):
        audit(tmp_path, text=tmp_path / "text.txt", split="spaces")
