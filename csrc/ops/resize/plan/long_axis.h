// A long axis that alone is resampled, in few rows: tables of the whole axis are too large to be
// cached between calls, and take several times as long as the rows, most of it for memory that is
// new. Each parallel piece makes the table of its part of the axis instead, in its core's cache.
#pragma once

#include <optional>

#include "plan.h"
#include "table_cache.h"

namespace myops::resize::MYOPS_ISA {

template <class Weight>
class LongAxis {
 public:
  // Nothing if a table of the whole axis takes less time, or if parts of it would not be small.
  static std::optional<LongAxis> of(const Settings& settings, const Axes& axes,
                                    const std::vector<size_t>& order, bool backward) {
    if (settings.mode == Mode::Area || settings.coordinates == Coordinates::TfCropAndResize ||
        !kernel_enabled("resize.long_rows")) {
      return std::nullopt;
    }
    LongAxis found(settings, backward);
    int64_t resized = 0;
    for (const size_t axis : order) {
      const bool same = is_identity(settings, axes[axis]);
      if (!same) found.axis_ = axes[axis], ++resized;
      if (same) (resized == 0 ? found.outer_ : found.volume_) *= axes[axis].input;
    }
    if (resized != 1 || !found.split()) return std::nullopt;
    return found;
  }

  const Settings& settings() const { return settings_; }
  const Axis& axis() const { return axis_; }
  // Of the tensors that the axis begins, in the source and in the result.
  int64_t tensors() const { return outer_; }
  int64_t volume() const { return volume_; }
  int64_t input() const { return backward_ ? axis_.output : axis_.input; }
  int64_t output() const { return backward_ ? axis_.input : axis_.output; }

  // Whether an output has one tap, or two side by side, and so needs no table.
  bool is_plain() const {
    const bool few = settings_.mode == Mode::Nearest || settings_.mode == Mode::Linear;
    return few && !settings_.antialias && volume_ == 1 &&
           axis_.input < std::numeric_limits<int32_t>::max();
  }

  // Parts of the result's axis, [begin(number), end(number)).
  int64_t parts() const { return (output() + length_ - 1) / length_; }
  int64_t begin(int64_t number) const { return number * length_; }
  int64_t end(int64_t number) const { return std::min((number + 1) * length_, output()); }
  // A bound of the memory of a part's tables.
  int64_t bytes() const {
    return static_cast<int64_t>(bytes_of_tables(2 * kElements, 2 * kElements, 4 * kElements));
  }

  // A part as the plan of a tensor whose source begins at index `low` of the source's axis.
  Plan<Weight> part(int64_t number, int64_t& low) const {
    Plan<Weight> plan;
    plan.levels.push_back(
        {backward_ ? gradient(number, low) : forward(number, low), volume_, volume_, volume_});
    return plan;
  }

  // The outputs of the forward pass that may read the inputs of a part of the gradient: they lie
  // side by side, because coordinates ascend.
  std::pair<int64_t, int64_t> readers(int64_t number) const {
    const int64_t reach = settings_.antialias             ? most_taps(settings_, axis_)
                          : settings_.mode == Mode::Cubic ? 3
                                                          : 2;
    const CoordinateMap<Weight> map(settings_, axis_);
    const auto first_after = [&](int64_t input) {
      int64_t from = 0, to = axis_.output;
      while (from < to) {
        const int64_t middle = from + (to - from) / 2;
        map(middle) < static_cast<Weight>(input) ? from = middle + 1 : to = middle;
      }
      return from;
    };
    const int64_t first = begin(number), last = end(number);
    return {first == 0 ? 0 : first_after(first - reach),
            last == axis_.input ? axis_.output : first_after(last + reach)};
  }

 private:
  LongAxis(const Settings& settings, bool backward) : settings_(settings), backward_(backward) {}

  static constexpr int64_t kElements = 1 << 12;  // of a part's source, result or taps

  double bytes_of_tables(double outputs, double inputs, double taps) const {
    constexpr double kTap = sizeof(int64_t) + sizeof(Weight);
    const double forward = sizeof(int64_t) * outputs + kTap * taps;
    if (!backward_) return forward;
    return forward + sizeof(int64_t) * (inputs + std::min(inputs, taps)) + kTap * taps;
  }

  bool split() {
    constexpr int64_t kLeast = 32, kFewRows = 8, kFewPlainRows = 32;
    const int64_t rows = outer_ * volume_;
    if (rows > (is_plain() ? kFewPlainRows : kFewRows)) return false;
    // (For more rows, "lanes" would have a table of its own beside the others.)
    const int64_t most = backward_ && rows > kFewRows ? kMostCachedBytes / 2 : kMostCachedBytes;
    const double inputs = static_cast<double>(axis_.input);
    const double outputs = static_cast<double>(axis_.output);
    const double taps = outputs * static_cast<double>(most_taps(settings_, axis_));
    if (bytes_of_tables(outputs, inputs, taps) <= static_cast<double>(most)) return false;
    length_ = static_cast<int64_t>(static_cast<double>(output()) * kElements /
                                   std::max({inputs, outputs, taps}));
    return length_ >= kLeast && most_taps(settings_, axis_) * kLeast <= kElements;
  }

  TapTable<Weight> forward(int64_t number, int64_t& low) const {
    TapTable<Weight> taps =
        make_part_of_table<Weight>(settings_, axis_, begin(number), end(number));
    low = taps.index.front();
    clip(taps, low, taps.index.back() + 1);
    measure(taps);
    return taps;
  }

  TapTable<Weight> gradient(int64_t number, int64_t& low) const {
    const auto [from, to] = readers(number);
    TapTable<Weight> taps = make_part_of_table<Weight>(settings_, axis_, from, to);
    clip(taps, begin(number), end(number));
    low = from;
    return transposed_map(taps);
  }

  // Keeps the taps of the inputs [begin, end), which become those from 0 on.
  static void clip(TapTable<Weight>& taps, int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t o = 0, k = 0; o < taps.output; ++o) {
      taps.first[o] = count;
      for (const int64_t stop = taps.first[o + 1]; k < stop; ++k) {
        const int64_t index = taps.index[k];
        taps.index[count] = index - begin;
        taps.weight[count] = taps.weight[k];
        count += index >= begin && index < end;
      }
    }
    taps.first[taps.output] = count;
    taps.index.resize(count);
    taps.weight.resize(count);
    taps.input = end - begin;
  }

  Settings settings_;
  Axis axis_;
  bool backward_;
  int64_t outer_ = 1, volume_ = 1, length_ = 0;
};

}  // namespace myops::resize::MYOPS_ISA
