// What the elements of a resized axis are made of, written down a second time: half-pixel
// coordinates in the type that they are specified in, everything else in int64 and double.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "myops/op.h"

using Taps = std::vector<std::pair<int64_t, double>>;

// Of output o: indices and weights.
template <class Real>
inline Taps taps_of(const std::string& mode, int64_t input, int64_t output, int64_t o) {
  if (input == output) return {{o, 1.0}};
  const int64_t last = input - 1;
  if (mode == "area") {
    const int64_t begin = o * input / output, end = ((o + 1) * input + output - 1) / output;
    Taps taps;
    for (int64_t i = begin; i < end; ++i)
      taps.emplace_back(i, 1.0 / static_cast<double>(end - begin));
    return taps;
  }
  const Real scale = static_cast<Real>(output) / static_cast<Real>(input);
  const Real x = (static_cast<Real>(o) + Real(0.5)) / scale - Real(0.5);
  const auto inside = [&](int64_t index) { return std::min(std::max<int64_t>(index, 0), last); };
  const auto left = std::min(static_cast<int64_t>(std::floor(x)), last);
  const double rest = std::min(static_cast<double>(x - static_cast<Real>(left)), 1.0);
  if (mode == "nearest") return {{inside(left + (rest > 0.500001)), 1.0}};
  if (mode == "linear") return {{inside(left), 1 - rest}, {inside(left + 1), rest}};
  const double a = -0.75;
  const auto near = [&](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  const auto far = [&](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  return {{inside(left - 1), far(rest + 1)},
          {inside(left), near(rest)},
          {inside(left + 1), near(1 - rest)},
          {inside(left + 2), far(2 - rest)}};
}

// The attributes of an op, of which some are set.
inline myops::Attributes attributes(
    const myops::Op& op, const std::vector<std::pair<std::string, myops::AttributeValue>>& set) {
  myops::Attributes values(op.attributes);
  for (const auto& [name, value] : set) {
    for (size_t i = 0; i < op.attributes.size(); ++i) {
      if (op.attributes[i].name == name) values.set(i, value);
    }
  }
  return values;
}
