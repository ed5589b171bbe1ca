// Tap tables without antialiasing: one, two or four taps for each output. The loops process blocks
// of outputs so that compilers vectorise them: otherwise the tables of a small result would take
// longer than its elements.
#pragma once

#include "coordinates.h"
#include "cubic.h"
#include "tap_table.h"

namespace myops::resize::MYOPS_ISA {

template <class Real>
class InterpolationTaps {
 public:
  InterpolationTaps(const Settings& settings, const Axis& axis)
      : settings_(settings), axis_(axis), map_(settings, axis), last_(axis.input - 1) {}

  // Of each of `count` outputs from `begin` on, the element that "nearest" reads, or the left one
  // of "linear" and the weight of the right one.
  void places(int64_t begin, int64_t count, int32_t* left, Real* right) const {
    Real x[kBlock];
    for (int64_t at = 0; at < count; at += kBlock) {
      const int64_t some = std::min(kBlock, count - at);
      map_.fill(begin + at, some, x);
      if (settings_.mode == Mode::Linear) {
        left_and_right(some, x, left + at, right + at);
      } else {
        nearest(begin + at, some, x, left + at);
      }
    }
  }

  // Of the outputs [from, to).
  TapTable<Real> make(int64_t width, int64_t from, int64_t to) {
    TapTable<Real> taps;
    const int64_t outputs = to - from;
    taps.first.resize(static_cast<size_t>(outputs) + 1);
    taps.index.resize(static_cast<size_t>(outputs * width));
    taps.weight.resize(static_cast<size_t>(outputs * width));
    Real x[kBlock];
    for (int64_t begin = from; begin < to; begin += kBlock) {
      const int64_t count = std::min(kBlock, to - begin);
      int64_t* index = taps.index.data() + (begin - from) * width;
      Real* weight = taps.weight.data() + (begin - from) * width;
      map_.fill(begin, count, x);
      if (settings_.coordinates == Coordinates::TfCropAndResize) move_inside(count, x);
      if (settings_.mode == Mode::Nearest) {
        nearest(begin, count, x, index);
        std::fill(weight, weight + count, Real(1));
      } else if (settings_.mode == Mode::Linear) {
        linear(count, x, index, weight);
      } else {
        cubic(count, x, index, weight);
      }
    }
    for (int64_t o = 0; o <= outputs; ++o) taps.first[o] = o * width;
    if (settings_.coordinates == Coordinates::TfCropAndResize) drop_outside(width, from, to, taps);
    return taps;
  }

 private:
  static constexpr int64_t kBlock = 256;

  // Coordinates outside get taps as well, which drop_outside() removes.
  void move_inside(int64_t count, Real* x) const {
    for (int64_t i = 0; i < count; ++i) x[i] = map_.is_inside(x[i]) ? x[i] : Real(0);
  }

  void drop_outside(int64_t width, int64_t from, int64_t to, TapTable<Real>& taps) const {
    int64_t count = 0;
    for (int64_t o = 0; o < to - from; ++o) {
      taps.first[o] = count;
      if (!map_.is_inside(map_(from + o))) continue;
      for (int64_t k = o * width; k < (o + 1) * width; ++k, ++count) {
        taps.index[count] = taps.index[k];
        taps.weight[count] = taps.weight[k];
      }
    }
    taps.first[to - from] = count;
    taps.index.resize(static_cast<size_t>(count));
    taps.weight.resize(static_cast<size_t>(count));
  }

  template <class Index, class Place>
  void nearest_by(int64_t count, Index* index, const Place& place) const {
    const int64_t last = last_;
    for (int64_t i = 0; i < count; ++i) {
      index[i] = static_cast<Index>(std::clamp<int64_t>(place(i), 0, last));
    }
  }

  template <class Index>
  void nearest(int64_t begin, int64_t count, const Real* x, Index* index) const {
    const bool legacy =
        settings_.coordinates == Coordinates::Asymmetric && settings_.rounding == Rounding::Floor;
    const bool exact = settings_.coordinates == Coordinates::HalfPixel &&
                       settings_.rounding == Rounding::PreferCeil;
    if (settings_.torch_arithmetic && (legacy || exact)) {
      return torch_nearest(exact, begin, count, x, index);
    }
    // (4 + 0.5) / (6 / 20) - 0.5 is 14.5, a tie, but a little less in float32. A number this close
    // to a tie counts as one, as in current versions of ONNX Runtime, but not in 1.23.
    const auto rounded = [&](const auto& goes_up) {  // goes_up(what is left, whether it is a tie)
      nearest_by(count, index, [&](int64_t i) {
        const Real floor = std::floor(x[i]), rest = x[i] - floor;
        const bool tie = std::abs(rest - Real(0.5)) <= Real(1e-6);
        return static_cast<int64_t>(floor) + goes_up(rest, tie);
      });
    };
    switch (settings_.rounding) {
      case Rounding::PreferFloor:
        return rounded([](Real rest, bool tie) { return rest > Real(0.5) && !tie; });
      case Rounding::PreferCeil:
        return rounded([](Real rest, bool tie) { return rest > Real(0.5) || tie; });
      case Rounding::Floor:
        return rounded([](Real, bool) { return false; });
      case Rounding::Ceil:
        return rounded([](Real rest, bool) { return rest > 0; });
    }
  }

  // Torch's index, for torch's two rounding rules. Torch has a second kernel for images of at most
  // 128 rows and columns together, which computes the scales 1 and 2 exactly and otherwise uses
  // float32 steps. Both kernels round to float32 before they round down.
  template <class Index>
  void torch_nearest(bool exact, int64_t begin, int64_t count, const Real* x, Index* index) const {
    const auto floor_of = [](auto position) {
      return static_cast<int64_t>(std::floor(static_cast<float>(position)));
    };
    if (!axis_.small_picture) {
      if (!exact) return nearest_by(count, index, [&](int64_t i) { return floor_of(x[i]); });
      return nearest_by(count, index,
                        [&](int64_t i) { return floor_of(std::max(x[i], Real(0)) + 0.5); });
    }
    if (!exact && axis_.output == axis_.input) {
      return nearest_by(count, index, [&](int64_t i) { return begin + i; });
    }
    if (!exact && axis_.output == 2 * axis_.input) {
      return nearest_by(count, index, [&](int64_t i) { return (begin + i) / 2; });
    }
    const CoordinateMap<float> narrow(settings_, axis_);
    nearest_by(count, index, [&](int64_t i) {
      return floor_of(exact ? (static_cast<double>(begin + i) + 0.5) * narrow.step()
                            : static_cast<double>(narrow(begin + i)));
    });
  }

  // Past the last element both taps are that element, with weights of one half: their sum is exact,
  // also for infinity. Weights 1 and 0 would turn infinity into NaN.
  template <class Index>
  void left_and_right(int64_t count, const Real* x, Index* left, Real* right) const {
    const auto last = static_cast<Index>(last_);
    const Real end = static_cast<Real>(last_);
    for (int64_t i = 0; i < count; ++i) {
      const Real inside = std::clamp(x[i], Real(0), end);
      left[i] = std::min(static_cast<Index>(inside), last);
      const Real rest = std::min(inside - static_cast<Real>(left[i]), Real(1));
      right[i] = left[i] == last ? Real(0.5) : rest;
    }
  }

  void linear(int64_t count, const Real* x, int64_t* index, Real* weight) const {
    const int64_t last = last_;
    int64_t left[kBlock];
    Real right[kBlock];
    left_and_right(count, x, left, right);
    for (int64_t i = 0; i < count; ++i) {
      index[2 * i] = left[i];
      index[2 * i + 1] = std::min(left[i] + 1, last);
      weight[2 * i] = 1 - right[i];
      weight[2 * i + 1] = right[i];
    }
  }

  int64_t left_of(Real x) const { return std::min(static_cast<int64_t>(std::floor(x)), last_); }

  void cubic(int64_t count, const Real* x, int64_t* index, Real* weight) const {
    const int64_t last = last_;
    const Real a = static_cast<Real>(settings_.cubic_a);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t left = std::min(static_cast<int64_t>(std::floor(x[i])), last);
      const Real t = std::clamp(x[i] - static_cast<Real>(left), Real(0), Real(1));
      weight[4 * i] = cubic_far<Real>(t + 1, a);
      weight[4 * i + 1] = cubic_near<Real>(t, a);
      weight[4 * i + 2] = cubic_near<Real>(1 - t, a);
      weight[4 * i + 3] = cubic_far<Real>(2 - t, a);
      for (int64_t k = 0; k < 4; ++k) {
        index[4 * i + k] = std::clamp<int64_t>(left - 1 + k, 0, last);
      }
    }
    if (!settings_.exclude_outside) return;
    for (int64_t i = 0; i < count; ++i) exclude(left_of(x[i]) - 1, weight + 4 * i, 4);
  }

  // Sets the weights outside the input to 0 and scales the others to a sum of 1.
  void exclude(int64_t begin, Real* weights, int64_t count) const {
    Real total = 0;
    for (int64_t k = 0; k < count; ++k) {
      if (begin + k < 0 || begin + k > last_) weights[k] = 0;
      total += weights[k];
    }
    for (int64_t k = 0; k < count && total != 0; ++k) weights[k] /= total;
  }

  const Settings& settings_;
  const Axis& axis_;
  CoordinateMap<Real> map_;
  int64_t last_;
};

}  // namespace myops::resize::MYOPS_ISA
