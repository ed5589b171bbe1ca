// deform_conv2d: convolution at learned positions. The mathematics are in taps.h.
#include "../../core/kernel_switch.h"
#include "conv_shape.h"
#include "cuda/entry.h"
#include "kernels.h"
#include "myops/isa/bfloat16_products.h"

namespace myops::deform {
namespace {

constexpr InputIndices kSlots{-1, 0, 1, 2, 3, 4};

void shape(ShapeContext& context) { context.set_output(0, check(context, kSlots).output); }

#if defined(__x86_64__)
// Depends on weights and attributes alone, so that weights are packed for the kernel that reads
// them.
bool bfloat16_product(const Attributes& attributes, const Tensor& W) {
  return W.dtype == DType::BFloat16 && bfloat16_products_pay() &&
         ConvShape(attributes, W).sums_pairs() && kernel_enabled("deform_conv2d.bfloat16_product");
}
#endif

Prepared prepare_chosen(const PrepareContext& context) {
  if (!constant_weights(context)) return nullptr;
#if defined(__x86_64__)
  if (bfloat16_product(context.attributes(), context.constant(1))) {
    return avx512_bf16::prepare(context);
  }
#endif
  return MYOPS_CHOOSE(prepare)(context);
}

void compute(KernelContext& context) {
#if defined(__x86_64__)
  if (bfloat16_product(context.attributes(), context.input(1))) {
    return avx512_bf16::forward(context);
  }
#endif
  MYOPS_CHOOSE(forward)(context);
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
      .prepare(prepare_chosen)
      .autocast(Autocast::Lower)
      .kernel(compute)
      .cuda(forward_cuda);
}

}  // namespace myops::deform
