// deform_conv2d: convolution at learned positions. The mathematics stand in taps.h.
#include "project.h"

namespace myops::deform {
namespace {

constexpr Slots kSlots{-1, 0, 1, 2, 3, 4};

void shape(ShapeContext& context) { context.set_output(0, check(context, kSlots).output); }

template <class T>
std::vector<Term<T>> terms_of(const Problem& problem, const Tensor& W) {
  return {{Filters<T>(problem, W), Column::Value}};
}

// Weights that never change are packed once. Nothing has been checked yet, so weights that do not
// fit the attributes are left to the refusal of the first call.
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
    const Problem problem(attributes, W);
    const std::vector<Term<T>> terms = terms_of<T>(problem, W);
    const PackedWeights<T> weights(problem, terms);
    const auto memory = std::make_shared<Scratch>(static_cast<size_t>(weights.size()) * sizeof(A));
    weights.pack(memory->template as<A>());
    prepared = memory;
  });
  return prepared;
}

template <class T>
void compute_typed(KernelContext& context) {
  const Tensor &X = context.input(0), &W = context.input(1);
  const Problem problem(context.attributes(), X, W, context.output(0));
  Inputs<T> inputs;
  inputs.X = X;
  inputs.positions.offset = Field<const T>(context.input(2));
  inputs.positions.mask = Field<const T>(context.input(4));
  const std::vector<Term<T>> terms = terms_of<T>(problem, W);
  const Scratch* prepared = context.prepared<Scratch>();
  Projection<T>(context, problem, inputs, terms, context.input(3), context.output(0))
      .run(prepared ? prepared->as<Accumulate<T>>() : nullptr);
}

void compute(KernelContext& context) {
  dispatch<Half, BFloat16, float, double>(context.output(0).dtype, [&](auto tag) {
    compute_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace

MYOPS_OP(deform_conv2d) {
  return with_attributes(Op("deform_conv2d"))
      .onnx("DeformConv", 1)
      .doc(
          "Deformable convolution, version 1 (without mask) or 2. A position that is not finite, "
          "or lies outside the image, samples 0.")
      .input(Input{"X", "T", "[N, C, H, W]"}.access(Access::Strided))
      .input(Input{"W", "T", "[oC, C / group, kH, kW]"}.access(Access::Strided))
      .input(
          Input{"offset", "T", "[N, 2 * offset_group * kH * kW, oH, oW]: y, then x, of every tap."}
              .access(Access::Strided))
      .input(Input{"B", "T", "[oC], added to the result."}.optional().access(Access::Strided))
      .input(Input{"mask", "T", "[N, offset_group * kH * kW, oH, oW], multiplies the samples."}
                 .optional()
                 .access(Access::Strided))
      .output({"Y", "T", "[N, oC, oH, oW]"})
      .shape(shape)
      .prepare(prepare)
      .kernel(compute);
}

}  // namespace myops::deform
