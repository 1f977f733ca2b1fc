// A step, whole or in parts.
//
// Where positions are many they are in pieces, and a block has one piece of one model in what goes
// over positions (parts 1 and 3) and a whole model in what does not (parts 2 and 4). Each part is a
// launch, and whatever the next one needs is in the device's memory. Pieces are summed in their
// order: a model depends on T, not on its neighbours.
#pragma once
#include "projection_back.cuh"
#include "read_out.cuh"
#include "table_back.cuh"

constexpr bool BY_PIECE = PART == 1 || PART == 3;
constexpr int KEPT = 4096;  // floats for `Vectors`
constexpr int W_START = TILES - C * D, ROWS_START = 2 * SQUARE + BLOCK * PITCH_D;
static_assert(sizeof(Vectors) <= 4 * KEPT, "device memory for vectors");
static_assert((C + 2) * D + 2 * C + 2 <= 2 * BLOCK * C, "gradients of a piece in place of its sums");

__device__ __forceinline__ void read_vectors(Vectors& v) {
  const Leaves& p = v.p;
  if (threadIdx.x < D) {
    int d = threadIdx.x;
    v.residual[d] = p.b_O.value[d] + p.cls.value[d], v.b_out[d] = p.b_out.value[d],
    v.w[d] = p.w.value[d];
    v.gain2[d] = p.gain2.value[d], v.bias2[d] = p.bias2.value[d];
    v.gain_f[d] = p.gain_f.value[d], v.bias_f[d] = p.bias_f.value[d];
  }
}

// the projection out of the way of the read-out, and back
__device__ __forceinline__ void keep_projection(const Vectors& v) {
  for (int i = 4 * threadIdx.x; i < C * D; i += 4 * THREADS)
    *reinterpret_cast<float4*>(v.scratch.W + i) =
        *reinterpret_cast<float4*>(memory + W_START + i);
}
__device__ __forceinline__ void fetch_projection(const Vectors& v) {
  for (int i = 4 * threadIdx.x; i < C * D; i += 4 * THREADS)
    copy_16(memory + W_START + i, v.scratch.W + i, true);
}

__device__ __forceinline__ void sums_of_all(float* sums, Vectors& v, const Place& at) {
  const Examples& x = v.x;
  int row0 = 0;
  for (; row0 + BLOCK < x.m; row0 += 2 * BLOCK) head_sums<2>(sums, v, Square{W_START}, v.p, x, at, row0);
  if (row0 < x.m) head_sums<1>(sums, v, Square{W_START}, v.p, x, at, row0);
}

__device__ __forceinline__ void whole_step(Vectors& v) {
  const Leaves& p = v.p;
  const Examples& x = v.x;
  Place at;
  read_vectors(v);
  project(Square{W_START}, v, p, at);
  __syncthreads();
  keep_projection(v);
  sums_of_all(v.scratch.sums, v, at);
  for (int row0 = 0; row0 < x.m; row0 += BLOCK) read_out(v.scratch.sums, v, p, x, at, row0);
  fetch_projection(v);
  cls_row(v);
  through_table(Square{ROWS_START}, v, Square{W_START}, v.scratch.sums, p, x, at);
  unproject(Square{ROWS_START}, Square{W_START}, v, p, at);
  learn_vectors(v, p);
}

__device__ __forceinline__ float* of_piece(const Vectors& v, int number) {
  return v.piece.all + number * v.piece.floats;
}

// part 1: the sums over the tokens of a piece, and behind them the largest scores
__device__ __forceinline__ void sums_of_piece(Vectors& v) {
  Place at;
  float* mine = of_piece(v, blockIdx.x);
  project(Square{W_START}, v, v.p, at);
  __syncthreads();
  sums_of_all(mine, v, at);
  if (threadIdx.x < H) mine[v.piece.floats - H + threadIdx.x] = v.mu[threadIdx.x];
}

// the sums over all tokens: each piece is scaled down to the largest score of all
__device__ __forceinline__ void gather_sums(Vectors& v) {
  float* factor = memory;  // [piece][head]
  if (threadIdx.x < H) {
    int h = threadIdx.x;
    float own = v.y_cls[D + h], mu = own;
    for (int i = 0; i < v.piece.count; i++)
      mu = fmaxf(mu, of_piece(v, i)[v.piece.floats - H + h]);
    v.mu[h] = mu, v.w_cls[h] = expf(own - mu);
    for (int i = 0; i < v.piece.count; i++)
      factor[i * H + h] = expf(of_piece(v, i)[v.piece.floats - H + h] - mu);
  }
  __syncthreads();
  int rows = (v.x.m + BLOCK - 1) / BLOCK * BLOCK;
  for (int item = 4 * threadIdx.x; item < rows * C; item += 4 * THREADS) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int i = 0; i < v.piece.count; i++) {
      float4 one = *reinterpret_cast<const float4*>(of_piece(v, i) + item),
             f = *reinterpret_cast<const float4*>(factor + i * H + (item & 15));
      sum.x += f.x * one.x, sum.y += f.y * one.y, sum.z += f.z * one.z, sum.w += f.w * one.w;
    }
    *reinterpret_cast<float4*>(v.scratch.sums + item) = sum;
  }
  __syncthreads();
}

// what all threads share, without addresses
template <class F>
__device__ __forceinline__ void for_vectors(Vectors& v, F use) {
  float *own = reinterpret_cast<float*>(&v), *end = reinterpret_cast<float*>(&v.p);
  for (int i = threadIdx.x; own + i < end; i += THREADS) use(own[i], v.piece.kept[i]);
  __syncthreads();
}

// part 2: from the sums to the logits and back to the gradients of the sums
__device__ __forceinline__ void there_and_back(Vectors& v) {
  Place at;
  read_vectors(v);
  project(Square{W_START}, v, v.p, at);
  __syncthreads();
  keep_projection(v);
  gather_sums(v);
  for (int row0 = 0; row0 < v.x.m; row0 += BLOCK)
    read_out(v.scratch.sums, v, v.p, v.x, at, row0);
  cls_row(v);
  for_vectors(v, [](float own, float& kept) { kept = own; });
}

// part 3: the positions of a piece learn
__device__ __forceinline__ void back_in_piece(Vectors& v) {
  Place at;
  float* mine = of_piece(v, blockIdx.x);
  fetch_projection(v);
  for_vectors(v, [](float& own, float kept) { own = kept; });
  through_table(Square{ROWS_START}, v, Square{W_START}, v.scratch.sums, v.p, v.x, at);
  for (int i = threadIdx.x; i < (C + 2) * D; i += THREADS) mine[i] = memory[ROWS_START + i];
  if (threadIdx.x < 2 * C + 2) mine[(C + 2) * D + threadIdx.x] = v.dEY[0][threadIdx.x];
}

// part 4: the gradients of the pieces, summed, go back through the projection
__device__ __forceinline__ void last_part(Vectors& v) {
  Place at;
  fetch_projection(v);
  commit();
  for_vectors(v, [](float& own, float kept) { own = kept; });
  for (int item = threadIdx.x; item < (C + 2) * D + 2 * C + 2; item += THREADS) {
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < v.piece.count; i++) sum += of_piece(v, i)[item];
    (item < (C + 2) * D ? memory[ROWS_START + item] : v.dEY[0][item - (C + 2) * D]) = sum;
  }
  wait<0>();
  __syncthreads();
  unproject(Square{ROWS_START}, Square{W_START}, v, v.p, at);
  learn_vectors(v, v.p);
}
