// The loops of capax.training.recurrent.cells: all positions of 32 examples of one model by one
// block of threads, the weights and the states in shared memory. A thread has one hidden unit, all
// its gates, and EACH examples. Macros: LSTM or GRU, HIDDEN, and KEEP where the way back follows.
constexpr int N = HIDDEN, ROWS = 32, EACH = 4, THREADS = N * (ROWS / EACH);
#ifdef LSTM
constexpr int GATES = 4;
#else
constexpr int GATES = 3;
#endif
constexpr int WIDE = GATES * N;

extern __shared__ float memory[];

__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

struct Place {
  int j = threadIdx.x % N;             // hidden unit
  int first = threadIdx.x / N * EACH;  // of the block's examples
  int row = blockIdx.x * ROWS + first;
  int T, m;
  __device__ explicit Place(const int* sizes) : T(sizes[0]), m(sizes[1]) {}
  __device__ bool has(int i) const { return row + i < m; }
  // where the numbers of example i at position t begin, `each` of them per example
  __device__ long long at(int t, int i, int each) const {
    return ((static_cast<long long>(blockIdx.y) * T + t) * m + row + i) * each;
  }
};

// u[g][i] += sum_k h[first + i][k] w[k][g N + j]
__device__ __forceinline__ void meet_weights(float (&u)[GATES][EACH], const float* h,
                                             const float* w, const Place& p) {
#pragma unroll 2
  for (int k = 0; k < N; k += 4) {
    float4 x[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      x[i] = *reinterpret_cast<const float4*>(h + (p.first + i) * N + k);
#pragma unroll
    for (int g = 0; g < GATES; ++g) {
      const float* from = w + k * WIDE + g * N + p.j;
      float w0 = from[0], w1 = from[WIDE], w2 = from[2 * WIDE], w3 = from[3 * WIDE];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        float sum = fmaf(x[i].x, w0, u[g][i]);
        sum = fmaf(x[i].y, w1, sum), sum = fmaf(x[i].z, w2, sum);
        u[g][i] = fmaf(x[i].w, w3, sum);
      }
    }
  }
}

#ifdef KEEP
#define RESULTS float *last, float *rows, float *gates, float *extras
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
  float offset[GATES], state[EACH] = {}, now[EACH] = {};  // state: c of an LSTM, h of a GRU
#pragma unroll
  for (int g = 0; g < GATES; ++g) offset[g] = b[blockIdx.y * WIDE + g * N + p.j];
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
      bit[i] = p.has(i) ? bits[p.at(t, i, 1)] : 0.f;
#pragma unroll
      for (int g = 0; g < GATES; ++g) u[g][i] = offset[g];
    }
    meet_weights(u, from, w, p);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#ifdef KEEP
      if (p.has(i)) {  // the state it comes with, and which of the table's rows it takes
        float* row = rows + p.at(t, i, N + 2);
        row[p.j] = now[i];
        if (p.j < 2) row[N + p.j] = p.j ? bit[i] : 1.f - bit[i];
      }
#endif
#ifdef LSTM
      float in = sigmoid(fmaf(bit[i], step[0], low[0]) + u[0][i]);
      float forget = sigmoid(fmaf(bit[i], step[1], low[1]) + u[1][i]);
      float value = tanhf(fmaf(bit[i], step[2], low[2]) + u[2][i]);
      float out = sigmoid(fmaf(bit[i], step[3], low[3]) + u[3][i]);
      state[i] = fmaf(forget, state[i], in * value);
      now[i] = out * tanhf(state[i]);
#ifdef KEEP
      float opened[GATES] = {in, forget, value, out}, extra = state[i];
#endif
#else
      float reset = sigmoid(fmaf(bit[i], step[0], low[0]) + u[0][i]);
      float update = sigmoid(fmaf(bit[i], step[1], low[1]) + u[1][i]);
      float fresh = tanhf(fmaf(bit[i], step[2], low[2]) + reset * u[2][i]);
      state[i] = now[i] = fmaf(update, state[i] - fresh, fresh);
#ifdef KEEP
      float opened[GATES] = {reset, update, fresh}, extra = u[2][i];
#endif
#endif
      to[(p.first + i) * N + p.j] = now[i];
#ifdef KEEP
      if (p.has(i)) {
        extras[p.at(t, i, N) + p.j] = extra;
#pragma unroll
        for (int g = 0; g < GATES; ++g) gates[p.at(t, i, WIDE) + g * N + p.j] = opened[g];
      }
#endif
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (p.has(i)) last[(static_cast<long long>(blockIdx.y) * p.m + p.row + i) * N + p.j] = now[i];
}

#ifdef KEEP
#ifdef LSTM
#define SLOPES float* du  // da of every gate is its du
#else
#define SLOPES float *du, float *da
#endif

constexpr int PARTS = 8, LONG = WIDE / PARTS, PITCH = ROWS + 4;

// What one position kept for a thread's examples.
struct Seen {
  float open[EACH][GATES], extra[EACH], before[EACH];  // before: c of an LSTM, h of a GRU
  __device__ __forceinline__ void read(const Place& p, int t, const float* rows, const float* gates,
                                       const float* extras) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      bool has = p.has(i) && t >= 0;
#pragma unroll
      for (int g = 0; g < GATES; ++g)
        open[i][g] = has ? gates[p.at(t, i, WIDE) + g * N + p.j] : 0.f;
      extra[i] = has ? extras[p.at(t, i, N) + p.j] : 0.f;
#ifdef LSTM
      before[i] = has && t ? extras[p.at(t - 1, i, N) + p.j] : 0.f;
#else
      before[i] = has ? rows[p.at(t, i, N + 2) + p.j] : 0.f;
#endif
    }
  }
};

// parts[c][row][k] = the c-th eighth of sum_g d[g][row] w[g][k]: a thread has 8 rows and 4 k, which
// reads three times less from shared memory than one k would; d has its gates first.
__device__ __forceinline__ void meet_weights_back(float* parts, const float* d, const float* w) {
  int k = threadIdx.x % (N / 4) * 4, rest = threadIdx.x / (N / 4);
  int row = rest % 4 * 8, part = rest / 4;
  float4 sums[8] = {};
#pragma unroll 2
  for (int g = part * LONG; g < (part + 1) * LONG; ++g) {
    float4 v = *reinterpret_cast<const float4*>(w + g * N + k);
    float4 x0 = *reinterpret_cast<const float4*>(d + g * PITCH + row);
    float4 x1 = *reinterpret_cast<const float4*>(d + g * PITCH + row + 4);
    float x[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[i].x = fmaf(x[i], v.x, sums[i].x), sums[i].y = fmaf(x[i], v.y, sums[i].y);
      sums[i].z = fmaf(x[i], v.z, sums[i].z), sums[i].w = fmaf(x[i], v.w, sums[i].w);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    *reinterpret_cast<float4*>(parts + (part * ROWS + row + i) * N + k) = sums[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    back(const float* dlast, const float* rows, const float* gates, const float* extras,
         const float* W, const int* sizes, SLOPES) {
  Place p(sizes);
  // W with its gates first; du of this position; dh in parts
  float *w = memory, *d = memory + N * WIDE, *parts = d + WIDE * PITCH;
  for (int i = threadIdx.x; i < N * WIDE; i += THREADS)
    w[i % WIDE * N + i / WIDE] = W[static_cast<long long>(blockIdx.y) * N * WIDE + i];
  float dh[EACH];
#ifdef LSTM
  float dc[EACH] = {};
#endif
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    long long place = (static_cast<long long>(blockIdx.y) * p.m + p.row + i) * N + p.j;
    dh[i] = p.has(i) ? dlast[place] : 0.f;
  }
  Seen here;
  here.read(p, p.T - 1, rows, gates, extras);
  for (int t = p.T - 1; t >= 0; --t) {
    float slope[GATES][EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const float* open = here.open[i];
#ifdef LSTM
      float seen = tanhf(here.extra[i]), in = open[0], forget = open[1], value = open[2];
      float out = open[3];
      dc[i] += dh[i] * out * (1.f - seen * seen);
      slope[0][i] = dc[i] * value * in * (1.f - in);
      slope[1][i] = dc[i] * here.before[i] * forget * (1.f - forget);
      slope[2][i] = dc[i] * in * (1.f - value * value);
      slope[3][i] = dh[i] * seen * out * (1.f - out);
      dc[i] *= forget, dh[i] = 0.f;
#else
      float reset = open[0], update = open[1], fresh = open[2];
      float da_n = dh[i] * (1.f - update) * (1.f - fresh * fresh);
      slope[1][i] = dh[i] * (here.before[i] - fresh) * update * (1.f - update);
      slope[0][i] = da_n * here.extra[i] * reset * (1.f - reset);
      slope[2][i] = da_n * reset;
      dh[i] *= update;
      if (p.has(i)) da[p.at(t, i, N) + p.j] = da_n;
#endif
    }
#pragma unroll
    for (int g = 0; g < GATES; ++g) {
      *reinterpret_cast<float4*>(d + (g * N + p.j) * PITCH + p.first) =
          make_float4(slope[g][0], slope[g][1], slope[g][2], slope[g][3]);
#pragma unroll
      for (int i = 0; i < EACH; ++i)
        if (p.has(i)) du[p.at(t, i, WIDE) + g * N + p.j] = slope[g][i];
    }
    here.read(p, t - 1, rows, gates, extras);  // on its way while the products are done
    __syncthreads();
    meet_weights_back(parts, d, w);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; ++i)
#pragma unroll
      for (int part = 0; part < PARTS; ++part)
        dh[i] += parts[(part * ROWS + p.first + i) * N + p.j];
  }
}
#endif
