"""What heads carry: shares against a direct computation, and a picture of every layer."""

import jax
import numpy as np

from capax.attention.transformer import Transformer, TransformerSpec
from capax.boolean import parse
from capax.figures.heads.created_variables import draw_created_variables, measure_heads


def test_all_layers_are_measured_and_drawn(tmp_path):
    spec = TransformerSpec(T=9, d=12, heads=3, mlp_width=7, init_scale=0.8, layers=2)
    model = Transformer.init(spec, key=jax.random.key(3))
    report = measure_heads(model, parse("x2 & x7", 9), p=0.6, n=64)
    assert len(report.attention) == 2 and report.attention[0].shape == (3, 10)
    for carried, cut in zip(report.carried, report.cut, strict=True):
        assert carried.shape == (3, 3) and (carried >= 0).all() and (carried <= 1 + 1e-9).all()
        assert cut.shape == (3,) and (cut >= 0).all() and (cut <= 1).all()
    np.testing.assert_allclose(report.attention[1].sum(axis=1), 1, rtol=1e-5)
    figure = draw_created_variables(report, "and(x2, x7)")
    assert len(figure.axes) == 10  # three panels and two colour bars for each of two layers
    figure.savefig(tmp_path / "picture.png")
