// A source with gaps between its elements, such as a crop of a picture: what is read of it is
// copied side by side, and the plan is made for the copy. Where outputs read little, that takes a
// fraction of the time of a copy of the whole source. Where rows lie in memory in the order of the
// copy, each parallel piece copies what it reads itself, which then is in its core's cache.
#pragma once

#include <algorithm>
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

// The kept indices of all axes of a tensor, as rows of a copy without gaps. `axes`: in the memory
// of the copy, the slowest first. A row is the last axis, or in channels_last memory a row of
// pixels.
template <class T>
class StridedSource {
 public:
  StridedSource(const Tensor& source, const std::vector<KeptIndices>& kept,
                const std::vector<size_t>& axes)
      : source_(source.as<const T>()) {
    const bool pixels = axes.back() + 1 != axes.size();
    for (const size_t axis : axes) {
      const auto some = static_cast<int64_t>(kept[axis].size());
      axes_.push_back({some > 0 ? some : source.shape[axis], source.strides[axis], 0,
                       kept[axis].empty() ? nullptr : kept[axis].data()});
    }
    for (size_t i = axes_.size(); i-- > 0;) {
      axes_[i].step = elements_;
      elements_ *= axes_[i].length;
    }
    if (pixels) {
      pixel_ = axes_.back();
      axes_.pop_back();
    }
    row_ = axes_.back();
    axes_.pop_back();
    // Rows are copied in the order of the source's memory: pixels whose channels lie side by side
    // are read once.
    int64_t stride = row_.stride;
    const auto slower = [](const Axis& a, const Axis& b) { return a.order > b.order; };
    for (size_t i = axes_.size(); i-- > 0;) {
      if (axes_[i].length != 1) stride = axes_[i].stride;  // otherwise it stays where it is
      axes_[i].order = stride;
    }
    in_order_ = std::is_sorted(axes_.begin(), axes_.end(), slower);
    std::stable_sort(axes_.begin(), axes_.end(), slower);
  }

  int64_t elements() const { return elements_; }
  int64_t row() const { return row_.length * pixel_.length; }
  bool in_order() const { return in_order_; }

  // Copies the rows [begin, end), in the order of the source, to their places in the copy.
  void copy_rows(int64_t begin, int64_t end, T* copy) const {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = source_;
      T* to = copy;
      int64_t rest = row;
      for (size_t i = axes_.size(); i-- > 0;) {
        const Axis& axis = axes_[i];
        const int64_t index = rest % axis.length;
        rest /= axis.length;
        from += (axis.kept == nullptr ? index : axis.kept[index]) * axis.stride;
        to += index * axis.step;
      }
      copy_row(from, to);
    }
  }

 private:
  struct Axis {
    int64_t length, stride;
    int64_t step;                   // of the copy
    const int64_t* kept = nullptr;  // null: all indices
    int64_t order = 0;              // the stride by which it is sorted
  };

  void copy_row(const T* from, T* to) const {
    if (row_.kept == nullptr && row_.stride == pixel_.length && pixel_.stride == 1) {
      std::copy_n(from, row(), to);
      return;
    }
    switch (pixel_.length) {
      case 1:
        return copy_pixels(from, to, [](const T* pixel, T* place) { *place = *pixel; });
      case 3:
        return copy_pixels(from, to, [step = pixel_.stride](const T* pixel, T* place) {
          for (int c = 0; c < 3; ++c) place[c] = pixel[c * step];
        });
      default:
        return copy_pixels(from, to, [this](const T* pixel, T* place) {
          for (int64_t c = 0; c < pixel_.length; ++c) place[c] = pixel[c * pixel_.stride];
        });
    }
  }
  template <class Copy>
  void copy_pixels(const T* from, T* to, const Copy& copy) const {
    const int64_t length = row_.length, step = row_.stride, channels = pixel_.length;
    if (row_.kept == nullptr) {
      for (int64_t x = 0; x < length; ++x) copy(from + x * step, to + x * channels);
    } else {
      for (int64_t x = 0; x < length; ++x) copy(from + row_.kept[x] * step, to + x * channels);
    }
  }

  const T* source_;
  int64_t elements_ = 1;
  std::vector<Axis> axes_;  // all but those of a row, the slowest in the source first
  Axis row_{1, 1, 1};       // of pixels
  Axis pixel_{1, 1, 1};     // of channels
  bool in_order_ = false;   // the rows of the source lie in the order of the copy
};

// Copies all that is read.
template <class T>
void copy_all(const KernelContext& context, const StridedSource<T>& source, T* copy) {
  const int64_t row = source.row();
  context.parallel_for(source.elements() / row, (1 << 15) / row + 1,
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
