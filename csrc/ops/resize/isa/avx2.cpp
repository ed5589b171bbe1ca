// clang-format off: shared code comes before the instruction set is switched on
#include "../spec/geometry.h"
#include "../plan/table_cache.h"
#include "../plan/tap_table.h"
#include "myops/isa/avx2.h"
// clang-format on
#ifdef MYOPS_ISA
#include "both.h"
#endif
#include "myops/isa/end.h"
