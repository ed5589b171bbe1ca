// A few channels of a tensor along a line of pixels, kLanes pixels at a time: a vector for each
// channel, whether memory has the pixels of a channel side by side or the channels of a pixel.
#pragma once

#include "blocking.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class Lines {
 public:
  using A = Accumulate<T>;
  using V = Vector<A>;

  // Channels from `first` on of an image, 2 * kTaps at most.
  Lines(const Field<const T>& field, int64_t image, int64_t first, int64_t channels)
      : field_(field), image_(image), first_(first), channels_(channels) {}
  explicit operator bool() const { return static_cast<bool>(field_); }
  bool channels_last() const { return field_.channels_last(); }

  // Goes to pixel (y, x); `count` follow in the line, but where channels are side by side, at()
  // knows those of one vector only. What lies behind them reads as NaN.
  void move(int64_t y, int64_t x, int64_t count) {
    if (!field_) return;
    at_ = field_.at(image_, first_, y, x);
    count_ = count;
    if (field_.channels_last()) turn(std::min(count, kLanes<A>));
  }
  // kLanes pixels, from `pixel` on.
  V at(int64_t channel, int64_t pixel) const {
    if (field_.channels_last()) return rows_[channel];
    return read(at_ + channel * field_.step[1] + pixel * field_.step[3], field_.step[3],
                std::min(count_ - pixel, kLanes<A>));
  }

 private:
  static constexpr A kNaN = std::numeric_limits<A>::quiet_NaN();

  // `count` elements, `step` apart.
  V read(const T* from, int64_t step, int64_t count) const {
    if (step == 1 && field_.end - from >= kLanes<A>) {
      const V all = load_wide<A>(from);
      if (count == kLanes<A>) return all;
      A numbers[kLanes<A>];
      for (int64_t i = 0; i < kLanes<A>; ++i) numbers[i] = static_cast<A>(i);
      return load(numbers) < static_cast<A>(count) ? all : V{} + kNaN;
    }
    A parts[kLanes<A>];
    std::fill_n(parts, kLanes<A>, kNaN);
    for (int64_t i = 0; i < count; ++i) parts[i] = static_cast<A>(from[i * step]);
    return load(parts);
  }

  void turn(int64_t count) {
    const int64_t step = field_.step[3];
    if (count_ > kLanes<A>) expect(at_ + kLanes<A> * step);
    for (int64_t c = 0; c < channels_; c += kLanes<A>) {
      const T* first = at_ + c;
      V square[kLanes<A>];
      if (count == kLanes<A> && field_.end - first - (count - 1) * step >= kLanes<A>) {
        // More channels than are wanted are read where memory has them.
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes<A>; ++i) square[i] = load_wide<A>(first + i * step);
      } else {
        const int64_t channels = std::min(channels_ - c, kLanes<A>);
        for (int64_t i = 0; i < kLanes<A>; ++i) {
          square[i] = i < count ? read(first + i * step, 1, channels) : V{} + kNaN;
        }
      }
      transpose<A, kLanes<A>>(square);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kLanes<A>; ++i) rows_[c + i] = square[i];
    }
  }

  // The next pixels: their lines are too far apart for hardware to foresee them.
  void expect(const T* pixel) const {
    for (int64_t i = 0; i < kLanes<A>; ++i, pixel += field_.step[3]) {
      for (int64_t c = 0; c < channels_; c += 64 / static_cast<int64_t>(sizeof(T))) {
        __builtin_prefetch(pixel + c);
      }
      __builtin_prefetch(pixel + channels_ - 1);
    }
  }

  const Field<const T>& field_;
  int64_t image_, first_, channels_;
  const T* at_ = nullptr;
  int64_t count_ = 0;
  V rows_[2 * kTaps];
};

}  // namespace myops::deform::MYOPS_ISA
