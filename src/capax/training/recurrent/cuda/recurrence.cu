// The loops of capax.training.recurrent.cells: all positions of 32 examples of one model by one
// block of threads, the weights and the states in shared memory. A thread has one hidden unit, all
// its gates, and EACH examples. Macros: LSTM or GRU, HIDDEN, and KEEP where the way back follows.
constexpr int N = HIDDEN, ROWS = 32, EACH = 8, THREADS = N * (ROWS / EACH);
#ifdef LSTM
constexpr int GATES = 4;
#else
constexpr int GATES = 3;
#endif
constexpr int WIDE = GATES * N;

extern __shared__ float memory[];

__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

struct Place {
  int j = threadIdx.x % N;            // hidden unit
  int first = threadIdx.x / N * EACH;  // of the block's examples
  int row = blockIdx.x * ROWS + first;
  int T, m;
  __device__ explicit Place(const int* sizes) : T(sizes[0]), m(sizes[1]) {}
  __device__ bool has(int i) const { return row + i < m; }
  // where the numbers of example i at position t begin, `each` of them per example
  __device__ long long at(int t, int i, int each) const {
    return ((static_cast<long long>(blockIdx.y) * T + t) * m + row + i) * each + j;
  }
};

// sums[g][i] += sum_k x[first + i][k] w[k][g N + j], k < LENGTH
template <int OUT, int LENGTH, int PITCH>
__device__ __forceinline__ void multiply(float (&sums)[OUT][EACH], const float* x, const float* w,
                                         const Place& p) {
#pragma unroll 2
  for (int k = 0; k < LENGTH; k += 4) {
    float4 y[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      y[i] = *reinterpret_cast<const float4*>(x + (p.first + i) * LENGTH + k);
#pragma unroll
    for (int g = 0; g < OUT; ++g) {
      const float* from = w + k * PITCH + g * N + p.j;
      float w0 = from[0], w1 = from[PITCH], w2 = from[2 * PITCH], w3 = from[3 * PITCH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        float sum = fmaf(y[i].x, w0, sums[g][i]);
        sum = fmaf(y[i].y, w1, sum), sum = fmaf(y[i].z, w2, sum);
        sums[g][i] = fmaf(y[i].w, w3, sum);
      }
    }
  }
}

#ifdef KEEP
#define RESULTS float *hs, float *gates, float *extras
#else
#define RESULTS float* last
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    ahead(const float* base, const float* change, const float* bits, const float* W, const float* b,
          const int* sizes, RESULTS) {
  Place p(sizes);
  float *w = memory, *h = memory + N * WIDE;  // h twice: of this position and of the next
  for (int i = threadIdx.x; i < N * WIDE; i += THREADS)
    w[i] = W[static_cast<long long>(blockIdx.y) * N * WIDE + i];
  for (int i = threadIdx.x; i < ROWS * N; i += THREADS) h[i] = 0.f;
  float offset[GATES], state[EACH], now[EACH];  // state: c of an LSTM, h of a GRU
  for (int g = 0; g < GATES; ++g) offset[g] = b[blockIdx.y * WIDE + g * N + p.j];
#pragma unroll
  for (int i = 0; i < EACH; ++i) state[i] = now[i] = 0.f;
  __syncthreads();
  for (int t = 0; t < p.T; ++t) {
    const float* from = h + (t & 1) * ROWS * N;
    float* to = h + (~t & 1) * ROWS * N;
    long long entry = (static_cast<long long>(blockIdx.y) * p.T + t) * WIDE + p.j;
    float low[GATES], step[GATES], bit[EACH], u[GATES][EACH];
#pragma unroll
    for (int g = 0; g < GATES; ++g) low[g] = base[entry + g * N], step[g] = change[entry + g * N];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      long long place = (static_cast<long long>(blockIdx.y) * p.T + t) * p.m + p.row + i;
      bit[i] = p.has(i) ? bits[place] : 0.f;
#pragma unroll
      for (int g = 0; g < GATES; ++g) u[g][i] = offset[g];
    }
    multiply<GATES, N, WIDE>(u, from, w, p);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#ifdef LSTM
      float in = sigmoid(fmaf(bit[i], step[0], low[0]) + u[0][i]);
      float forget = sigmoid(fmaf(bit[i], step[1], low[1]) + u[1][i]);
      float value = tanhf(fmaf(bit[i], step[2], low[2]) + u[2][i]);
      float out = sigmoid(fmaf(bit[i], step[3], low[3]) + u[3][i]);
      state[i] = fmaf(forget, state[i], in * value);
      now[i] = out * tanhf(state[i]);
      float opened[GATES] = {in, forget, value, out}, extra = state[i];
#else
      float reset = sigmoid(fmaf(bit[i], step[0], low[0]) + u[0][i]);
      float update = sigmoid(fmaf(bit[i], step[1], low[1]) + u[1][i]);
      float fresh = tanhf(fmaf(bit[i], step[2], low[2]) + reset * u[2][i]);
      state[i] = now[i] = fmaf(update, state[i] - fresh, fresh);
      float opened[GATES] = {reset, update, fresh}, extra = u[2][i];
#endif
      to[(p.first + i) * N + p.j] = now[i];
#ifdef KEEP
      if (p.has(i)) {
        hs[p.at(t, i, N)] = now[i], extras[p.at(t, i, N)] = extra;
#pragma unroll
        for (int g = 0; g < GATES; ++g) gates[p.at(t, i, WIDE) + g * N] = opened[g];
      }
#else
      (void)opened, (void)extra;
#endif
    }
    __syncthreads();
  }
#ifndef KEEP
  for (int i = 0; i < EACH; ++i)
    if (p.has(i)) last[(static_cast<long long>(blockIdx.y) * p.m + p.row + i) * N + p.j] = now[i];
#endif
}

#ifdef LSTM
#define SLOPES float* da  // du of every gate is its da
#else
#define SLOPES float *da, float *du
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    back(const float* dlast, const float* hs, const float* gates, const float* extras,
         const float* W, const int* sizes, SLOPES) {
  Place p(sizes);
  float *w = memory, *d = memory + N * WIDE;  // W with its gates first; du of this position
  for (int i = threadIdx.x; i < N * WIDE; i += THREADS)
    w[i % WIDE * N + i / WIDE] = W[static_cast<long long>(blockIdx.y) * N * WIDE + i];
  float dh[1][EACH];
#ifdef LSTM
  float dc[EACH] = {};
#endif
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    long long place = (static_cast<long long>(blockIdx.y) * p.m + p.row + i) * N + p.j;
    dh[0][i] = p.has(i) ? dlast[place] : 0.f;
  }
  for (int t = p.T - 1; t >= 0; --t) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      float open[GATES] = {}, extra = 0.f, before = 0.f, slope[GATES], last_u;
      if (p.has(i)) {
#pragma unroll
        for (int g = 0; g < GATES; ++g) open[g] = gates[p.at(t, i, WIDE) + g * N];
        extra = extras[p.at(t, i, N)];
#ifdef LSTM
        before = t ? extras[p.at(t - 1, i, N)] : 0.f;
#else
        before = t ? hs[p.at(t - 1, i, N)] : 0.f;
#endif
      }
#ifdef LSTM
      float seen = tanhf(extra), in = open[0], forget = open[1], value = open[2], out = open[3];
      dc[i] += dh[0][i] * out * (1.f - seen * seen);
      slope[0] = dc[i] * value * in * (1.f - in);
      slope[1] = dc[i] * before * forget * (1.f - forget);
      slope[2] = dc[i] * in * (1.f - value * value);
      slope[3] = dh[0][i] * seen * out * (1.f - out);
      dc[i] *= forget, dh[0][i] = 0.f, last_u = slope[3];
#else
      float reset = open[0], update = open[1], fresh = open[2];
      slope[2] = dh[0][i] * (1.f - update) * (1.f - fresh * fresh);
      slope[1] = dh[0][i] * (before - fresh) * update * (1.f - update);
      slope[0] = slope[2] * extra * reset * (1.f - reset);
      dh[0][i] *= update, last_u = slope[2] * reset;
#endif
#pragma unroll
      for (int g = 0; g < GATES; ++g)
        d[(p.first + i) * WIDE + g * N + p.j] = g == GATES - 1 ? last_u : slope[g];
      if (p.has(i)) {
#pragma unroll
        for (int g = 0; g < GATES; ++g) da[p.at(t, i, WIDE) + g * N] = slope[g];
#ifndef LSTM
        du[p.at(t, i, N)] = last_u;
#endif
      }
    }
    __syncthreads();
    multiply<1, WIDE, N>(dh, d, w, p);
    __syncthreads();
  }
}
