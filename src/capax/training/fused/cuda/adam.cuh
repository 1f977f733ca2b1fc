// Adam, entry by entry, as soon as a gradient is known.
#pragma once
#include "sums.cuh"

__device__ __forceinline__ void adam(const Rates& rates, float g, float& p, float& m, float& v) {
  m = static_cast<float>(1.0 - BETA1) * g + static_cast<float>(BETA1) * m;
  v = static_cast<float>(1.0 - BETA2) * g * g + static_cast<float>(BETA2) * v;
  float root, inverse;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(v));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(rates.second * root + ADAM_EPSILON));
  p -= rates.rate * (rates.first * m * inverse + rates.decay * p);
}

// An entry of a leaf (or X = float2, float4: several) with its moments. Entries are all fetched
// before the first is updated: memory answers late, and no load may pass a store.
template <class X>
struct Entry {
  X p, m, v;
  __device__ __forceinline__ void fetch(const Leaf& leaf, int i) {
    p = __ldcg(reinterpret_cast<const X*>(leaf.value) + i);
    m = __ldcg(reinterpret_cast<const X*>(leaf.first) + i),
    v = __ldcg(reinterpret_cast<const X*>(leaf.second) + i);
  }
  __device__ __forceinline__ void put(const Leaf& leaf, int i) const {
    __stcg(reinterpret_cast<X*>(leaf.value) + i, p);
    __stcg(reinterpret_cast<X*>(leaf.first) + i, m),
        __stcg(reinterpret_cast<X*>(leaf.second) + i, v);
  }
};
__device__ __forceinline__ void learn(const Rates& r, const Leaf& leaf, int i, Entry<float>& entry,
                                      float g) {
  adam(r, g, entry.p, entry.m, entry.v);
  entry.put(leaf, i);
}
__device__ __forceinline__ void learn(const Rates& r, const Leaf& leaf, int i, Entry<float2>& entry,
                                      float2 g) {
  adam(r, g.x, entry.p.x, entry.m.x, entry.v.x), adam(r, g.y, entry.p.y, entry.m.y, entry.v.y);
  entry.put(leaf, i);
}

__device__ __forceinline__ void learn(const Rates& r, const Leaf& leaf, int i, Entry<float4>& entry,
                                      float4 g) {
  adam(r, g.x, entry.p.x, entry.m.x, entry.v.x), adam(r, g.y, entry.p.y, entry.m.y, entry.v.y);
  adam(r, g.z, entry.p.z, entry.m.z, entry.v.z), adam(r, g.w, entry.p.w, entry.m.w, entry.v.w);
  entry.put(leaf, i);
}
constexpr int FETCHED = 2;  // entries fetched before the first is updated

// Moments come from far away: they are asked for a phase ahead, into the second-level cache.
__device__ __forceinline__ void ask(const float* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// moments of 64 columns from `column` on of a leaf with 64 rows
__device__ __forceinline__ void ask_columns(const Leaf& leaf, int pitch, int column) {
  int row = threadIdx.x >> 2, offset = row * pitch + column + 32 * (threadIdx.x & 1);
  ask((threadIdx.x & 2 ? leaf.second : leaf.first) + offset);
}

// A warp's part (16 rows, 32 columns) of a 64 x 64 gradient passes through its part of a tile, so
// that memory is read and written 128 bytes at a time. Entry (row, column) of the tile is number
// offset + row pitch + column of the leaf; columns from `columns` on do not count.
template <class F>
__device__ __forceinline__ void stage(Square tile, const Place& at, F value) {
  __syncwarp();
  put(tile, at, value);
  __syncwarp();
}
__device__ __forceinline__ void learn_staged(const Vectors& v, const Leaf& leaf, Square tile,
                                             const Place& at, int offset, int pitch, int columns) {
  if (((offset | pitch) & 3) == 0) {
#pragma unroll
    for (int i0 = 0; i0 < 4; i0 += FETCHED) {
      Entry<float4> entry[FETCHED];
      int column = at.column0 + 4 * (at.lane & 7), row = at.row0 + 4 * i0 + (at.lane >> 3);
      int start = (offset + row * pitch + column) / 4;
      if (column >= columns) break;
#pragma unroll
      for (int i = 0; i < FETCHED; i++) entry[i].fetch(leaf, start + i * pitch);
#pragma unroll
      for (int i = 0; i < FETCHED; i++)
        learn(v.rates, leaf, start + i * pitch, entry[i], tile.four(row + 4 * i, column));
    }
  } else {
    int column = at.column0 + at.lane;
    if (column >= columns) return;
#pragma unroll 4
    for (int row = at.row0; row < at.row0 + 16; row++) {
      Entry<float> entry;
      entry.fetch(leaf, offset + row * pitch + column);
      learn(v.rates, leaf, offset + row * pitch + column, entry, tile(row, column));
    }
  }
}

// the same for 64 columns of a matrix: Adam after the last block of examples, until then a sum over
// blocks
__device__ __forceinline__ void settle(const Vectors& v, const Leaf& leaf, float* partial,
                                       int offset, int pitch, Square tile, const Place& at,
                                       int row0, const float (&c)[4][4]) {
  bool first = row0 == 0, last = row0 + BLOCK >= v.x.m;
  if (first && last) {
    stage(tile, at, [&](int n, int e) { return c[n][e]; });
  } else {
    float* from = partial + offset;
    stage(tile, at, [&](int n, int e) {
      float* sum = from + ROW(e) * pitch + COLUMN(n, e);
      float value = first ? c[n][e] : c[n][e] + *sum;
      if (!last) *sum = value;
      return value;
    });
  }
  if (last) learn_staged(v, leaf, tile, at, offset, pitch, 64);
}
