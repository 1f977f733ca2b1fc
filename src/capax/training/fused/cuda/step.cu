// One training step of a collapsed Transformer with Adam (capax.attention.collapsed: one_layer and
// one_layer_table have the mathematics, its letters). One block of 256 threads is one model, from
// its parameters to their new values; two blocks share a multiprocessor and hide each other's
// waits. Where positions are many, a step is four launches, and a block a piece of them.
#include "pieces.cuh"

#define MODEL (BY_PIECE ? blockIdx.y : blockIdx.x)
#define OWN(from, each) (from) + static_cast<long long>(MODEL) * (each)
#define LEAF(name, each)                                      \
  Leaf {                                                      \
    OWN(name, each), OWN(name##_m, each), OWN(name##_v, each) \
  }
#define STATE(name) const float *name##_old, const float *name##_m_old, const float *name##_v_old
#define NEW_STATE(name) float *name, float *name##_m, float *name##_v

#if PART > 1  // scratch as the part before left it
#define SCRATCH const float *scratch_old,
#else
#define SCRATCH
#endif

// Every leaf with its moments comes in and goes out in the same memory. sizes: m, T, the floats of
// scratch per model, and where positions are in pieces, their number and the positions of each.
// Examples of weight 0 fill the rows up to m: a model works on its own ones
// only, and one that has none (a slot without a run) stays as it is.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    step(STATE(embed), STATE(position), STATE(cls), STATE(gain1), STATE(bias1), STATE(W_Q),
         STATE(W_K), STATE(W_V), STATE(b_Q), STATE(b_K), STATE(b_V), STATE(W_O), STATE(b_O),
         STATE(gain2), STATE(bias2), STATE(W_in), STATE(b_in), STATE(W_out), STATE(b_out),
         STATE(gain_f), STATE(bias_f), STATE(w), STATE(b), const unsigned* words, const float* y,
         const float* weight, const float4* rates, const int* sizes, SCRATCH NEW_STATE(embed),
         NEW_STATE(position), NEW_STATE(cls), NEW_STATE(gain1), NEW_STATE(bias1), NEW_STATE(W_Q),
         NEW_STATE(W_K), NEW_STATE(W_V), NEW_STATE(b_Q), NEW_STATE(b_K), NEW_STATE(b_V),
         NEW_STATE(W_O), NEW_STATE(b_O), NEW_STATE(gain2), NEW_STATE(bias2), NEW_STATE(W_in),
         NEW_STATE(b_in), NEW_STATE(W_out), NEW_STATE(b_out), NEW_STATE(gain_f), NEW_STATE(bias_f),
         NEW_STATE(w), NEW_STATE(b), float* scratch) {
  Vectors& v = *reinterpret_cast<Vectors*>(memory + TILES);
  int m = sizes[0];  // at most THREADS
  const float* weights = OWN(weight, m);
  int own = __syncthreads_count(threadIdx.x < m && weights[threadIdx.x] != 0.0f);
  if (own == 0) return;
  if (threadIdx.x == 0) {
    int T = sizes[1], words_per_row = (T + 31) / 32;
    v.p = Leaves{LEAF(embed, 2 * D), LEAF(position, D * T),
                 LEAF(cls, D),       LEAF(gain1, D),
                 LEAF(bias1, D),     LEAF(W_Q, D * D),
                 LEAF(W_K, D * D),   LEAF(W_V, D * D),
                 LEAF(b_Q, D),       LEAF(b_K, D),
                 LEAF(b_V, D),       LEAF(W_O, D * D),
                 LEAF(b_O, D),       LEAF(gain2, D),
                 LEAF(bias2, D),     LEAF(W_in, D * N),
                 LEAF(b_in, N),      LEAF(W_out, D * N),
                 LEAF(b_out, D),     LEAF(gain_f, D),
                 LEAF(bias_f, D),    LEAF(w, D),
                 LEAF(b, 1)};
    v.x = Examples{OWN(words, m * words_per_row), OWN(y, m), weights, own, T, words_per_row};
    float *mine = OWN(scratch, sizes[2]), *sums = mine + SQUARE + C * D + N;
    float* partial = sums + (m + 2 * BLOCK - 1) / BLOCK * BLOCK * C;
    if (PART) {
      int first = BY_PIECE ? blockIdx.x * sizes[4] : 0, floats = partial - sums + H;
      v.piece = Piece{first, min(T, first + sizes[4]), sizes[3], floats, partial, partial + KEPT};
      partial += KEPT + sizes[3] * floats;
    }
    v.scratch = Scratch{mine,    mine + SQUARE,   mine + SQUARE + C * D, sums,
                        partial, partial + D * N, partial + 2 * D * N};
    float4 r = rates[MODEL];
    v.rates = Rates{r.x, r.y, r.z, r.w};
  }
  __syncthreads();
  if constexpr (PART == 0)
    whole_step(v);
  else if constexpr (PART == 1)
    sums_of_piece(v);
  else if constexpr (PART == 2)
    there_and_back(v);
  else if constexpr (PART == 3)
    back_in_piece(v);
  else
    last_part(v);
}
