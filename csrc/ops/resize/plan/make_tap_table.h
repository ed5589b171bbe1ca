// The tap tables of an axis, and their transposes.
#pragma once

#include <limits>

#include "antialias_taps.h"
#include "area_taps.h"
#include "interpolation_taps.h"

namespace myops::resize::MYOPS_ISA {

// Computes the members that follow from the taps, whose indices ascend in each output. Of a
// transposed table, `filled` must be there.
template <class Real>
void measure(TapTable<Real>& taps) {
  const int64_t *index = taps.index.data(), *first = taps.first.data();
  int64_t least = std::numeric_limits<int64_t>::max(), widest = 0;
  int64_t span = 1, low = taps.input, high = -1;
  const auto add = [&](int64_t o) {
    const int64_t begin = first[o], end = first[o + 1];
    least = std::min(least, end - begin);
    widest = std::max(widest, end - begin);
    if (begin == end) return;
    low = std::min(low, index[begin]);
    high = std::max(high, index[end - 1]);
    span = std::max(span, index[end - 1] - index[begin] + 1);
  };
  if (taps.is_sparse()) {
    least = 0;
    for (const int64_t o : taps.filled) add(o);
  } else {
    for (int64_t o = 0; o < taps.output; ++o) add(o);
  }
  taps.width = least == widest ? widest : 0;
  taps.widest = widest;
  taps.has_empty = least == 0;
  taps.span = span;
  if (high >= 0) taps.low = low, taps.high = high;
}

// An upper bound of the taps of an output, for memory that is charged before make_tap_table()
// reserves it: the filter's radius as in AntialiasTaps::add_output(), plus a few for rounding.
inline int64_t most_taps(const Settings& settings, const Axis& axis) {
  if (settings.mode == Mode::Area) return AreaWindows(axis).widest();
  if (!settings.antialias) {
    return settings.mode == Mode::Nearest ? 1 : settings.mode == Mode::Linear ? 2 : 4;
  }
  const CoordinateMap<double> map(settings, axis);
  const double stretch = std::max({map.step(), 1 / map.scale(), 1.0});
  const double window = 2 * (settings.mode == Mode::Linear ? 1 : 2) * stretch;
  const double rounded = 4 + static_cast<double>(axis.input >> 20);
  return static_cast<int64_t>(std::min(window + rounded, static_cast<double>(axis.input)));
}

// Of the outputs [begin, end), not with mode "area".
template <class Weight>
TapTable<Weight> make_part_of_table(const Settings& settings, const Axis& axis, int64_t begin,
                                    int64_t end) {
  const int64_t most = most_taps(settings, axis);
  TapTable<Weight> taps = settings.antialias
                              ? AntialiasTaps<Weight>(settings, axis).make(most, begin, end)
                              : InterpolationTaps<Weight>(settings, axis).make(most, begin, end);
  taps.input = axis.input;
  taps.output = end - begin;
  return taps;
}

// An output without taps lies outside the input and gets the extrapolation value.
template <class Weight>
TapTable<Weight> make_tap_table(const Settings& settings, const Axis& axis) {
  TapTable<Weight> taps = settings.mode == Mode::Area
                              ? area_taps<Weight>(axis)
                              : make_part_of_table<Weight>(settings, axis, 0, axis.output);
  measure(taps);
  return taps;
}

// The transposed linear map: the gradient of the input from that of the output. An element without
// taps does not influence any output.
//
// A counting sort by input index; within one input, outputs stay in order. At an edge, where
// outputs read the same input more than once, their taps are merged if the input has more than
// four: consecutive taps are summed faster.
template <class Weight>
TapTable<Weight> transposed_map(const TapTable<Weight>& taps) {
  TapTable<Weight> transposed;
  transposed.input = taps.output;
  transposed.output = taps.input;
  std::vector<int64_t>& first = transposed.first;
  // For a long axis, memory takes the most time: first[i + 1] is where the next tap of i belongs,
  // until all are there and i + 1 begins there.
  const auto length = static_cast<size_t>(taps.input);
  first.assign(length + 2, 0);
  for (const int64_t index : taps.index) ++first[index + 2];
  const bool many[] = {length > 0 && first[2] > 4, first.back() > 4};  // of the two edges
  const auto is_new = [&](int64_t o, int64_t k) {
    return k == taps.first[o] || taps.index[k] != taps.index[k - 1] || !many[taps.index[k] > 0];
  };
  const auto each_tap = [&](const auto& visit) {  // visit(output, tap)
    for (int64_t o = 0; o < taps.output; ++o) {
      for (int64_t k = taps.first[o]; k < taps.first[o + 1]; ++k) visit(o, k);
    }
  };
  const bool merges = many[0] || many[1];
  if (merges) each_tap([&](int64_t o, int64_t k) { first[taps.index[k] + 2] -= !is_new(o, k); });
  // (Without a branch, which would often be predicted wrongly.)
  std::vector<int64_t>& filled = transposed.filled;
  filled.resize(std::min(length, taps.index.size()) + 1);
  size_t count = 0;
  for (size_t i = 0; i < length; ++i) {
    filled[count] = static_cast<int64_t>(i);
    count += first[i + 2] > 0;
    first[i + 2] += first[i + 1];
  }
  filled.resize(count);
  transposed.index.resize(static_cast<size_t>(first.back()));
  transposed.weight.resize(transposed.index.size());
  each_tap([&](int64_t o, int64_t k) {
    int64_t& next = first[taps.index[k] + 1];
    if (!merges || is_new(o, k)) {
      transposed.index[next] = o;
      transposed.weight[next++] = taps.weight[k];
    } else {
      transposed.weight[next - 1] += taps.weight[k];
    }
  });
  first.pop_back();
  measure(transposed);
  return transposed;
}

}  // namespace myops::resize::MYOPS_ISA
