// clang-format off: shared code comes before the instruction set is switched on
#include "../conv_shape.h"
#include "myops/isa/avx512_bf16.h"
// clang-format on
#ifdef MYOPS_ISA
#include "../forward.h"
#endif
#include "myops/isa/end.h"
