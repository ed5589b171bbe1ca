// Keys' cubic convolution, near (|x| <= 1) and far (1 <= |x| <= 2).
#pragma once

#include "myops/simd.h"

namespace myops::resize::MYOPS_ISA {

template <class Real>
MYOPS_INLINE Real cubic_near(Real x, Real a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}

template <class Real>
MYOPS_INLINE Real cubic_far(Real x, Real a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

}  // namespace myops::resize::MYOPS_ISA
