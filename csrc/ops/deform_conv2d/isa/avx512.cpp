#include "../problem.h"

#include "myops/isa/avx512.h"
#ifdef MYOPS_ISA
#include "../backward.h"
#include "../double_backward.h"
#include "../forward.h"
#endif
#include "myops/isa/end.h"
