// A source with gaps between its elements, such as a crop of a picture: what is read of it is
// copied side by side, and the plan is made for the copy. Where outputs read little, that takes a
// fraction of the time of a copy of the whole source.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "make_tap_table.h"

namespace myops::resize::MYOPS_ISA {

// The indices along an axis that are copied; none: all of them.
using KeptIndices = std::vector<int64_t>;

// Changes the table to one of the elements that are read, if these are at most half, and returns
// their indices.
template <class Weight>
KeptIndices keep_read(TapTable<Weight>& taps) {
  std::vector<int64_t> place(static_cast<size_t>(taps.input), -1);
  for (const int64_t index : taps.index) place[index] = 0;
  KeptIndices kept;
  for (int64_t index = 0; index < taps.input; ++index) {
    if (place[index] < 0) continue;
    place[index] = static_cast<int64_t>(kept.size());
    kept.push_back(index);
  }
  if (kept.empty() || 2 * static_cast<int64_t>(kept.size()) > taps.input) return {};
  for (int64_t& index : taps.index) index = place[index];
  taps.input = static_cast<int64_t>(kept.size());
  measure(taps);
  return kept;
}

// Copies the kept indices of all axes into row-major memory.
template <class T>
ScratchArray<T> copy_kept(const KernelContext& context, const Tensor& source,
                          const std::vector<KeptIndices>& kept) {
  const size_t rank = source.shape.size();
  std::vector<int64_t> lengths(rank), steps(rank);  // steps: of the copy
  int64_t count = 1;
  for (size_t axis = rank; axis-- > 0;) {
    const auto some = static_cast<int64_t>(kept[axis].size());
    lengths[axis] = some > 0 ? some : source.shape[axis];
    steps[axis] = count;
    count *= lengths[axis];
  }
  context.report("strided_copy", "X",
                 str(count, " of ", source.elements(), " elements are copied side by side"));
  ScratchArray<T> copy = context.scratch_array<T>(count);
  // Rows are copied in the order of the source's memory: pixels whose channels lie side by side are
  // read once.
  const size_t last = rank - 1;
  std::vector<size_t> order(last);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return source.strides[a] > source.strides[b]; });
  const int64_t length = lengths[last], step = source.strides[last];
  const int64_t* const columns = kept[last].empty() ? nullptr : kept[last].data();
  const auto copy_row = [&](int64_t row) {
    const T* from = source.as<const T>();
    T* to = copy.data();
    for (size_t i = last; i-- > 0;) {
      const size_t axis = order[i];
      const int64_t index = row % lengths[axis];
      row /= lengths[axis];
      from += (kept[axis].empty() ? index : kept[axis][index]) * source.strides[axis];
      to += index * steps[axis];
    }
    if (columns != nullptr) {
      for (int64_t x = 0; x < length; ++x) to[x] = from[columns[x] * step];
    } else if (step == 1) {
      std::copy_n(from, length, to);
    } else {
      for (int64_t x = 0; x < length; ++x) to[x] = from[x * step];
    }
  };
  context.parallel_for(count / length, (1 << 15) / length + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) copy_row(row);
  });
  return copy;
}

}  // namespace myops::resize::MYOPS_ISA
