// clang-format off: shared code comes before the instruction set is switched on
#include "../../deform_conv2d/conv_shape.h"
#include "myops/isa/avx512.h"
// clang-format on
#ifdef MYOPS_ISA
#include "../convolve.h"
#endif
#include "myops/isa/end.h"
