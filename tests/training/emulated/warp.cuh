// Stands in for cuda/warp.cuh: the same functions on a CPU. Every thread of a block is a fiber; what
// lanes do together goes through a buffer of their warp.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include <ucontext.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__
struct uint4 {
  unsigned x, y, z, w;
};
struct float2 {
  float x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline float2 make_float2(float x, float y) {
  return {x, y};
}
struct Three {
  int x, y, z;
};
extern Three threadIdx, blockIdx, gridDim;
extern "C" void yield_fiber();

template <class To, class From>
inline To cast(From x) {
  To y;
  static_assert(sizeof x == sizeof y, "same size");
  std::memcpy(&y, &x, sizeof x);
  return y;
}
inline float __uint_as_float(unsigned x) {
  return cast<float>(x);
}
inline float __int_as_float(unsigned x) {
  return cast<float>(x);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<uint64_t>(a) * b >> 32;
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
using std::fmaxf;

struct Meeting {  // of `size` fibers
  int size, count = 0, turn = 0;
  uint64_t seen[2][32][4];
  int wait() {
    int mine = turn;
    if (++count == size) count = 0, turn++;
    while (turn == mine) yield_fiber();
    return mine & 1;
  }
};
extern Meeting block_meeting, warp_meetings[8];
inline void __syncthreads() {
  block_meeting.wait();
}
template <class T>
inline T (*exchanged(T mine))[32] {  // the values of all 32 lanes
  static thread_local T all[32];
  static_assert(sizeof(T) <= 32, "fits");
  Meeting& m = warp_meetings[threadIdx.x >> 5];
  std::memcpy(m.seen[m.turn & 1][threadIdx.x & 31], &mine, sizeof mine);
  int at = m.wait();
  for (int i = 0; i < 32; i++) std::memcpy(&all[i], m.seen[at][i], sizeof(T));
  return &all;
}

constexpr unsigned ALL = 0xffffffffu;
inline float shuffled(float x, int from) {
  return (*exchanged(x))[from];
}
inline float beside(float x, int distance) {
  return (*exchanged(x))[(threadIdx.x & 31) ^ distance];
}
inline bool any_lane(bool x) {
  bool found = false;
  auto& all = *exchanged(x);
  for (int i = 0; i < 32; i++) found |= all[i];
  return found;
}
inline float half_of(unsigned x, int which) {
  return __uint_as_float(which ? x & 0xffff0000u : x << 16);
}
struct Factors {
  unsigned a[4], b[2];
};
inline void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  auto& all = *exchanged(Factors{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  int group = (threadIdx.x & 31) >> 2, quad = threadIdx.x & 3;
  for (int e = 0; e < 4; e++) {
    int row = group + 8 * (e >> 1), column = 2 * quad + (e & 1);
    double sum = 0;
    for (int k = 0; k < 16; k++) {
      int pair = (k % 8) / 2;
      unsigned left = all[4 * (row % 8) + pair].a[(row >> 3) + 2 * (k >> 3)];
      unsigned right = all[4 * column + pair].b[k >> 3];
      sum += static_cast<double>(half_of(left, k & 1)) * half_of(right, k & 1);
    }
    c[e] += static_cast<float>(sum);
  }
}
inline unsigned transposed(unsigned x) {
  auto& all = *exchanged(x);
  int group = (threadIdx.x & 31) >> 2, quad = threadIdx.x & 3;
  unsigned low = all[4 * (2 * quad) + group / 2], high = all[4 * (2 * quad + 1) + group / 2];
  int shift = 16 * (group & 1);
  return (low >> shift & 0xffffu) | (high >> shift & 0xffffu) << 16;
}
inline unsigned to_bfloat16(float x) {
  unsigned bits = cast<unsigned>(x);
  return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
inline unsigned rounded(float low, float high) {
  return to_bfloat16(low) | to_bfloat16(high) << 16;
}
template <int PART>
inline unsigned spread(unsigned bits) {
  unsigned low = bits >> (PART ? 23 : 7) & 1, high = bits >> (PART ? 31 : 15) & 1;
  return (low ? 0xffffu : 0u) | (high ? 0xffff0000u : 0u);
}
inline void copy_16(void* to, const void* from) {
  std::memcpy(to, from, 16);
}
inline void commit() {}
template <int LEFT>
inline void wait() {}
