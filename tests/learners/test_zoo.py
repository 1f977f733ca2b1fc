"""The zoo against PyTorch with the same weights, and modules of PyTorch trained as by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.learners.answers import BadAnswer
from capax.learners.setting import Setting
from capax.learners.zoo.cnn import conv1d
from capax.learners.zoo.gru import gru_last
from capax.learners.zoo.lstm import lstm_last

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
from capax.learners.torch_modules import train_module  # noqa: E402

m, T, c, n = 7, 11, 3, 5


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def table_of(x0, x1, W, b):
    return jnp.asarray(np.stack([x0, x1]) @ W + b)


def recurrent_inputs():
    """Tokens of both symbols at every position, bits, and what a recurrent net would be fed."""
    x0, x1 = drawn(T, c, seed=1), drawn(T, c, seed=2)
    bits = np.random.default_rng(3).integers(0, 2, (m, T)).astype(np.float64)
    return x0, x1, bits, np.where(bits[..., None] > 0, x1[None], x0[None])


def with_weights(layer):
    layer = layer.double()
    pieces = [
        getattr(layer, f"{name}_l0") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    ]
    return layer, [p.detach().numpy() for p in pieces]


def test_lstm_is_pytorchs():
    x0, x1, bits, inputs = recurrent_inputs()
    torch.manual_seed(0)
    layer, (W_x, b_x, W_h, b_h) = with_weights(torch.nn.LSTM(c, n, batch_first=True))
    wanted = layer(torch.as_tensor(inputs))[0][:, -1].detach().numpy()
    ours = jax.jit(lstm_last)(table_of(x0, x1, W_x.T, b_x + b_h), bits, W_h.T)
    np.testing.assert_allclose(ours, wanted, atol=1e-10)


def test_gru_is_pytorchs():
    x0, x1, bits, inputs = recurrent_inputs()
    torch.manual_seed(0)
    layer, (W_x, b_x, W_h, b_h) = with_weights(torch.nn.GRU(c, n, batch_first=True))
    wanted = layer(torch.as_tensor(inputs))[0][:, -1].detach().numpy()
    table = table_of(x0, x1, W_x.T, b_x)
    ours = jax.jit(gru_last)(table, bits, W_h.T, b_h)
    np.testing.assert_allclose(ours, wanted, atol=1e-10)


def test_convolution_is_pytorchs():
    torch.manual_seed(0)
    layer = torch.nn.Conv1d(c, n, 5, padding="same").double()
    x = drawn(m, T, c)
    wanted = layer(torch.as_tensor(x.transpose(0, 2, 1))).detach().numpy().transpose(0, 2, 1)
    W, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    ours = jax.jit(conv1d)(x, W.transpose(2, 1, 0), b)
    np.testing.assert_allclose(ours, wanted, atol=1e-10)


class Line(torch.nn.Module):
    """One neuron with dropout: training and answering are told apart. `shape` of its logits."""

    def __init__(self, shape=(-1,)):
        super().__init__()
        torch.manual_seed(0)
        self.line, self.drop, self.shape = torch.nn.Linear(T, 1), torch.nn.Dropout(0.3), shape

    def forward(self, x):
        return self.drop(self.line(x)).reshape(self.shape)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_a_torch_module_is_trained_as_by_hand(shape):
    """AdamW on the whole batch; answers after 4, 8 and 10 steps, without dropout."""
    X = np.random.default_rng(4).integers(0, 2, (m, T)).astype(np.uint8)
    y, module, other = X[:, 2], Line(shape), Line()
    told = Setting(T=T, rate=0.1, steps=10, eval_every=4)
    torch.manual_seed(1)
    answers = train_module(module, X, y, told)
    optimiser = torch.optim.AdamW(other.parameters(), lr=0.1, weight_decay=1e-4)
    inputs, wanted, by_hand = torch.tensor(X).float(), torch.tensor(y).float(), []
    torch.manual_seed(1)
    for step in range(1, 11):
        loss = torch.nn.BCEWithLogitsLoss()(other.train()(inputs), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step in (4, 8, 10):
            by_hand.append((other.eval()(inputs) > 0).numpy())
    assert len(answers) == 3
    for index, labels in enumerate(by_hand):
        np.testing.assert_array_equal(answers.at(index, X), labels)
    np.testing.assert_array_equal(answers(X), by_hand[-1])
    assert any((labels != by_hand[-1]).any() for labels in by_hand)


def test_logits_that_are_none_or_not_one_per_example_are_told():
    X, told = np.ones((m, T), np.uint8), Setting(T=T, steps=1)
    for shape in ((1, -1), (-1, 1, 1), ()):
        rows = X[:1] if shape == () else X
        with pytest.raises(BadAnswer, match="logits, got an array of shape"):
            train_module(Line(shape), rows, rows[:, 0], told)
    answers = train_module(Line(), X, X[:, 0], told)
    answers._states[0]["line.bias"].fill_(np.nan)
    assert np.isnan(answers(X)).all()
