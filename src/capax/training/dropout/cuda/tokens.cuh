// Tokens with dropped numbers, made where they are used. The letters are those of token_sums.py.
//
// Macros: EMBEDDING_WHOLE, EMBEDDING_PART, ATTENTION_WHOLE, ATTENTION_PART, OUTPUT_WHOLE,
// OUTPUT_PART, the thresholds of dropout_masks.py, and EPSILON of LayerNorm, scaled.
//
// Float32 numbers are kept as the sum of two bfloat16 numbers (16 bits); a product of two such sums
// is three products, all but the one of both remainders.
#pragma once
#include "warp.cuh"

constexpr int D = 64, H = 16;              // width, heads
constexpr int WARPS = 8, THREADS = 32 * WARPS;
constexpr int TILE = 16;                   // positions of a tile
constexpr int ROW = 16;                    // uint4 per row of the table. In shared memory the parts
                                           // of odd positions are swapped in pairs: neighbouring
                                           // rows are then read from other banks.
constexpr unsigned EMBEDDING = 0, ATTENTION = 1, OUTPUT = 2;

struct Place {
  int warp, lane, group, quad;
  __device__ Place() {
    warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
  }
};
struct Run {  // what masks depend on besides their place
  unsigned key0, key1, step;
};

__device__ __forceinline__ uint4 philox(uint4 c, unsigned k0, unsigned k1) {
#pragma unroll
  for (int i = 0; i < 7; i++) {
    unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = make_uint4(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}
// the threshold of the 16 bytes of a call, in every byte; at most 128
__device__ __forceinline__ unsigned threshold(const uint4& w, unsigned whole, unsigned part) {
  unsigned mixed = (w.x ^ w.y ^ w.z ^ w.w) * 0x9E3779B9u;
  return (whole + (mixed < part ? 1u : 0u)) * 0x01010101u;
}
// the highest bit of every byte of w that is below its byte of `below`
__device__ __forceinline__ unsigned dropped(unsigned w, unsigned below) {
  return ~(((w | 0x80808080u) - below) | w) & 0x80808080u;
}

__device__ __forceinline__ float lower(unsigned x) {
  return __uint_as_float(x << 16);
}
__device__ __forceinline__ float upper(unsigned x) {
  return __uint_as_float(x & 0xffff0000u);
}
struct Split {  // two numbers as sums of two bfloat16 numbers
  unsigned first, rest;
};
__device__ __forceinline__ Split split(float low, float high) {
  unsigned first = rounded(low, high);
  return Split{first, rounded(low - lower(first), high - upper(first))};
}
__device__ __forceinline__ float over_quad(float x) {
  x += beside(x, 1);
  return x + beside(x, 2);
}

// A lane's part of a tile of 16 tokens: positions group and group + 8 (half 0 and 1), columns
// 8 n + 2 quad and the next, n = 0 .. 7.
struct Tokens {
  unsigned first[2][8], rest[2][8];
  unsigned gone[2];  // bit 8 byte + 7 - word: dropped
  float r[2], mean[2];

  // row(half): the lane's row of the table, of 16 uint4 in the order (n / 2, quad), each with
  // first and rest of n and of n + 1
  template <class Rows>
  __device__ __forceinline__ void make(Rows row, int t0, int example, const Run& run,
                                       const Place& at) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      unsigned t = t0 + at.group + 8 * half;
      uint4 w = philox(make_uint4(t, example, run.step, EMBEDDING | (at.quad << 8)), run.key0,
                       run.key1);
      unsigned below = threshold(w, EMBEDDING_WHOLE, EMBEDDING_PART);
      unsigned words[4] = {w.x, w.y, w.z, w.w};
      const uint4* from = row(half) + at.quad;
      int swap = at.group & 1;
      float sum = 0.0f, squares = 0.0f;
      gone[half] = 0;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        unsigned bits = dropped(words[i], below);
        gone[half] |= bits >> i;
        uint4 e = from[4 * (i ^ swap)];
        unsigned a = ~spread<0>(bits), b = ~spread<1>(bits);
        first[half][2 * i] = e.x & a, rest[half][2 * i] = e.y & a;
        first[half][2 * i + 1] = e.z & b, rest[half][2 * i + 1] = e.w & b;
#pragma unroll
        for (int n = 2 * i; n < 2 * i + 2; n++) {
          float low = value(half, n, 0), high = value(half, n, 1);
          sum += low + high;
          squares += low * low + high * high;
        }
      }
      sum = over_quad(sum), squares = over_quad(squares);
      mean[half] = sum / D;
      r[half] = rsqrtf(fmaxf(squares / D - mean[half] * mean[half], 0.0f) + EPSILON);
    }
  }
  __device__ __forceinline__ float value(int half, int n, int one) const {
    unsigned a = first[half][n], b = rest[half][n];
    return one ? upper(a) + upper(b) : lower(a) + lower(b);
  }
  __device__ __forceinline__ bool kept(int half, int n, int one) const {
    int word = n >> 1, byte = (n & 1) * 2 + one;
    return !(gone[half] >> (8 * byte + 7 - word) & 1);
  }
};

// A factor [16 heads x 64 columns] as the left one of a product, for each lane of a warp:
// fragments[(4 piece + k) 32 + lane], pieces 0 and 1, k = 16-column steps
constexpr int LEFT = 2 * 4 * 32;  // uint4
__device__ __forceinline__ uint4 left_piece(const float* U, int k, int piece, const Place& at) {
  unsigned a[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int h = at.group + 8 * (i & 1), j = 16 * k + 2 * at.quad + 8 * (i >> 1);
    float2 x = *reinterpret_cast<const float2*>(U + h * D + j);
    Split both = split(x.x, x.y);
    a[i] = piece ? both.rest : both.first;
  }
  return make_uint4(a[0], a[1], a[2], a[3]);
}
__device__ __forceinline__ void put_left(uint4* to, const float* U, const Place& at) {
#pragma unroll
  for (int k = 0; k < 4; k++) {
    to[k * 32 + at.lane] = left_piece(U, k, 0, at);
    to[(4 + k) * 32 + at.lane] = left_piece(U, k, 1, at);
  }
}

// s[half][..] = U X^T, not yet times r: heads group, group + 8; positions 8 half + 2 quad, + 1
__device__ __forceinline__ void scores(float (&s)[2][4], const uint4* U, const Tokens& x,
                                       const Place& at) {
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int e = 0; e < 4; e++) s[half][e] = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    uint4 u = U[k * 32 + at.lane], v = U[(4 + k) * 32 + at.lane];
    unsigned first[4] = {u.x, u.y, u.z, u.w}, rest[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int half = 0; half < 2; half++) {
      mma(s[half], rest, x.first[half][2 * k], x.first[half][2 * k + 1]);
      mma(s[half], first, x.rest[half][2 * k], x.rest[half][2 * k + 1]);
      mma(s[half], first, x.first[half][2 * k], x.first[half][2 * k + 1]);
    }
  }
}

// a number per position, from where a token lies (group) to where a score does (2 quad, + 1)
__device__ __forceinline__ void to_scores(float (&there)[2][2], const float (&here)[2],
                                          const Place& at) {
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int e = 0; e < 2; e++) there[half][e] = shuffled(here[half], 4 * (2 * at.quad + e));
}

// bytes of scores whose weight is dropped, one word per half
__device__ __forceinline__ void dropped_weights(unsigned (&bits)[2], int t0, int example,
                                                const Run& run, const Place& at) {
  unsigned last = ATTENTION | (at.quad << 8) | (at.group << 10);
  uint4 w = philox(make_uint4(t0 / TILE, example, run.step, last), run.key0, run.key1);
  unsigned below = threshold(w, ATTENTION_WHOLE, ATTENTION_PART);
  bits[0] = dropped(w.x, below), bits[1] = dropped(w.y, below);
}
__device__ __forceinline__ bool is_dropped(unsigned bits, int e) {
  return bits >> (8 * e + 7) & 1;
}

// acc[n] += c X over the 16 positions of a tile: heads group, group + 8; columns 8 n + 2 quad, + 1
__device__ __forceinline__ void pool(float (&acc)[8][4], const float (&c)[2][4], const Tokens& x) {
  unsigned first[4], rest[4];
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      Split both = split(c[half][2 * i], c[half][2 * i + 1]);
      first[2 * half + i] = both.first, rest[2 * half + i] = both.rest;
    }
#pragma unroll
  for (int n = 0; n < 8; n++) {
    unsigned b0 = transposed(x.first[0][n]), b1 = transposed(x.first[1][n]);
    unsigned l0 = transposed(x.rest[0][n]), l1 = transposed(x.rest[1][n]);
    mma(acc[n], rest, b0, b1);
    mma(acc[n], first, l0, l1);
    mma(acc[n], first, b0, b1);
  }
}
__device__ __forceinline__ void clear(float (&acc)[8][4]) {
#pragma unroll
  for (int n = 0; n < 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) acc[n][e] = 0.0f;
}
__device__ __forceinline__ void write_heads(float* to, const float (&acc)[8][4], const Place& at) {
#pragma unroll
  for (int n = 0; n < 8; n++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      float2 pair = make_float2(acc[n][2 * i], acc[n][2 * i + 1]);
      *reinterpret_cast<float2*>(to + (at.group + 8 * i) * D + 8 * n + 2 * at.quad) = pair;
    }
}

// what is added to the number of a part (without carry) where it lies in shared memory
__device__ __forceinline__ int swapped(int t) {
  return (t & 1) * 4;
}

// The table passes by in chunks of 32 positions, for eight examples at a time.
constexpr int CHUNK = 32, CHUNK_ROWS = 2 * CHUNK;
struct Table {
  const uint4* rows;  // [2 symbols, T] of 16 uint4
  uint4* here;        // two chunks in shared memory
  int T;
  __device__ __forceinline__ void fetch(int t0, int turn) const {
    for (int item = threadIdx.x; item < CHUNK_ROWS * ROW; item += THREADS) {
      int row = item / ROW, part = item % ROW, symbol = row / CHUNK, t = t0 + row % CHUNK;
      if (t < T)
        copy_16(here + (turn * CHUNK_ROWS + row) * ROW + (part ^ swapped(t)),
                rows + (static_cast<long long>(symbol) * T + t) * ROW + part);
    }
    commit();
  }
  __device__ __forceinline__ const uint4* row(int symbol, int t, int turn) const {
    return here + (turn * CHUNK_ROWS + symbol * CHUNK + t) * ROW;
  }
};
constexpr int CHUNKS = 2 * CHUNK_ROWS * ROW;  // uint4

// tile(t0, x) for every tile of 16 positions of an example, by all warps of a block together
template <class F>
__device__ __forceinline__ void over_tiles(const Table& table, const unsigned* words, int example,
                                           bool busy, const Run& run, const Place& at, F tile) {
  table.fetch(0, 0);
  for (int t0 = 0, turn = 0; t0 < table.T; t0 += CHUNK, turn ^= 1) {
    if (t0 + CHUNK < table.T) table.fetch(t0 + CHUNK, turn ^ 1);
    else commit();
    wait<1>();
    __syncthreads();
    if (busy) {
      unsigned symbols = words[t0 / 32];
#pragma unroll 1
      for (int i = 0; i < CHUNK && t0 + i < table.T; i += TILE) {
        Tokens x;
        x.make(
            [&](int half) {
              int t = i + at.group + 8 * half;
              t = t0 + t < table.T ? t : i + (at.group & 1);  // past the end: its weight is 0
              return table.row(symbols >> t & 1, t, turn);
            },
            t0 + i, example, run, at);
        tile(t0 + i, x);
      }
    }
    __syncthreads();
  }
}
