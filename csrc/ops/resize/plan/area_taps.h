// Tap tables of mode "area": output o of R averages the inputs floor(o L / R) to
// ceil((o + 1) L / R) - 1 of L, as adaptive average pooling does. Intervals of neighbouring outputs
// share an input where R does not divide L.
#pragma once

#include <numeric>

#include "../spec/geometry.h"
#include "tap_table.h"

namespace myops::resize::MYOPS_ISA {

// The intervals in order. Quotient and remainder are updated step by step, because o L may
// overflow.
class AreaWindows {
 public:
  explicit AreaWindows(const Axis& axis)
      : output_(axis.output),
        whole_(axis.input / std::max<int64_t>(axis.output, 1)),
        part_(axis.input % std::max<int64_t>(axis.output, 1)) {}

  // The inputs [begin(), end()) of the present output.
  int64_t begin() const { return begin_; }
  int64_t end() const {
    return begin_ + whole_ + (rest_ + part_ > output_ ? 2 : rest_ + part_ > 0);
  }
  void next() {
    begin_ += whole_;
    rest_ += part_;
    if (rest_ >= output_) ++begin_, rest_ -= output_;
  }
  int64_t widest() const { return whole_ + (part_ > 1 ? 2 : part_); }

 private:
  int64_t output_, whole_, part_;
  int64_t begin_ = 0, rest_ = 0;  // of o L / R
};

template <class Weight>
TapTable<Weight> area_taps(const Axis& axis) {
  TapTable<Weight> taps;
  taps.input = axis.input;
  taps.output = axis.output;
  AreaWindows window(axis);
  const auto most = static_cast<size_t>(axis.output * window.widest());
  taps.first.reserve(static_cast<size_t>(axis.output) + 1);
  taps.index.reserve(most);
  taps.weight.reserve(most);
  taps.first.push_back(0);
  for (int64_t o = 0; o < axis.output; ++o, window.next()) {
    const Weight weight = 1 / static_cast<Weight>(window.end() - window.begin());
    const auto first = static_cast<size_t>(taps.first.back());
    const auto end = first + static_cast<size_t>(window.end() - window.begin());
    taps.index.resize(end);
    std::iota(taps.index.begin() + first, taps.index.end(), window.begin());
    taps.weight.resize(end, weight);
    taps.first.push_back(static_cast<int64_t>(end));
  }
  return taps;
}

}  // namespace myops::resize::MYOPS_ISA
