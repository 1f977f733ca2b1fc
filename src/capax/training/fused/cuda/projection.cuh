// The projection W' = C diag(gain) [W_V | W_K q scale].
#pragma once
#include "sums.cuh"

__device__ __forceinline__ void project_row(Square W, Vectors& v, const Normalised& cls, float2 row,
                                            int j, int lane, float2 E0, float2 E1) {
  row = row - over_warp(row) / D;
  W.pair(j, 2 * lane) = row;
  float y = cls.r * over_warp(row * cls.raw), e0 = over_warp(row * E0), e1 = over_warp(row * E1);
  if (lane == 0) v.y_cls[j] = y, v.EY[0][j] = e0, v.EY[1][j] = e1;
}

// W', y_* and E W'; the constant of the values; the query
__device__ __forceinline__ void project(Square W, Vectors& v, const Leaves& p, const Place& at) {
  Normalised cls(p, at.lane);
  float2 gain = pair_at(p.gain1.value, at.lane), bias = pair_at(p.bias1.value, at.lane);
  float2 E0 = pair_at(p.embed.value, at.lane), E1 = pair_at(p.embed.value + D, at.lane);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    int j = at.warp * 8 + i;
    float2 value = pair_at(p.W_V.value + j * D, at.lane),
           query = pair_at(p.W_Q.value + j * D, at.lane);
    float constant = over_warp(value * bias), q = over_warp(query * cls.x);
    if (at.lane == 0) v.constant[j] = constant + p.b_V.value[j], v.q[j] = q + p.b_Q.value[j];
    project_row(W, v, cls, value * gain, j, at.lane, E0, E1);
  }
  if (at.warp == 0) pair_to(v.E[0], at.lane, E0 - over_warp(E0) / D);
  if (at.warp == 1) pair_to(v.E[1], at.lane, E1 - over_warp(E1) / D);
  __syncthreads();
  for (int h = at.warp * 2; h < at.warp * 2 + 2; h++) {
    float2 U = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < K; k++)
      U = U + v.q[k * H + h] * pair_at(p.W_K.value + (k * H + h) * D, at.lane);
    project_row(W, v, cls, SCALE * (U * gain), D + h, at.lane, E0, E1);
  }
}
