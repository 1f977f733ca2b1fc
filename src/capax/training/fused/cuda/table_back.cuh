// Back through the table: positions learn; gradients of W' and of E W'.
#pragma once
#include "adam.cuh"
#include "table.cuh"

__device__ __forceinline__ void fetch_gradients(Tile<PITCH_D> to, const float* sums, int row0) {
  for (int item = threadIdx.x; item < BLOCK * C / 4; item += THREADS) {
    int row = item / (C / 4), column = item % (C / 4) * 4;
    copy_16(&to(row, column), sums + (row0 + row) * C + column, true);
  }
}

// G = D^T X of the warp's eight positions, for both symbols, over 64 examples
__device__ __forceinline__ void over_examples(float (&G)[2][5][4], Tile<PITCH_D> sums,
                                              const Vectors& v, const Place& at) {
  ByColumn<PITCH_D> factor(sums, at, 0);
  int half = at.warp >> 2;
  unsigned mask = 1u << (8 * (at.warp & 3) + at.group);
#pragma unroll 2
  for (int k = 0; k < BLOCK; k += 8) {
    bool set[2] = {(v.words[k + at.quad][half] & mask) != 0,
                   (v.words[k + at.quad + 4][half] & mask) != 0};
    unsigned one[2] = {set[0] ? ONE : 0u, set[1] ? ONE : 0u},
             zero[2] = {set[0] ? 0u : ONE, set[1] ? 0u : ONE};
#pragma unroll
    for (int i0 = 0; i0 < 5; i0 += 2) {
      Left left[2];
#pragma unroll
      for (int i = i0; i < 5 && i < i0 + 2; i++) left[i - i0].read(factor, 16 * i, k, 0);
#pragma unroll
      for (int i = i0; i < 5 && i < i0 + 2; i++)
        mma(G[0][i], left[i - i0].rest, zero[0], zero[1]),
            mma(G[1][i], left[i - i0].rest, one[0], one[1]);
#pragma unroll
      for (int i = i0; i < 5 && i < i0 + 2; i++)
        mma(G[0][i], left[i - i0].first, zero[0], zero[1]),
            mma(G[1][i], left[i - i0].first, one[0], one[1]);
    }
  }
}

// dP = c + sum_c kappa[c,t] C(P_t + E_c); the rows C and C + 1 of `rows` hold kappa
__device__ __forceinline__ void add_deviations(float (&c)[4][4], Square rows, Square P,
                                               const Vectors& v, const Place& at) {
#pragma unroll
  for (int n = 0; n < 4; n++) {
    int t = COLUMN(n, 0);
    float2 kappa0 = rows.pair(C, t), kappa1 = rows.pair(C + 1, t), mean = pair_in(v.mean, t >> 1);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int d = ROW(2 * i);
      float2 u = P.pair(d, t);
      u.x -= mean.x, u.y -= mean.y;
      c[n][2 * i] += kappa0.x * (u.x + v.E[0][d]) + kappa1.x * (u.x + v.E[1][d]);
      c[n][2 * i + 1] += kappa0.y * (u.y + v.E[0][d]) + kappa1.y * (u.y + v.E[1][d]);
    }
  }
}

// dz, and kappa below it, as the two products that follow read them
__device__ __forceinline__ void write_rows(Square rows, const float (&y)[5][4],
                                           const float (&moved)[2][2], float (&sum_kappa)[2],
                                           const Vectors& v, const Place& at) {
#pragma unroll
  for (int s = 0; s < 2; s++) {
    float kappa[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float r = v.r[s][at.warp * 8 + 2 * at.quad + e];
      kappa[e] = -r * r / D * over_groups(moved[s][e]);
    }
    sum_kappa[s] += kappa[0] + kappa[1];
    if (at.group == 0)
      rows.pair(C + s, at.warp * 8 + 2 * at.quad) = make_float2(kappa[0], kappa[1]);
  }
#pragma unroll
  for (int k = 0; k < 5; k++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      rows.pair(k * H + at.group + 8 * i, at.warp * 8 + 2 * at.quad) =
          make_float2(y[k][2 * i], y[k][2 * i + 1]);
}

// dP, and dW' with the kappa-weighted sums of P as two rows more, all in `rows`; dE W' in v.dEY
__device__ __forceinline__ void through_table(Square rows, Vectors& v, Square W, const float* sums,
                                              const Leaves& p, const Examples& x, const Place& at) {
  Tile<PITCH_D> DS{2 * SQUARE};
  float dW[6][4], sum_kappa[2] = {};
  clear(dW);
  for (int i = at.lane; i < 2 * C; i += 32) v.dEY_parts[at.warp][0][i] = 0.0f;
  fetch_positions(Square{0}, p.position.value, v.first(), x.T);
  if (x.m <= BLOCK) fetch_gradients(DS, sums, 0);
  commit();
  for (int t0 = v.first(), turn = 0; t0 < v.last(); t0 += CHUNK, turn ^= 1) {
    Square P{turn * SQUARE}, next{(turn ^ 1) * SQUARE};
    wait<0>();
    if (x.m <= BLOCK) fetch_words<1>(v, x, 0, t0);
    __syncthreads();
    if (t0 + CHUNK < v.last()) fetch_positions(next, p.position.value, t0 + CHUNK, x.T);
    commit();
    if (t0 + 32 * (threadIdx.x & 1) < x.T) ask_columns(p.position, x.T, t0);
    if (PART == 0 && t0 + CHUNK >= x.T)
      ask_columns(p.W_V, D, 0), ask_columns(p.W_K, D, 0), ask_columns(p.W_Q, D, 0);
    deviations(v, P, at);
    float y[5][4], G[2][5][4];
    clear(G[0]), clear(G[1]);
    clear(y);
    if (t0 + at.warp * 8 < x.T) table_product(y, W, P, at);
    for (int row0 = 0; row0 < x.m; row0 += BLOCK) {
      if (x.m > BLOCK) {
        __syncthreads();
        fetch_gradients(DS, sums, row0);
        fetch_words<1>(v, x, row0, t0);
        commit(), wait<0>();
        __syncthreads();
      }
      if (t0 + at.warp * 8 < x.T) over_examples(G, DS, v, at);
    }
    float moved[2][2] = {};  // [symbol][position]
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int h = at.group + 8 * i;
      float mu = v.mu[h], dEY[2][5] = {};
#pragma unroll
      for (int e = 0; e < 2; e++) {
        int t = at.warp * 8 + 2 * at.quad + e, place = 2 * i + e;
        float dz[5] = {};
#pragma unroll
        for (int s = 0; s < 2; s++) {
          float r = v.r[s][t], g = r * (y[4][place] + v.EY[s][D + h]);
          float w = t0 + t < x.T ? expf(g - mu) : 0.0f, G_w = G[s][4][place], dw = G_w;
#pragma unroll
          for (int k = 0; k < K; k++)
            dw += G[s][k][place] * (r * (y[k][place] + v.EY[s][k * H + h]));
          moved[s][e] += w * (dw * (1.0f + g) - G_w);
          G[s][4][place] = dw;
#pragma unroll
          for (int k = 0; k < 5; k++) {
            float one = r * w * G[s][k][place];
            dEY[s][k] += one, dz[k] += one;
          }
        }
#pragma unroll
        for (int k = 0; k < 5; k++) y[k][place] = dz[k];
      }
#pragma unroll
      for (int s = 0; s < 2; s++)
#pragma unroll
        for (int k = 0; k < 5; k++) {
          float sum = over_quad(dEY[s][k]);
          if (at.quad == 0) v.dEY_parts[at.warp][s][k * H + h] += sum;
        }
    }
    write_rows(rows, y, moved, sum_kappa, v, at);
    __syncthreads();
    float c[4][4];
    clear(c);
    multiply<C, 1, 4>(c, ByColumn<64>(W, at, at.row0), ByColumn<64>(rows, at, at.column0));
    add_deviations(c, rows, P, v, at);
    // 48 rows and 16 columns per warp; the last 14 rows are none of `rows`, and not used
    multiply<CHUNK, 3, 2>(dW, ByRow<64>(rows, at, 48 * (at.warp >> 2)),
                          ByRow<64>(P, at, 16 * (at.warp & 3)));
    __syncthreads();
    stage(rows, at, [&](int n, int e) { return c[n][e]; });
    learn_staged(v, p.position, rows, at, t0, x.T, x.T - t0);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 6; i++)
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      int j = 48 * (at.warp >> 2) + 16 * (i / 2) + at.group + 4 * e,
          d = 16 * (at.warp & 3) + 8 * (i & 1) + 2 * at.quad;
      if (j < C + 2) rows.pair(j, d) = make_float2(dW[i][e], dW[i][e + 1]);
    }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float sum = over_quad(sum_kappa[i]);
    if (at.lane == 0) v.largest[at.warp][i] = sum;
  }
  __syncthreads();
  for (int item = threadIdx.x; item < 2 * C + 2; item += THREADS) {
    float sum = 0.0f;
    for (int i = 0; i < WARPS; i++)
      sum += item < 2 * C ? v.dEY_parts[i][0][item] : v.largest[i][item - 2 * C];
    if (item < 2 * C)
      v.dEY[0][item] = sum;
    else
      v.sum_kappa[item - 2 * C] = sum;
  }
  __syncthreads();
}
