// The table, and its sums over the tokens of each example.
//
// A row of the table is (k, head) with 16 heads, so that a lane holds the scores and all values of
// its two heads at its two positions: weights and tables never leave its registers, and neither do
// their gradients on the way back. The one-hot design matrix is exact in TF32: two products are
// enough where it is a factor.
#pragma once
#include "sums.cuh"

// r[c, t] of the warp's eight positions; four lanes per position
__device__ __forceinline__ void deviations(Vectors& v, Square P, const Place& at) {
  int t = at.warp * 8 + at.group;
  float x[16], sum = 0.0f, first = 0.0f, second = 0.0f;
#pragma unroll
  for (int i = 0; i < 16; i++) sum += x[i] = P(at.quad + 4 * i, t);
  float mean = over_quad(sum) / D;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    float a = x[i] - mean + v.E[0][at.quad + 4 * i], b = x[i] - mean + v.E[1][at.quad + 4 * i];
    first += a * a, second += b * b;
  }
  first = over_quad(first), second = over_quad(second);
  __syncwarp();
  if (at.quad == 0) {
    v.mean[t] = mean;
    v.r[0][t] = rsqrtf(first / D + EPSILON), v.r[1][t] = rsqrtf(second / D + EPSILON);
  }
  __syncwarp();
}

// y += P W' of the warp's eight positions: element e of tile k is head group + 8 (e / 2), position
// e % 2
__device__ __forceinline__ void table_product(float (&y)[5][4], Square W, Square P,
                                              const Place& at) {
  ByRow<64> left(W, at, 0), lower(W, at, 48);
  ByColumn<64> right(P, at, at.warp * 8);
  multiply<D, 3, 1>(y, left, right);
  multiply<D, 2, 1>(y + 3, lower, right);
}

// the symbols of 64 BLOCKS examples from row0 on, at positions t0 .. t0 + 63
template <int BLOCKS>
__device__ __forceinline__ void fetch_words(Vectors& v, const Examples& x, int row0, int t0) {
  int i = threadIdx.x >> 1, row = row0 + i, word = (t0 >> 5) + (threadIdx.x & 1);
  if (i >= BLOCKS * BLOCK) return;
  bool real = row < x.m && word < x.words_per_row;
  v.words[i][threadIdx.x & 1] = real ? __ldg(x.words + row * x.words_per_row + word) : 0u;
}
constexpr unsigned ONE = 0x3f800000u;

// c += X S for 16 examples of each block and 40 columns from tile `first_column` on
template <int BLOCKS>
__device__ __forceinline__ void over_tokens(float (&c)[BLOCKS][5][4], const float2* S,
                                            const Vectors& v, const Place& at, int first_column) {
#pragma unroll 1
  for (int half = 0; half < 2; half++) {  // 32 positions, eight at a time
    unsigned words[BLOCKS][2];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int i = 0; i < 2; i++)
        words[b][i] = v.words[b * BLOCK + ROW(2 * i)][half] >> (2 * at.quad);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int s = 0; s < 2; s++) {
        unsigned a[BLOCKS][4], first[5][2], rest[5][2];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            bool set = words[b][e & 1] & (1u << (8 * i + (e >> 1)));
            a[b][e] = set == (s == 1) ? ONE : 0u;
          }
#pragma unroll
        for (int n = 0; n < 5; n++) {
          float2 value = S[(((first_column + n) * 8 + 4 * half + i) * 2 + s) * 32 + at.lane];
          split(value.x, first[n][0], rest[n][0]), split(value.y, first[n][1], rest[n][1]);
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
          for (int n = 0; n < 5; n++) mma(c[b][n], a[b], rest[n][0], rest[n][1]);
#pragma unroll
          for (int n = 0; n < 5; n++) mma(c[b][n], a[b], first[n][0], first[n][1]);
        }
      }
  }
}

// sums = X S for BLOCKS blocks of examples from `row0` on, and mu, the largest score of each head.
// The sums so far are scaled down whenever a larger score appears.
template <int BLOCKS>
__device__ __forceinline__ void head_sums(float* sums, Vectors& v, Square W, const Leaves& p,
                                          const Examples& x, const Place& at, int row0) {
  float2* S = reinterpret_cast<float2*>(memory + 2 * SQUARE);
  float c[BLOCKS][5][4];
#pragma unroll
  for (int b = 0; b < BLOCKS; b++) clear(c[b]);
  float mu = v.y_cls[D + (at.lane & 15)];  // of head lane % 16, the same in every warp
  int first_column = 5 * (at.warp >> 2);   // tiles of 8 columns
  fetch_positions(Square{0}, p.position.value, v.first(), x.T);
  commit();
  for (int t0 = v.first(), turn = 0; t0 < v.last(); t0 += CHUNK, turn ^= 1) {
    Square P{turn * SQUARE}, next{(turn ^ 1) * SQUARE};
    wait<0>();
    __syncthreads();
    fetch_words<BLOCKS>(v, x, row0, t0);
    if (t0 + CHUNK < v.last()) fetch_positions(next, p.position.value, t0 + CHUNK, x.T);
    commit();
    deviations(v, P, at);
    float y[5][4], g[2][4];
    clear(y);
    if (t0 + at.warp * 8 < x.T) table_product(y, W, P, at);
    const float none = __int_as_float(0xff800000);  // minus infinity
    float top[2] = {none, none};
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int h = at.group + 8 * (e >> 1), t = at.warp * 8 + 2 * at.quad + (e & 1);
#pragma unroll
      for (int s = 0; s < 2; s++) {
        g[s][e] = t0 + t < x.T ? v.r[s][t] * (y[4][e] + v.EY[s][D + h]) : none;
        top[e >> 1] = fmaxf(top[e >> 1], g[s][e]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      top[i] = fmaxf(top[i], __shfl_xor_sync(ALL, top[i], 1));
      top[i] = fmaxf(top[i], __shfl_xor_sync(ALL, top[i], 2));
      if (at.quad == 0) v.largest[at.warp][at.group + 8 * i] = top[i];
    }
    __syncthreads();
    float old = mu;
#pragma unroll
    for (int i = 0; i < WARPS; i++) mu = fmaxf(mu, v.largest[i][at.lane & 15]);
    float shrink = expf(old - mu), head_mu[2];
    head_mu[0] = __shfl_sync(ALL, mu, at.group), head_mu[1] = __shfl_sync(ALL, mu, at.group + 8);
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float w[2] = {expf(g[s][2 * i] - head_mu[i]), expf(g[s][2 * i + 1] - head_mu[i])};
        int t = at.warp * 8 + 2 * at.quad;
        float wr[2] = {w[0] * v.r[s][t], w[1] * v.r[s][t + 1]};
#pragma unroll
        for (int k = 0; k < 5; k++) {
          float EY = v.EY[s][k * H + at.group + 8 * i];
          float2 value = make_float2(wr[0] * (y[k][2 * i] + EY), wr[1] * (y[k][2 * i + 1] + EY));
          if (k == K) value = make_float2(w[0], w[1]);
          S[(((2 * k + i) * 8 + at.warp) * 2 + s) * 32 + at.lane] = value;
        }
      }
    float factor[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      factor[i] = __shfl_sync(ALL, shrink, 8 * (i >> 1) + 2 * at.quad + (i & 1));
    __syncthreads();
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int n = 0; n < 5; n++) {
        bool odd = (first_column + n) & 1;
        float f0 = odd ? factor[2] : factor[0], f1 = odd ? factor[3] : factor[1];
        c[b][n][0] *= f0, c[b][n][1] *= f1, c[b][n][2] *= f0, c[b][n][3] *= f1;
      }
    over_tokens(c, S, v, at, first_column);
  }
#pragma unroll
  for (int b = 0; b < BLOCKS; b++)
#pragma unroll
    for (int n = 0; n < 5; n++)
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        float* row = sums + (row0 + b * BLOCK + ROW(e)) * C;
        pair_to(row + 8 * (first_column + n), at.quad, make_float2(c[b][n][e], c[b][n][e + 1]));
      }
  if (at.warp == 0 && at.lane < H)
    v.mu[at.lane] = mu, v.w_cls[at.lane] = expf(v.y_cls[D + at.lane] - mu);
  __syncthreads();
}
