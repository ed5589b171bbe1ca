// How deform_conv2d_int8 is divided into blocks; see ../deform_conv2d/blocking.h.
//
// X and W are bytes. A sample is the weighted sum of four pixels, in integers:
//   q_j = X_j - zero_point, and 0 outside the image
//   w_j = round(32768 * weight of corner j * mask / mask_limit), at most 32767 in magnitude
//   s   = (sum_j (128 q_j w_j + 2^14 >> 15) + 64) >> 7, within the integers that X can have
// Products are divided one by one, as the instructions of every set do it; s is off by at most
// 0.54. The sums over samples and weights are exact in 32 bits, whatever their order:
//   Y = X_scale * mask_limit * W_scale * sum W s + B
// So results are equal bit for bit on all instruction sets, in addition to all runtimes.
#pragma once

#include "../deform_conv2d/blocking.h"

namespace myops::deform::MYOPS_ISA {

inline constexpr int64_t kGroup = 16;         // channels are rounded up to a multiple
inline constexpr int64_t kByteChannels = 64;  // channels of a block
inline constexpr int64_t kByteOutputs = 512;  // output channels of a task
inline constexpr int64_t kByteStrip = 32768;  // bytes that are sampled at a time: stays in L1
inline constexpr int kShift = 7;              // of the pixels in a window

// Channels of one weight group and one offset group, some taps: what a product sums over.
struct BytePart {
  int64_t offset_group;
  Range taps, channels;
  int64_t padded() const { return round_up(channels.count(), kGroup); }
  int64_t row() const { return taps.count() * padded(); }  // factors of a pixel
};

struct ByteBlocking {
  int64_t taps, channels, chunks, outputs;  // of a full block; per group; of a full chunk

  explicit ByteBlocking(const ConvShape& conv)
      : taps(Blocking(conv).taps),
        chunks(panels(conv.group_outputs(), kByteOutputs)),
        outputs(round_up(panels(conv.group_outputs(), chunks), kPanel<int32_t>)) {
    const int64_t length = std::min(conv.channels_per_offset(), conv.group_channels());
    channels = round_up(panels(length, panels(length, kByteChannels)), kGroup);
    chunks = panels(conv.group_outputs(), outputs);
  }

  Range outputs_of(const ConvShape& conv, int64_t group, int64_t chunk) const {
    const int64_t base = group * conv.group_outputs(), first = chunk * outputs;
    return {base + first, base + std::min(first + outputs, conv.group_outputs())};
  }

  // Calls on_taps(part) for the taps of an offset group, then on_part(part) for blocks of channels.
  template <class OnTaps, class OnPart>
  void for_each(const ConvShape& conv, int64_t group, const OnTaps& on_taps,
                const OnPart& on_part) const {
    const int64_t share = conv.channels_per_offset();
    const Range all{group * conv.group_channels(), (group + 1) * conv.group_channels()};
    for (int64_t d = all.first / share; d * share < all.last; ++d) {
      const Range some{std::max(all.first, d * share), std::min(all.last, (d + 1) * share)};
      for (int64_t k = 0; k < conv.taps; k += taps) {
        const Range some_taps{k, std::min(k + taps, conv.taps)};
        on_taps(BytePart{d, some_taps, some});
        for (int64_t c = some.first; c < some.last; c += channels) {
          on_part(BytePart{d, some_taps, {c, std::min(c + channels, some.last)}});
        }
      }
    }
  }
};

}  // namespace myops::deform::MYOPS_ISA
