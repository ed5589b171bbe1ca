// A source with gaps between its elements, such as a crop of a picture: what is read of it is
// copied side by side, and the plan is made for the copy. Where outputs read little, that takes a
// fraction of the time of a copy of the whole source. Where rows lie in memory in the order of the
// copy, each parallel piece copies what it reads itself, which then is in its core's cache.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
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

// The kept indices of all axes of a tensor, as rows of a row-major copy.
template <class T>
class StridedSource {
 public:
  StridedSource(const Tensor& source, const std::vector<KeptIndices>& kept)
      : source_(source), kept_(kept), last_(source.shape.size() - 1) {
    lengths_.resize(last_ + 1), steps_.resize(last_ + 1);
    for (size_t axis = last_ + 1; axis-- > 0;) {
      const auto some = static_cast<int64_t>(kept[axis].size());
      lengths_[axis] = some > 0 ? some : source.shape[axis];
      steps_[axis] = elements_;
      elements_ *= lengths_[axis];
    }
    // Rows are copied in the order of the source's memory: pixels whose channels lie side by side
    // are read once.
    order_.resize(last_);
    std::iota(order_.begin(), order_.end(), size_t{0});
    Shape step = source.strides;
    for (size_t axis = last_; axis-- > 0;) {
      if (lengths_[axis] == 1) step[axis] = step[axis + 1];  // stays where it is
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return step[a] > step[b]; });
  }

  int64_t elements() const { return elements_; }
  int64_t row() const { return lengths_[last_]; }
  bool in_order() const { return std::is_sorted(order_.begin(), order_.end()); }

  // Copies the rows [begin, end), in the order of the source, to their places in the copy.
  void copy_rows(int64_t begin, int64_t end, T* copy) const {
    for (int64_t row = begin; row < end; ++row) copy_row(row, copy);
  }

 private:
  void copy_row(int64_t row, T* copy) const {
    const T* from = source_.as<const T>();
    T* to = copy;
    for (size_t i = last_; i-- > 0;) {
      const size_t axis = order_[i];
      const int64_t index = row % lengths_[axis];
      row /= lengths_[axis];
      from += (kept_[axis].empty() ? index : kept_[axis][index]) * source_.strides[axis];
      to += index * steps_[axis];
    }
    const int64_t length = lengths_[last_], step = source_.strides[last_];
    if (!kept_[last_].empty()) {
      const int64_t* const columns = kept_[last_].data();
      for (int64_t x = 0; x < length; ++x) to[x] = from[columns[x] * step];
    } else if (step == 1) {
      std::copy_n(from, length, to);
    } else {
      for (int64_t x = 0; x < length; ++x) to[x] = from[x * step];
    }
  }

  const Tensor& source_;
  const std::vector<KeptIndices>& kept_;
  size_t last_;
  int64_t elements_ = 1;
  std::vector<int64_t> lengths_, steps_;  // of the copy
  std::vector<size_t> order_;             // of all axes but the last: the slowest first
};

// Copies all that is read.
template <class T>
void copy_all(const KernelContext& context, const StridedSource<T>& source, T* copy) {
  const int64_t row = source.row();
  context.parallel_for(
      source.elements() / row, (1 << 15) / row + 1,
      [&](int64_t begin, int64_t end) { source.copy_rows(begin, end, copy); });
}

// What kernels read: memory, or a source of which each parallel piece copies a part.
template <class T>
struct Source {
  const T* memory = nullptr;
  const StridedSource<T>* strided = nullptr;
};

// The elements [begin, end) of a source; get() is where element 0 would be.
template <class T>
class SourcePart {
 public:
  SourcePart(const KernelContext& context, const Source<T>& source, int64_t begin, int64_t end)
      : start_(source.memory) {
    if (source.strided == nullptr || begin >= end) return;
    const int64_t row = source.strided->row();
    const int64_t first = begin / row, last = (end + row - 1) / row;
    copy_.emplace(context.scratch_array<T>((last - first) * row + kReadBehind));
    T* const start = copy_->data() - first * row;
    source.strided->copy_rows(first, last, start);
    start_ = start;
  }

  const T* get() const { return start_; }

 private:
  // Vectors may be loaded that reach behind the elements, in the memory of the source.
  static constexpr int64_t kReadBehind = 1024;

  std::optional<ScratchArray<T>> copy_;
  const T* start_;
};

}  // namespace myops::resize::MYOPS_ISA
