// Sizes, and what a block is given. Macros: HIDDEN, SCALE of the scores, EPSILON of LayerNorm,
// BETA1, BETA2 and ADAM_EPSILON, SHARED_BYTES, and PART: 0 for a whole step, 1 to 4 for its parts
// where positions are in pieces (pieces.cuh).
#pragma once

constexpr int D = 64, H = 16, K = 4, C = 80;  // width, heads, width of a head, columns (K + 1) H
constexpr int N = HIDDEN;                     // width of the MLP
constexpr int THREADS = 256, WARPS = 8, CHUNK = 64, BLOCK = 64;  // positions, examples at a time
constexpr unsigned ALL = 0xffffffffu;

struct Leaf {  // a parameter and its two moments, of one model
  float *value, *first, *second;
};
struct Leaves {  // in the order of `Collapsed`
  Leaf embed, position, cls, gain1, bias1, W_Q, W_K, W_V, b_Q, b_K, b_V, W_O, b_O;
  Leaf gain2, bias2, W_in, b_in, W_out, b_out, gain_f, bias_f, w, b;
};
struct Examples {
  const unsigned* words;  // [m, ceil(T / 32)]: bit t % 32 of word t / 32 is the symbol at t
  const float *y, *weight;
  int m, T, words_per_row;
};
struct Scratch {  // device memory of one model, for what does not fit into shared memory
  float *u, *W, *b_in, *sums;  // 64 x 64, C x D, N, and C per example
  float *W_in, *W_out, *W_O;   // sums over blocks of examples, where there are several
};
struct Piece {  // of the positions: first .. last - 1, multiples of CHUNK unless last = T
  int first, last, count;  // count: pieces of a model
  int floats;              // device memory of a piece
  float *kept, *all;       // `Vectors` between the parts of a step, and the pieces one by one
};
struct Rates {  // of this step: bias corrections of the moments, learning rate, weight decay
  float first, second, rate, decay;
};
