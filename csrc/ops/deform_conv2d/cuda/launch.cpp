// Launches the CUDA kernels of deform_conv2d, of its gradients, and of theirs.
#include <algorithm>

#include "../conv_shape.h"
#include "describe.h"
#include "entry.h"
#include "gradients.h"
#include "tile_launch.h"

namespace myops::deform {
namespace {

size_t sum_size(DType dtype) { return dtype == DType::Float64 ? sizeof(double) : sizeof(float); }

void run_forward(const KernelContext& context, const DeformForward& arguments) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  if (arguments.Y.data == nullptr) return;
  Products products = products_of(context, sizes, false);
  if (products == Products::Few && !fits_few(arguments.inputs)) products = Products::Direct;
  context.report(name_of(products), "Y");
  if (products == Products::Direct) {
    gpu_with(context, "forward.h")
        .launch("deform_direct", deform_kernels::direct_threads(sizes), arguments);
  } else if (products == Products::Few) {
    forward_few(context, arguments);
  } else {
    forward_tiles(context, arguments, products);
  }
}

// Of the gradient of W: few threads sum the pixels of a slice if W is small (H100, W of 8x2x3x3
// with 158400 pixels: 0.3 ms, and 4.9 ms with 64 slices).
constexpr int64_t kMostSlices = 1024, kSlicePixels = 64;

// The gradients of X, offset, mask and W, for deform_conv2d_backward and for its gradient, without
// tiles.
class DirectGradients {
 public:
  // `direct` and `changed`: the filters that make T' and T; not `present`: there is none.
  DirectGradients(const KernelContext& context, const DeformInputs& inputs, Products products,
                  const Tensor& grad, const Tensor& direct, const Tensor& changed)
      : context_(context),
        size_(sum_size(grad.dtype)),
        sizes_(inputs.sizes),
        products_(products),
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
    cuda::Gpu gpu = gpu_with(context_, "gradients.h");
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
    cuda::Gpu gpu = gpu_with(context_, "weights.h");
    const int64_t weights = deform_kernels::weights_of(sizes_);
    const int64_t bytes = weights * static_cast<int64_t>(size_);
    const int64_t wanted = deform_kernels::tiles(sizes_.batch * pixels(), kSlicePixels);
    arguments.slices = std::max<int64_t>(std::min({wanted, kMostSlices, kProductBytes / bytes}), 1);
    arguments.sums = gpu.scratch<char>(arguments.slices, bytes);
    const std::string reason = context_.reports() ? str(arguments.slices, " slices") : "";
    context_.report(name_of(products_), "W", reason);
    gpu.launch("weights_direct", deform_kernels::weight_threads(arguments), arguments);
    gpu.launch("add_slices", weights, arguments);
  }

 private:
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
    const DeformTransposed arguments{
        sizes_, grad_, W, arguments_.first_row, arguments_.rows, const_cast<void*>(products)};
    gpu_with(context_, "transposed.h")
        .launch("transposed_direct", arguments.rows * sizes_.taps * pixels(), arguments);
  }

  const KernelContext& context_;
  const size_t size_;  // of a sum
  const DeformSizes sizes_;
  const Products products_;
  const DeformTensor grad_, direct_, changed_;
  DeformGradients arguments_{};
};

// The same for either way to compute them.
struct Gradients {
  const Tensor &X, &W, &offset, &mask;  // the results
  int32_t column;                       // what G is multiplied with; see Column
  bool weights = true;                  // whether that of W is computed
};

void run_gradients(const KernelContext& context, const DeformInputs& inputs, const Tensor& grad,
                   const Tensor& direct, const Tensor& changed, const Gradients& wanted) {
  const auto run = [&](auto&& gradients) {
    gradients.run(wanted.X, wanted.offset, wanted.mask);
    if (wanted.weights) gradients.run_weights(wanted.W, wanted.column);
  };
  const Products products = products_of(context, inputs.sizes, true);
  if (products == Products::Direct) {
    run(DirectGradients(context, inputs, products, grad, direct, changed));
  } else {
    run(TileGradients(context, inputs, products, grad, direct, changed));
  }
}

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
  run_gradients(context, inputs, grad, W, Tensor(),
                {context.output(0), context.output(1), context.output(2), context.output(3),
                 deform_kernels::kValue});
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

  run_gradients(context, inputs, grad, W_direction, changes ? W : Tensor(),
                {context.output(1), context.output(2), context.output(3), context.output(4),
                 deform_kernels::kChange, changes});
  if (changes) return;
  if (const Tensor& grad_W = context.output(2); grad_W.elements() > 0) {
    const auto bytes = static_cast<int64_t>(byte_count(grad_W.shape, grad_W.dtype));
    gpu_with(context, "weights.h").fill_zero(grad_W.as<char>(), bytes);
  }
}

}  // namespace myops::deform
