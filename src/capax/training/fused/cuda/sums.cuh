// Sums over lanes, columns and examples; LayerNorm.
#pragma once
#include "products.cuh"

__device__ __forceinline__ float over_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(ALL, x, step);
  return x;
}
__device__ __forceinline__ float over_warp(float2 x) {
  return over_warp(x.x + x.y);
}
__device__ __forceinline__ float over_quad(float x) {
  x += __shfl_xor_sync(ALL, x, 1);
  return x + __shfl_xor_sync(ALL, x, 2);
}
__device__ __forceinline__ float over_groups(float x) {
  x += __shfl_xor_sync(ALL, x, 4);
  x += __shfl_xor_sync(ALL, x, 8);
  return x + __shfl_xor_sync(ALL, x, 16);
}
__device__ __forceinline__ float2 operator*(float2 a, float2 b) {
  return make_float2(a.x * b.x, a.y * b.y);
}
__device__ __forceinline__ float2 operator+(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}
__device__ __forceinline__ float2 operator*(float a, float2 b) {
  return make_float2(a * b.x, a * b.y);
}
__device__ __forceinline__ float2 operator-(float2 a, float b) {
  return make_float2(a.x - b, a.y - b);
}
__device__ __forceinline__ float2 pair_at(const float* from,
                                          int lane) {  // out of the device's memory
  return __ldg(reinterpret_cast<const float2*>(from) + lane);
}
__device__ __forceinline__ float2 pair_in(const float* from, int lane) {  // out of shared memory
  return reinterpret_cast<const float2*>(from)[lane];
}
__device__ __forceinline__ void pair_to(float* to, int lane, float2 x) {
  reinterpret_cast<float2*>(to)[lane] = x;
}

struct Normalised {  // LayerNorm of [CLS], two columns per lane
  float2 raw, u, x;
  float r;
  __device__ __forceinline__ Normalised(const Leaves& p, int lane) {
    raw = pair_at(p.cls.value, lane);
    float2 centred = raw - over_warp(raw) / D;
    r = rsqrtf(over_warp(centred * centred) / D + EPSILON);
    u = r * centred;
    x = u * pair_at(p.gain1.value, lane) + pair_at(p.bias1.value, lane);
  }
};

// sums over the 64 rows of up to four matrices, one column per thread and quarter of the rows
template <int COUNT, class F>
__device__ __forceinline__ void column_sums(Vectors& v, F value) {
  int column = threadIdx.x & 63, quarter = threadIdx.x >> 6;
  float sums[COUNT] = {};
#pragma unroll 4
  for (int i = 0; i < 16; i++) value(quarter * 16 + i, column, sums);
#pragma unroll
  for (int s = 0; s < COUNT; s++) v.parts[s][quarter][column] = sums[s];
  __syncthreads();
}
__device__ __forceinline__ float gathered(const Vectors& v, int s, int column) {
  return (v.parts[s][0][column] + v.parts[s][1][column]) +
         (v.parts[s][2][column] + v.parts[s][3][column]);
}
