// The columns A and A' (see taps.h) of one tile, for one block of taps and channels: sampled into
// a buffer that stays in cache and is multiplied at once. The whole column matrix never exists.
#pragma once

#include "image.h"

namespace myops::deform::MYOPS_ISA {

enum class Column : uint8_t { Value, Change };  // A, A'

// All that samples depend on; the directions are absent outside the double backward.
template <class T>
struct Inputs {
  Tensor X, X_direction;
  Positions<T> positions;

  // Whether A' is anything but 0.
  bool changes() const { return X_direction.present || positions.shifted(); }
};

template <class T>
class Columns {
 public:
  using A = Accumulate<T>;

  Columns(const KernelContext& context, const Problem& problem, const Inputs<T>& inputs,
          int64_t pixels)
      : problem_(problem),
        blocking_(problem),
        taps_(context, inputs.positions, blocking_.taps * pixels, false),
        X_(context, problem, inputs.X),
        direction_(context, problem, inputs.X_direction),
        buffer_(context, pixels * blocking_.taps * blocking_.channels + kPanel<A>) {
    buffer_.zero(pixels * blocking_.taps * blocking_.channels + kPanel<A>);
  }

  void place(const Tile& tile, int64_t offset_group, int64_t first, int64_t last) {
    tile_ = tile;
    tap_count_ = last - first;
    taps_.place(problem_, tile, offset_group, first, last);
  }

  // Row p holds the pixel's samples, tap by tap, channels [first, last) of each side by side. It
  // can be read kPanel elements past its end.
  const A* sample(Column column, int64_t first, int64_t last) {
    if (column == Column::Value) {
      interpolate_from<false>(X_, taps_.values(), first, last);
    } else if (taps_.shifted()) {
      interpolate_from<false>(X_, taps_.changes(), first, last);
      if (direction_) interpolate_from<true>(direction_, taps_.values(), first, last);
    } else {
      interpolate_from<false>(direction_, taps_.values(), first, last);
    }
    return buffer_.get();
  }

 private:
  template <bool kAdd>
  void interpolate_from(const Source<T>& source, const Weights<A>* weights, int64_t first,
                        int64_t last) {
    const int64_t count = last - first, pixels = tile_.pixels(), row = tap_count_ * count;
    const int64_t limit = source.needs_window() ? kWindow<A> / count : INT64_MAX;
    in_windows(problem_, taps_.cells(), 0, tap_count_ * pixels, limit,
               [&](const Box& box, int64_t begin, int64_t end) {
                 const View<const A> view = source.view(tile_.image, first, last, box);
                 int64_t tap = begin / pixels, pixel = begin % pixels;
                 A* out = buffer_.get() + pixel * row + tap * count;
                 for (int64_t entry = begin; entry < end; ++entry, out += row) {
                   if (pixel++ == pixels) {
                     pixel = 1;
                     out = buffer_.get() + ++tap * count;
                   }
                   const Corners<A> corners(view, taps_.cells()[entry]);
                   interpolate<kAdd>(corners, weights[entry], count, out);
                 }
               });
  }

  const Problem& problem_;
  Blocking blocking_;
  Tile tile_{};
  int64_t tap_count_ = 0;
  Taps<T> taps_;
  Source<T> X_, direction_;
  Buffer<A> buffer_;
};

}  // namespace myops::deform::MYOPS_ISA
