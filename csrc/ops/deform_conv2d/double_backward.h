// The kernel of deform_conv2d_backward_backward.
#pragma once

#include "convolve.h"
#include "data_gradient.h"
#include "kernels.h"
#include "weight_gradient.h"

namespace myops::deform::MYOPS_ISA {

// Terms with gradients that are absent are skipped; an output without terms is 0.
template <class T>
void double_backward_typed(KernelContext& context) {
  const std::vector<bool> needs = read_needs(context.op_name(), context.attributes(), 5);
  const Tensor &gradient = context.input(0), &X = context.input(1), &W = context.input(2);
  const Tensor& mask = context.input(4);
  const ConvShape conv(context.attributes(), X, W, gradient);
  Inputs<T> inputs;
  inputs.X = StridedView<const T>(X);
  inputs.X_direction = StridedView<const T>(context.input(5));
  inputs.positions.offset = StridedView<const T>(context.input(3));
  inputs.positions.mask = StridedView<const T>(mask);
  inputs.positions.shift = StridedView<const T>(context.input(7));
  inputs.positions.mask_shift = StridedView<const T>(context.input(8));
  const Filters<T> filters(conv, W), none;
  const Filters<T> direction(conv, context.input(6));
  if (needs[0]) {
    std::vector<Term<T>> terms;
    if (direction) terms.push_back({direction, Column::Value});
    if (inputs.changes()) terms.push_back({filters, Column::Change});
    Convolution<T>(context, conv, inputs, terms, Tensor(), context.output(0)).run();
  }
  const typename DataGradient<T>::Outputs outputs{
      needs[1] ? context.output(1) : Tensor(), needs[3] ? context.output(3) : Tensor(),
      needs[4] && mask.present ? context.output(4) : Tensor()};
  DataGradient<T>(context, conv, inputs, gradient, direction, inputs.changes() ? filters : none,
                  outputs)
      .run();
  if (!needs[2]) return;
  if (inputs.changes()) {
    WeightGradient<T>(context, conv, inputs, gradient, Column::Change, context.output(2)).run();
  } else {
    std::fill_n(context.output(2).as<T>(), context.output(2).elements(), T{});
  }
}

void double_backward(KernelContext& context) {
  dispatch<Half, BFloat16, float, double>(context.input(0).dtype, [&](auto tag) {
    double_backward_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace myops::deform::MYOPS_ISA
