// The kernel of deform_conv2d.
#pragma once

#include "convolve.h"
#include "kernels.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
std::vector<Term<T>> terms_of(const ConvShape& conv, const Tensor& W) {
  return {{Filters<T>(conv, W), Column::Value}};
}

// Packs constant weights once. Nothing has been checked yet, so weights that do not match the
// attributes are left to the checks of the first call.
Prepared prepare(const PrepareContext& context) {
  const Tensor& W = context.constant(1);
  const Attributes& attributes = context.attributes();
  const int64_t group = attributes.integer("group");
  const int64_t offset_group = attributes.integer("offset_group");
  if (!W.present || W.rank() != 4 || W.elements() == 0) return nullptr;
  if (group < 1 || offset_group < 1 || W.shape[0] % group != 0) return nullptr;
  if (W.shape[1] * group % offset_group != 0) return nullptr;
  Prepared prepared;
  dispatch<Half, BFloat16, float, double>(W.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulate<T>;
    const ConvShape conv(attributes, W);
    const std::vector<Term<T>> terms = terms_of<T>(conv, W);
    const PackedWeights<T> weights(conv, terms);
    const auto memory = std::make_shared<Scratch>(static_cast<size_t>(weights.size()) * sizeof(A));
    weights.pack(memory->template as<A>());
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
  Convolution<T>(context, conv, inputs, terms, context.input(3), context.output(0))
      .run(prepared ? prepared->as<Accumulate<T>>() : nullptr);
}

void forward(KernelContext& context) {
  dispatch<Half, BFloat16, float, double>(context.output(0).dtype, [&](auto tag) {
    forward_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace myops::deform::MYOPS_ISA
