// What 32 lanes do together. A lane is (group, quad) = (lane / 4, lane % 4). In a 16 x 8 tile C of a
// product it holds rows group and group + 8, columns 2 quad and 2 quad + 1; words of two bfloat16
// numbers hold the lower column in the lower half.
#pragma once
constexpr unsigned ALL = 0xffffffffu;

__device__ __forceinline__ float shuffled(float x, int from) {
  return __shfl_sync(ALL, x, from);
}
__device__ __forceinline__ float beside(float x, int distance) {
  return __shfl_xor_sync(ALL, x, distance);
}
__device__ __forceinline__ bool any_lane(bool x) {
  return __any_sync(ALL, x);
}

// c += A B with bfloat16 factors: A 16 x 16 by rows, B 16 x 8 by columns
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// the transpose of an 8 x 8 matrix of bfloat16 numbers, a row of which is held by four lanes
__device__ __forceinline__ unsigned transposed(unsigned x) {
  unsigned y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// two numbers rounded to bfloat16, the first in the lower half
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// bits 7 and 15 (part 0) or 23 and 31 (part 1) spread over the lower and the upper half
template <int PART>
__device__ __forceinline__ unsigned spread(unsigned bits) {
  unsigned y;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(bits), "n"(PART ? 0xbbaa : 0x9988));
  return y;
}

// 16 bytes from device to shared memory; they are there after `wait` and a barrier
__device__ __forceinline__ void copy_16(void* to, const void* from) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
}
__device__ __forceinline__ void commit() {
  asm volatile("cp.async.commit_group;");
}
template <int LEFT>
__device__ __forceinline__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}
