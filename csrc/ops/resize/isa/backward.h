// The gradient: the same passes with transposed tap tables. The gradient of each input element is a
// sum over the outputs to which it contributed, so no locks are needed and the order is fixed.
#pragma once

#include "../kernels/resample.h"
#include "../plan/call_tables.h"
#include "entry.h"

namespace myops::resize::MYOPS_ISA {

template <class T, class Wide>
void scatter(const KernelContext& context, const Tables<Wide>& tables, const T* source, T* target) {
  const Plan<Wide>& plan = tables.plan;
  const Level<Wide>& first = plan.levels.front();
  const NearestScatter<T, Wide> scatter(plan);
  if (context.reports()) report(context, plan, [](size_t) { return "nearest_scatter"; });
  for_each_run(context, plan, [&](int64_t tensor, int64_t begin, int64_t end) {
    scatter.fill(0, begin, end, source + tensor * first.taps.input * first.in_volume,
                 target + (tensor * first.taps.output + begin) * first.out_volume);
  });
}

void backward(KernelContext& context) {
  if (context.output(0).elements() == 0) return;
  const Tensor &grad = context.input(0), &grad_x = context.output(0);
  dispatch<Half, BFloat16, float, double>(grad_x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto tables = tables_of<T, true>(context);
    in_memory_order<T>(context, tables->swapped, grad, grad_x, [&](const T* source, T* target) {
      if (tables->plan.levels.empty()) {
        copy_all(context, grad_x.elements(), source, target);
      } else if (tables->scatters) {
        scatter(context, *tables, source, target);
      } else {
        resample(context, tables->plan, tables->whole, tables->last, source, target);
      }
    });
  });
}

}  // namespace myops::resize::MYOPS_ISA
