// From the sums to the logits, the loss, and back to the gradients of the sums.
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

__device__ __forceinline__ void accumulate(float* to, float value, bool first) {
  *to = first ? value : *to + value;
}

// logits of 64 examples from their sums, and back to the gradients of the sums and of all
// parameters on the way. Hidden units are taken 64 at a time, and a second time on the way back.
__device__ __forceinline__ void read_out(float* sums, Vectors& v, const Leaves& p,
                                         const Examples& x, const Place& at, int row0) {
  Square mixed{0}, A2{SQUARE}, DX{2 * SQUARE}, buffer{3 * SQUARE}, WA{4 * SQUARE}, WB{5 * SQUARE};
  bool first = row0 == 0;
  fetch(WA, p.W_O.value, D);
  commit();
  mix(mixed, sums, v, row0);
  wait<0>();
  __syncthreads();

  float x2[4][4], c[4][4];
  clear(x2);
  multiply<D, 1, 4>(x2, ByRow<64>(mixed, at, at.row0), ByColumn<64>(WA, at, at.column0));
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) x2[n][e] += v.residual[COLUMN(n, e)];
  put(A2, at, [&](int n, int e) { return x2[n][e]; });
  __syncthreads();
  fetch(WA, p.W_in.value, N), fetch(WB, p.W_out.value, N);
  commit();
  into_mlp(A2, v);

  for (int n0 = 0; n0 < N; n0 += 64) {
    wait<0>();
    __syncthreads();
    hidden(c, A2, WA, p, at, n0);
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float slope;
        gelu(c[n][e], c[n][e], slope);
      }
    put(buffer, at, [&](int n, int e) { return c[n][e]; });
    __syncthreads();
    int next = n0 + 64 < N ? n0 + 64 : 0;  // the way back begins with the first ones again
    fetch(WA, p.W_in.value + next, N);
    multiply<64, 1, 4>(x2, ByRow<64>(buffer, at, at.row0), ByRow<64>(WB, at, at.column0));
    __syncthreads();
    fetch(WB, p.W_out.value + next, N);
    commit();
  }
  put(buffer, at, [&](int n, int e) { return x2[n][e] + v.b_out[COLUMN(n, e)]; });
  __syncthreads();
  loss(buffer, DX, v, p, x, row0);
  column_sums<2>(
      v, [&](int i, int d, float (&s)[2]) { s[0] += buffer(i, d) * v.dz[i], s[1] += DX(i, d); });
  if (threadIdx.x < D) {
    accumulate(v.u_dz + threadIdx.x, gathered(v, 0, threadIdx.x), first);
    accumulate(v.d_out + threadIdx.x, gathered(v, 1, threadIdx.x), first);
  }
  if (at.warp == 7) {
    float sum = over_warp(v.dz[at.lane] + v.dz[at.lane + 32]);
    if (at.lane == 0) accumulate(&v.sum_dz, sum, first);
  }

  float da2[4][4];
  clear(da2);
  for (int n0 = 0; n0 < N; n0 += 64) {
    wait<0>();
    __syncthreads();
    ask_columns(p.W_out, N, n0), ask_columns(p.W_in, N, n0);
    hidden(c, A2, WA, p, at, n0);
    float back[4][4];
    clear(back);
    multiply<D, 1, 4>(back, ByRow<64>(DX, at, at.row0), ByColumn<64>(WB, at, at.column0));
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float slope;
        gelu(c[n][e], c[n][e], slope);
        back[n][e] *= slope;
      }
    put(buffer, at, [&](int n, int e) { return c[n][e]; });
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
    multiply<64, 1, 4>(c, ByColumn<64>(DX, at, at.row0), ByColumn<64>(buffer, at, at.column0));
    settle(v, p.W_out, v.scratch.W_out, n0, N, WB, at, row0, c);
    __syncthreads();
    put(buffer, at, [&](int n, int e) { return back[n][e]; });
    __syncthreads();
    multiply<64, 1, 4>(da2, ByRow<64>(buffer, at, at.row0), ByRow<64>(WA, at, at.column0));
    clear(c);
    multiply<64, 1, 4>(c, ByColumn<64>(A2, at, at.row0), ByColumn<64>(buffer, at, at.column0));
    settle(v, p.W_in, v.scratch.W_in, n0, N, WB, at, row0, c);
    if (threadIdx.x < 64)
      accumulate(v.scratch.b_in + n0 + threadIdx.x, gathered(v, 0, threadIdx.x), first);
    __syncthreads();
    if (next < N)
      fetch(WA, p.W_in.value + next, N), fetch(WB, p.W_out.value + next, N);
    else
      fetch(WA, p.W_O.value, D);
    commit();
  }
  put(buffer, at, [&](int n, int e) { return da2[n][e]; });
  __syncthreads();
  ask_columns(p.W_O, D, 0);
  before_mlp(DX, A2, buffer, v);
  column_sums<3>(v, [&](int i, int d, float (&s)[3]) {
    s[0] += A2(i, d) * buffer(i, d), s[1] += buffer(i, d), s[2] += DX(i, d);
  });
  if (threadIdx.x < D) {
    accumulate(v.u2_da2 + threadIdx.x, gathered(v, 0, threadIdx.x), first);
    accumulate(v.da2 + threadIdx.x, gathered(v, 1, threadIdx.x), first);
    accumulate(v.dx1 + threadIdx.x, gathered(v, 2, threadIdx.x), first);
  }
  wait<0>();
  __syncthreads();
  clear(c);
  multiply<D, 1, 4>(c, ByRow<64>(DX, at, at.row0), ByRow<64>(WA, at, at.column0));
  put(buffer, at, [&](int n, int e) { return c[n][e]; });
  clear(c);
  multiply<64, 1, 4>(c, ByColumn<64>(mixed, at, at.row0), ByColumn<64>(DX, at, at.column0));
  settle(v, p.W_O, v.scratch.W_O, 0, D, WB, at, row0, c);
  __syncthreads();
  unmix(sums, mixed, buffer, A2, v, row0);
  column_sums<3>(v, [&](int i, int j, float (&s)[3]) {
    s[0] += buffer(i, j), s[1] += mixed(i, j), s[2] += j < H ? A2(i, j) : 0.0f;
  });
  if (threadIdx.x < D) {
    accumulate(v.dmixed + threadIdx.x, gathered(v, 0, threadIdx.x), first);
    accumulate(v.D_V + threadIdx.x, gathered(v, 1, threadIdx.x), first);
    if (threadIdx.x < H) accumulate(v.D_w + threadIdx.x, gathered(v, 2, threadIdx.x), first);
  }
  __syncthreads();
}
