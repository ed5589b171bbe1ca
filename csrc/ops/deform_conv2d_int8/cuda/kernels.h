// deform_conv2d_int8 on CUDA: the integer arithmetic of ../blocking.h, which gives the bits of the
// CPU's kernels. A multiplication of four bytes at once (dp4a) needs factors of one type, so
// samples are multiplied as s - low - 128, which is from -128 to 127, and (low + 128) sum W is
// added.
#pragma once

#include "deform_conv2d/cuda/positions.h"

namespace myops {

struct DeformInt8 {
  static constexpr int kThreads = 256;
  static constexpr int kOutputs = 8;                          // of a thread of int8_direct
  static constexpr int kRows = 64, kColumns = 64, kEach = 4;  // of a block of int8_tile
  DeformInputs inputs;                                        // X of MYOPS_T, the others of float32
  DeformTensor W;
  const void *X_scale, *X_zero_point, *W_scale, *bias;  // null: left out
  int64_t W_scale_stride, bias_stride;
  float mask_limit, inverse_limit;
  DeformResult Y;
};

namespace int8_kernels {

// A place to sample at. The weights of the corners are fractions of 15 bits.
struct Sampler {
  bool hit;
  int64_t y, x;
  int32_t weights[4];
};

// Rounded to nearest, half to even.
inline int32_t fraction(float value) {
  const float below = value < 32767.0f ? value : 32767.0f;
  const float inside = below > -32767.0f ? below : -32767.0f;
  return static_cast<int32_t>(inside + 12582912.0f - 12582912.0f);  // 1.5 * 2^23
}

inline Sampler sampler(const DeformInt8& arguments, int64_t n, int64_t group, int64_t tap,
                       int64_t pixel) {
  const auto at = deform_kernels::position<float, float>(arguments.inputs, n, group, tap, pixel);
  float mask = at.mask * arguments.inverse_limit;
  if (!(mask == mask)) mask = 0;
  mask = inside(mask, -1.0f, 1.0f) * 32768.0f;
  const auto weights = deform_kernels::value_weights(at);
  Sampler made{at.hit, at.y, at.x, {}};
  for (int j = 0; j < 4; ++j) made.weights[j] = fraction(weights.at[j] * mask);
  return made;
}

// What the integers of X are relative to, and the least one of a sample.
struct Range8 {
  int32_t zero, low;
};

template <class T>
Range8 range_of(const DeformInt8& arguments) {
  const void* zero_point = arguments.X_zero_point;
  const int32_t zero = zero_point != nullptr ? *static_cast<const T*>(zero_point) : 0;
  const int32_t least = static_cast<T>(-1) < static_cast<T>(0) ? -128 : 0;
  return {zero, least - zero};
}

// An integer from low to low + 255.
template <class T>
int32_t sample(const DeformInt8& arguments, const Range8& range, int64_t n, int64_t channel,
               const Sampler& at) {
  if (!at.hit) return 0;
  const DeformSizes& sizes = arguments.inputs.sizes;
  int32_t sum = 0;
  for (int j = 0; j < 4; ++j) {
    const int64_t y = at.y + j / 2, x = at.x + j % 2;
    if (y < 0 || y >= sizes.height || x < 0 || x >= sizes.width) continue;
    const int32_t value =
        deform_kernels::read<T, int32_t>(arguments.inputs.X, n, channel, y, x) - range.zero;
    sum += (128 * value * at.weights[j] + 16384) >> 15;
  }
  return inside((sum + 64) >> 7, range.low, range.low + 255);
}

inline int32_t weight(const DeformInt8& arguments, int64_t o, int64_t c, int64_t tap) {
  return deform_kernels::read_weight<int8_t, int32_t>(arguments.inputs.sizes, arguments.W, o, c,
                                                      tap);
}

inline void write_output(const DeformInt8& arguments, int64_t n, int64_t o, int64_t pixel,
                         int32_t sum) {
  const auto number = [](const void* from, int64_t place) {
    return static_cast<const float*>(from)[place];
  };
  const float scale = number(arguments.X_scale, 0) * arguments.mask_limit;
  const float factor = scale * number(arguments.W_scale, o * arguments.W_scale_stride);
  const float bias =
      arguments.bias != nullptr ? number(arguments.bias, o * arguments.bias_stride) : 0.0f;
  const float value = static_cast<float>(sum) * factor + bias;
  const int64_t width = arguments.inputs.sizes.out_width;
  deform_kernels::write<float, float>(arguments.Y, n, o, pixel / width, pixel % width, value);
}

inline int64_t parts(int64_t length, int64_t each) { return (length + each - 1) / each; }

// The number of elements for which int8_direct is launched, and that of blocks of int8_tile.
inline int64_t direct_threads(const DeformSizes& sizes) {
  const int64_t runs = parts(deform_kernels::outputs_of(sizes), DeformInt8::kOutputs);
  return sizes.batch * sizes.groups * runs * deform_kernels::pixels(sizes);
}
inline int64_t tile_blocks(const DeformSizes& sizes) {
  return sizes.groups * parts(deform_kernels::outputs_of(sizes), DeformInt8::kRows) *
         parts(sizes.batch * deform_kernels::pixels(sizes), DeformInt8::kColumns);
}

// Four bytes of each factor, multiplied and added.
inline int32_t dot(int32_t a, int32_t b, int32_t sum) {
#ifdef __CUDACC__
  return __dp4a(a, b, sum);
#else
  for (int i = 0; i < 32; i += 8) {
    sum += static_cast<int8_t>(static_cast<uint32_t>(a) >> i) *
           static_cast<int8_t>(static_cast<uint32_t>(b) >> i);
  }
  return sum;
#endif
}

// byte(i) for the four bytes of a word.
template <class Byte>
int32_t word_of(const Byte& byte) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= (static_cast<uint32_t>(byte(i)) & 255u) << (8 * i);
  return static_cast<int32_t>(word);
}

// Words of four channels: those of a row of W, and those of the samples of a pixel.
struct Words {
  static constexpr int kDepth = 8, kGap = 4;
  int32_t weights[kDepth][DeformInt8::kRows + kGap];
  int32_t samples[kDepth][DeformInt8::kColumns + kGap];
  int32_t totals[DeformInt8::kRows];
  Sampler samplers[DeformInt8::kColumns];
};

struct Sums {
  int32_t at[DeformInt8::kEach][DeformInt8::kEach];
  int32_t total;  // of the weights of a row
};

}  // namespace int8_kernels

// Few outputs in a group: a thread computes kOutputs of one pixel, so that each sample is computed
// once for these.
template <class T, class A>
void int8_direct(const DeformInt8& arguments, int64_t i) {
  constexpr int kOutputs = DeformInt8::kOutputs;
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t pixels = deform_kernels::pixels(sizes), pixel = i % pixels;
  const int64_t each = deform_kernels::outputs_of(sizes);
  const int64_t runs = int8_kernels::parts(each, kOutputs);
  const int64_t run = i / pixels % runs, group = i / pixels / runs % sizes.groups;
  const int64_t n = i / pixels / runs / sizes.groups, first = group * each + run * kOutputs;
  const int64_t count = smaller<int64_t>(kOutputs, (group + 1) * each - first);
  const int64_t channels = deform_kernels::channels_of(sizes), begin = group * channels;
  const int8_kernels::Range8 range = int8_kernels::range_of<T>(arguments);
  int32_t sums[kOutputs] = {};
  for (int64_t k = 0; k < sizes.taps; ++k) {
    int8_kernels::Sampler at{};
    for (int64_t c = begin; c < begin + channels; ++c) {
      const int64_t sharing = deform_kernels::sharing(sizes);
      if (c == begin || c % sharing == 0) {
        at = int8_kernels::sampler(arguments, n, c / sharing, k, pixel);
      }
      const int32_t value = int8_kernels::sample<T>(arguments, range, n, c, at);
      for (int o = 0; o < kOutputs; ++o) {
        if (o < count) sums[o] += int8_kernels::weight(arguments, first + o, c - begin, k) * value;
      }
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    if (o < count) int8_kernels::write_output(arguments, n, first + o, pixel, sums[o]);
  }
}

template <class A>
using Int8Shared = int8_kernels::Words;

// Many outputs in a group: a block computes kRows outputs of kColumns pixels of all images.
template <class T, class A, class B>
void int8_tile(const DeformInt8& arguments, const B& block, int64_t i,
               int8_kernels::Words& shared) {
  constexpr int kRows = DeformInt8::kRows, kColumns = DeformInt8::kColumns;
  constexpr int kEach = DeformInt8::kEach, kDepth = int8_kernels::Words::kDepth;
  static_assert(kRows * kColumns == kEach * kEach * DeformInt8::kThreads, "all of a tile");
  static_assert(kRows == kColumns, "one loop fills both");
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t each = deform_kernels::outputs_of(sizes), pixels = deform_kernels::pixels(sizes);
  const int64_t row_tiles = int8_kernels::parts(each, kRows);
  const int64_t group = i / row_tiles % sizes.groups;
  const int64_t row = i % row_tiles * kRows, first_output = group * each + row;
  const int64_t first = i / row_tiles / sizes.groups * kColumns;
  const int64_t rows = each - row, columns = sizes.batch * pixels - first;
  const int64_t channels = deform_kernels::channels_of(sizes), begin = group * channels;
  const int64_t end = begin + channels, sharing = deform_kernels::sharing(sizes);
  const int8_kernels::Range8 range = int8_kernels::range_of<T>(arguments);
  const int row_step = kColumns / kEach;
  PerThread<int8_kernels::Sums, B::kThreads> sums;
  for (int64_t g = begin / sharing; g * sharing < end; ++g) {
    const int64_t from = larger(g * sharing, begin), to = smaller((g + 1) * sharing, end);
    for (int64_t k = 0; k < sizes.taps; ++k) {
      block.each([&](int thread) {
        if (thread >= kColumns || thread >= columns) return;
        const int64_t n = (first + thread) / pixels, pixel = (first + thread) % pixels;
        shared.samplers[thread] = int8_kernels::sampler(arguments, n, g, k, pixel);
      });
      for (int64_t channel = from; channel < to; channel += 4 * kDepth) {
        const int depth =
            static_cast<int>(smaller<int64_t>(kDepth, int8_kernels::parts(to - channel, 4)));
        block.each([&](int thread) {
          for (int e = thread; e < depth * kRows; e += B::kThreads) {
            const int d = e / kRows, place = e % kRows;
            const int64_t c = channel + 4 * d;
            shared.weights[d][place] = int8_kernels::word_of([&](int byte) {
              if (place >= rows || c + byte >= to) return 0;
              return int8_kernels::weight(arguments, first_output + place, c + byte - begin, k);
            });
            shared.samples[d][place] = int8_kernels::word_of([&](int byte) {
              if (place >= columns || c + byte >= to) return 0;
              const int32_t value = int8_kernels::sample<T>(
                  arguments, range, (first + place) / pixels, c + byte, shared.samplers[place]);
              return value - range.low - 128;
            });
          }
        });
        block.each([&](int thread) {
          const int top = thread / row_step * kEach, left = thread % row_step * kEach;
          int8_kernels::Sums& own = sums[thread];
          for (int d = 0; d < depth; ++d) {
            for (int r = 0; r < kEach; ++r) {
              for (int c = 0; c < kEach; ++c) {
                own.at[r][c] = int8_kernels::dot(shared.weights[d][top + r],
                                                 shared.samples[d][left + c], own.at[r][c]);
              }
            }
            if (thread < kRows) {
              own.total = int8_kernels::dot(shared.weights[d][thread], 0x01010101, own.total);
            }
          }
        });
      }
    }
  }
  block.each([&](int thread) {
    if (thread < kRows) shared.totals[thread] = sums[thread].total;
  });
  block.each([&](int thread) {
    const int top = thread / row_step * kEach, left = thread % row_step * kEach;
    for (int r = top; r < top + kEach; ++r) {
      for (int c = left; c < left + kEach; ++c) {
        if (r >= rows || c >= columns) continue;
        const int32_t sum =
            sums[thread].at[r - top][c - left] + (range.low + 128) * shared.totals[r];
        int8_kernels::write_output(arguments, (first + c) / pixels, first_output + r,
                                   (first + c) % pixels, sum);
      }
    }
  });
}

}  // namespace myops

MYOPS_KERNEL(int8_direct, DeformInt8, int8_direct)
MYOPS_BLOCK_KERNEL(int8_tile, DeformInt8, Int8Shared, int8_tile)
