// The kernel of deform_conv2d_backward.
#pragma once

#include "cell_gradient.h"
#include "data_gradient.h"
#include "kernels.h"
#include "weight_gradient.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
void backward_typed(KernelContext& context) {
  const std::vector<bool> needs = read_needs(context.op_name(), context.attributes(), 4);
  const Tensor &gradient = context.input(0), &X = context.input(1), &W = context.input(2);
  const Tensor& mask = context.input(4);
  const ConvShape conv(context.attributes(), X, W, gradient);
  Inputs<T> inputs;
  inputs.X = StridedView<const T>(X);
  inputs.positions.offset = StridedView<const T>(context.input(3));
  inputs.positions.mask = StridedView<const T>(mask);
  if (CellGradient<T>::supports(conv, inputs)) {
    const typename CellGradient<T>::Outputs all{
        needs[0] ? context.output(0) : Tensor(), needs[1] ? context.output(1) : Tensor(),
        needs[2] ? context.output(2) : Tensor(),
        needs[3] && mask.present ? context.output(3) : Tensor()};
    return CellGradient<T>(context, conv, inputs, gradient, W, all).run();
  }
  const Filters<T> filters(conv, W), none;
  const typename DataGradient<T>::Outputs outputs{
      needs[0] ? context.output(0) : Tensor(), needs[2] ? context.output(2) : Tensor(),
      needs[3] && mask.present ? context.output(3) : Tensor()};
  const DataGradient<T> data(context, conv, inputs, gradient, filters, none, outputs);
  if (!needs[1]) return data.run();
  WeightGradient<T> weights(context, conv, inputs, gradient, Column::Value, context.output(1));
  if (data.gives_samples(weights)) return data.run(&weights);
  data.run();
  weights.run();
}

void backward(KernelContext& context) {
  dispatch<Half, BFloat16, float, double>(context.input(0).dtype, [&](auto tag) {
    backward_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace myops::deform::MYOPS_ISA
