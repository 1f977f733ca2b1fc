// Shared memory: tiles, vectors, and copies into them that do not wait.
#pragma once
#include "sizes.cuh"

extern __shared__ __align__(128) float memory[];

// A matrix whose rows are permuted in groups of four columns, so that neither 8 rows x 4 columns
// nor 4 rows x 8 columns, the two ways a warp reads a tile, meet in a bank. `start`: a multiple of
// 32 floats.
template <int PITCH>
struct Tile {
  int start;
  __device__ __forceinline__ float& operator()(int row, int column) const {
    return memory[start + row * PITCH + (column ^ (((row & 3) << 3) | (row & 4)))];
  }
  __device__ __forceinline__ float2& pair(int row, int column) const {
    return reinterpret_cast<float2&>(operator()(row, column));
  }
  __device__ __forceinline__ float4& four(int row, int column) const {
    return reinterpret_cast<float4&>(operator()(row, column));
  }
};
using Square = Tile<64>;
constexpr int SQUARE = 64 * 64, PITCH_D = 96;

struct Vectors {  // what all threads of a block share besides the tiles
  float EY[2][C], y_cls[C], w_cls[H], mu[H], constant[D], q[D], E[2][D], residual[D];
  float gain2[D], bias2[D], b_out[D], gain_f[D], bias_f[D], w[D];
  float r[2][CHUNK], mean[CHUNK], largest[WARPS][H];
  unsigned words[2 * BLOCK][2];  // the symbols of up to 128 examples at the 64 positions in work
  float r2[BLOCK], dz[BLOCK];
  union {
    float parts[4][4][D];
    float dEY_parts[WARPS][2][C];
  };
  // sums over the examples, kept from one block of examples to the next
  float u_dz[D], d_out[D], u2_da2[D], da2[D], dx1[D], dmixed[D], D_V[D], D_w[H], sum_dz;
  float dy_cls[C], dEY[2][C], sum_kappa[2];
  Leaves p;  // here and not in registers, where 69 addresses would leave no room
  Examples x;
  Scratch scratch;
  Rates rates;
  Piece piece;
  __device__ __forceinline__ int first() const { return PART ? piece.first : 0; }
  __device__ __forceinline__ int last() const { return PART ? piece.last : x.T; }
};
constexpr int TILES = 6 * SQUARE + 2 * D;  // floats
static_assert(4 * TILES + sizeof(Vectors) <= SHARED_BYTES, "shared memory of a block");

__device__ __forceinline__ void copy_16(float* to, const float* from, bool real) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  int size = real ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(size));
}
__device__ __forceinline__ void copy_4(float* to, const float* from, bool real) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  int size = real ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(size));
}
__device__ __forceinline__ void commit() {
  asm volatile("cp.async.commit_group;");
}
template <int LEFT>
__device__ __forceinline__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}

// 64 rows of 64 columns out of a matrix with `pitch` columns (a multiple of 4)
__device__ __forceinline__ void fetch(Square to, const float* from, int pitch) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int item = threadIdx.x + i * THREADS, row = item >> 4, column = (item & 15) * 4;
    copy_16(&to(row, column), from + row * pitch + column, true);
  }
}

// columns t0 .. t0 + 63 of P^T, zeros behind T
__device__ __forceinline__ void fetch_positions(Square to, const float* position, int t0, int T) {
  if ((T & 3) == 0) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int item = threadIdx.x + i * THREADS, row = item >> 4, column = (item & 15) * 4;
      bool real = t0 + column < T;
      copy_16(&to(row, column), position + (real ? row * T + t0 + column : 0), real);
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
      int item = threadIdx.x + i * THREADS, row = item >> 6, column = item & 63;
      bool real = t0 + column < T;
      copy_4(&to(row, column), position + (real ? row * T + t0 + column : 0), real);
    }
  }
}
