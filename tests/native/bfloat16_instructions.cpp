// clang-format off: shared code comes before the instruction set is switched on
#include "bfloat16_instructions.h"
#include "myops/isa/avx512_bf16.h"
// clang-format on
#ifdef MYOPS_ISA
#include "myops/simd_bfloat16.h"

namespace instructions {

using namespace myops::avx512_bf16;

float add_products(uint32_t a, uint32_t b, float sum) {
  using Pairs = Lanes<int32_t, 8>;
  // Each of the lengths has an instruction of its own.
  const Lanes<float, 8> half = {sum, sum, sum, sum, sum, sum, sum, sum};
  const auto sums =
      add_dot(Pairs{} + static_cast<int32_t>(a), Pairs{} + static_cast<int32_t>(b), half);
  return sums[3];
}

myops::BFloat16 rounded(float value) {
  myops::BFloat16 to[4];
  store_rounded(to, Lanes<float, 4>{value, value, value, value});
  return to[2];
}

}  // namespace instructions
#endif
#include "myops/isa/end.h"
