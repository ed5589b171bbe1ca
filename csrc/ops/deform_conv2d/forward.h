// The kernel of deform_conv2d.
#pragma once

#include "convolve.h"
#include "kernels.h"
#include "plane_blocks.h"

namespace myops::deform::MYOPS_ISA {

// Calls body(tag) with the type of this name. The set for products of bfloat16 is chosen for
// bfloat16 alone.
template <class Body>
void dispatch_forward(DType dtype, const Body& body) {
  if constexpr (kBFloat16Products) {
    dispatch<BFloat16>(dtype, body);
  } else {
    dispatch<Half, BFloat16, float, double>(dtype, body);
  }
}

template <class T>
std::vector<Term<T>> terms_of(const ConvShape& conv, const Tensor& W) {
  return {{Filters<T>(conv, W), Column::Value}};
}

// Packs constant_weights() once.
Prepared prepare(const PrepareContext& context) {
  const Tensor& W = context.constant(1);
  const ConvShape conv(context.attributes(), W);
  Prepared prepared;
  dispatch_forward(W.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<Term<T>> terms = terms_of<T>(conv, W);
    const PackedWeights<T> weights(conv, terms);
    const auto memory =
        std::make_shared<Scratch>(static_cast<size_t>(weights.size()) * sizeof(Sample<T>));
    weights.pack(memory->template as<Sample<T>>());
    prepared = memory;
  });
  return prepared;
}

template <class T>
void forward_typed(KernelContext& context) {
  const Tensor &X = context.input(0), &W = context.input(1);
  const ConvShape conv(context.attributes(), X, W, context.output(0));
  Inputs<T> inputs;
  inputs.X = StridedView<const T>(X);
  inputs.positions.offset = StridedView<const T>(context.input(2));
  inputs.positions.mask = StridedView<const T>(context.input(4));
  const std::vector<Term<T>> terms = terms_of<T>(conv, W);
  const Scratch* prepared = context.prepared<Scratch>();
  const Sample<T>* weights = prepared ? prepared->as<Sample<T>>() : nullptr;
  const Tensor &bias = context.input(3), &out = context.output(0);
  if constexpr (kFactorSamples<T> == 1) {
    if (PlaneConvolution<T>::supports(conv, StridedView<T>(out))) {
      return PlaneConvolution<T>(context, conv, inputs, terms, bias, out).run(weights);
    }
  }
  Convolution<T>(context, conv, inputs, terms, bias, out).run(weights);
}

void forward(KernelContext& context) {
  dispatch_forward(context.output(0).dtype,
                   [&](auto tag) { forward_typed<typename decltype(tag)::type>(context); });
}

}  // namespace myops::deform::MYOPS_ISA
