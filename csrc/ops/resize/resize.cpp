// resize: ONNX Resize-19 with every mode, coordinate mode and rank, and its gradient; and mode
// "area", adaptive average pooling.
//
// An axis is resized if it is listed (all are, without `axes`) and its length or coordinates
// change; the other axes are copied. Interpolation processes one axis after another, the fastest in
// memory first, in Accumulate<T>; the result is rounded once, uint8 to nearest and saturated.
// Nearest copies elements. An axis of length 0 remains empty under scales.
//
// Where these three disagree: align_corners uses the integer output length (as torch and ONNX
// Runtime, not the ONNX reference); pytorch_half_pixel puts a lone output at coordinate 0 (as the
// text of the ONNX specification, not the reference); scale 1 with another roi than [0, 1] crops
// (as the specification, not ONNX Runtime); an unchanged length with a scale other than 1 is
// still resampled (as the specification; ONNX Runtime copies if no length changes).
#include "cuda/entry.h"
#include "isa/entry.h"
#include "myops/op.h"
#include "spec/geometry.h"

namespace myops::resize {
namespace {

void forward_shape(ShapeContext& context) {
  context.set_output(0, resolve(Request(context, 0)).output);
}

void backward_shape(ShapeContext& context) {
  const Dims expected = resolve(Request(context, 1)).output;
  const Dims& grad = context.dims(0);
  bool fits = grad.size() == expected.size();
  for (size_t axis = 0; fits && axis < grad.size(); ++axis) {
    fits = !grad[axis].known() || !expected[axis].known() || grad[axis] == expected[axis];
  }
  const auto lengths = [](const Dims& dims) {
    std::vector<std::string> texts;
    for (const Dim& dim : dims) texts.push_back(dim.known() ? str(dim.value) : "?");
    return texts;
  };
  MYOPS_EXPECT(context, fits, "grad", str("shape ", lengths(grad)),
               str("shape ", lengths(expected), ", the shape of the result of resize"));
  context.set_output(0, context.dims(1));
}

// roi, scales, sizes and the attributes, which both ops share.
Op with_arguments(Op op) {
  return std::move(op)
      .type("T2", {DType::Float16, DType::Float32, DType::Float64})
      .type("S", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input(
          Input{"roi", "T2",
                "[start_1, ..., start_n, end_1, ..., end_n] of the n listed axes, where 0 is the "
                "first and 1 the last element. Read only by \"tf_crop_and_resize\"."}
              .optional()
              .values())
      .input(Input{"scales", "S",
                   "Output length over input length of each listed axis, finite and above 0. "
                   "Rounded to float32 unless torch_arithmetic is set. Give scales or sizes."}
                 .optional()
                 .values())
      .input(
          Input{"sizes", "I", "Output length of each listed axis, at least 1."}.optional().values())
      .attribute({"antialias", false,
                  "Widens the filter of \"linear\" and \"cubic\" by 1 / scale when shrinking."})
      .attribute({"axes", std::vector<int64_t>{},
                  "The axes that roi, scales and sizes list, in that order; -1 is the last. "
                  "Empty: all axes."})
      .attribute({"coordinate_transformation_mode", std::string("half_pixel"),
                  "How an output index becomes a coordinate of the input.", coordinate_names()})
      .attribute({"cubic_coeff_a", -0.75, "The coefficient a of Keys' cubic convolution."})
      .attribute({"exclude_outside", false,
                  "Leaves samples outside the input out of \"cubic\" and of antialiasing, and "
                  "makes the other weights add up to 1; otherwise the edge is repeated."})
      .attribute(
          {"extrapolation_value", 0.0, "The result where \"tf_crop_and_resize\" leaves the input."})
      .attribute({"keep_aspect_ratio_policy", std::string("stretch"),
                  "How sizes are read: as they are, or as upper or lower bounds of a result that "
                  "keeps the ratio of the listed axes.",
                  policy_names()})
      .attribute({"mode", std::string("nearest"),
                  "The interpolation, along each resized axis. \"area\", which ONNX's Resize does "
                  "not have, averages the interval of the input that an output covers.",
                  mode_names()})
      .attribute({"nearest_mode", std::string("round_prefer_floor"),
                  "How \"nearest\" rounds a coordinate.", rounding_names()})
      .attribute({"torch_arithmetic", false,
                  "Rounds lengths and coordinates as torch.nn.functional.interpolate does, "
                  "instead of as ONNX Runtime does."});
}

void compute(KernelContext& context) { MYOPS_CHOOSE(forward)(context); }
void compute_backward(KernelContext& context) { MYOPS_CHOOSE(backward)(context); }

}  // namespace

MYOPS_OP(resize) {
  return with_arguments(
             Op("resize")
                 .onnx("Resize", 1)
                 .doc("Resizes a tensor of any rank; ONNX Resize-19 and one attribute more.")
                 .type("T", {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64,
                             DType::UInt8})
                 .input(Input{"X", "T", "The tensor to resize, of rank 1 or more."}.access(
                     Access::StridedOnCpu)))
      .output({"Y", "T", "The resized tensor, of the rank of X."})
      .shape(forward_shape)
      .kernel(compute)
      .cuda(forward_cuda);
}

MYOPS_OP(resize_backward) {
  return with_arguments(
             Op("resize_backward")
                 .doc("The gradient of resize: its transpose, applied to the gradient of Y.")
                 .type("T", {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64})
                 .input(Input{"grad", "T", "The gradient of Y, of the shape of Y."}.access(
                     Access::ChannelsLast))
                 .input(Input{"X", "T", "The X of resize; only its shape is used."}.access(
                     Access::ShapeOnly)))
      .output({"grad_X", "T", "The gradient of X, of the shape of X."})
      .shape(backward_shape)
      .kernel(compute_backward)
      .cuda(backward_cuda);
}

}  // namespace myops::resize
