// Copies of the inputs in the layouts that tiles are read from: the channels of a pixel of X are
// neighbours, so that a sample reads whole packs of 16 bytes, and W and G are made of whole packs
// too. What is added at the ends is 0.
#pragma once

#include "deform_conv2d/cuda/shape.h"

namespace myops {

// X, as [batch, height, width, parts, padded channels].
struct DeformPackedImage {
  static constexpr int kThreads = 256, kSide = 32;
  DeformShape shape;
  DeformTensor X;
  int32_t pixels, padded;  // height * width; channels of all parts
  int32_t across, down;    // tiles of kSide pixels, of kSide channels, of an image
  void* packed;
};

// W. `blocks` divide the channels of a part; o and channel have strides of their own:
// [parts, blocks, ...]. See DeformShape::outputs.
struct DeformPackedWeights {
  DeformShape shape;
  DeformTensor W;
  int32_t block, blocks;  // channels of a block, blocks of a part
  int64_t o_stride, tap_stride, channel_stride;
  Divisor by_block, by_blocks, by_outputs;  // by_outputs: padded
  int64_t elements() const {
    return int64_t{shape.parts} * blocks * shape.padded_outputs * shape.taps * block;
  }
  void* packed;
};

// G, as [batch, outputs of all groups, padded pixels].
struct DeformPackedGrad {
  DeformShape shape;
  DeformTensor grad;
  int32_t outputs;
  void* packed;
};

template <class A>
struct PackedImageShared {
  // 16 bits are stored in 32, so that neighbouring threads use different banks.
  A at[DeformPackedImage::kSide][DeformPackedImage::kSide + 1];
};

template <class T, class A, class B>
void pack_image(const DeformPackedImage& arguments, const B& block, int64_t i,
                PackedImageShared<A>& shared) {
  constexpr int kSide = DeformPackedImage::kSide, kRows = DeformPackedImage::kThreads / kSide;
  const DeformShape& shape = arguments.shape;
  const auto tile = static_cast<uint32_t>(i), across = static_cast<uint32_t>(arguments.across);
  const auto down = static_cast<uint32_t>(arguments.down);
  const auto first_pixel = static_cast<int32_t>(tile % across) * kSide;
  const auto first_channel = static_cast<int32_t>(tile / across % down) * kSide;
  const auto n = static_cast<int64_t>(tile / across / down);
  const T* from = static_cast<const T*>(arguments.X.data) + n * arguments.X.stride[0];
  block.each([&](int thread) {  // neighbouring threads have neighbouring pixels
    const int32_t pixel = first_pixel + thread % kSide, y = divided(pixel, shape.by_width);
    if (pixel >= arguments.pixels) return;
    const T* at =
        from + y * arguments.X.stride[2] + (pixel - y * shape.width) * arguments.X.stride[3];
    for (int row = thread / kSide; row < kSide; row += kRows) {
      const int32_t padded = first_channel + row, part = divided(padded, shape.by_channels);
      const int32_t in_part = padded - part * shape.padded_channels;
      A value = 0;
      if (padded < arguments.padded && in_part < shape.channels) {
        value = static_cast<A>(at[(part * shape.channels + in_part) * arguments.X.stride[1]]);
      }
      shared.at[row][thread % kSide] = value;
    }
  });
  block.each([&](int thread) {  // neighbouring threads have neighbouring packs
    constexpr int kPacks = kSide / Pack<T>::kCount;
    for (int e = thread; e < kPacks * kSide; e += DeformPackedImage::kThreads) {
      const int row = e % kPacks * Pack<T>::kCount;
      const int32_t pixel = first_pixel + e / kPacks, channel = first_channel + row;
      if (pixel >= arguments.pixels || channel >= arguments.padded) continue;
      Pack<T> pack;
      for (int v = 0; v < Pack<T>::kCount; ++v) {
        pack.at[v] = static_cast<T>(shared.at[row + v][e / kPacks]);
      }
      const int64_t place = (n * arguments.pixels + pixel) * arguments.padded + channel;
      *reinterpret_cast<Pack<T>*>(static_cast<T*>(arguments.packed) + place) = pack;
    }
  });
}

template <class T, class A>
void pack_weights(const DeformPackedWeights& arguments, int64_t i) {
  const DeformShape& shape = arguments.shape;
  // Neighbouring threads have neighbouring channels.
  const auto e = static_cast<int32_t>(i);
  const int32_t tap_plane = divided(e, arguments.by_block), c = e - tap_plane * arguments.block;
  const int32_t o_plane = divided(tap_plane, shape.by_taps), k = tap_plane - o_plane * shape.taps;
  const int32_t of_part = divided(o_plane, arguments.by_outputs);
  const int32_t o = o_plane - of_part * shape.padded_outputs;
  const int32_t part = divided(of_part, arguments.by_blocks);
  const int32_t channel = (of_part - part * arguments.blocks) * arguments.block + c;
  T value = static_cast<T>(A(0));
  if (o < shape.outputs && channel < shape.channels) {
    const int32_t group = part / shape.parts_of_group;
    const int32_t ky = divided(k, shape.by_kernel_width);
    value = static_cast<const T*>(
        arguments.W.data)[(group * shape.outputs + o) * arguments.W.stride[0] +
                          ((part - group * shape.parts_of_group) * shape.channels + channel) *
                              arguments.W.stride[1] +
                          ky * arguments.W.stride[2] +
                          (k - ky * shape.kernel_width) * arguments.W.stride[3]];
  }
  const int64_t all = int64_t{shape.padded_outputs} * shape.taps * arguments.block;
  static_cast<T*>(arguments.packed)[of_part * all + o * arguments.o_stride +
                                    k * arguments.tap_stride + c * arguments.channel_stride] =
      value;
}

template <class T, class A>
void pack_grad(const DeformPackedGrad& arguments, int64_t i) {
  const DeformShape& shape = arguments.shape;
  const int64_t plane = i / shape.padded_pixels;
  const auto pixel = static_cast<int32_t>(i - plane * shape.padded_pixels);
  const int64_t n = plane / arguments.outputs;
  T value = static_cast<T>(A(0));
  if (pixel < shape.pixels) {
    const auto at = deform_kernels::row_column(shape, pixel);
    const int64_t* stride = arguments.grad.stride;
    value = static_cast<const T*>(
        arguments.grad.data)[n * stride[0] + (plane - n * arguments.outputs) * stride[1] +
                             at.row * stride[2] + at.column * stride[3]];
  }
  static_cast<T*>(arguments.packed)[i] = value;
}

}  // namespace myops

MYOPS_BLOCK_KERNEL(pack_image, DeformPackedImage, PackedImageShared, pack_image)
MYOPS_KERNEL(pack_weights, DeformPackedWeights, pack_weights)
MYOPS_KERNEL(pack_grad, DeformPackedGrad, pack_grad)
