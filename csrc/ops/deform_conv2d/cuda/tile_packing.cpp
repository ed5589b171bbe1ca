// The sizes of calls in tiles, and the copies of their inputs.

#include "tile_launch.h"

namespace myops::deform {
namespace {

int64_t up(int64_t length, int64_t each) { return deform_kernels::tiles(length, each) * each; }

int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int64_t size_of(DType dtype) { return static_cast<int64_t>(dtype_size(dtype)); }

// Whether the product of these is a number of 31 bits.
bool small(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor != 0 && product > (int64_t{1} << 30) / factor) return false;
    product *= factor;
  }
  return true;
}

}  // namespace

bool fits_tiles(const DeformSizes& sizes, DType dtype) {
  const int64_t pack = 16 / size_of(dtype), pixels = deform_kernels::pixels(sizes);
  if (sizes.batch == 0 || sizes.channels == 0 || pixels == 0 || sizes.height == 0 ||
      sizes.width == 0 || sizes.taps == 0 || sizes.outputs == 0) {
    return false;
  }
  const int64_t part =
      common_divisor(deform_kernels::channels_of(sizes), deform_kernels::sharing(sizes));
  const int64_t channels = sizes.channels / part * up(part, pack), entries = pixels * sizes.taps;
  const int64_t kernel_height = sizes.taps / sizes.kernel_width;
  return small({sizes.batch, sizes.height + 1, sizes.width + 1, sizes.offset_groups}) &&
         small({sizes.batch, sizes.height, sizes.width, channels / pack}) &&
         small({sizes.height, sizes.width, channels}) && small({channels, sizes.taps}) &&
         small({sizes.batch, pixels + pack}) && small({sizes.batch, sizes.outputs}) &&
         small({sizes.batch, sizes.offset_groups, entries}) &&
         small({sizes.batch, sizes.outputs, pixels}) &&
         small({sizes.outputs + sizes.groups * pack, up(part, pack),
                sizes.channels / sizes.groups / part, sizes.taps}) &&
         small({sizes.out_height, sizes.stride_y}) && small({sizes.out_width, sizes.stride_x}) &&
         small({kernel_height, sizes.dilation_y}) &&
         small({sizes.kernel_width, sizes.dilation_x}) && small({std::abs(sizes.pad_top)}) &&
         small({std::abs(sizes.pad_left)});
}

bool fits_few(const DeformInputs& inputs) {
  const auto fits = [&](const DeformTensor& X) {
    return X.data == nullptr ||
           (small({inputs.sizes.height, X.stride[2]}) && small({inputs.sizes.width, X.stride[3]}));
  };
  return fits(inputs.X) && fits(inputs.X_direction);
}

Packing::Packing(const KernelContext& context, const DeformSizes& sizes)
    : gpu_(gpu_with(context, "packing.h")),
      sizes_(sizes),
      size_(size_of(context.input(0).dtype)),
      pack_(16 / size_) {
  const auto number = [](int64_t value) { return static_cast<int32_t>(value); };
  const int64_t part =
      common_divisor(deform_kernels::channels_of(sizes), deform_kernels::sharing(sizes));
  const int64_t outputs = deform_kernels::outputs_of(sizes), padded = up(part, pack_);
  const int64_t pixels = deform_kernels::pixels(sizes), padded_pixels = up(pixels, pack_);
  shape_.batch = number(sizes.batch);
  shape_.height = number(sizes.height);
  shape_.width = number(sizes.width);
  shape_.outputs = number(outputs);
  shape_.padded_outputs = number(up(outputs, pack_));
  shape_.taps = number(sizes.taps);
  shape_.kernel_width = number(sizes.kernel_width);
  shape_.out_width = number(sizes.out_width);
  shape_.stride_y = number(sizes.stride_y);
  shape_.stride_x = number(sizes.stride_x);
  shape_.dilation_y = number(sizes.dilation_y);
  shape_.dilation_x = number(sizes.dilation_x);
  shape_.pad_top = number(sizes.pad_top);
  shape_.pad_left = number(sizes.pad_left);
  shape_.pixels = number(pixels);
  shape_.padded_pixels = number(padded_pixels);
  shape_.groups = number(sizes.groups);
  shape_.offset_groups = number(sizes.offset_groups);
  shape_.parts = number(sizes.channels / part);
  shape_.parts_of_group = number(deform_kernels::channels_of(sizes) / part);
  shape_.parts_of_offsets = number(deform_kernels::sharing(sizes) / part);
  shape_.channels = number(part);
  shape_.padded_channels = number(padded);
  shape_.by_pixels = divisor_of(pixels);
  shape_.by_padded_pixels = divisor_of(padded_pixels);
  shape_.by_out_width = divisor_of(sizes.out_width);
  shape_.by_kernel_width = divisor_of(sizes.kernel_width);
  shape_.by_taps = divisor_of(sizes.taps);
  shape_.by_channels = divisor_of(padded);
  shape_.by_height = divisor_of(sizes.height);
  shape_.by_width = divisor_of(sizes.width);
  shape_.by_offset_groups = divisor_of(sizes.offset_groups);
}

const void* Packing::image(const DeformTensor& X) {
  if (X.data == nullptr) return nullptr;
  DeformPackedImage arguments{};
  arguments.shape = shape_;
  arguments.X = X;
  const int64_t pixels = sizes_.height * sizes_.width;
  const int64_t channels = int64_t{shape_.parts} * shape_.padded_channels;
  const bool packed = channels == sizes_.channels && X.stride[1] == 1 && X.stride[3] == channels &&
                      X.stride[2] == sizes_.width * channels && X.stride[0] == pixels * channels &&
                      reinterpret_cast<uintptr_t>(X.data) % 16 == 0;
  if (packed) return X.data;
  constexpr int64_t kSide = DeformPackedImage::kSide;
  arguments.pixels = static_cast<int32_t>(pixels);
  arguments.padded = static_cast<int32_t>(channels);
  arguments.across = static_cast<int32_t>(deform_kernels::tiles(pixels, kSide));
  arguments.down = static_cast<int32_t>(deform_kernels::tiles(channels, kSide));
  arguments.packed = gpu_.scratch<char>(sizes_.batch, pixels, channels, size_);
  gpu_.launch_blocks("pack_image", sizes_.batch * arguments.across * arguments.down, arguments);
  return arguments.packed;
}

TileGrad Packing::grad(const DeformTensor& grad) {
  const int64_t* stride = grad.stride;
  const bool packed = shape_.padded_pixels == shape_.pixels && stride[3] == 1 &&
                      stride[2] == sizes_.out_width && stride[1] % pack_ == 0 &&
                      stride[0] % pack_ == 0 && reinterpret_cast<uintptr_t>(grad.data) % 16 == 0;
  if (packed) return {grad.data, stride[0], stride[1]};
  DeformPackedGrad arguments{shape_, grad, static_cast<int32_t>(sizes_.outputs), nullptr};
  const int64_t pixels = shape_.padded_pixels;
  arguments.packed = gpu_.scratch<char>(sizes_.batch, sizes_.outputs, pixels, size_);
  gpu_.launch("pack_grad", sizes_.batch * sizes_.outputs * pixels, arguments);
  return {arguments.packed, sizes_.outputs * pixels, pixels};
}

const void* Packing::weights(const DeformTensor& W, bool outputs_along, int64_t block,
                             int64_t blocks) {
  DeformPackedWeights arguments{};
  arguments.shape = shape_;
  arguments.W = W;
  arguments.block = static_cast<int32_t>(block);
  arguments.blocks = static_cast<int32_t>(blocks);
  arguments.by_block = divisor_of(block);
  arguments.by_blocks = divisor_of(blocks);
  arguments.by_outputs = divisor_of(shape_.padded_outputs);
  const int64_t outputs = shape_.padded_outputs;
  arguments.o_stride = outputs_along ? 1 : sizes_.taps * block;
  arguments.tap_stride = outputs_along ? outputs * block : block;
  arguments.channel_stride = outputs_along ? outputs : 1;
  arguments.packed = gpu_.scratch<char>(arguments.elements(), size_);
  gpu_.launch("pack_weights", arguments.elements(), arguments);
  return arguments.packed;
}

}  // namespace myops::deform
