// Back through the projection: W_V, W_K, W_Q, [CLS], the embedding and the first LayerNorm learn.
#pragma once
#include "adam.cuh"
#include "projection.cuh"

// gradient of the [CLS] row y_* of the table (mu a constant)
__device__ __forceinline__ void cls_row(Vectors& v) {
  if (threadIdx.x < H) {
    int h = threadIdx.x;
    float total = v.D_w[h];
    for (int k = 0; k < K; k++) {
      total += v.D_V[k * H + h] * v.y_cls[k * H + h];
      v.dy_cls[k * H + h] = v.w_cls[h] * v.D_V[k * H + h];
    }
    v.dy_cls[D + h] = v.w_cls[h] * total;
  }
  __syncthreads();
}

struct Sums {  // over the rows of W', two columns per lane
  float2 gain, bias, x, cls, E[2];
};

// gradient of row j before gain and centring; adds to the sums over rows
__device__ __forceinline__ float2 unproject_row(Sums& s, const Vectors& v, Square rows, Square W,
                                                const Normalised& cls, float2 E0, float2 E1,
                                                float2 gain, float2 raw, int j, int lane) {
  float2 row = W.pair(j, 2 * lane), d = rows.pair(j, 2 * lane);
  float e0 = v.dEY[0][j], e1 = v.dEY[1][j], y = cls.r * v.dy_cls[j];
  d = d + e0 * E0 + e1 * E1 + y * cls.raw;
  d = d - over_warp(d) / D;
  s.cls = s.cls + y * row, s.E[0] = s.E[0] + e0 * row, s.E[1] = s.E[1] + e1 * row;
  s.gain = s.gain + raw * d;
  return gain * d;
}

__device__ __forceinline__ void unproject(Square rows, Square W, Vectors& v, const Leaves& p,
                                          const Place& at) {
  Normalised cls(p, at.lane);
  float2 gain = pair_at(p.gain1.value, at.lane), bias = pair_at(p.bias1.value, at.lane),
         none = make_float2(0.0f, 0.0f);
  float2 E0 = pair_at(p.embed.value, at.lane), E1 = pair_at(p.embed.value + D, at.lane);
  Sums s = {none, none, none, none, {none, none}};
#pragma unroll
  for (int i0 = 0; i0 < 8; i0 += 4) {
    Entry<float2> entry[4];
#pragma unroll
    for (int i = 0; i < 4; i++) entry[i].fetch(p.W_V, (at.warp * 8 + i0 + i) * 32 + at.lane);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int j = at.warp * 8 + i0 + i;
      float2 raw = entry[i].p, d = unproject_row(s, v, rows, W, cls, E0, E1, gain, raw, j, at.lane);
      s.bias = s.bias + v.dmixed[j] * raw;
      learn(v.rates, p.W_V, j * 32 + at.lane, entry[i], d + v.dmixed[j] * bias);
    }
  }
#pragma unroll 1
  for (int h = at.warp * 2; h < at.warp * 2 + 2; h++) {
    Entry<float2> keys[K], queries[K];
#pragma unroll
    for (int k = 0; k < K; k++)
      keys[k].fetch(p.W_K, (k * H + h) * 32 + at.lane),
          queries[k].fetch(p.W_Q, (k * H + h) * 32 + at.lane);
    float2 U = none;
    float q[K];
#pragma unroll
    for (int k = 0; k < K; k++) q[k] = SCALE * v.q[k * H + h], U = U + q[k] * keys[k].p;
    __syncwarp();  // all lanes have read q: below, one of them puts its gradient there
    float2 dU = unproject_row(s, v, rows, W, cls, E0, E1, gain, U, D + h, at.lane);
#pragma unroll
    for (int k = 0; k < K; k++) {
      int j = k * H + h;
      float dq = SCALE * over_warp(keys[k].p * dU);
      s.x = s.x + dq * queries[k].p;
      learn(v.rates, p.W_K, j * 32 + at.lane, keys[k], q[k] * dU);
      learn(v.rates, p.W_Q, j * 32 + at.lane, queries[k], dq * cls.x);
      if (at.lane == 0) v.q[j] = dq;
    }
  }
  float* parts = memory;
  float2 mine[6] = {s.gain, s.bias, s.x, s.cls, s.E[0], s.E[1]};
#pragma unroll
  for (int i = 0; i < 6; i++) pair_to(parts + (at.warp * 6 + i) * D, at.lane, mine[i]);
  __syncthreads();
  if (at.warp > 0) return;
#pragma unroll
  for (int i = 0; i < 6; i++) {
    mine[i] = none;
    for (int from = 0; from < WARPS; from++)
      mine[i] = mine[i] + pair_in(parts + (from * 6 + i) * D, at.lane);
  }
  float2 dx = mine[2], du = dx * gain;
  // [CLS]: through its LayerNorm, its row of the table (W' and r), and the residual stream
  float products = 0.0f;
  for (int j = at.lane; j < C; j += 32) products += v.dy_cls[j] * v.y_cls[j];
  products = over_warp(products) / D;
  float2 d = (du - over_warp(du) / D) + (-over_warp(cls.u * du) / D) * cls.u;
  float2 g[5] = {mine[0] + dx * cls.u, mine[1] + dx,
                 cls.r * d + mine[3] + (-cls.r * products) * cls.u + pair_in(v.dx1, at.lane),
                 mine[4], mine[5]};
  for (int symbol = 0; symbol < 2; symbol++) {
    float2 weighted = rows.pair(C + symbol, 2 * at.lane);
    weighted = weighted - over_warp(weighted) / D;
    g[3 + symbol] = g[3 + symbol] + weighted + v.sum_kappa[symbol] * pair_in(v.E[symbol], at.lane);
  }
  const Leaf* leaves[5] = {&p.gain1, &p.bias1, &p.cls, &p.embed, &p.embed};
  Entry<float2> entry[5];
#pragma unroll
  for (int i = 0; i < 5; i++) entry[i].fetch(*leaves[i], at.lane + (i == 4 ? D / 2 : 0));
#pragma unroll
  for (int i = 0; i < 5; i++)
    learn(v.rates, *leaves[i], at.lane + (i == 4 ? D / 2 : 0), entry[i], g[i]);
}

// what is a vector, from the sums over the examples; v.q holds dq by now
__device__ __forceinline__ void learn_vectors(const Vectors& v, const Leaves& p) {
  for (int n = threadIdx.x; n < N; n += THREADS) {
    Entry<float> entry;
    entry.fetch(p.b_in, n);
    learn(v.rates, p.b_in, n, entry, v.scratch.b_in[n]);
  }
  if (threadIdx.x == D) {
    Entry<float> entry;
    entry.fetch(p.b, 0);
    learn(v.rates, p.b, 0, entry, v.sum_dz);
  }
  if (threadIdx.x >= D) return;
  int d = threadIdx.x;
  const Leaf* leaves[10] = {&p.gain_f, &p.bias_f, &p.w,   &p.b_out, &p.gain2,
                            &p.bias2,  &p.b_O,    &p.b_V, &p.b_Q,   &p.b_K};
  float g[10] = {v.u_dz[d] * v.w[d],
                 v.w[d] * v.sum_dz,
                 v.gain_f[d] * v.u_dz[d] + v.bias_f[d] * v.sum_dz,
                 v.d_out[d],
                 v.u2_da2[d],
                 v.da2[d],
                 v.dx1[d],
                 v.dmixed[d],
                 v.q[d],
                 0.0f};
#pragma unroll
  for (int i0 = 0; i0 < 10; i0 += 5) {
    Entry<float> entry[5];
#pragma unroll
    for (int i = 0; i < 5; i++) entry[i].fetch(*leaves[i0 + i], d);
#pragma unroll
    for (int i = 0; i < 5; i++) learn(v.rates, *leaves[i0 + i], d, entry[i], g[i0 + i]);
  }
}
