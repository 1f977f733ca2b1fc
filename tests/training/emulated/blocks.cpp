// Runs the kernels of token_sums.cu block after block, each thread a fiber.
#include <vector>

#include "warp.cuh"
#define extern_memory_declared
Three threadIdx, blockIdx, gridDim;
Meeting block_meeting{256}, warp_meetings[8] = {{32}, {32}, {32}, {32}, {32}, {32}, {32}, {32}};
#include "token_sums.cu"
alignas(16) uint4 memory[16384];

static ucontext_t home, fibers[256];
static bool done[256];
static int running;
static void (*job)();
extern "C" void yield_fiber() {
  int me = running;
  swapcontext(&fibers[me], &home);
}
static void body() {
  job();
  done[running] = true;
  swapcontext(&fibers[running], &home);
}
static void run_block() {
  static std::vector<char> stacks(256 * 65536);
  for (int i = 0; i < 256; i++) {
    done[i] = false;
    getcontext(&fibers[i]);
    fibers[i].uc_stack.ss_sp = stacks.data() + i * 65536, fibers[i].uc_stack.ss_size = 65536;
    fibers[i].uc_link = &home;
    makecontext(&fibers[i], body, 0);
  }
  for (int left = 256; left;) {
    left = 0;
    for (int i = 0; i < 256; i++)
      if (!done[i]) {
        running = i, threadIdx = {i, 0, 0};
        swapcontext(&home, &fibers[i]);
        left += !done[i];
      }
  }
}
static void** p;
template <class T>
static T* at(int i) {
  return static_cast<T*>(p[i]);
}
#define F(i) at<float>(i)
#define COMMON at<uint4>(0), F(1), at<unsigned>(2), at<int>(3), at<unsigned>(4)
extern "C" void launch(const char* name, int grid_x, int grid_y, void** arguments) {
  p = arguments;
  if (!std::strcmp(name, "forward"))
    job = [] { forward(COMMON, at<int>(5), F(6), F(7), F(8), F(9)); };
  else if (!std::strcmp(name, "backward_U"))
    job = [] { backward_U(COMMON, F(5), F(6), F(7), F(8), at<int>(9), F(10), at<uint4>(11)); };
  else if (!std::strcmp(name, "single_masks"))
    job = [] { single_masks(at<unsigned>(0), at<int>(1), F(2)); };
  else
    job = [] {
      backward_table(at<uint4>(0), at<uint4>(1), at<unsigned>(2), at<int>(3), at<unsigned>(4), F(5),
                     F(6), F(7), at<int>(8), F(9), F(10));
    };
  gridDim = {grid_x, grid_y, 1};
  for (int x = 0; x < grid_x; x++)
    for (int y = 0; y < grid_y; y++) blockIdx = {x, y, 0}, run_block();
}
