// Sums over tokens under dropout, and their gradient: three kernels; and masks of single places.
//
//   forward        a warp is an example: pooled tokens, kept and whole weights, mu of each head
//   backward_U     the same warps: gradient of U, and what the third kernel reads of each example
//   backward_table a warp is 16 positions, and goes through all examples: gradient of the table
//   single_masks   a warp is an example: masks of [CLS], of its weights, and of the two outputs
//
// sizes: rows m of a model, T, words of symbols per row. `used`: the rows that are examples; the
// others give zeros. Models are blockIdx.x. seeds: the two words of the key, and the step.
#include "tokens.cuh"

extern __shared__ uint4 memory[];

#define OWN(from, each) ((from) + static_cast<long long>(blockIdx.x) * (each))

__device__ __forceinline__ Run run_of(const unsigned* seeds) {
  const unsigned* own = OWN(seeds, 3);
  return Run{own[0], own[1], own[2]};
}
__device__ __forceinline__ bool zeros_instead(float* to, int example, int m, int used,
                                              const Place& at) {
  if (example < used || example >= m) return false;
  for (int i = at.lane; i < H * D; i += 32) to[i] = 0.0f;
  return true;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    forward(const uint4* table, const float* U, const unsigned* words, const int* used,
            const unsigned* seeds, const int* sizes, float* pooled, float* kept, float* total,
            float* mu) {
  int m = sizes[0], T = sizes[1], W = sizes[2], n = used[blockIdx.x];
  Place at;
  int example = blockIdx.y * WARPS + at.warp;
  long long place = static_cast<long long>(blockIdx.x) * m + example;
  if (zeros_instead(pooled + place * H * D, example, m, n, at) && at.lane < H)
    kept[place * H + at.lane] = total[place * H + at.lane] = mu[place * H + at.lane] = 0.0f;
  if (blockIdx.y * WARPS >= n) return;
  bool busy = example < n;
  uint4* own = memory + CHUNKS + at.warp * LEFT;
  if (busy) put_left(own, U + place * H * D, at);
  Run run = run_of(seeds);
  Table rows{OWN(table, 2 * T * ROW), memory, T};
  float acc[8][4], top[2], whole[2] = {}, some[2] = {};
  top[0] = top[1] = __int_as_float(0xff800000);  // minus infinity
  clear(acc);
  over_tiles(rows, words + place * W, example, busy, run, at, [&](int t0, const Tokens& x) {
    float s[2][4], r[2][2];
    scores(s, own, x, at);
    to_scores(r, x.r, at);
    float new_top[2] = {top[0], top[1]};
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int t = t0 + 8 * half + 2 * at.quad + (e & 1);
        s[half][e] = t < T ? s[half][e] * r[half][e & 1] : __int_as_float(0xff800000);
        new_top[e >> 1] = fmaxf(new_top[e >> 1], s[half][e]);
      }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      new_top[i] = fmaxf(new_top[i], beside(new_top[i], 1));
      new_top[i] = fmaxf(new_top[i], beside(new_top[i], 2));
    }
    if (any_lane(new_top[0] > top[0] || new_top[1] > top[1])) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float shrink = __expf(top[i] - new_top[i]);
        top[i] = new_top[i];
        whole[i] *= shrink, some[i] *= shrink;
#pragma unroll
        for (int j = 0; j < 8; j++) acc[j][2 * i] *= shrink, acc[j][2 * i + 1] *= shrink;
      }
    }
    unsigned gone[2];
    dropped_weights(gone, t0, example, run, at);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float w = __expf(s[half][e] - top[e >> 1]);
        float a = is_dropped(gone[half], e) ? 0.0f : w;
        whole[e >> 1] += w, some[e >> 1] += a;
        s[half][e] = a * r[half][e & 1];
      }
    pool(acc, s, x);
  });
  if (!busy) return;
  write_heads(pooled + place * H * D, acc, at);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float all = over_quad(whole[i]), chosen = over_quad(some[i]);
    long long head = place * H + at.group + 8 * i;
    if (at.quad == 0) kept[head] = chosen, total[head] = all, mu[head] = top[i];
  }
}

struct Slopes {  // gradients of kept and total weights, and mu, of heads group and group + 8
  float kept[2], total[2], mu[2];
  __device__ __forceinline__ Slopes(const float* d_kept, const float* d_total, const float* mu_,
                                    long long place, const Place& at) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      long long head = place * H + at.group + 8 * i;
      kept[i] = d_kept[head], total[i] = d_total[head], mu[i] = mu_[head];
    }
  }
};

// From raw scores and raw products with the gradient of `pooled` to a w and ds of every head and
// position; r where scores lie.
__device__ __forceinline__ void weight_slopes(float (&aw)[2][4], float (&ds)[2][4],
                                              const float (&s)[2][4], const float (&dot)[2][4],
                                              const float (&r)[2][2], const Slopes& slope,
                                              const unsigned (&gone)[2], int t0, int T,
                                              const Place& at) {
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int t = t0 + 8 * half + 2 * at.quad + (e & 1), i = e >> 1;
      float rt = r[half][e & 1];
      float w = t < T ? __expf(s[half][e] * rt - slope.mu[i]) : 0.0f;
      bool out = is_dropped(gone[half], e);
      aw[half][e] = out ? 0.0f : w;
      ds[half][e] = w * ((out ? 0.0f : dot[half][e] * rt + slope.kept[i]) + slope.total[i]);
    }
}

// A factor [16 heads x 64 columns] as the right one of a product over heads:
// fragments[32 n + lane] = both words of the first piece, both of the rest
constexpr int RIGHT = 8 * 32;  // uint4
__device__ __forceinline__ uint4 right_piece(const float* U, int n, const Place& at) {
  Split part[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float* from = U + (2 * at.quad + 8 * i) * D + 8 * n + at.group;
    part[i] = split(from[0], from[D]);
  }
  return make_uint4(part[0].first, part[1].first, part[0].rest, part[1].rest);
}
// All that backward_table reads of an example: U and the slopes, as left and as right factors.
constexpr int FACTORS = 2 * (LEFT + RIGHT);  // uint4
__device__ __forceinline__ void put_factors(uint4* to, const uint4* left_U, const uint4* left_slopes,
                                            const float* U, const float* slopes, const Place& at) {
#pragma unroll
  for (int i = 0; i < LEFT; i += 32) {
    to[i + at.lane] = left_U[i + at.lane];
    to[LEFT + i + at.lane] = left_slopes[i + at.lane];
  }
#pragma unroll
  for (int n = 0; n < 8; n++) {
    to[2 * LEFT + n * 32 + at.lane] = right_piece(U, n, at);
    to[2 * LEFT + RIGHT + n * 32 + at.lane] = right_piece(slopes, n, at);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    backward_U(const uint4* table, const float* U, const unsigned* words, const int* used,
               const unsigned* seeds, const float* mu, const float* d_pooled, const float* d_kept,
               const float* d_total, const int* sizes, float* d_U, uint4* factors) {
  int m = sizes[0], T = sizes[1], W = sizes[2], n = used[blockIdx.x];
  Place at;
  int example = blockIdx.y * WARPS + at.warp;
  long long place = static_cast<long long>(blockIdx.x) * m + example;
  zeros_instead(d_U + place * H * D, example, m, n, at);
  if (blockIdx.y * WARPS >= n) return;
  bool busy = example < n;
  if (!busy) place = static_cast<long long>(blockIdx.x) * m;  // read, never used
  uint4 *own = memory + CHUNKS + at.warp * 2 * LEFT, *slopes = own + LEFT;
  put_left(own, U + place * H * D, at);
  put_left(slopes, d_pooled + place * H * D, at);
  if (busy)
    put_factors(factors + place * FACTORS, own, slopes, U + place * H * D,
                d_pooled + place * H * D, at);
  Slopes slope(d_kept, d_total, mu, place, at);
  Run run = run_of(seeds);
  Table rows{OWN(table, 2 * T * ROW), memory, T};
  float acc[8][4];
  clear(acc);
  over_tiles(rows, words + place * W, example, busy, run, at, [&](int t0, const Tokens& x) {
    float s[2][4], dot[2][4], r[2][2], aw[2][4], ds[2][4];
    scores(s, own, x, at);
    scores(dot, slopes, x, at);
    to_scores(r, x.r, at);
    unsigned gone[2];
    dropped_weights(gone, t0, example, run, at);
    weight_slopes(aw, ds, s, dot, r, slope, gone, t0, T, at);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int e = 0; e < 4; e++) ds[half][e] *= r[half][e & 1];
    pool(acc, ds, x);
  });
  if (busy) write_heads(d_U + place * H * D, acc, at);
}

// coefficients [heads x positions] as the left factor [positions x heads]
__device__ __forceinline__ void turned(unsigned (&first)[4], unsigned (&rest)[4],
                                       const float (&c)[2][4]) {
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      Split both = split(c[half][2 * i], c[half][2 * i + 1]);
      first[half + 2 * i] = transposed(both.first), rest[half + 2 * i] = transposed(both.rest);
    }
}
__device__ __forceinline__ float over_groups(float x) {
  x += beside(x, 4), x += beside(x, 8);
  return x + beside(x, 16);
}

// one example and 16 positions: adds to the gradient of the table
__device__ __forceinline__ void learn_from(float (&acc)[8][4], float* symbol_1,
                                           const uint4* factors, const uint4* rows,
                                           unsigned symbols, int t0, int T, int example,
                                           const Run& run, const Slopes& slope, const Place& at) {
  Tokens x;
  x.make([&](int half) {
    int t = at.group + 8 * half;
    return rows + ((symbols >> t & 1) * TILE + t) * ROW;
  }, t0, example, run, at);
  float s[2][4], dot[2][4], r[2][2], aw[2][4], ds[2][4];
  scores(s, factors, x, at);
  scores(dot, factors + LEFT, x, at);
  to_scores(r, x.r, at);
  unsigned gone[2];
  dropped_weights(gone, t0, example, run, at);
  weight_slopes(aw, ds, s, dot, r, slope, gone, t0, T, at);
  float kappa[2];  // dL/dr, first where scores lie, then where tokens do
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float part[2];
#pragma unroll
    for (int e = 0; e < 2; e++)
      part[e] = over_groups(aw[half][e] * dot[half][e] + ds[half][e] * s[half][e] +
                            aw[half][e + 2] * dot[half][e + 2] + ds[half][e + 2] * s[half][e + 2]);
    float even = shuffled(part[0], at.group >> 1), odd = shuffled(part[1], at.group >> 1);
    kappa[half] = at.group & 1 ? odd : even;
  }
  unsigned aw_first[4], aw_rest[4], ds_first[4], ds_rest[4];
  turned(aw_first, aw_rest, aw), turned(ds_first, ds_rest, ds);
  float factor[2], one[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    factor[half] = x.r[half] * x.r[half] * x.r[half] * kappa[half] / D;
    one[half] = symbols >> (at.group + 8 * half) & 1 ? 1.0f : 0.0f;
  }
#pragma unroll
  for (int j = 0; j < 8; j++) {
    float v[4] = {}, change[2] = {};
    uint4 u = factors[2 * LEFT + j * 32 + at.lane];
    uint4 d = factors[2 * LEFT + RIGHT + j * 32 + at.lane];
    mma(v, aw_rest, d.x, d.y), mma(v, ds_rest, u.x, u.y);
    mma(v, aw_first, d.z, d.w), mma(v, ds_first, u.z, u.w);
    mma(v, aw_first, d.x, d.y), mma(v, ds_first, u.x, u.y);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int half = e >> 1;
      float moved = x.r[half] * v[e] - factor[half] * (x.value(half, j, e & 1) - x.mean[half]);
      moved = x.kept(half, j, e & 1) ? moved : 0.0f;
      acc[j][e] += moved;
      change[e & 1] += one[half] * moved;
    }
    symbol_1[2 * j * THREADS] += change[0], symbol_1[(2 * j + 1) * THREADS] += change[1];
  }
}

// the factors of an example, from device to shared memory
__device__ __forceinline__ void fetch_factors(uint4* to, const uint4* from) {
#pragma unroll
  for (int i = threadIdx.x; i < FACTORS; i += THREADS) copy_16(to + i, from + i);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    backward_table(const uint4* table, const uint4* all_factors, const unsigned* words,
                   const int* used, const unsigned* seeds, const float* mu, const float* d_kept,
                   const float* d_total, const int* sizes, float* d_position, float* d_symbol) {
  int m = sizes[0], T = sizes[1], W = sizes[2], n = used[blockIdx.x];
  Place at;
  Run run = run_of(seeds);
  int t0 = (blockIdx.y * WARPS + at.warp) * TILE;
  uint4* rows = memory + at.warp * 2 * TILE * ROW;  // [symbol, position]
  uint4* two_factors = memory + WARPS * 2 * TILE * ROW;  // of this example and of the next
  // sums of a lane's 16 columns over positions and examples with symbol 1, number by number
  float* symbol_1 = reinterpret_cast<float*>(two_factors + 2 * FACTORS) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < 16; i++) symbol_1[i * THREADS] = 0.0f;
  const uint4* mine_from = OWN(table, 2 * T * ROW);
  for (int item = at.lane; item < 2 * TILE * ROW; item += 32) {
    int row = item / ROW, part = item % ROW, t = t0 + row % TILE;
    t = t < T ? t : T - 1;  // past the end: any row, its weight is 0
    rows[row * ROW + (part ^ swapped(row))] =
        mine_from[(static_cast<long long>(row / TILE) * T + t) * ROW + part];
  }
  float acc[8][4];
  clear(acc);
  const uint4* own_factors = OWN(all_factors, static_cast<long long>(m) * FACTORS);
  if (n) fetch_factors(two_factors, own_factors);
  commit();
  for (int example = 0; example < n; example++) {
    long long place = static_cast<long long>(blockIdx.x) * m + example;
    uint4* factors = two_factors + (example & 1) * FACTORS;
    if (example + 1 < n)
      fetch_factors(two_factors + (~example & 1) * FACTORS,
                    own_factors + static_cast<long long>(example + 1) * FACTORS);
    commit();
    wait<1>();
    __syncthreads();
    if (t0 < T) {
      learn_from(acc, symbol_1, factors, rows, words[place * W + t0 / 32] >> (t0 % 32), t0, T,
                 example, run, Slopes(d_kept, d_total, mu, place, at), at);
    }
    __syncthreads();
  }
  float* mine = OWN(d_position, D * T);
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int t = t0 + at.group + 8 * (e >> 1), column = 8 * j + 2 * at.quad + (e & 1);
      if (t < T) mine[column * T + t] = acc[j][e];
    }
  __syncthreads();
  float* sums = reinterpret_cast<float*>(memory);  // [warp, column]; nobody reads rows any more
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float sum = over_groups(symbol_1[(2 * j + e) * THREADS]);
      if (at.group == 0) sums[at.warp * D + 8 * j + 2 * at.quad + e] = sum;
    }
  __syncthreads();
  if (threadIdx.x < D) {
    float sum = 0.0f;
    for (int i = 0; i < WARPS; i++) sum += sums[i * D + threadIdx.x];
    d_symbol[(static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y) * D + threadIdx.x] = sum;
  }
}

// Kept or not (1 or 0), for each example: columns of [CLS], of what the attention and of what the
// MLP add, then the heads' weights on [CLS], which is position T. In XLA every number made all of
// its Philox call again, and compiling that took most of a program's time.
constexpr int SINGLE = 3 * D + H;
extern "C" __global__ void single_masks(const unsigned* seeds, const int* sizes, float* kept) {
  int m = sizes[0], T = sizes[1];
  Place at;
  int example = blockIdx.y * WARPS + at.warp, which = at.lane / 4;
  if (example >= m || at.lane >= 20) return;
  Run run = run_of(seeds);
  float* mine = kept + (static_cast<long long>(blockIdx.x) * m + example) * SINGLE;
  if (which < 3) {
    unsigned place = which ? which - 1 : T, kind = which ? OUTPUT : EMBEDDING;
    uint4 w = philox(make_uint4(place, example, run.step, kind | (at.quad << 8)), run.key0,
                     run.key1);
    unsigned below = which ? threshold(w, OUTPUT_WHOLE, OUTPUT_PART)
                           : threshold(w, EMBEDDING_WHOLE, EMBEDDING_PART);
    unsigned words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      unsigned bits = dropped(words[i], below);
#pragma unroll
      for (int e = 0; e < 4; e++)
        mine[which * D + 16 * i + 8 * (e >> 1) + 2 * at.quad + (e & 1)] = !is_dropped(bits, e);
    }
  } else {
    unsigned group = at.lane - 12, last = ATTENTION | (T % 8 / 2 << 8) | (group << 10);
    uint4 w = philox(make_uint4(T / TILE, example, run.step, last), run.key0, run.key1);
    unsigned below = threshold(w, ATTENTION_WHOLE, ATTENTION_PART);
    unsigned bits = dropped(T % TILE < 8 ? w.x : w.y, below);
#pragma unroll
    for (int i = 0; i < 2; i++) mine[3 * D + group + 8 * i] = !is_dropped(bits, 2 * i + T % 2);
  }
}
