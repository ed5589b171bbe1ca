// Launches the CUDA kernels of deform_conv2d, of its gradients, and of theirs.
#include "../../../core/kernel_switch.h"
#include "../conv_shape.h"
#include "describe.h"
#include "entry.h"
#include "forward.h"
#include "forward_tensor.h"
#include "gradients.h"
#include "myops/cuda.h"
#include "transposed.h"
#include "transposed_tensor.h"
#include "weights.h"
#include "weights_tensor.h"

MYOPS_CUDA_FILE(myops_deform_positions, "deform_conv2d/cuda/positions.h")
MYOPS_CUDA_FILE(myops_deform_product, "deform_conv2d/cuda/tile_product.h")
MYOPS_CUDA_FILE(myops_deform_cells, "deform_conv2d/cuda/cells.h")
MYOPS_CUDA_FILE(myops_deform_forward, "deform_conv2d/cuda/forward.h")
MYOPS_CUDA_FILE(myops_deform_transposed, "deform_conv2d/cuda/transposed.h")
MYOPS_CUDA_FILE(myops_deform_forward_tensor, "deform_conv2d/cuda/forward_tensor.h")
MYOPS_CUDA_FILE(myops_deform_transposed_tensor, "deform_conv2d/cuda/transposed_tensor.h")
MYOPS_CUDA_FILE(myops_deform_weights_tensor, "deform_conv2d/cuda/weights_tensor.h")
MYOPS_CUDA_FILE(myops_deform_gradients, "deform_conv2d/cuda/gradients.h")
MYOPS_CUDA_FILE(myops_deform_weights, "deform_conv2d/cuda/weights.h")

namespace myops::deform {
namespace {

cuda::Gpu gpu_with(const KernelContext& context, const cuda::File& main) {
  return cuda::Gpu(context,
                   {main,
                    {myops_deform_positions, myops_deform_product, myops_deform_cells,
                     myops_deform_forward, myops_deform_transposed, myops_deform_weights}},
                   context.input(0).dtype);
}

size_t sum_size(DType dtype) { return dtype == DType::Float64 ? sizeof(double) : sizeof(float); }

// How the products of a call are computed.
enum class Products { Direct, Tiles, TensorCores };

Products products_of(const KernelContext& context, const DeformSizes& sizes) {
  constexpr int64_t kFewOutputs = 16;  // with fewer, most of a tile would be empty
  if (sizes.outputs / sizes.groups < kFewOutputs) return Products::Direct;
  if (!kernel_enabled("deform_conv2d.cuda_tiles")) return Products::Direct;
  if (!kernel_enabled("deform_conv2d.cuda_tensor")) return Products::Tiles;
  return cuda::on_tensor_cores(context, context.input(0).dtype) ? Products::TensorCores
                                                                : Products::Tiles;
}

// As in reports.
const char* name_of(Products products) {
  return products == Products::Direct  ? "cuda_direct"
         : products == Products::Tiles ? "cuda_tiles"
                                       : "cuda_tensor";
}

void run_forward(const KernelContext& context, const DeformForward& arguments) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  if (arguments.Y.data == nullptr) return;
  const Products products = products_of(context, sizes);
  context.report(name_of(products), "Y");
  const bool tensor = products == Products::TensorCores;
  cuda::Gpu gpu = gpu_with(context, tensor ? myops_deform_forward_tensor : myops_deform_forward);
  if (products == Products::Direct) {
    gpu.launch("deform_direct", deform_kernels::direct_threads(sizes), arguments);
  } else {
    gpu.launch_blocks(tensor ? "deform_tensor" : "deform_tile",
                      deform_kernels::forward_blocks(sizes), arguments);
  }
}

// The most bytes for the products of some rows, and for the slices of the gradient of W. It is
// small because other work uses the memory of the device too.
constexpr int64_t kProductBytes = 64 << 20;
constexpr int64_t kMostSlices = 64, kSlicePixels = 512;

// The gradients of X, offset, mask and W, for deform_conv2d_backward and for its gradient.
class Gradients {
 public:
  // `direct` and `changed`: the filters that make T' and T; not `present`: there is none.
  Gradients(const KernelContext& context, const DeformInputs& inputs, const Tensor& grad,
            const Tensor& direct, const Tensor& changed)
      : context_(context),
        size_(sum_size(grad.dtype)),
        sizes_(inputs.sizes),
        products_(products_of(context, inputs.sizes)),
        grad_(describe(grad)),
        direct_(describe(direct)),
        changed_(describe(changed)) {
    arguments_.inputs = inputs;
  }

  void run(const Tensor& grad_X, const Tensor& grad_offset, const Tensor& grad_mask) {
    arguments_.grad_X = result(grad_X);
    arguments_.grad_offset = result(grad_offset);
    arguments_.grad_mask = result(grad_mask);
    const bool positions =
        arguments_.grad_offset.data != nullptr || arguments_.grad_mask.data != nullptr;
    if (arguments_.grad_X.data == nullptr && !positions) return;
    cuda::Gpu gpu = gpu_with(context_, myops_deform_gradients);
    if (arguments_.grad_X.data != nullptr) list_entries(gpu);
    if (positions) {
      arguments_.direct_sums = make_sums(gpu);
      if (changed_.data != nullptr) arguments_.changed_sums = make_sums(gpu);
    }
    run_rows(gpu, positions);
    if (positions) gpu.launch("finish_entry", entries(), arguments_);
  }

  // `column`: what G is multiplied with; see Column.
  void run_weights(const Tensor& grad_W, int32_t column) {
    DeformWeights arguments{};
    arguments.inputs = arguments_.inputs;
    arguments.grad = grad_;
    arguments.column = column;
    arguments.grad_W = result(grad_W);
    if (arguments.grad_W.data == nullptr) return;
    cuda::Gpu gpu =
        gpu_with(context_, on_tensor_cores() ? myops_deform_weights_tensor : myops_deform_weights);
    const int64_t weights = deform_kernels::weights_of(sizes_);
    const int64_t bytes = weights * static_cast<int64_t>(size_);
    const int64_t wanted = deform_kernels::tiles(sizes_.batch * pixels(), kSlicePixels);
    arguments.slices = std::max<int64_t>(std::min({wanted, kMostSlices, kProductBytes / bytes}), 1);
    arguments.sums = gpu.scratch<char>(arguments.slices, bytes);
    const std::string reason = context_.reports() ? str(arguments.slices, " slices") : "";
    context_.report(name_of(products_), "W", reason);
    if (products_ == Products::Direct) {
      gpu.launch("weights_direct", deform_kernels::weight_threads(arguments), arguments);
    } else {
      gpu.launch_blocks(on_tensor_cores() ? "weights_tensor" : "weights_tile",
                        deform_kernels::weight_blocks(arguments), arguments);
    }
    gpu.launch("add_slices", weights, arguments);
  }

 private:
  bool on_tensor_cores() const { return products_ == Products::TensorCores; }
  int64_t pixels() const { return deform_kernels::pixels(sizes_); }
  int64_t entries() const { return sizes_.batch * deform_kernels::entries_of_image(sizes_); }

  void* make_sums(cuda::Gpu& gpu) const {
    const int64_t bytes = entries() * 4 * static_cast<int64_t>(size_);
    char* sums = gpu.scratch<char>(bytes);
    gpu.fill_zero(sums, bytes);
    return sums;
  }

  void list_entries(cuda::Gpu& gpu) {
    DeformCells& cells = arguments_.cells;
    cells.inputs = arguments_.inputs;
    cells.cells = deform_kernels::cells_of(sizes_);
    const int64_t chunks = deform_kernels::tiles(cells.cells, DeformCells::kChunk);
    cells.count = gpu.scratch<int64_t>(3, cells.cells);
    cells.filled = cells.count + cells.cells;
    cells.start = cells.filled + cells.cells;
    cells.entry = gpu.scratch<int64_t>(entries());
    cells.chunk = gpu.scratch<int64_t>(chunks);
    gpu.fill_zero(cells.count, 2 * cells.cells);  // and `filled`
    gpu.launch("count_entry", entries(), cells);
    gpu.launch("sum_chunk", chunks, cells);
    gpu.launch("start_chunks", 1, cells);
    gpu.launch("start_cells", chunks, cells);
    gpu.launch("list_entry", entries(), cells);
    gpu.launch("sort_cell", cells.cells, cells);
  }

  void run_rows(cuda::Gpu& gpu, bool positions) {
    const int64_t all = sizes_.batch * sizes_.channels, row = sizes_.taps * pixels();
    const int64_t bytes = std::max<int64_t>(row * static_cast<int64_t>(size_), 1);
    const int64_t most = std::max<int64_t>(std::min(kProductBytes / bytes, all), 1);
    if (direct_.data != nullptr) arguments_.direct = gpu.scratch<char>(most, bytes);
    if (changed_.data != nullptr) arguments_.changed = gpu.scratch<char>(most, bytes);
    if (context_.reports()) {
      context_.report(name_of(products_), "X, offset, mask",
                      str(most, " of ", all, " rows at a time"));
    }
    for (int64_t first = 0; first < all; first += most) {
      arguments_.first_row = first;
      arguments_.rows = std::min(most, all - first);
      multiply(direct_, arguments_.direct);
      multiply(changed_, arguments_.changed);
      if (arguments_.grad_X.data != nullptr) {
        gpu.launch("gather_image", arguments_.rows * sizes_.height * sizes_.width, arguments_);
      }
      if (!positions) continue;
      const int64_t last_image = (first + arguments_.rows - 1) / sizes_.channels;
      const int64_t images = last_image - first / sizes_.channels + 1;
      gpu.launch("add_corners", images * deform_kernels::entries_of_image(sizes_), arguments_);
    }
  }

  // T, or T', of the rows that arguments_ names.
  void multiply(const DeformTensor& W, const void* products) {
    if (W.data == nullptr) return;
    cuda::Gpu gpu = gpu_with(
        context_, on_tensor_cores() ? myops_deform_transposed_tensor : myops_deform_transposed);
    const DeformTransposed arguments{
        sizes_, grad_, W, arguments_.first_row, arguments_.rows, const_cast<void*>(products)};
    if (products_ == Products::Direct) {
      gpu.launch("transposed_direct", arguments.rows * sizes_.taps * pixels(), arguments);
    } else {
      gpu.launch_blocks(on_tensor_cores() ? "transposed_tensor" : "transposed_tile",
                        deform_kernels::transposed_blocks(arguments), arguments);
    }
  }

  const KernelContext& context_;
  const size_t size_;  // of a sum
  const DeformSizes sizes_;
  const Products products_;
  const DeformTensor grad_, direct_, changed_;
  DeformGradients arguments_{};
};

}  // namespace

void forward_cuda(KernelContext& context) {
  const Tensor &X = context.input(0), &W = context.input(1), &bias = context.input(3);
  const Tensor& Y = context.output(0);
  DeformForward arguments{};
  arguments.inputs.sizes = describe(ConvShape(context.attributes(), X, W, Y));
  arguments.inputs.X = describe(X);
  arguments.inputs.offset = describe(context.input(2));
  arguments.inputs.mask = describe(context.input(4));
  arguments.terms[0] = {describe(W), deform_kernels::kValue};
  arguments.term_count = 1;
  arguments.bias = bias.present ? bias.data : nullptr;
  arguments.bias_stride = bias.present ? bias.strides[0] : 0;
  arguments.Y = result(Y);
  run_forward(context, arguments);
}

void backward_cuda(KernelContext& context) {
  const Tensor &grad = context.input(0), &X = context.input(1), &W = context.input(2);
  DeformInputs inputs{};
  inputs.sizes = describe(ConvShape(context.attributes(), X, W, grad));
  inputs.X = describe(X);
  inputs.offset = describe(context.input(3));
  inputs.mask = describe(context.input(4));
  Gradients gradients(context, inputs, grad, W, Tensor());
  gradients.run(context.output(0), context.output(2), context.output(3));
  gradients.run_weights(context.output(1), deform_kernels::kValue);
}

void double_backward_cuda(KernelContext& context) {
  const Tensor &grad = context.input(0), &X = context.input(1), &W = context.input(2);
  const Tensor& W_direction = context.input(6);
  DeformInputs inputs{};
  inputs.sizes = describe(ConvShape(context.attributes(), X, W, grad));
  inputs.X = describe(X);
  inputs.offset = describe(context.input(3));
  inputs.mask = describe(context.input(4));
  inputs.X_direction = describe(context.input(5));
  inputs.shift = describe(context.input(7));
  inputs.mask_shift = describe(context.input(8));
  // Whether A' can differ from 0.
  const bool changes = inputs.X_direction.data != nullptr || inputs.shifted();

  DeformForward forward{};
  forward.inputs = inputs;
  if (W_direction.present) {
    forward.terms[forward.term_count++] = {describe(W_direction), deform_kernels::kValue};
  }
  if (changes) forward.terms[forward.term_count++] = {describe(W), deform_kernels::kChange};
  forward.Y = result(context.output(0));
  run_forward(context, forward);

  Gradients gradients(context, inputs, grad, W_direction, changes ? W : Tensor());
  gradients.run(context.output(1), context.output(3), context.output(4));
  if (changes) {
    gradients.run_weights(context.output(2), deform_kernels::kChange);
  } else if (const Tensor& grad_W = context.output(2); grad_W.elements() > 0) {
    const auto bytes = static_cast<int64_t>(byte_count(grad_W.shape, grad_W.dtype));
    gpu_with(context, myops_deform_weights).fill_zero(grad_W.as<char>(), bytes);
  }
}

}  // namespace myops::deform
