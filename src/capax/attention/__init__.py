"""Attention as a mathematical object: from bits to tokens to a number.

An encoding turns T bits into T + 1 tokens, the [CLS] token last (`encodings`). The `parts` of a
head are tokens, scores (which compare a token with a context; the scale is fixed there), masks, and
normalizers, which turn scores into weights and have a Lipschitz constant. A head mixes the values
by these weights (`head`, Definition 3.1). Self-attention is a head whose contexts are its own
tokens (`layer`, Definition 3.2); reading the [CLS] row gives a real-valued function (`readout`).
Layers stack in the paper's form (`stack`, Theorem 4.7) and in the practical one (`block`,
`transformer`). Every module takes ONE unbatched example; batches come by `jax.vmap`. Modules are
kept in files without pickle (`checkpoint`).
"""

from capax.attention.block import Block as Block
from capax.attention.block import LayerNorm as LayerNorm
from capax.attention.block import layer_norm as layer_norm
from capax.attention.checkpoint import load as load
from capax.attention.checkpoint import save as save
from capax.attention.encodings import BagOfVectors as BagOfVectors
from capax.attention.encodings import DeterministicPositions as DeterministicPositions
from capax.attention.encodings import Encoding as Encoding
from capax.attention.encodings import IncoherentCodes as IncoherentCodes
from capax.attention.encodings import OrthonormalBag as OrthonormalBag
from capax.attention.encodings import TrainablePositions as TrainablePositions
from capax.attention.encodings import coherence as coherence
from capax.attention.head import Head as Head
from capax.attention.head import Linear as Linear
from capax.attention.head import Rowwise as Rowwise
from capax.attention.head import attend as attend
from capax.attention.layer import AttentionLayer as AttentionLayer
from capax.attention.layer import layer_scores as layer_scores
from capax.attention.parts.activations import ACTIVATIONS as ACTIVATIONS
from capax.attention.parts.activations import activation as activation
from capax.attention.parts.activations import activation_lipschitz as activation_lipschitz
from capax.attention.parts.entmax import entmax as entmax
from capax.attention.parts.entmax import sparsemax as sparsemax
from capax.attention.parts.masks import causal_mask as causal_mask
from capax.attention.parts.masks import padding_mask as padding_mask
from capax.attention.parts.normalizers import NORMALIZERS as NORMALIZERS
from capax.attention.parts.normalizers import Entmax as Entmax
from capax.attention.parts.normalizers import Hardmax as Hardmax
from capax.attention.parts.normalizers import NormalizedReLU as NormalizedReLU
from capax.attention.parts.normalizers import NormalizedSigmoid as NormalizedSigmoid
from capax.attention.parts.normalizers import NormalizedSoftplus as NormalizedSoftplus
from capax.attention.parts.normalizers import Normalizer as Normalizer
from capax.attention.parts.normalizers import RatioNormalizer as RatioNormalizer
from capax.attention.parts.normalizers import ScaledSigmoid as ScaledSigmoid
from capax.attention.parts.normalizers import Softmax as Softmax
from capax.attention.parts.normalizers import Sparsemax as Sparsemax
from capax.attention.parts.normalizers import TopK as TopK
from capax.attention.parts.normalizers import masked_softmax as masked_softmax
from capax.attention.parts.normalizers import normalizer as normalizer
from capax.attention.parts.scores import BilinearScore as BilinearScore
from capax.attention.parts.scores import FactoredScore as FactoredScore
from capax.attention.parts.scores import attention_scale as attention_scale
from capax.attention.parts.scores import bilinear_scores as bilinear_scores
from capax.attention.parts.scores import factored_scores as factored_scores
from capax.attention.parts.tokens import TwoHotTokens as TwoHotTokens
from capax.attention.readout import ClsMLP as ClsMLP
from capax.attention.readout import ClsScalar as ClsScalar
from capax.attention.readout import cls_head as cls_head
from capax.attention.stack import PaperBlock as PaperBlock
from capax.attention.stack import PaperStack as PaperStack
from capax.attention.stack import project_rows as project_rows
from capax.attention.transformer import Transformer as Transformer
from capax.attention.transformer import TransformerSpec as TransformerSpec
from capax.attention.transformer import assemble as assemble
from capax.attention.transformer import parameters as parameters
from capax.attention.transformer import transformer_spec as transformer_spec
