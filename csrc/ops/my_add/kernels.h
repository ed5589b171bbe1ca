// The kernel for every instruction set (see myops/isa.h).
#pragma once

#include "myops/context.h"
#include "myops/isa.h"

namespace myops::my_add {

MYOPS_FOR_EACH_ISA(void forward(KernelContext& context))

}  // namespace myops::my_add
