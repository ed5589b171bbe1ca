// deform_conv2d_backward_backward: the gradients of deform_conv2d_backward. With (X', W', y', x',
// m') the gradients that arrive at its outputs, the mathematics stand in taps.h.
#include "data_gradient.h"
#include "project.h"
#include "weight_gradient.h"

namespace myops::deform {
namespace {

constexpr Slots kSlots{0, 1, 2, 3, -1, 4};
constexpr size_t kX = 5, kW = 6, kOffset = 7, kMask = 8;  // the arriving gradients
constexpr size_t kOutputCount = 5;

void shape(ShapeContext& context) {
  const Lengths lengths = check(context, kSlots);
  const Dims* dims[] = {&lengths.output, &lengths.X, &lengths.W, &lengths.offset, &lengths.mask};
  const char* names[] = {"grad_grad_X", "grad_grad_W", "grad_grad_offset", "grad_grad_mask"};
  const char* originals[] = {"that of X", "that of W", "that of offset", "that of mask"};
  for (size_t i = 0; i < 4; ++i) {
    if (!context.has(kX + i)) continue;
    MYOPS_EXPECT(context, i != 3 || context.has(4), names[i], "a tensor", "none without a mask");
    expect_shape(context, names[i], context.dims(kX + i), *dims[i + 1], originals[i]);
  }
  const std::vector<bool> needs = read_needs(context.op_name(), context.attributes(), kOutputCount);
  for (size_t i = 0; i < kOutputCount; ++i) {
    const bool wanted = needs[i] && (i != 4 || context.has(4));
    context.set_output(i, wanted ? *dims[i] : Dims{0});
  }
}

// Terms that are 0 because nothing arrived are left out; an output without terms is 0.
template <class T>
void compute_typed(KernelContext& context) {
  const std::vector<bool> needs = read_needs(context.op_name(), context.attributes(), kOutputCount);
  const Tensor &gradient = context.input(0), &X = context.input(1), &W = context.input(2);
  const Tensor& mask = context.input(4);
  const Problem problem(context.attributes(), X, W, gradient);
  Inputs<T> inputs;
  inputs.X = X;
  inputs.X_direction = context.input(kX);
  inputs.positions.offset = Field<const T>(context.input(3));
  inputs.positions.mask = Field<const T>(mask);
  inputs.positions.shift = Field<const T>(context.input(kOffset));
  inputs.positions.mask_shift = Field<const T>(context.input(kMask));
  const Filters<T> filters(problem, W), none;
  const Filters<T> direction(problem, context.input(kW));
  if (needs[0]) {
    std::vector<Term<T>> terms;
    if (direction) terms.push_back({direction, Column::Value});
    if (inputs.changes()) terms.push_back({filters, Column::Change});
    Projection<T>(context, problem, inputs, terms, Tensor(), context.output(0)).run();
  }
  const typename DataGradient<T>::Outputs outputs{
      needs[1] ? context.output(1) : Tensor(), needs[3] ? context.output(3) : Tensor(),
      needs[4] && mask.present ? context.output(4) : Tensor()};
  DataGradient<T>(context, problem, inputs, gradient, direction, inputs.changes() ? filters : none,
                  outputs)
      .run();
  if (!needs[2]) return;
  if (inputs.changes()) {
    WeightGradient<T>(context, problem, inputs, gradient, Column::Change, context.output(2)).run();
  } else {
    std::fill_n(context.output(2).as<T>(), context.output(2).elements(), T{});
  }
}

void compute(KernelContext& context) {
  dispatch<Half, BFloat16, float, double>(context.input(0).dtype, [&](auto tag) {
    compute_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace

MYOPS_OP(deform_conv2d_backward_backward) {
  return with_attributes(Op("deform_conv2d_backward_backward"))
      .doc(
          "The gradients of deform_conv2d_backward; one that is not wanted is an empty tensor, a "
          "gradient that does not arrive counts as 0.")
      .input(Input{"grad", "T", "[N, oC, oH, oW], the gradient of Y."}.access(Access::Strided))
      .input(Input{"X", "T", "[N, C, H, W]"}.access(Access::Strided))
      .input(Input{"W", "T", "[oC, C / group, kH, kW]"}.access(Access::Strided))
      .input(Input{"offset", "T", "As in deform_conv2d."}.access(Access::Strided))
      .input(Input{"mask", "T", "As in deform_conv2d."}.optional().access(Access::Strided))
      .input(Input{"grad_grad_X", "T", "What arrives at grad_X, as X."}.optional().access(
          Access::Strided))
      .input(Input{"grad_grad_W", "T", "What arrives at grad_W, as W."}.optional().access(
          Access::Strided))
      .input(Input{"grad_grad_offset", "T", "What arrives at grad_offset, as offset."}
                 .optional()
                 .access(Access::Strided))
      .input(Input{"grad_grad_mask", "T", "What arrives at grad_mask, as mask."}.optional().access(
          Access::Strided))
      .output({"grad_grad", "T", "As grad."})
      .output({"grad_X", "T", "As X."})
      .output({"grad_W", "T", "As W."})
      .output({"grad_offset", "T", "As offset."})
      .output({"grad_mask", "T", "As mask; empty without one."})
      .attribute({"needs", std::vector<int64_t>{},
                  "Which of grad, X, W, offset, mask want their gradient, 0 or 1 each; default "
                  "all."})
      .shape(shape)
      .kernel(compute);
}

}  // namespace myops::deform
