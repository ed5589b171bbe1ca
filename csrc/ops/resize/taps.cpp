// Tap tables for nearest, linear and cubic, with and without antialiasing.
#include "taps.h"

#include <algorithm>
#include <cmath>

#include "coordinates.h"

namespace myops::resize {
namespace {

template <class Real>
Real clamp(Real value, Real low, Real high) {
  return std::min(std::max(value, low), high);
}

// The nearest index as torch finds it, for the two rounding rules that torch has. It has a second
// kernel for pictures of at most 128 rows and columns together, which knows the scales 1 and 2
// exactly and otherwise takes float32 steps. Both round to float32 before they round down.
template <class Real>
int64_t torch_nearest(const Settings& settings, const Axis& axis, const CoordinateMap<Real>& map,
                      int64_t index) {
  const bool exact = settings.coordinates == Coordinates::HalfPixel;
  double position;
  if (axis.small_picture) {
    if (!exact && axis.output == axis.input) return index;
    if (!exact && axis.output == 2 * axis.input) return index / 2;
    const CoordinateMap<float> narrow(settings, axis);
    position = exact ? (static_cast<double>(index) + 0.5) * narrow.step() : narrow(index);
  } else {
    position = exact ? std::max(map(index), Real(0)) + 0.5 : static_cast<double>(map(index));
  }
  return static_cast<int64_t>(std::floor(static_cast<float>(position)));
}

template <class Real>
int64_t nearest(const Settings& settings, const Axis& axis, const CoordinateMap<Real>& map,
                int64_t index) {
  const bool legacy =
      settings.coordinates == Coordinates::Asymmetric && settings.rounding == Rounding::Floor;
  const bool exact =
      settings.coordinates == Coordinates::HalfPixel && settings.rounding == Rounding::PreferCeil;
  if (settings.torch_arithmetic && (legacy || exact)) {
    return torch_nearest(settings, axis, map, index);
  }
  const Real x = map(index);
  const Real floor = std::floor(x);
  const Real rest = x - floor;
  // (4 + 0.5) / (6 / 20) - 0.5 is 14.5, a tie, but comes out a little less in float32. What is
  // this close counts as a tie, as in current versions of ONNX Runtime; 1.23 split such ties.
  const bool tie = std::abs(rest - Real(0.5)) <= Real(1e-6);
  bool up = false;
  switch (settings.rounding) {
    case Rounding::PreferFloor:
      up = rest > Real(0.5) && !tie;
      break;
    case Rounding::PreferCeil:
      up = rest > Real(0.5) || tie;
      break;
    case Rounding::Floor:
      break;
    case Rounding::Ceil:
      up = rest > 0;
      break;
  }
  return static_cast<int64_t>(floor) + up;
}

// Keys' cubic convolution, near (|x| <= 1) and far (1 <= |x| <= 2).
template <class Real>
Real cubic_near(Real x, Real a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}

template <class Real>
Real cubic_far(Real x, Real a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

template <class Real>
class TapMaker {
 public:
  TapMaker(const Settings& settings, const Axis& axis)
      : settings_(settings), axis_(axis), map_(settings, axis), last_(axis.input - 1) {}

  Taps<Real> make() {
    taps_.input = axis_.input;
    taps_.output = axis_.output;
    taps_.first.reserve(axis_.output + 1);
    taps_.first.push_back(0);
    const int64_t most = axis_.output * most_taps(settings_, axis_);
    taps_.index.reserve(static_cast<size_t>(most));
    taps_.weight.reserve(static_cast<size_t>(most));
    for (int64_t index = 0; index < axis_.output; ++index) {
      if (!is_outside(index)) add_taps(index);
      taps_.first.push_back(static_cast<int64_t>(taps_.index.size()));
    }
    return std::move(taps_);
  }

 private:
  bool is_outside(int64_t index) const {
    if (settings_.coordinates != Coordinates::TfCropAndResize) return false;
    const Real x = map_(index);
    return !(x >= 0 && x <= static_cast<Real>(last_));
  }

  void add_taps(int64_t index) {
    if (settings_.antialias) {
      add_window(index);
    } else if (settings_.mode == Mode::Nearest) {
      add(nearest(settings_, axis_, map_, index), 1);
    } else if (settings_.mode == Mode::Linear) {
      add_linear(map_(index));
    } else {
      add_cubic(map_(index));
    }
  }

  void add(int64_t index, Real weight) {
    taps_.index.push_back(clamp<int64_t>(index, 0, last_));
    taps_.weight.push_back(weight);
  }

  // Past the last element both taps are that element. Halves add up to it exactly, infinity
  // included; 1 and 0 would turn infinity into NaN.
  void add_linear(Real x) {
    const Real inside = clamp<Real>(x, 0, static_cast<Real>(last_));
    const auto left = std::min(static_cast<int64_t>(inside), last_);
    const Real right_weight =
        left == last_ ? Real(0.5) : std::min(inside - static_cast<Real>(left), Real(1));
    add(left, 1 - right_weight);
    add(left + 1, right_weight);
  }

  void add_cubic(Real x) {
    const auto left = std::min(static_cast<int64_t>(std::floor(x)), last_);
    const Real t = clamp<Real>(x - static_cast<Real>(left), 0, 1);
    const Real a = static_cast<Real>(settings_.cubic_a);
    Real weights[4] = {cubic_far<Real>(t + 1, a), cubic_near<Real>(t, a),
                       cubic_near<Real>(1 - t, a), cubic_far<Real>(2 - t, a)};
    if (settings_.exclude_outside) exclude(left - 1, weights, 4);
    for (int64_t k = 0; k < 4; ++k) add(left - 1 + k, weights[k]);
  }

  // Drops the weights outside the input and makes the others add up to 1.
  void exclude(int64_t begin, Real* weights, int64_t count) const {
    Real total = 0;
    for (int64_t k = 0; k < count; ++k) {
      if (begin + k < 0 || begin + k > last_) weights[k] = 0;
      total += weights[k];
    }
    for (int64_t k = 0; k < count && total != 0; ++k) weights[k] /= total;
  }

  Real filter(Real x) const {
    x = std::abs(x);
    if (settings_.mode == Mode::Linear) return x < 1 ? 1 - x : Real(0);
    const Real a = static_cast<Real>(settings_.cubic_a);
    return x < 1 ? cubic_near(x, a) : x < 2 ? cubic_far(x, a) : Real(0);
  }

  // Antialiasing: the filter is stretched by 1 / scale when that makes it wider. `center` is in
  // pixel edges (0.5 is the middle of the first pixel). What falls outside is left out or, without
  // exclude_outside, given to the edge; either way the weights add up to 1.
  void add_window(int64_t index) {
    const bool torch =
        settings_.torch_arithmetic && (settings_.coordinates == Coordinates::HalfPixel ||
                                       settings_.coordinates == Coordinates::AlignCorners);
    const Real center = torch ? static_cast<Real>(map_.step() * (static_cast<double>(index) + 0.5))
                              : map_(index) + Real(0.5);
    const Real ratio = settings_.torch_arithmetic ? map_.step() : 1 / map_.scale();
    const Real stretch = std::max(ratio, Real(1));
    const Real squeeze = 1 / stretch;
    const Real reach = (settings_.mode == Mode::Linear ? 1 : 2) * stretch;
    const auto begin = static_cast<int64_t>(std::floor(center - reach + 0.5));
    const auto end = static_cast<int64_t>(std::floor(center + reach + 0.5));

    const auto start = static_cast<int64_t>(taps_.index.size());
    Real total = 0;
    for (int64_t k = begin; k < end; ++k) {
      const bool outside = k < 0 || k > last_;
      if (outside && settings_.exclude_outside) continue;
      const Real weight =
          filter(static_cast<Real>((static_cast<double>(k) - center + 0.5) * squeeze));
      total += weight;
      const int64_t place = clamp<int64_t>(k, 0, last_);
      const bool again =
          static_cast<int64_t>(taps_.index.size()) > start && taps_.index.back() == place;
      if (again) {
        taps_.weight.back() += weight;
      } else {
        add(place, weight);
      }
    }
    if (total == 0) {  // rounding can push the last window just outside
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
  Taps<Real> taps_;
};

template <class Real>
void measure(Taps<Real>& taps) {
  taps.width = taps.output > 0 ? taps.count(0) : 0;
  for (int64_t o = 0; o < taps.output; ++o) {
    if (taps.count(o) != taps.width) taps.width = 0;
    taps.widest = std::max(taps.widest, taps.count(o));
    if (taps.count(o) == 0) {
      taps.has_empty = true;
      continue;
    }
    const auto range = std::minmax_element(taps.index.begin() + taps.first[o],
                                           taps.index.begin() + taps.first[o + 1]);
    taps.span = std::max(taps.span, *range.second - *range.first + 1);
  }
  if (taps.index.empty()) return;
  const auto range = std::minmax_element(taps.index.begin(), taps.index.end());
  taps.low = *range.first;
  taps.high = *range.second;
}

}  // namespace

// The reach of the filter is that of add_window() above, and a few for what is rounded there.
int64_t most_taps(const Settings& settings, const Axis& axis) {
  if (!settings.antialias) {
    return settings.mode == Mode::Nearest ? 1 : settings.mode == Mode::Linear ? 2 : 4;
  }
  const CoordinateMap<double> map(settings, axis);
  const double stretch = std::max({map.step(), 1 / map.scale(), 1.0});
  const double window = 2 * (settings.mode == Mode::Linear ? 1 : 2) * stretch;
  const double rounded = 4 + static_cast<double>(axis.input >> 20);
  return static_cast<int64_t>(std::min(window + rounded, static_cast<double>(axis.input)));
}

template <class Weight>
Taps<Weight> make_taps(const Settings& settings, const Axis& axis) {
  Taps<Weight> taps = TapMaker<Weight>(settings, axis).make();
  measure(taps);
  return taps;
}

// A counting sort by input index; within one input, outputs stay in order. Where there are many
// taps, an output that reads an input more than once, at an edge, becomes one of them: taps that
// are neighbours are summed faster.
template <class Weight>
Taps<Weight> transpose(const Taps<Weight>& taps) {
  Taps<Weight> turned;
  turned.input = taps.output;
  turned.output = taps.input;
  turned.first.assign(static_cast<size_t>(taps.input) + 1, 0);
  std::vector<int64_t> last(static_cast<size_t>(taps.input));  // output of the latest tap
  std::vector<int64_t> counts(last.size(), 0);
  for (const int64_t index : taps.index) ++counts[index];
  const bool many = *std::max_element(counts.begin(), counts.end()) > 4;
  const auto each_tap = [&](const auto& visit) {  // visit(output, tap, whether it is a new one)
    std::fill(last.begin(), last.end(), -1);
    for (int64_t o = 0; o < taps.output; ++o) {
      for (int64_t k = taps.first[o]; k < taps.first[o + 1]; ++k) {
        visit(o, k, !many || last[taps.index[k]] != o);
        last[taps.index[k]] = o;
      }
    }
  };
  each_tap([&](int64_t, int64_t k, bool fresh) { turned.first[taps.index[k] + 1] += fresh; });
  for (int64_t i = 0; i < taps.input; ++i) turned.first[i + 1] += turned.first[i];
  std::vector<int64_t> next(turned.first.begin(), turned.first.end() - 1);
  turned.index.resize(static_cast<size_t>(turned.first.back()));
  turned.weight.resize(turned.index.size());
  each_tap([&](int64_t o, int64_t k, bool fresh) {
    const int64_t place = fresh ? next[taps.index[k]]++ : next[taps.index[k]] - 1;
    turned.index[place] = o;
    turned.weight[place] = fresh ? taps.weight[k] : turned.weight[place] + taps.weight[k];
  });
  measure(turned);
  return turned;
}

template Taps<float> make_taps(const Settings&, const Axis&);
template Taps<double> make_taps(const Settings&, const Axis&);
template Taps<float> transpose(const Taps<float>&);
template Taps<double> transpose(const Taps<double>&);

}  // namespace myops::resize
