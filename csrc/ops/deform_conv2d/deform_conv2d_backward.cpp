// deform_conv2d_backward: the gradients of deform_conv2d. The mathematics are in taps.h.
#include "conv_shape.h"
#include "cuda/entry.h"
#include "kernels.h"

namespace myops::deform {
namespace {

constexpr InputIndices kSlots{0, 1, 2, 3, -1, 4};

void shape(ShapeContext& context) {
  const KnownLengths lengths = check(context, kSlots);
  const std::vector<bool> needs = read_needs(context.op_name(), context.attributes(), 4);
  const Dims* dims[] = {&lengths.X, &lengths.W, &lengths.offset, &lengths.mask};
  for (size_t i = 0; i < 4; ++i) {
    const bool wanted = needs[i] && (i != 3 || context.has(4));
    context.set_output(i, wanted ? *dims[i] : Dims{0});
  }
}

void compute(KernelContext& context) { MYOPS_CHOOSE(backward)(context); }

}  // namespace

MYOPS_OP(deform_conv2d_backward) {
  return with_attributes(Op("deform_conv2d_backward"))
      .doc(
          "The gradients of deform_conv2d; one that is not needed is an empty tensor. That of B "
          "is the sum of grad over all but its channels.")
      .input(Input{"grad", "T", "[N, oC, oH, oW], the gradient of Y."}.access(Access::Strided))
      .input(Input{"X", "T", "[N, C, H, W]"}.access(Access::Strided))
      .input(Input{"W", "T", "[oC, C / group, kH, kW]"}.access(Access::Strided))
      .input(Input{"offset", "T", "As in deform_conv2d."}.access(Access::Strided))
      .input(Input{"mask", "T", "As in deform_conv2d."}.optional().access(Access::Strided))
      .output({"grad_X", "T", "As X."})
      .output({"grad_W", "T", "As W."})
      .output({"grad_offset", "T", "As offset."})
      .output({"grad_mask", "T", "As mask; empty without one."})
      .attribute(
          {"needs", std::vector<int64_t>{},
           "Whether the gradients of X, W, offset, mask are needed, 0 or 1 each; default all."})
      .shape(shape)
      .kernel(compute)
      .cuda(backward_cuda);
}

}  // namespace myops::deform
