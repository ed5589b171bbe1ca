// deform_conv2d on integers of 8 bits. The arithmetic is in blocking.h.
#include "../../core/kernel_switch.h"
#include "../deform_conv2d/conv_shape.h"
#include "cuda/entry.h"
#include "kernels.h"
#include "myops/isa/byte_products.h"

namespace myops::deform {
namespace {

constexpr InputIndices kSlots{-1, 0, 3, 5, 6, 7};

// Sums of so many products fit 32 bits.
constexpr int64_t kMostProducts = 65536;

// A list of one number: shape inference of ONNX Runtime cannot tell a scalar from an unknown shape.
void expect_one(ShapeContext& context, size_t input, const char* name) {
  if (context.has(input)) expect_shape(context, name, context.dims(input), {1}, "one number");
}

void shape(ShapeContext& context) {
  const KnownLengths all = check(context, kSlots);
  expect_one(context, 1, "X_scale");
  expect_one(context, 2, "X_zero_point");
  const Dims& scale = context.dims(4);
  const bool one = scale.size() == 1 && scale[0].known() && scale[0].value == 1;
  if (!one) expect_shape(context, "W_scale", scale, {all.W[0]}, "the output channels of W, or one");
  int64_t depth = 1;
  for (size_t axis = 1; axis < 4; ++axis) {
    if (all.W[axis].known()) depth = std::min(depth, kMostProducts + 1) * all.W[axis].value;
  }
  MYOPS_EXPECT(context, depth <= kMostProducts, "W", str(depth, " numbers for each output"),
               str("at most ", kMostProducts, ", so that sums fit 32 bits"));
  context.set_output(0, all.output);
}

#if defined(__x86_64__)
bool byte_products() {
  return has_byte_products() && kernel_enabled("deform_conv2d_int8.byte_products");
}
#endif

Prepared prepare_chosen(const PrepareContext& context) {
#if defined(__x86_64__)
  if (byte_products()) return avx512_vnni::prepare_int8(context);
#endif
  return MYOPS_CHOOSE(prepare_int8)(context);
}

void compute(KernelContext& context) {
#if defined(__x86_64__)
  if (byte_products()) return avx512_vnni::forward_int8(context);
#endif
  MYOPS_CHOOSE(forward_int8)(context);
}

}  // namespace

MYOPS_OP(deform_conv2d_int8) {
  return with_geometry(Op("deform_conv2d_int8")
                           .type("TX", {DType::UInt8, DType::Int8})
                           .type("TW", {DType::Int8})
                           .type("T", {DType::Float32}))
      .attribute(
          Attribute{"mask_limit", 1.0,
                    "Samples are multiples of X_scale * mask_limit; a mask counts as at most this."}
              .above(0)
              .at_most(1e38))
      .onnx("DeformConvIntegerToFloat", 1)
      .doc(
          "Deformable convolution of an image and weights of 8 bits, which stand for (X - "
          "X_zero_point) * X_scale and W * W_scale. Samples are rounded to 8 bits, sums are exact.")
      .input(Input{"X", "TX", "[N, C, H, W]"}.access(Access::ChannelsLast))
      .input({"X_scale", "T", "[1]"})
      .input(Input{"X_zero_point", "TX", "[1]; default 0."}.optional())
      .input({"W", "TW", "[oC, C / group, kH, kW]"})
      .input({"W_scale", "T", "[oC], or [1]."})
      .input(
          Input{"offset", "T", "[N, 2 * offset_group * kH * kW, oH, oW]: y, then x, of every tap."}
              .access(Access::Strided))
      .input(Input{"B", "T", "[oC], added to the result."}.optional())
      .input(Input{"mask", "T", "[N, offset_group * kH * kW, oH, oW], multiplies the samples."}
                 .optional()
                 .access(Access::Strided))
      .output({"Y", "T", "[N, oC, oH, oW]"})
      .shape(shape)
      .prepare(prepare_chosen, {"W"})
      .kernel(compute)
      .cuda(forward_int8_cuda);
}

}  // namespace myops::deform
