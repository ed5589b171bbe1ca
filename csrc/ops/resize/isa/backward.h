// The gradient: the same passes with transposed tap tables. The gradient of each input element is a
// sum over the outputs to which it contributed, so no locks are needed and the order is fixed.
#pragma once

#include "../kernels/resample.h"
#include "../plan/call_tables.h"
#include "entry.h"

namespace myops::resize::MYOPS_ISA {

void backward(KernelContext& context) {
  if (context.output(0).elements() == 0) return;
  const Tensor &grad = context.input(0), &grad_x = context.output(0);
  dispatch<Half, BFloat16, float, double>(grad_x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto tables = tables_of<T, true>(context);
    in_memory_order<T>(context, tables->swapped, grad, grad_x, [&](const T* source, T* target) {
      if (tables->plan.levels.empty()) {
        copy_all(context, grad_x.elements(), source, target);
      } else {
        resample(context, tables->plan, tables->last, source, target);
      }
    });
  });
}

}  // namespace myops::resize::MYOPS_ISA
