// Matrix products of float32 accuracy on tensor cores.
//
// They are made of 8-deep steps in TF32. A float32 number is the sum of a TF32 number and a
// remainder, x = x_1 + x_2, and a_1 b_1 + a_1 b_2 + a_2 b_1 is the float32 product to 2^-21. In a
// tile of a product, a lane (group = lane / 4, quad = lane % 4) holds rows group and group + 8 of A
// and C, and columns 2 quad and 2 quad + 1 of C.
#pragma once
#include "shared_memory.cuh"

struct Place {  // where a lane sits in a tile, and a warp among the tiles of a 64 x 64 product
  int warp, lane, group, quad, row0, column0;
  __device__ Place() {
    warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    row0 = (warp & 3) * 16, column0 = (warp >> 2) * 32;
  }
};

__device__ __forceinline__ void split(float x, unsigned& first, unsigned& rest) {
  first = __float_as_uint(x) & 0xffffe000u;
  rest = __float_as_uint(x - __uint_as_float(first));
}

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float shared_at(int byte) {
  return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(memory) + byte);
}

// Addresses are computed where they are used: kept from one product to the next, they crowd out the
// registers.
__device__ __forceinline__ void here(int& address) {
  asm volatile("" : "+r"(address));
}

// A factor of a product, read k by k. A lane's addresses differ by constants only, once the
// permutation of the tile (bits 4 to 6 of an address) is written as an exclusive or.
template <int PITCH>
struct ByRow {  // factor(row, k) = tile(row0 + row, k): 8 rows x 4 columns at a time
  int at;
  __device__ __forceinline__ ByRow(Tile<PITCH> tile, const Place& lane, int row0) {
    int turned = ((lane.group & 3) << 5) | ((lane.group & 4) << 2);
    at = 4 * (tile.start + (row0 + lane.group) * PITCH + lane.quad) + turned;
    here(at);
  }
  // half 0: k + quad, half 1: k + quad + 4; k a constant, k0 a multiple of 32
  __device__ __forceinline__ float operator()(int row, int k0, int k, int half) const {
    return shared_at((at ^ (4 * (k + 4 * half))) + 4 * (k0 + row * PITCH));
  }
};
template <int PITCH>
struct ByColumn {  // factor(row, k) = tile(k, row0 + row): 4 rows x 8 columns at a time
  int at;
  __device__ __forceinline__ ByColumn(Tile<PITCH> tile, const Place& lane, int row0) {
    at = 4 * (tile.start + lane.quad * PITCH + lane.group + (row0 ^ (lane.quad << 3)));
    here(at);
  }
  __device__ __forceinline__ float operator()(int row, int k0, int k, int half) const {
    return shared_at((at ^ (4 * (row & 31)) ^ (16 * half)) +
                     4 * ((row & ~31) + (k0 + k + 4 * half) * PITCH));
  }
};

struct Left {  // 16 x 8 of A, in two pieces
  unsigned first[4], rest[4];
  template <class Factor>
  __device__ __forceinline__ void read(const Factor& a, int row, int k0, int k) {
#pragma unroll
    for (int e = 0; e < 4; e++) split(a(row + 8 * (e & 1), k0, k, e >> 1), first[e], rest[e]);
  }
};
struct Right {  // 8 x 8 of B, in two pieces
  unsigned first[2], rest[2];
  template <class Factor>
  __device__ __forceinline__ void read(const Factor& b, int column, int k0, int k) {
#pragma unroll
    for (int e = 0; e < 2; e++) split(b(column, k0, k, e), first[e], rest[e]);
  }
};

// c[DOWN x ACROSS tiles] += A B for 16 DOWN rows and 8 ACROSS columns. One piece of
// all tiles after the other: the three products of a tile wait for each other. Loops are unrolled
// over 32 columns only, the period of a tile: unrolled more, the code outgrows its cache.
template <int DEPTH, int DOWN, int ACROSS, class A, class B>
__device__ __forceinline__ void multiply(float (*c)[4], const A& a, const B& b) {
  constexpr int STEP = DEPTH % 32 == 0 ? 32 : 16;
#pragma unroll 1
  for (int k0 = 0; k0 < DEPTH; k0 += STEP)
#pragma unroll
    for (int k = 0; k < STEP; k += 8) {
      Left left[DOWN];
      Right right[ACROSS];
#pragma unroll
      for (int i = 0; i < DOWN; i++) left[i].read(a, 16 * i, k0, k);
#pragma unroll
      for (int n = 0; n < ACROSS; n++) right[n].read(b, 8 * n, k0, k);
#pragma unroll
      for (int piece = 0; piece < 3; piece++)
#pragma unroll
        for (int i = 0; i < DOWN; i++)
#pragma unroll
          for (int n = 0; n < ACROSS; n++) {
            const unsigned (&l)[4] = piece == 0 ? left[i].rest : left[i].first;
            const unsigned (&r)[2] = piece == 1 ? right[n].rest : right[n].first;
            mma(c[i * ACROSS + n], l, r[0], r[1]);
          }
    }
}

template <int COUNT>
__device__ __forceinline__ void clear(float (&c)[COUNT][4]) {
#pragma unroll
  for (int n = 0; n < COUNT; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) c[n][e] = 0.0f;
}

// row and column of element e of C's tile n, for a warp's part of a 64 x 64 product
#define ROW(e) (at.row0 + at.group + 8 * ((e) >> 1))
#define COLUMN(n, e) (at.column0 + 8 * (n) + 2 * at.quad + ((e) & 1))

template <class F>
__device__ __forceinline__ void put(Square to, const Place& at, F value) {
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int e = 0; e < 4; e += 2)
      to.pair(ROW(e), COLUMN(n, e)) = make_float2(value(n, e), value(n, e + 1));
}
