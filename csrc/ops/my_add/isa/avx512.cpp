// Memory, not arithmetic, bounds my_add, and 512-bit arithmetic lowers the clock of many CPUs for
// the code around it: calls with 1000 elements took 0.5 us more, those with 1e5 and more as long.
#include "../kernels.h"

#if defined(__x86_64__)
namespace myops::my_add::avx512 {

void forward(KernelContext& context) {
  context.report("avx2", "instruction set", "memory, not arithmetic, bounds my_add");
  avx2::forward(context);
}

}  // namespace myops::my_add::avx512
#endif
