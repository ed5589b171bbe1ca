// The taps of one output element of an axis, as coordinates.h, interpolation_taps.h,
// antialias_taps.h and area_taps.h in ../plan compute them: operation for operation, so that the
// numbers are the same. Tests compare all modes.
#pragma once

#include "myops/device.h"

namespace myops {

// One resampled axis. The enumerators are those of geometry.h, in its order.
struct ResizeAxis {
  int64_t input, output;
  double scale;  // 0: the ratio of the lengths
  double roi_start, roi_end, cubic_a;
  int32_t mode, coordinates, rounding;
  int32_t antialias, exclude_outside, torch_arithmetic, small_picture;
};

namespace resize_kernels {

enum : int32_t { kNearest, kLinear, kCubic, kArea };
enum : int32_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfCropAndResize
};
enum : int32_t { kPreferFloor, kPreferCeil, kFloor, kCeil };

template <class Real>
struct Coordinates {
  explicit Coordinates(const ResizeAxis& axis_) : axis(axis_) {
    input = static_cast<Real>(axis.input);
    output = static_cast<Real>(axis.output);
    last = static_cast<Real>(axis.input - 1);
    scale = axis.scale != 0 ? static_cast<Real>(axis.scale) : output / input;
    step = axis.scale != 0 ? static_cast<Real>(1 / axis.scale) : input / output;
    start = static_cast<Real>(axis.roi_start);
    end = static_cast<Real>(axis.roi_end);
    if (axis.torch_arithmetic != 0 && axis.coordinates == kAlignCorners) {
      step = axis.output > 1 ? (input - 1) / (output - 1) : Real(0);
    }
    const Real adjustment = output / (scale * input);
    offset = input / 2 * (1 - adjustment);
  }

  Real half_pixel(Real x) const {
    const Real half = Real(0.5);
    if (axis.torch_arithmetic != 0) return std::fma(step, x + half, -half);
    return (x + half) / scale - half;
  }

  Real at(int64_t index) const {
    const Real x = static_cast<Real>(index);
    const bool torch = axis.torch_arithmetic != 0;
    switch (axis.coordinates) {
      case kHalfPixel:
        return half_pixel(x);
      case kHalfPixelSymmetric:
        if (torch) return offset + half_pixel(x);
        return static_cast<Real>(offset + (x + 0.5) / scale - 0.5);
      case kPytorchHalfPixel:
        return output > 1 ? half_pixel(x) : Real(0);
      case kAlignCorners:
        if (torch) return step * x;
        return output > 1 ? x * (input - 1) / (output - 1) : Real(0);
      case kAsymmetric:
        return torch ? step * x : x / scale;
      default:
        if (output > 1) {
          return start * (input - 1) + x * (end - start) * (input - 1) / (output - 1);
        }
        return static_cast<Real>(0.5 * (start + end) * (input - 1));
    }
  }

  bool is_inside(Real x) const {
    return axis.coordinates != kTfCropAndResize || (x >= 0 && x <= last);
  }

  const ResizeAxis& axis;
  Real input, output, last, scale, step, start, end, offset;
};

// Output o is the sum of weight[k] * x[inside(base + k, 0, last)] for k below count. No taps: the
// output is outside. `low` and `high` grow or fall with o; all taps are within them.
struct TapRange {
  int64_t base, count, low, high;
};

template <class Real>
Real cubic_near(Real x, Real a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <class Real>
Real cubic_far(Real x, Real a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

template <class Real>
int64_t floor_of(Real x) {
  return static_cast<int64_t>(std::floor(x));
}

template <class Real>
int64_t torch_nearest(const Coordinates<Real>& map, bool exact, int64_t o, Real x) {
  const ResizeAxis& axis = map.axis;
  const auto narrow = [](double position) { return floor_of(static_cast<float>(position)); };
  if (axis.small_picture == 0) return exact ? narrow(larger(x, Real(0)) + 0.5) : narrow(x);
  if (!exact && axis.output == axis.input) return o;
  if (!exact && axis.output == 2 * axis.input) return o / 2;
  const Coordinates<float> single(axis);
  return exact ? narrow((static_cast<double>(o) + 0.5) * single.step)
               : narrow(static_cast<double>(single.at(o)));
}

template <class Real>
int64_t nearest(const Coordinates<Real>& map, int64_t o, Real x) {
  const ResizeAxis& axis = map.axis;
  const bool legacy = axis.coordinates == kAsymmetric && axis.rounding == kFloor;
  const bool exact = axis.coordinates == kHalfPixel && axis.rounding == kPreferCeil;
  if (axis.torch_arithmetic != 0 && (legacy || exact)) return torch_nearest(map, exact, o, x);
  const Real floor = std::floor(x), rest = x - floor, from_tie = rest - Real(0.5);
  const bool tie = (from_tie < 0 ? -from_tie : from_tie) <= Real(1e-6);
  bool up = false;
  if (axis.rounding == kPreferFloor) up = rest > Real(0.5) && !tie;
  if (axis.rounding == kPreferCeil) up = rest > Real(0.5) || tie;
  if (axis.rounding == kCeil) up = rest > 0;
  return static_cast<int64_t>(floor) + (up ? 1 : 0);
}

template <class Real>
TapRange linear_taps(const Coordinates<Real>& map, Real x, Real* weight) {
  const int64_t last = map.axis.input - 1;
  const Real within = inside(x, Real(0), static_cast<Real>(last));
  const int64_t left = smaller(static_cast<int64_t>(within), last);
  const Real rest = smaller(within - static_cast<Real>(left), Real(1));
  weight[1] = left == last ? Real(0.5) : rest;
  weight[0] = 1 - weight[1];
  return {left, 2, left, smaller(left + 1, last)};
}

// Sets the weights outside the input to 0 and scales the others to a sum of 1.
template <class Real>
void exclude(int64_t begin, int64_t last, Real* weight, int64_t count) {
  Real total = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (begin + k < 0 || begin + k > last) weight[k] = 0;
    total += weight[k];
  }
  for (int64_t k = 0; k < count && total != 0; ++k) weight[k] /= total;
}

template <class Real>
TapRange cubic_taps(const Coordinates<Real>& map, Real x, Real* weight) {
  const int64_t last = map.axis.input - 1, left = smaller(floor_of(x), last);
  const Real a = static_cast<Real>(map.axis.cubic_a);
  const Real t = inside(x - static_cast<Real>(left), Real(0), Real(1));
  weight[0] = cubic_far<Real>(t + 1, a);
  weight[1] = cubic_near<Real>(t, a);
  weight[2] = cubic_near<Real>(1 - t, a);
  weight[3] = cubic_far<Real>(2 - t, a);
  if (map.axis.exclude_outside != 0) exclude(left - 1, last, weight, 4);
  const int64_t zero = 0;
  return {left - 1, 4, inside(left - 1, zero, last), inside(left + 2, zero, last)};
}

template <class Real>
Real filter(const ResizeAxis& axis, Real x) {
  x = x < 0 ? -x : x;
  if (axis.mode == kLinear) return x < 1 ? 1 - x : Real(0);
  const Real a = static_cast<Real>(axis.cubic_a);
  return x < 1 ? cubic_near(x, a) : x < 2 ? cubic_far(x, a) : Real(0);
}

// Taps outside the input are left out or moved to the edge; the weights add up to 1.
template <class Real>
TapRange antialias_taps(const Coordinates<Real>& map, int64_t o, int64_t most, Real* weight) {
  const ResizeAxis& axis = map.axis;
  const bool torch = axis.torch_arithmetic != 0 &&
                     (axis.coordinates == kHalfPixel || axis.coordinates == kAlignCorners);
  const Real center =
      torch ? static_cast<Real>(map.step * (static_cast<double>(o) + 0.5)) : map.at(o) + Real(0.5);
  const Real ratio = axis.torch_arithmetic != 0 ? map.step : 1 / map.scale;
  const Real stretch = larger(ratio, Real(1));
  const Real squeeze = 1 / stretch;
  const Real radius = (axis.mode == kLinear ? 1 : 2) * stretch;
  const auto begin = static_cast<int64_t>(std::floor(center - radius + 0.5));
  const auto end = static_cast<int64_t>(std::floor(center + radius + 0.5));
  const int64_t zero = 0, last = axis.input - 1;
  TapRange taps{0, 0, inside(begin, zero, last), inside(end - 1, zero, last)};
  int64_t latest = -1;
  Real total = 0;
  for (int64_t k = begin; k < end; ++k) {
    const bool outside = k < 0 || k > last;
    if (outside && axis.exclude_outside != 0) continue;
    const Real each =
        filter(axis, static_cast<Real>((static_cast<double>(k) - center + 0.5) * squeeze));
    total += each;
    const int64_t place = inside(k, zero, last);
    if (place == latest) {
      weight[taps.count - 1] += each;
    } else if (taps.count < most) {
      if (taps.count == 0) taps.base = place;
      weight[taps.count++] = each;
      latest = place;
    }
  }
  if (total == 0) {  // by rounding, the last filter can lie just outside
    taps.base = inside(begin, zero, last);
    taps.count = 1;
    weight[0] = 1;
    total = 1;
  }
  for (int64_t k = 0; k < taps.count; ++k) weight[k] /= total;
  return taps;
}

// The inputs [begin, end) that output o of mode "area" averages: area_taps.h has the rule.
struct AreaWindow {
  int64_t begin, end;
};

inline AreaWindow area_window(const ResizeAxis& axis, int64_t o) {
  const int64_t output = axis.output, whole = axis.input / output, part = axis.input % output;
  // o * part may have 80 bits, so it is divided in two steps of at most 61 bits.
  const int64_t high = o * (part >> 20), low = o * (part & ((1 << 20) - 1));
  const int64_t remaining = ((high % output) << 20) + low;
  const int64_t rest = remaining % output;
  const int64_t begin = o * whole + ((high / output) << 20) + remaining / output;
  return {begin, begin + whole + (rest + part > output ? 2 : rest + part > 0 ? 1 : 0)};
}

template <class Real>
TapRange area_taps(const ResizeAxis& axis, int64_t o, Real* weight) {
  const AreaWindow window = area_window(axis, o);
  const int64_t count = window.end - window.begin;
  for (int64_t k = 0; k < count; ++k) weight[k] = 1 / static_cast<Real>(count);
  return {window.begin, count, window.begin, window.end - 1};
}

// The taps of output o, at most `most`.
template <class Real>
TapRange taps_of(const ResizeAxis& axis, int64_t o, int64_t most, Real* weight) {
  if (axis.mode == kArea) return area_taps(axis, o, weight);
  const Coordinates<Real> map(axis);
  const Real x = map.at(o);
  const int64_t last = axis.input - 1;
  if (!map.is_inside(x)) {
    const int64_t edge = x > map.last ? last : 0;
    return {edge, 0, edge, edge};
  }
  if (axis.antialias != 0) return antialias_taps(map, o, most, weight);
  if (axis.mode == kLinear) return linear_taps(map, x, weight);
  if (axis.mode == kCubic) return cubic_taps(map, x, weight);
  const int64_t zero = 0, index = inside(nearest(map, o, x), zero, last);
  weight[0] = 1;
  return {index, 1, index, index};
}

// An upper bound of the taps of an output: the filter's width, and a few for rounding.
inline int64_t most_taps(const ResizeAxis& axis) {
  if (axis.mode == kArea) {
    const int64_t part = axis.input % axis.output;
    return axis.input / axis.output + (part > 1 ? 2 : part);
  }
  if (axis.antialias == 0) return axis.mode == kNearest ? 1 : axis.mode == kLinear ? 2 : 4;
  const Coordinates<double> map(axis);
  const double stretch = larger(larger(map.step, 1 / map.scale), 1.0);
  const double window = 2 * (axis.mode == kLinear ? 1 : 2) * stretch;
  const double most = window + 4 + static_cast<double>(axis.input >> 20);
  return static_cast<int64_t>(smaller(most, static_cast<double>(axis.input)));
}

// About how many taps an output has, to choose kernels with.
inline double usual_taps(const ResizeAxis& axis) {
  const double input = static_cast<double>(axis.input), output = static_cast<double>(axis.output);
  if (axis.mode == kArea) return larger(input / output, 1.0) + (axis.input % axis.output != 0);
  const double taps = axis.mode == kNearest ? 1 : axis.mode == kLinear ? 2 : 4;
  return axis.antialias != 0 ? taps * larger(input / output, 1.0) + 0.5 : taps;
}

}  // namespace resize_kernels
}  // namespace myops
