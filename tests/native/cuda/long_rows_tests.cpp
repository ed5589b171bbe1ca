// Some threads of the kernels of resize for CUDA that have loops, in rows of more than 2^30
// elements: the index of the next element is no number of 32 bits there.
#include "../lazy_memory.h"
#include "resize/cuda/any_taps.h"
#include "resize/cuda/four_or_more_taps.h"
#include "resize/cuda/one_or_more_taps.h"
#include "resize/cuda/two_or_more_taps.h"

namespace {

using namespace lazy;

using Kernel = void (*)(const PassArguments&, int64_t);

// Two elements become three: the first, the mean of both, the second.
void test(const char* name, Kernel kernel, int64_t inner, bool lanes) {
  const int32_t index[] = {0, 0, 1, 1};
  const float weight[] = {1, 0.5f, 0.5f, 1};
  const TapSpan<int32_t> span[] = {{0, 1, 0, 1}, {1, 2, 0, 1}, {3, 1, 1, 1}};
  const Lazy x_memory(static_cast<size_t>(2 * inner)), y_memory(static_cast<size_t>(3 * inner));
  auto* x = static_cast<uint8_t*>(x_memory.get());
  auto* y = static_cast<uint8_t*>(y_memory.get());
  PassArguments pass{};
  pass.x = x;
  pass.y = y;
  pass.from[0] = 2;
  pass.to[0] = 3;
  pass.length = 3 * inner;
  pass.inner = divisor_of(inner);
  const int64_t threads = (pass.length + 3) / 4;  // four elements each: neighbours, or far apart
  pass.threads = divisor_of(threads);
  pass.outputs = divisor_of(1);
  pass.taps[0] = {2, const_cast<int32_t*>(index), const_cast<float*>(weight),
                  const_cast<TapSpan<int32_t>*>(span)};
  for (const int64_t thread : {int64_t{0}, threads / 3, threads / 2, threads - 2}) {
    for (int64_t e = 0; e < 4; ++e) {
      const int64_t place = lanes ? thread * 4 + e : thread + e * threads;
      x[place % inner] = 20, x[inner + place % inner] = 60;
    }
    kernel(pass, thread);
    for (int64_t e = 0; e < 4; ++e) {
      const int64_t place = lanes ? thread * 4 + e : thread + e * threads;
      if (place >= pass.length) continue;
      const int expected = 20 + 20 * static_cast<int>(place / inner);
      expect(y[place] == expected, str(name, " at ", place, " of ", pass.length, ": got ",
                                       int{y[place]}, ", expected ", expected));
    }
  }
}

}  // namespace

#define MYOPS_TEST_ROWS(name)                                        \
  test(#name "_lanes", name##_lanes<uint8_t, float>, 1 << 29, true); \
  test(#name, name<uint8_t, float>, 700000001, false);

int main() {
  MYOPS_TEST_ROWS(any_taps)
  MYOPS_TEST_ROWS(one_or_more_taps)
  MYOPS_TEST_ROWS(two_or_more_taps)
  MYOPS_TEST_ROWS(four_or_more_taps)
  return finish("tests of long rows");
}
