// From the sums to the logits, the loss, and back to the gradients of the sums.
#pragma once
#include "mlp.cuh"

// mixed heads of a block of examples: (sums + [CLS]) / total weight + constant; four heads per
// thread
__device__ __forceinline__ void mix(Square mixed, const float* sums, const Vectors& v, int row0) {
  int row = threadIdx.x >> 2, h = (threadIdx.x & 3) * 4;
  const float* from = sums + (row0 + row) * C;
  float4 total = *reinterpret_cast<const float4*>(from + D + h);
  float inverse[4] = {1.0f / (total.x + v.w_cls[h]), 1.0f / (total.y + v.w_cls[h + 1]),
                      1.0f / (total.z + v.w_cls[h + 2]), 1.0f / (total.w + v.w_cls[h + 3])};
#pragma unroll
  for (int k = 0; k < K; k++) {
    int j = k * H + h;
    float4 sum = *reinterpret_cast<const float4*>(from + j), head;
    head.x = (sum.x + v.w_cls[h] * v.y_cls[j]) * inverse[0] + v.constant[j];
    head.y = (sum.y + v.w_cls[h + 1] * v.y_cls[j + 1]) * inverse[1] + v.constant[j + 1];
    head.z = (sum.z + v.w_cls[h + 2] * v.y_cls[j + 2]) * inverse[2] + v.constant[j + 2];
    head.w = (sum.w + v.w_cls[h + 3] * v.y_cls[j + 3]) * inverse[3] + v.constant[j + 3];
    mixed.four(row, j) = head;
  }
}

// last LayerNorm, logits, loss, and the way back to dx2; U holds x2 and then u, DX gets dx2
__device__ __forceinline__ void loss(Square U, Square DX, Vectors& v, const Leaves& p,
                                     const Examples& x, int row0) {
  int row = threadIdx.x >> 2, part = threadIdx.x & 3, example = row0 + row;
  float r = normalise(U, row, part), z = 0.0f, mean_w = 0.0f, mean_uw = 0.0f;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    int d = part + 4 * i;
    float u = U(row, d), gw = v.gain_f[d] * v.w[d];
    z += u * gw + v.bias_f[d] * v.w[d], mean_w += gw, mean_uw += u * gw;
  }
  z = over_quad(z) + __ldg(p.b.value), mean_w = over_quad(mean_w) / D,
  mean_uw = over_quad(mean_uw) / D;
  bool real = example < x.m;
  float dz = real ? x.weight[example] * (1.0f / (1.0f + expf(-z)) - x.y[example]) : 0.0f;
  if (part == 0) v.dz[row] = dz;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    int d = part + 4 * i;
    DX(row, d) = dz * r * (v.gain_f[d] * v.w[d] - mean_w - U(row, d) * mean_uw);
  }
  __syncthreads();
}

// gradients of the sums, in place of the sums: D_V = dmixed / total, D_w = -sum_k dmixed head /
// total. `mixed` becomes D_V and the first columns of `spare` D_w, for their sums over the
// examples.
__device__ __forceinline__ void unmix(float* sums, Square mixed, Square dmixed, Square spare,
                                      const Vectors& v, int row0) {
  int row = threadIdx.x >> 2, h = (threadIdx.x & 3) * 4;
  float* to = sums + (row0 + row) * C;
  float4 total = *reinterpret_cast<float4*>(to + D + h);
  float inverse[4] = {1.0f / (total.x + v.w_cls[h]), 1.0f / (total.y + v.w_cls[h + 1]),
                      1.0f / (total.z + v.w_cls[h + 2]), 1.0f / (total.w + v.w_cls[h + 3])};
  float D_w[4] = {};
#pragma unroll
  for (int k = 0; k < K; k++) {
    float4 d4 = dmixed.four(row, k * H + h), m4 = mixed.four(row, k * H + h);
    float d[4] = {d4.x, d4.y, d4.z, d4.w}, m[4] = {m4.x, m4.y, m4.z, m4.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      d[i] *= inverse[i];
      D_w[i] -= d[i] * (m[i] - v.constant[k * H + h + i]);
    }
    float4 D_V = make_float4(d[0], d[1], d[2], d[3]);
    mixed.four(row, k * H + h) = D_V;
    *reinterpret_cast<float4*>(to + k * H + h) = D_V;
  }
  float4 last = make_float4(D_w[0], D_w[1], D_w[2], D_w[3]);
  spare.four(row, h) = last;
  *reinterpret_cast<float4*>(to + D + h) = last;
  __syncthreads();
}

// from DX = dx1 to the gradients of the sums; W_O learns
__device__ __forceinline__ void back_to_sums(float* sums, const Tiles& t, Vectors& v,
                                             const Leaves& p, const Place& at, int row0) {
  float c[4][4];
  wait<0>();
  __syncthreads();
  clear(c);
  multiply<D, 1, 4>(c, ByRow<64>(t.DX, at, at.row0), ByRow<64>(t.WA, at, at.column0));
  put(t.buffer, at, [&](int n, int e) { return c[n][e]; });
  clear(c);
  multiply<64, 1, 4>(c, ByColumn<64>(t.mixed, at, at.row0), ByColumn<64>(t.DX, at, at.column0));
  settle(v, p.W_O, v.scratch.W_O, 0, D, t.WB, at, row0, c);
  __syncthreads();
  unmix(sums, t.mixed, t.buffer, t.A2, v, row0);
  column_sums<3>(v, [&](int i, int j, float (&s)[3]) {
    s[0] += t.buffer(i, j), s[1] += t.mixed(i, j), s[2] += j < H ? t.A2(i, j) : 0.0f;
  });
  if (threadIdx.x < D) {
    accumulate(v.dmixed + threadIdx.x, gathered(v, 0, threadIdx.x), row0 == 0);
    accumulate(v.D_V + threadIdx.x, gathered(v, 1, threadIdx.x), row0 == 0);
    if (threadIdx.x < H) accumulate(v.D_w + threadIdx.x, gathered(v, 2, threadIdx.x), row0 == 0);
  }
  __syncthreads();
}

// logits of 64 examples from their sums, and back to the gradients of the sums and of all
// parameters on the way
__device__ __forceinline__ void read_out(float* sums, Vectors& v, const Leaves& p,
                                         const Examples& x, const Place& at, int row0) {
  Tiles t;
  bool first = row0 == 0;
  fetch(t.WA, p.W_O.value, D);
  commit();
  mix(t.mixed, sums, v, row0);
  wait<0>();
  __syncthreads();
  float x2[4][4], da2[4][4];
  clear(x2);
  multiply<D, 1, 4>(x2, ByRow<64>(t.mixed, at, at.row0), ByColumn<64>(t.WA, at, at.column0));
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) x2[n][e] += v.residual[COLUMN(n, e)];
  put(t.A2, at, [&](int n, int e) { return x2[n][e]; });
  __syncthreads();
  fetch(t.WA, p.W_in.value, N), fetch(t.WB, p.W_out.value, N);
  commit();
  into_mlp(t.A2, v);
  through_mlp(x2, t, p, at);
  put(t.buffer, at, [&](int n, int e) { return x2[n][e] + v.b_out[COLUMN(n, e)]; });
  __syncthreads();
  loss(t.buffer, t.DX, v, p, x, row0);
  column_sums<2>(v, [&](int i, int d, float (&s)[2]) {
    s[0] += t.buffer(i, d) * v.dz[i], s[1] += t.DX(i, d);
  });
  if (threadIdx.x < D) {
    accumulate(v.u_dz + threadIdx.x, gathered(v, 0, threadIdx.x), first);
    accumulate(v.d_out + threadIdx.x, gathered(v, 1, threadIdx.x), first);
  }
  if (at.warp == 7) {
    float sum = over_warp(v.dz[at.lane] + v.dz[at.lane + 32]);
    if (at.lane == 0) accumulate(&v.sum_dz, sum, first);
  }
  back_through_mlp(da2, t, v, p, at, row0);
  put(t.buffer, at, [&](int n, int e) { return da2[n][e]; });
  __syncthreads();
  ask_columns(p.W_O, D, 0);
  before_mlp(t.DX, t.A2, t.buffer, v);
  column_sums<3>(v, [&](int i, int d, float (&s)[3]) {
    s[0] += t.A2(i, d) * t.buffer(i, d), s[1] += t.buffer(i, d), s[2] += t.DX(i, d);
  });
  if (threadIdx.x < D) {
    accumulate(v.u2_da2 + threadIdx.x, gathered(v, 0, threadIdx.x), first);
    accumulate(v.da2 + threadIdx.x, gathered(v, 1, threadIdx.x), first);
    accumulate(v.dx1 + threadIdx.x, gathered(v, 2, threadIdx.x), first);
  }
  back_to_sums(sums, t, v, p, at, row0);
}
