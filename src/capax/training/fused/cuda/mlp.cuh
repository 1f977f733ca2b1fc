// The MLP with its LayerNorm, there and back, hidden units 64 at a time.
#pragma once
#include "adam.cuh"

// x Phi(x) and its slope; Phi by Abramowitz and Stegun 7.1.26 (error 8e-8), whose exponential the
// slope needs too
__device__ __forceinline__ void gelu(float x, float& value, float& slope) {
  float t = __fdividef(1.0f, 1.0f + 0.23164190f * fabsf(x)), density = __expf(-0.5f * x * x);
  float tail =
      t * (0.127414796f +
           t * (-0.142248368f + t * (0.7107068705f + t * (-0.7265760135f + t * 0.5307027145f))));
  tail *= density;
  float cumulative = x < 0.0f ? tail : 1.0f - tail;
  value = x * cumulative;
  slope = cumulative + x * 0.39894228f * density;
}

// gelu of a warp's part of a product, in place; its slope goes to `use`
template <class F>
__device__ __forceinline__ void activate(float (&c)[4][4], F use) {
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float slope;
      gelu(c[n][e], c[n][e], slope);
      use(n, e, slope);
    }
}

// hidden units n0 .. n0 + 63 before the activation, of all 64 examples
__device__ __forceinline__ void hidden(float (&c)[4][4], Square A2, Square W_in, const Leaves& p,
                                       const Place& at, int n0) {
  clear(c);
  multiply<D, 1, 4>(c, ByRow<64>(A2, at, at.row0), ByColumn<64>(W_in, at, at.column0));
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) c[n][e] += __ldg(p.b_in.value + n0 + COLUMN(n, e));
}

// x -> u = r C x in place, one row per four threads; returns r
__device__ __forceinline__ float normalise(Square X, int row, int part) {
  float x[16], sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < 16; i++) sum += x[i] = X(row, part + 4 * i);
  float mean = over_quad(sum) / D;
#pragma unroll
  for (int i = 0; i < 16; i++) x[i] -= mean, squares += x[i] * x[i];
  float r = rsqrtf(over_quad(squares) / D + EPSILON);
#pragma unroll
  for (int i = 0; i < 16; i++) X(row, part + 4 * i) = x[i] * r;
  return r;
}

// LayerNorm before the MLP: x1 in the tile becomes gain u + bias; u is kept in memory for the way
// back
__device__ __forceinline__ void into_mlp(Square X, Vectors& v) {
  int row = threadIdx.x >> 2, part = threadIdx.x & 3;
  float r = normalise(X, row, part), *kept = v.scratch.u;
  if (part == 0) v.r2[row] = r;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    int d = part + 4 * i;
    float u = X(row, d);
    kept[i * THREADS + threadIdx.x] = u;
    X(row, d) = u * v.gain2[d] + v.bias2[d];
  }
}

// and back: DX = dx2 becomes dx1; DA = da2; the tile of gain u + bias becomes u again
__device__ __forceinline__ void before_mlp(Square DX, Square U2, Square DA, const Vectors& v) {
  int row = threadIdx.x >> 2, part = threadIdx.x & 3;
  const float* kept = v.scratch.u;
  float du[16], u[16], mean = 0.0f, mean_u = 0.0f;
#pragma unroll
  for (int i = 0; i < 16; i++) u[i] = kept[i * THREADS + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 16; i++) {
    int d = part + 4 * i;
    du[i] = DA(row, d) * v.gain2[d], U2(row, d) = u[i];
    mean += du[i], mean_u += u[i] * du[i];
  }
  mean = over_quad(mean) / D, mean_u = over_quad(mean_u) / D;
#pragma unroll
  for (int i = 0; i < 16; i++) DX(row, part + 4 * i) += v.r2[row] * (du[i] - mean - u[i] * mean_u);
  __syncthreads();
}

__device__ __forceinline__ void accumulate(float* to, float value, bool first) {
  *to = first ? value : *to + value;
}

struct Tiles {  // of the read-out of 64 examples
  Square mixed{0}, A2{SQUARE}, DX{2 * SQUARE}, buffer{3 * SQUARE}, WA{4 * SQUARE}, WB{5 * SQUARE};
};

// x2 += MLP(A2), hidden units 64 at a time; W_in and W_out come in WA and WB, and do so again at
// the end, for the way back begins with the first ones
__device__ __forceinline__ void through_mlp(float (&x2)[4][4], const Tiles& t, const Leaves& p,
                                            const Place& at) {
  float c[4][4];
  for (int n0 = 0; n0 < N; n0 += 64) {
    wait<0>();
    __syncthreads();
    hidden(c, t.A2, t.WA, p, at, n0);
    activate(c, [](int, int, float) {});
    put(t.buffer, at, [&](int n, int e) { return c[n][e]; });
    __syncthreads();
    int next = n0 + 64 < N ? n0 + 64 : 0;
    fetch(t.WA, p.W_in.value + next, N);
    multiply<64, 1, 4>(x2, ByRow<64>(t.buffer, at, at.row0), ByRow<64>(t.WB, at, at.column0));
    __syncthreads();
    fetch(t.WB, p.W_out.value + next, N);
    commit();
  }
}

// from DX = dx2 to da2; W_in and W_out learn; hidden units are computed a second time. WA ends with
// W_O.
__device__ __forceinline__ void back_through_mlp(float (&da2)[4][4], const Tiles& t, Vectors& v,
                                                 const Leaves& p, const Place& at, int row0) {
  float c[4][4];
  clear(da2);
  for (int n0 = 0; n0 < N; n0 += 64) {
    wait<0>();
    __syncthreads();
    ask_columns(p.W_out, N, n0), ask_columns(p.W_in, N, n0);
    hidden(c, t.A2, t.WA, p, at, n0);
    float back[4][4];
    clear(back);
    multiply<D, 1, 4>(back, ByRow<64>(t.DX, at, at.row0), ByColumn<64>(t.WB, at, at.column0));
    activate(c, [&](int n, int e, float slope) { back[n][e] *= slope; });
    put(t.buffer, at, [&](int n, int e) { return c[n][e]; });
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float sum = over_groups(back[n][e] + back[n][e + 2]);
        if (at.group == 0) v.parts[0][at.warp & 3][COLUMN(n, e)] = sum;
      }
    __syncthreads();
    int next = n0 + 64;
    clear(c);
    multiply<64, 1, 4>(c, ByColumn<64>(t.DX, at, at.row0), ByColumn<64>(t.buffer, at, at.column0));
    settle(v, p.W_out, v.scratch.W_out, n0, N, t.WB, at, row0, c);
    __syncthreads();
    put(t.buffer, at, [&](int n, int e) { return back[n][e]; });
    __syncthreads();
    multiply<64, 1, 4>(da2, ByRow<64>(t.buffer, at, at.row0), ByRow<64>(t.WA, at, at.column0));
    clear(c);
    multiply<64, 1, 4>(c, ByColumn<64>(t.A2, at, at.row0), ByColumn<64>(t.buffer, at, at.column0));
    settle(v, p.W_in, v.scratch.W_in, n0, N, t.WB, at, row0, c);
    if (threadIdx.x < 64)
      accumulate(v.scratch.b_in + n0 + threadIdx.x, gathered(v, 0, threadIdx.x), row0 == 0);
    __syncthreads();
    if (next < N)
      fetch(t.WA, p.W_in.value + next, N), fetch(t.WB, p.W_out.value + next, N);
    else
      fetch(t.WA, p.W_O.value, D);
    commit();
  }
}
