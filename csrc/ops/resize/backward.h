// The gradient: the same passes over transposed tap tables. Each input element gathers its sum
// from the outputs it went into, so there is nothing to lock and the order is always the same.
#pragma once

#include "kernels.h"
#include "layout.h"
#include "resample.h"

namespace myops::resize::MYOPS_ISA {

template <class T>
void backward_typed(const KernelContext& context, const Settings& settings,
                    const std::vector<Axis>& axes) {
  const Tensor &grad = context.input(0), &grad_x = context.output(0);
  in_memory_order<T>(
      context, settings, axes, grad, grad_x, [&](const T* source, T* target, bool channels_last) {
        const auto plan = make_plan<Accumulate<T>>(context, settings, axes, channels_last, true);
        if (plan.levels.empty()) {
          copy_all(context, grad_x.elements(), source, target);
        } else {
          resample(context, plan, source, target);
        }
      });
}

void backward(KernelContext& context) {
  if (context.output(0).elements() == 0) return;
  const Request request(context, 1);
  const Geometry geometry = resolve(request);
  dispatch<Half, BFloat16, float, double>(context.output(0).dtype, [&](auto tag) {
    backward_typed<typename decltype(tag)::type>(context, request.settings, geometry.axes);
  });
}

}  // namespace myops::resize::MYOPS_ISA
