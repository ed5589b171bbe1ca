// The entries into the arithmetic of this directory; see myops/isa.h. It is also compiled for a set
// that other ops do not use.
#pragma once

#include "myops/context.h"
#include "myops/isa.h"

namespace myops::deform {

// Weights that do not change, packed once.
MYOPS_FOR_EACH_ISA(Prepared prepare_int8(const PrepareContext& context))
MYOPS_FOR_EACH_ISA(void forward_int8(KernelContext& context))
namespace avx512_vnni {
Prepared prepare_int8(const PrepareContext& context);
void forward_int8(KernelContext& context);
}  // namespace avx512_vnni

}  // namespace myops::deform
