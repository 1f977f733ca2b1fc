"""Attention as a mathematical object: from bits to tokens to a number.

An encoding turns T bits into T + 1 tokens, the [CLS] token last (`encodings`, `tokens`). A score
compares a token with a context (`scores`, where the scale is fixed), a normalizer turns scores
into weights and knows its Lipschitz constant (`normalizers`, `entmax`), a head mixes the values
by these weights (`head`, Definition 3.1). Self-attention is a head whose contexts are its own
tokens (`layer`, Definition 3.2); reading the [CLS] row gives a real-valued function (`readout`).
Layers stack in the paper's form (`stack`, Theorem 4.7) and in the practical one (`block`,
`transformer`). Every module takes ONE unbatched example; batches come by `jax.vmap`. Modules are
kept in files without pickle (`checkpoint`).
"""

from capax.attention.activations import ACTIVATIONS as ACTIVATIONS
from capax.attention.activations import activation as activation
from capax.attention.activations import activation_lipschitz as activation_lipschitz
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
from capax.attention.entmax import entmax as entmax
from capax.attention.entmax import sparsemax as sparsemax
from capax.attention.head import Head as Head
from capax.attention.head import Linear as Linear
from capax.attention.head import Rowwise as Rowwise
from capax.attention.head import attend as attend
from capax.attention.layer import AttentionLayer as AttentionLayer
from capax.attention.layer import layer_scores as layer_scores
from capax.attention.masks import causal_mask as causal_mask
from capax.attention.masks import padding_mask as padding_mask
from capax.attention.normalizers import NORMALIZERS as NORMALIZERS
from capax.attention.normalizers import Entmax as Entmax
from capax.attention.normalizers import Hardmax as Hardmax
from capax.attention.normalizers import NormalizedReLU as NormalizedReLU
from capax.attention.normalizers import NormalizedSigmoid as NormalizedSigmoid
from capax.attention.normalizers import NormalizedSoftplus as NormalizedSoftplus
from capax.attention.normalizers import Normalizer as Normalizer
from capax.attention.normalizers import RatioNormalizer as RatioNormalizer
from capax.attention.normalizers import ScaledSigmoid as ScaledSigmoid
from capax.attention.normalizers import Softmax as Softmax
from capax.attention.normalizers import Sparsemax as Sparsemax
from capax.attention.normalizers import TopK as TopK
from capax.attention.normalizers import masked_softmax as masked_softmax
from capax.attention.normalizers import normalizer as normalizer
from capax.attention.readout import ClsMLP as ClsMLP
from capax.attention.readout import ClsScalar as ClsScalar
from capax.attention.readout import cls_head as cls_head
from capax.attention.scores import BilinearScore as BilinearScore
from capax.attention.scores import FactoredScore as FactoredScore
from capax.attention.scores import attention_scale as attention_scale
from capax.attention.scores import bilinear_scores as bilinear_scores
from capax.attention.scores import factored_scores as factored_scores
from capax.attention.stack import PaperBlock as PaperBlock
from capax.attention.stack import PaperStack as PaperStack
from capax.attention.stack import project_rows as project_rows
from capax.attention.tokens import TwoHotTokens as TwoHotTokens
from capax.attention.transformer import Transformer as Transformer
from capax.attention.transformer import TransformerSpec as TransformerSpec
from capax.attention.transformer import assemble as assemble
from capax.attention.transformer import parameters as parameters
from capax.attention.transformer import transformer_spec as transformer_spec
