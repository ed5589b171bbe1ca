// Images in the order of pixels, [pixel][channel], that a task holds for itself: planes, from which
// the corners of cells that are far apart would be read, and to which they would be added, one
// element at a time.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// Where the gradient of X is summed: channel c of pixel y * width + x is at
// data[c * channel + (y * width + x - first) * pixel], for pixels in [first, last).
template <class A>
struct PixelSums {
  A* data = nullptr;  // null: not needed
  int64_t channel = 0, pixel = 0, first = 0, last = 0;
  bool operator==(const PixelSums& other) const {
    return data == other.data && channel == other.channel && pixel == other.pixel &&
           first == other.first && last == other.last;
  }
};

template <class A>
inline constexpr int64_t kHeld = 4194304 / sizeof(A);  // elements of a held image

// Whether an image of `channels` fits, and is read by enough entries that a copy takes less time.
template <class A>
inline bool holding_pays(const ConvShape& conv, int64_t channels) {
  constexpr double kPixelsOfAnEntry = 4;
  const double pixels = static_cast<double>(conv.height) * static_cast<double>(conv.width);
  const double entries = static_cast<double>(conv.out_height) *
                         static_cast<double>(conv.out_width) * static_cast<double>(conv.taps);
  return channels > 1 && pixels <= kPixelsOfAnEntry * entries &&
         pixels * static_cast<double>(pixel_of<A>(channels)) <= static_cast<double>(kHeld<A>);
}

// The sums of some channels of an image while a task adds to them: the planes of the target are
// copied, and written back. Elements are added in the same order as to the target itself.
template <class A>
class HeldSums {
 public:
  explicit HeldSums(const KernelContext& context) : context_(context) {}

  explicit operator bool() const { return target_.data != nullptr; }
  // The place of the first channel tells blocks of channels apart.
  bool holds(const PixelSums<A>& target) const { return target_ == target; }
  void take(const PixelSums<A>& target, int64_t channels) {
    target_ = target;
    channels_ = channels;
    const int64_t size = pixels() * pixel_of<A>(channels) + kLanes<A>;
    if (size > size_) {
      size_ = size;
      memory_.emplace(context_, size);
    }
    planes_to_pixels(target.data, target.channel, channels, pixels(), memory_->get(),
                     PixelLines{pixel_of<A>(channels), pixels(), 0});
  }
  // The elements behind the channels of a pixel may be added to.
  PixelSums<A> sums() const {
    return {memory_->get(), 1, pixel_of<A>(channels_), target_.first, target_.last};
  }
  void write_back() {
    if (!*this) return;
    pixels_to_planes(memory_->get(), pixel_of<A>(channels_), pixels(), channels_, target_.data,
                     target_.channel);
    target_ = {};
  }

 private:
  int64_t pixels() const { return target_.last - target_.first; }

  const KernelContext& context_;
  PixelSums<A> target_;
  int64_t channels_ = 0, size_ = 0;
  std::optional<Buffer<A>> memory_;
};

}  // namespace myops::deform::MYOPS_ISA
