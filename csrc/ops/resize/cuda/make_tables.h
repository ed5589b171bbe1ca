// The kernels that make tables, in a source of its own.
#pragma once

#include "resize/cuda/tables.h"

namespace myops {

template <class T, class A>
void make_taps(const TapArguments& arguments, int64_t i) {
  resize_kernels::make_any_taps<A, int32_t>(arguments, i);
}
template <class T, class A>
void list_readers(const TapArguments& arguments, int64_t i) {
  resize_kernels::list_any_readers<A, int32_t>(arguments, i);
}

}  // namespace myops

MYOPS_KERNEL(make_taps, TapArguments, make_taps)
MYOPS_KERNEL(list_readers, TapArguments, list_readers)
