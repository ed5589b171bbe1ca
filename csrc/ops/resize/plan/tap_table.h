// The tap table of an axis: the input elements and weights of each output element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../spec/geometry.h"

namespace myops::resize {

// Output o is the sum of weight[k] * input[index[k]] for k in [first[o], first[o + 1]).
// Indices are inside the input: taps outside have been moved to the edge or left out.
// Weight is float, or double for double data; so are all coordinates.
template <class Weight>
struct TapTable {
  int64_t input = 0;
  int64_t output = 0;
  int64_t width = 0;            // the number of taps if all outputs have as many, else 0
  int64_t widest = 0;           // the largest number of taps
  bool has_empty = false;       // some outputs have no taps
  int64_t span = 1;             // the largest distance of indices in one output, plus 1
  int64_t low = 0, high = -1;   // the smallest and largest index of all
  std::vector<int64_t> filled;  // of a transposed table: the outputs that have taps
  std::vector<int64_t> first;
  std::vector<int64_t> index;
  std::vector<Weight> weight;

  int64_t count(int64_t output_index) const {
    return first[output_index + 1] - first[output_index];
  }

  // Whether at least half of the outputs have no taps, and `filled` lists the others.
  bool is_sparse() const {
    return !filled.empty() && 2 * static_cast<int64_t>(filled.size()) <= output;
  }
  // Calls visit(o) for the outputs in [begin, end) that `filled` lists.
  template <class Visit>
  void each_filled(int64_t begin, int64_t end, const Visit& visit) const {
    auto o = begin == 0 ? filled.begin() : std::lower_bound(filled.begin(), filled.end(), begin);
    for (; o != filled.end() && *o < end; ++o) visit(*o);
  }
};

}  // namespace myops::resize
