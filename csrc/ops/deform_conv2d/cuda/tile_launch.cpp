#include "tile_launch.h"

#include <algorithm>

#include "describe.h"

namespace myops::deform {
namespace {

// Blocks of threads for the gradient of W. The same on every GPU, because the slices determine the
// order of a sum: three blocks on each of 132 multiprocessors.
constexpr int64_t kWeightBlocks = 396;
constexpr int64_t kLeastSlice = 64;  // pixels; a multiple of every kDepth

int64_t size_of_sum(const KernelContext& context) {
  return context.input(0).dtype == DType::Float64 ? 8 : 4;
}

}  // namespace

namespace {

// The terms of a forward product, in order: add(W, X, weights).
template <class Add>
void each_term(const DeformForward& from, const Add& add) {
  const DeformInputs& inputs = from.inputs;
  for (int32_t term = 0; term < from.term_count; ++term) {
    const DeformTensor& W = from.terms[term].W;
    if (from.terms[term].column == deform_kernels::kValue) {
      add(W, inputs.X, deform_kernels::kMasked);
      continue;
    }
    if (inputs.shifted()) add(W, inputs.X, deform_kernels::kChanges);
    if (inputs.X_direction.data != nullptr) {
      add(W, inputs.X_direction, deform_kernels::kMasked);
    }
  }
}

}  // namespace

void forward_few(const KernelContext& context, const DeformForward& from) {
  Packing packing(context, from.inputs.sizes);
  const DeformShape& shape = packing.shape();
  DeformFewOutputs arguments{};
  arguments.inputs = from.inputs;
  arguments.shape = shape;
  each_term(from, [&](const DeformTensor& W, const DeformTensor& X, int32_t weights) {
    const void* packed = packing.weights(W, true, shape.padded_channels, 1);
    arguments.terms[arguments.term_count++] = {packed, X, weights};
  });
  arguments.runs =
      static_cast<int32_t>(deform_kernels::tiles(shape.outputs, DeformFewOutputs::kOutputs));
  arguments.by_runs = divisor_of(arguments.runs);
  arguments.by_groups = divisor_of(shape.groups);
  arguments.bias = from.bias;
  arguments.bias_stride = from.bias_stride;
  arguments.Y = from.Y;
  gpu_with(context, "few_outputs.h")
      .launch("deform_few", int64_t{shape.batch} * shape.groups * arguments.runs * shape.pixels,
              arguments);
}

void forward_tiles(const KernelContext& context, const DeformForward& from, Products products) {
  const bool tensor = products == Products::TensorCores;
  Packing packing(context, from.inputs.sizes);
  const DeformShape& shape = packing.shape();
  DeformForwardTile arguments{};
  arguments.inputs = from.inputs;
  arguments.shape = shape;
  const void* images[2] = {};  // copies of X and X'
  each_term(from, [&](const DeformTensor& W, const DeformTensor& X, int32_t weights) {
    const void*& image = images[&X == &from.inputs.X ? 0 : 1];
    if (image == nullptr) image = packing.image(X);
    const void* packed = packing.weights(W, !tensor, shape.padded_channels, 1);
    arguments.terms[arguments.term_count++] = {packed, image, weights};
  });
  arguments.row_tiles =
      static_cast<int32_t>(deform_kernels::tiles(shape.outputs, deform_kernels::Tile::kRows));
  arguments.bias = from.bias;
  arguments.bias_stride = from.bias_stride;
  arguments.Y = from.Y;
  const int64_t* stride = from.Y.stride;
  constexpr int64_t kRun = 4;
  arguments.whole = shape.pixels % kRun == 0 && shape.padded_pixels == shape.pixels &&
                    stride[3] == 1 && stride[2] == shape.out_width && stride[1] % kRun == 0 &&
                    stride[0] % kRun == 0 && reinterpret_cast<uintptr_t>(from.Y.data) % 16 == 0;
  // Every sum is the same in tiles of either width.
  const int64_t wide = deform_kernels::forward_blocks(shape, deform_kernels::Tile::kColumns);
  if (tensor) {
    gpu_with(context, "forward_tensor.h").launch_blocks("deform_tensor", wide, arguments);
  } else if (wide < cuda::properties(context).multiprocessors) {
    const int64_t blocks = deform_kernels::forward_blocks(shape, DeformForwardTile::kNarrow);
    gpu_with(context, "forward_narrow.h").launch_blocks("deform_narrow", blocks, arguments);
  } else {
    gpu_with(context, "forward.h").launch_blocks("deform_tile", wide, arguments);
  }
}

TileGradients::TileGradients(const KernelContext& context, const DeformInputs& inputs,
                             Products products, const Tensor& grad, const Tensor& direct,
                             const Tensor& changed)
    : context_(context),
      products_(products),
      inputs_(inputs),
      direct_(describe(direct)),
      changed_(describe(changed)),
      size_(size_of_sum(context)),
      packing_(context, inputs.sizes),
      grad_(packing_.grad(describe(grad))) {
  arguments_.lists.inputs = inputs;
  arguments_.lists.shape = packing_.shape();
}

void TileGradients::run(const Tensor& grad_X, const Tensor& grad_offset, const Tensor& grad_mask) {
  arguments_.grad_X = result(grad_X);
  arguments_.grad_offset = result(grad_offset);
  arguments_.grad_mask = result(grad_mask);
  const bool positions =
      arguments_.grad_offset.data != nullptr || arguments_.grad_mask.data != nullptr;
  if (arguments_.grad_X.data == nullptr && !positions) return;
  cuda::Gpu gpu = gpu_with(context_, "tile_gradients.h");
  if (arguments_.grad_X.data != nullptr) make_lists(gpu);
  if (positions) {
    X_ = arguments_.X = packing_.image(inputs_.X);
    if (changed_.data != nullptr) {
      X_direction_ = arguments_.X_direction = packing_.image(inputs_.X_direction);
    }
  }
  run_rows(gpu, positions);
}

void TileGradients::make_lists(cuda::Gpu& gpu) {
  DeformLists& lists = arguments_.lists;
  const DeformShape& shape = lists.shape;
  const int64_t entries = int64_t{shape.batch} * shape.offset_groups * shape.taps * shape.pixels;
  lists.cells = shape.batch * shape.offset_groups * (shape.height + 1) * (shape.width + 1);
  lists.count = gpu.scratch<int32_t>(2 * int64_t{lists.cells} + 1);
  lists.used = lists.count + lists.cells;
  lists.start = lists.used + 1;
  lists.cell = gpu.scratch<int32_t>(4, entries);
  lists.at = lists.cell + entries;
  lists.entry = lists.at + entries;
  lists.place = lists.entry + entries;
  if (direct_.data != nullptr) lists.masked = gpu.scratch<char>(entries, 4, size_);
  if (changed_.data != nullptr && inputs_.shifted()) {
    lists.changes = gpu.scratch<char>(entries, 4, size_);
  }
  gpu.fill_zero(lists.count, int64_t{lists.cells} + 1);  // and `used`
  gpu.launch("count_list", entries, lists);
  gpu.launch("start_lists", deform_kernels::tiles(lists.cells, DeformLists::kCells), lists);
  gpu.launch("fill_list", entries, lists);
  gpu.launch("sort_list", lists.cells, lists);
  gpu.launch("finish_list", entries, lists);
}

void TileGradients::run_rows(cuda::Gpu& gpu, bool positions) {
  const DeformShape& shape = packing_.shape();
  const int64_t pack = packing_.pack(), padded = shape.padded_channels;
  // As many channels of a part as fit into the memory, in blocks of equal length.
  const int64_t of_pack = int64_t{shape.padded_pixels} * shape.taps * pack * size_;
  const int64_t most_packs = std::max<int64_t>(kProductBytes / of_pack, 1);
  const int64_t blocks = deform_kernels::tiles(padded / pack, most_packs);
  const int64_t block = deform_kernels::tiles(padded / pack, blocks) * pack;
  const int64_t row_bytes = of_pack * (block / pack);
  const int64_t all_blocks = shape.parts * blocks, all = shape.batch * all_blocks;
  const int64_t across =
      deform_kernels::tiles(shape.height * shape.width, DeformTileGradients::kAcross);
  const int64_t down = deform_kernels::tiles(block * size_ / 16, DeformTileGradients::kPacks);
  // Blocks of threads have numbers of 32 bits.
  const int64_t fitting = std::max<int64_t>(
      std::min(kProductBytes / row_bytes, (int64_t{1} << 30) / (across * down)), 1);
  const int64_t passes = deform_kernels::tiles(all, fitting);
  const int64_t most = deform_kernels::tiles(all, passes);
  arguments_.block = static_cast<int32_t>(block);
  arguments_.blocks = static_cast<int32_t>(blocks);
  arguments_.packs = static_cast<int32_t>(block * size_ / 16);
  arguments_.all_blocks = static_cast<int32_t>(all_blocks);
  arguments_.gather_across = static_cast<int32_t>(across);
  arguments_.gather_down = static_cast<int32_t>(down);
  arguments_.by_blocks = divisor_of(blocks);
  arguments_.by_all_blocks = divisor_of(all_blocks);
  arguments_.tiles =
      static_cast<int32_t>(deform_kernels::tiles(shape.pixels, DeformTileGradients::kEntries));
  if (context_.reports()) {
    context_.report(name_of(products_), "X, offset, mask",
                    str(most, " of ", all, " rows at a time"));
  }
  const auto packed = [&](const DeformTensor& W) {
    return W.data == nullptr
               ? nullptr
               : packing_.weights(W, products_ == Products::TensorCores, block, blocks);
  };
  const void *direct = packed(direct_), *changed = packed(changed_);
  if (direct != nullptr) arguments_.direct = gpu.scratch<char>(most, row_bytes);
  if (changed != nullptr) arguments_.changed = gpu.scratch<char>(most, row_bytes);
  // Whether the sums over an offset group may need two passes.
  const int64_t together = shape.parts_of_offsets * blocks;
  if (positions && passes > 1 && most % together != 0) {
    const int64_t entries = int64_t{shape.batch} * shape.offset_groups * shape.taps * shape.pixels;
    arguments_.direct_sums = gpu.scratch<char>(entries, 4, size_);
    if (changed != nullptr) arguments_.changed_sums = gpu.scratch<char>(entries, 4, size_);
  }
  for (int64_t first = 0; first < all; first += most) {
    arguments_.first_row = static_cast<int32_t>(first);
    arguments_.rows = static_cast<int32_t>(std::min(most, all - first));
    multiply(direct, arguments_.direct);
    multiply(changed, arguments_.changed);
    if (arguments_.grad_X.data != nullptr) {
      gpu.launch_blocks("gather_packs", deform_kernels::gather_blocks(arguments_), arguments_);
    }
    if (positions) {
      gpu.launch_blocks("add_channels", deform_kernels::channel_blocks(arguments_), arguments_);
    }
  }
}

// T, or T', of the rows that arguments_ names.
void TileGradients::multiply(const void* W, const void* products) {
  if (W == nullptr) return;
  const DeformShape& shape = packing_.shape();
  const bool tensor = products_ == Products::TensorCores;
  DeformTransposedTile arguments{};
  arguments.shape = shape;
  arguments.grad = grad_.data;
  arguments.image_stride = grad_.image_stride;
  arguments.output_stride = grad_.output_stride;
  arguments.W = W;
  arguments.blocks_of_group = shape.parts_of_group * arguments_.blocks;
  arguments.all_blocks = arguments_.all_blocks;
  arguments.columns = shape.taps * arguments_.block;
  arguments.pixel_tiles =
      static_cast<int32_t>(deform_kernels::tiles(shape.padded_pixels, deform_kernels::Tile::kRows));
  arguments.column_tiles = static_cast<int32_t>(
      deform_kernels::tiles(arguments.columns, deform_kernels::Tile::kColumns));
  arguments.first_row = arguments_.first_row;
  arguments.rows = arguments_.rows;
  arguments.products = const_cast<void*>(products);
  gpu_with(context_, tensor ? "transposed_tensor.h" : "transposed.h")
      .launch_blocks(tensor ? "transposed_tensor" : "transposed_tile",
                     deform_kernels::transposed_blocks(arguments), arguments);
}

void TileGradients::run_weights(const Tensor& grad_W, int32_t column) {
  const DeformShape& shape = packing_.shape();
  const bool tensor = products_ == Products::TensorCores;
  DeformWeightsTile arguments{};
  arguments.inputs = inputs_;
  arguments.shape = shape;
  arguments.grad = grad_.data;
  arguments.image_stride = grad_.image_stride;
  arguments.output_stride = grad_.output_stride;
  arguments.grad_W = result(grad_W);
  if (arguments.grad_W.data == nullptr) return;
  const auto add = [&](const DeformTensor& image, const void*& packed, int32_t weights) {
    if (packed == nullptr) packed = packing_.image(image);
    arguments.terms[arguments.term_count++] = {packed, weights};
  };
  const bool changes = column == deform_kernels::kChange;
  if (!changes) add(inputs_.X, X_, deform_kernels::kMasked);
  if (changes && inputs_.shifted()) add(inputs_.X, X_, deform_kernels::kChanges);
  if (changes && inputs_.X_direction.data != nullptr) {
    add(inputs_.X_direction, X_direction_, deform_kernels::kMasked);
  }
  arguments.row_tiles =
      static_cast<int32_t>(deform_kernels::tiles(shape.outputs, deform_kernels::Tile::kRows));
  arguments.column_tiles = static_cast<int32_t>(
      deform_kernels::tiles(arguments.columns(), deform_kernels::Tile::kColumns));
  const int64_t all = int64_t{shape.batch} * shape.padded_pixels;
  const int64_t tiles = int64_t{shape.groups} * arguments.row_tiles * arguments.column_tiles;
  const int64_t sums = int64_t{shape.groups} * shape.outputs * arguments.columns();
  const int64_t most =
      std::max<int64_t>(std::min(kWeightBlocks / tiles, kProductBytes / (sums * size_)), 1);
  const int64_t pixels =
      deform_kernels::tiles(deform_kernels::tiles(all, most), kLeastSlice) * kLeastSlice;
  arguments.slice_pixels = static_cast<int32_t>(pixels);
  arguments.slices = static_cast<int32_t>(deform_kernels::tiles(all, pixels));
  cuda::Gpu gpu = gpu_with(context_, tensor ? "weights_tensor.h" : "weights.h");
  arguments.sums = gpu.scratch<char>(arguments.slices, sums, size_);
  const std::string reason = context_.reports() ? str(arguments.slices, " slices") : "";
  context_.report(name_of(products_), "W", reason);
  gpu.launch_blocks(tensor ? "weights_tensor" : "weights_tile",
                    deform_kernels::weight_blocks(arguments), arguments);
  gpu.launch("add_tile_slices", sums, arguments);
}

}  // namespace myops::deform
