// deform_conv2d_backward_backward: the gradients of deform_conv2d_backward. (X', W', y', x', m')
// are the gradients of its outputs; taps.h explains the mathematics.
#include "conv_shape.h"
#include "cuda/entry.h"
#include "kernels.h"

namespace myops::deform {
namespace {

constexpr InputIndices kSlots{0, 1, 2, 3, -1, 4};
constexpr size_t kX = 5;  // the first gradient of an output
constexpr size_t kOutputCount = 5;

void shape(ShapeContext& context) {
  const KnownLengths lengths = check(context, kSlots);
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

void compute(KernelContext& context) { MYOPS_CHOOSE(double_backward)(context); }

}  // namespace

MYOPS_OP(deform_conv2d_backward_backward) {
  return with_attributes(Op("deform_conv2d_backward_backward"))
      .doc(
          "The gradients of deform_conv2d_backward; one that is not needed is an empty tensor, a "
          "gradient that is left out counts as 0.")
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
      .attribute(
          {"needs", std::vector<int64_t>{},
           "Whether the gradients of grad, X, W, offset, mask are needed, 0 or 1 each; default "
           "all."})
      .shape(shape)
      .kernel(compute)
      .cuda(double_backward_cuda);
}

}  // namespace myops::deform
