// clang-format off: shared code comes before the instruction set is switched on
#include "myops/op.h"
#include "myops/isa/portable.h"
// clang-format on
#ifdef MYOPS_ISA
#include "../forward.h"
#endif
#include "myops/isa/end.h"
