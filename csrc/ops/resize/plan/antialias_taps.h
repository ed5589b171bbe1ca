// Tap tables with antialiasing: as many taps as the stretched filter covers.
#pragma once

#include "coordinates.h"
#include "cubic.h"
#include "tap_table.h"

namespace myops::resize::MYOPS_ISA {

template <class Real>
class AntialiasTaps {
 public:
  AntialiasTaps(const Settings& settings, const Axis& axis)
      : settings_(settings), axis_(axis), map_(settings, axis), last_(axis.input - 1) {}

  // Of the outputs [from, to).
  TapTable<Real> make(int64_t most, int64_t from, int64_t to) {
    taps_.first.reserve(static_cast<size_t>(to - from) + 1);
    taps_.first.push_back(0);
    taps_.index.reserve(static_cast<size_t>((to - from) * most));
    taps_.weight.reserve(static_cast<size_t>((to - from) * most));
    for (int64_t index = from; index < to; ++index) {
      if (map_.is_inside(map_(index))) add_output(index);
      taps_.first.push_back(static_cast<int64_t>(taps_.index.size()));
    }
    return std::move(taps_);
  }

 private:
  void add(int64_t index, Real weight) {
    taps_.index.push_back(std::clamp<int64_t>(index, 0, last_));
    taps_.weight.push_back(weight);
  }

  Real filter(Real x) const {
    x = std::abs(x);
    if (settings_.mode == Mode::Linear) return x < 1 ? 1 - x : Real(0);
    const Real a = static_cast<Real>(settings_.cubic_a);
    return x < 1 ? cubic_near(x, a) : x < 2 ? cubic_far(x, a) : Real(0);
  }

  // The filter is stretched by 1 / scale if that makes it wider. `center` is measured in pixel
  // edges (0.5 is the middle of the first pixel). Taps outside the input are left out or, without
  // exclude_outside, moved to the edge; in both cases the weights are scaled to a sum of 1.
  void add_output(int64_t index) {
    const bool torch =
        settings_.torch_arithmetic && (settings_.coordinates == Coordinates::HalfPixel ||
                                       settings_.coordinates == Coordinates::AlignCorners);
    const Real center = torch ? static_cast<Real>(map_.step() * (static_cast<double>(index) + 0.5))
                              : map_(index) + Real(0.5);
    const Real ratio = settings_.torch_arithmetic ? map_.step() : 1 / map_.scale();
    const Real stretch = std::max(ratio, Real(1));
    const Real squeeze = 1 / stretch;
    const Real radius = (settings_.mode == Mode::Linear ? 1 : 2) * stretch;
    const auto begin = static_cast<int64_t>(std::floor(center - radius + 0.5));
    const auto end = static_cast<int64_t>(std::floor(center + radius + 0.5));

    const auto start = static_cast<int64_t>(taps_.index.size());
    Real total = 0;
    for (int64_t k = begin; k < end; ++k) {
      const bool outside = k < 0 || k > last_;
      if (outside && settings_.exclude_outside) continue;
      const Real weight =
          filter(static_cast<Real>((static_cast<double>(k) - center + 0.5) * squeeze));
      total += weight;
      const int64_t place = std::clamp<int64_t>(k, 0, last_);
      const bool again =
          static_cast<int64_t>(taps_.index.size()) > start && taps_.index.back() == place;
      if (again) {
        taps_.weight.back() += weight;
      } else {
        add(place, weight);
      }
    }
    if (total == 0) {  // by rounding, the last filter can lie just outside
      taps_.index.resize(static_cast<size_t>(start));
      taps_.weight.resize(static_cast<size_t>(start));
      add(begin, 1);
      total = 1;
    }
    for (auto k = static_cast<size_t>(start); k < taps_.weight.size(); ++k) {
      taps_.weight[k] /= total;
    }
  }

  const Settings& settings_;
  const Axis& axis_;
  CoordinateMap<Real> map_;
  int64_t last_;
  TapTable<Real> taps_;
};

}  // namespace myops::resize::MYOPS_ISA
