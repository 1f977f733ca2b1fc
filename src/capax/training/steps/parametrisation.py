"""The trained parameters if the paper's network has two vectors and ours one.

minGPT reads two logits off [CLS], one output embedding per label, and adds a position to the token
embedding of [CLS]. The function is the same with one vector each, w = w_1 - w_0 and
cls = token + position, but Adam moves a sum of two parameters twice as far, so a run with two is
another run. Both are trained; all other code uses the one network that they define.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from capax.attention.collapsed.one_layer import Collapsed


class WithSecondRows(eqx.Module):
    """A network whose `w` is the output embedding of label 1 and whose `cls` is a token."""

    network: Collapsed
    w_0: Float[Array, "d"] | None
    cls_position: Float[Array, "d"] | None


@dataclass(frozen=True)
class Parametrisation:
    """Which second rows exist, and whether the read-out has a bias."""

    two_logits: bool = False
    head_bias: bool = True
    cls_position: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the parameters are the network itself."""
        return self == ONE_ROW_EACH

    def extend(
        self, network: Collapsed, key: Array, init_scale: float
    ) -> Collapsed | WithSecondRows:
        """The network with its second rows drawn like the first ones."""
        if self.is_plain:
            return network
        rows = [
            init_scale
            * jax.random.normal(
                jax.random.fold_in(key, i), (network.cls.shape[0],), network.cls.dtype
            )
            for i in (1, 2)
        ]
        chosen = (self.two_logits, self.cls_position)
        return WithSecondRows(
            network, *(r if is_on else None for r, is_on in zip(rows, chosen, strict=True))
        )

    def merged(self, params: Collapsed | WithSecondRows) -> Collapsed:
        """The one network of these parameters; differentiable."""
        if isinstance(params, Collapsed):
            return params
        network = params.network
        if params.w_0 is not None:
            network = eqx.tree_at(lambda p: p.w, network, network.w - params.w_0)
        if params.cls_position is not None:
            network = eqx.tree_at(lambda p: p.cls, network, network.cls + params.cls_position)
        if not self.head_bias:
            network = eqx.tree_at(lambda p: p.b, network, jnp.zeros_like(network.b))
        return network


ONE_ROW_EACH = Parametrisation()
