// clang-format off: shared code comes before the instruction set is switched on
#include "../conv_shape.h"
#include "myops/isa/avx512.h"
// clang-format on
#ifdef MYOPS_ISA
#include "../backward.h"
#include "../channel_sums.h"
#include "../double_backward.h"
#include "../forward.h"
#endif
#include "myops/isa/end.h"
