// Launches the CUDA kernels of deform_conv2d and its gradients.
#include "myops/cuda.h"

#include <algorithm>

#include "conv_shape.h"
#include "cuda/backward.h"
#include "cuda/forward.h"
#include "cuda_kernels.h"

MYOPS_CUDA_FILE(myops_deform_positions, "deform_conv2d/cuda/positions.h")
MYOPS_CUDA_FILE(myops_deform_forward, "deform_conv2d/cuda/forward.h")
MYOPS_CUDA_FILE(myops_deform_backward, "deform_conv2d/cuda/backward.h")

namespace myops::deform {
namespace {

DeformTensor describe(const Tensor& tensor) {
  DeformTensor described{};
  if (!tensor.present) return described;
  described.data = tensor.data;
  std::copy(tensor.strides.begin(), tensor.strides.end(), described.stride);
  return described;
}

DeformResult result(const Tensor& tensor) {
  DeformResult described{};
  if (tensor.elements() == 0) return described;
  described.data = tensor.data;
  std::copy(tensor.strides.begin(), tensor.strides.end(), described.stride);
  return described;
}

DeformSizes describe(const ConvShape& conv) {
  return {conv.batch,         conv.channels,  conv.height,       conv.width,      conv.outputs,
          conv.out_height,    conv.out_width, conv.kernel_width, conv.taps,       conv.groups,
          conv.offset_groups, conv.stride_y,  conv.stride_x,     conv.dilation_y, conv.dilation_x,
          conv.pad_top,       conv.pad_left};
}

size_t sum_size(DType dtype) { return dtype == DType::Float64 ? sizeof(double) : sizeof(float); }

// Of T, and of the slices of the gradient of W: the device has more, but others use it too.
constexpr int64_t kTileBytes = 64 << 20;
constexpr int64_t kMostSlices = 64, kSlicePixels = 512;

class Gradients {
 public:
  explicit Gradients(const KernelContext& context)
      : context_(context),
        dtype_(context.input(0).dtype),
        gpu_(context, {myops_deform_backward, {myops_deform_positions}}, dtype_) {
    const Tensor &grad = context.input(0), &X = context.input(1), &W = context.input(2);
    arguments_.sizes = describe(ConvShape(context.attributes(), X, W, grad));
    arguments_.grad = describe(grad);
    arguments_.X = describe(X);
    arguments_.W = describe(W);
    arguments_.offset = describe(context.input(3));
    arguments_.mask = describe(context.input(4));
    arguments_.grad_X = result(context.output(0));
    arguments_.grad_W = result(context.output(1));
    arguments_.grad_offset = result(context.output(2));
    arguments_.grad_mask = result(context.output(3));
  }

  void run() {
    const bool positions =
        arguments_.grad_offset.data != nullptr || arguments_.grad_mask.data != nullptr;
    if (arguments_.grad_X.data != nullptr) list_entries();
    if (positions) {
      arguments_.corner_sums = gpu_.scratch<char>(entries(), 4, sum_size(dtype_));
      gpu_.fill_zero(static_cast<char*>(arguments_.corner_sums),
                     entries() * 4 * static_cast<int64_t>(sum_size(dtype_)));
    }
    if (arguments_.grad_X.data != nullptr || positions) run_rows(positions);
    if (positions) gpu_.launch("finish_entry", entries(), arguments_);
    if (arguments_.grad_W.data != nullptr) run_weights();
  }

 private:
  int64_t pixels() const { return deform_kernels::pixels(arguments_.sizes); }
  int64_t entries_of_image() const {
    return arguments_.sizes.offset_groups * arguments_.sizes.taps * pixels();
  }
  int64_t entries() const { return arguments_.sizes.batch * entries_of_image(); }

  void list_entries() {
    const DeformSizes& sizes = arguments_.sizes;
    DeformCells& cells = arguments_.cells;
    cells.cells = sizes.batch * sizes.offset_groups * (sizes.height + 1) * (sizes.width + 1);
    const int64_t chunks = (cells.cells + DeformCells::kChunk - 1) / DeformCells::kChunk;
    cells.count = gpu_.scratch<int64_t>(3, cells.cells);
    cells.filled = cells.count + cells.cells;
    cells.start = cells.filled + cells.cells;
    cells.entry = gpu_.scratch<int64_t>(entries());
    cells.chunk = gpu_.scratch<int64_t>(chunks);
    gpu_.fill_zero(cells.count, 2 * cells.cells);  // and `filled`
    gpu_.launch("count_entry", entries(), arguments_);
    gpu_.launch("sum_chunk", chunks, arguments_);
    gpu_.launch("start_chunks", 1, arguments_);
    gpu_.launch("start_cells", chunks, arguments_);
    gpu_.launch("list_entry", entries(), arguments_);
    gpu_.launch("sort_cell", cells.cells, arguments_);
  }

  void run_rows(bool positions) {
    const DeformSizes& sizes = arguments_.sizes;
    const int64_t all = sizes.batch * sizes.channels, row = sizes.taps * pixels();
    const int64_t bytes = std::max<int64_t>(row * static_cast<int64_t>(sum_size(dtype_)), 1);
    const int64_t most = std::max<int64_t>(std::min(kTileBytes / bytes, all), 1);
    arguments_.products = gpu_.scratch<char>(most, bytes);
    if (context_.reports()) {
      context_.report("cuda_gather", "X, offset, mask", str(most, " of ", all, " rows at a time"));
    }
    for (int64_t first = 0; first < all; first += most) {
      arguments_.first_row = first;
      arguments_.rows = std::min(most, all - first);
      gpu_.launch("multiply_transposed", arguments_.rows * row, arguments_);
      if (arguments_.grad_X.data != nullptr) {
        gpu_.launch("gather_image", arguments_.rows * sizes.height * sizes.width, arguments_);
      }
      if (!positions) continue;
      const int64_t last_image = (first + arguments_.rows - 1) / sizes.channels;
      const int64_t images = last_image - first / sizes.channels + 1;
      gpu_.launch("add_corners", images * entries_of_image(), arguments_);
    }
  }

  void run_weights() {
    const DeformSizes& sizes = arguments_.sizes;
    const int64_t channels = sizes.channels / sizes.groups, each = sizes.outputs / sizes.groups;
    const int64_t weights = sizes.outputs * channels * sizes.taps;
    const int64_t bytes = weights * static_cast<int64_t>(sum_size(dtype_));
    const int64_t wanted = (sizes.batch * pixels() + kSlicePixels - 1) / kSlicePixels;
    arguments_.slices = std::max<int64_t>(std::min({wanted, kMostSlices, kTileBytes / bytes}), 1);
    arguments_.weight_sums = gpu_.scratch<char>(arguments_.slices, bytes);
    context_.report("cuda_slices", "W");
    constexpr int64_t kOutputs = DeformBackward::kOutputs;
    const int64_t runs = sizes.groups * ((each + kOutputs - 1) / kOutputs);
    gpu_.launch("sum_weights", arguments_.slices * runs * channels * sizes.taps, arguments_);
    gpu_.launch("add_slices", weights, arguments_);
  }

  const KernelContext& context_;
  const DType dtype_;
  cuda::Gpu gpu_;
  DeformBackward arguments_{};
};

}  // namespace

void forward_cuda(KernelContext& context) {
  const Tensor &X = context.input(0), &W = context.input(1), &bias = context.input(3);
  const Tensor& Y = context.output(0);
  if (Y.elements() == 0) return;
  DeformForward arguments{};
  arguments.sizes = describe(ConvShape(context.attributes(), X, W, Y));
  arguments.X = describe(X);
  arguments.W = describe(W);
  arguments.offset = describe(context.input(2));
  arguments.mask = describe(context.input(4));
  arguments.bias = bias.present ? bias.data : nullptr;
  arguments.bias_stride = bias.present ? bias.strides[0] : 0;
  arguments.Y = result(Y);
  context.report("cuda_direct");
  const int64_t pixels = arguments.sizes.out_height * arguments.sizes.out_width;
  cuda::Gpu(context, {myops_deform_forward, {myops_deform_positions}}, Y.dtype)
      .launch("deform_forward", arguments.sizes.batch * arguments.runs() * pixels, arguments);
}

void backward_cuda(KernelContext& context) {
  bool wanted = false;
  for (size_t i = 0; i < 4; ++i) wanted = wanted || context.output(i).elements() > 0;
  if (wanted) Gradients(context).run();
}

}  // namespace myops::deform
