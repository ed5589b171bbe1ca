// The entries into the arithmetic of this directory; see myops/isa.h.
#pragma once

#include "myops/context.h"
#include "myops/isa.h"

namespace myops::deform {

// constant_weights(), packed once.
MYOPS_FOR_EACH_ISA(Prepared prepare(const PrepareContext& context))
MYOPS_FOR_EACH_ISA(void forward(KernelContext& context))
MYOPS_FOR_EACH_ISA(void backward(KernelContext& context))
MYOPS_FOR_EACH_ISA(void double_backward(KernelContext& context))
MYOPS_FOR_EACH_ISA(void channel_sums(KernelContext& context))
// The forward pass alone is also compiled for a set that other ops do not use, for bfloat16.
namespace avx512_bf16 {
Prepared prepare(const PrepareContext& context);
void forward(KernelContext& context);
}  // namespace avx512_bf16

}  // namespace myops::deform
