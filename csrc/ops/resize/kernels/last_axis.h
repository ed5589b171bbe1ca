// Rows of a result from as many source rows: the pass along the fastest axis in memory, or the axis
// next to the channels, by one of four kernels.
#pragma once

#include "../plan/plan.h"
#include "gather.h"
#include "lanes.h"
#include "pixel_pairs.h"
#include "pixels.h"

namespace myops::resize::MYOPS_ISA {

// The tables of the pass. `taps` must outlive it.
template <class Wide>
struct LastAxisTables {
  std::optional<Gather<Wide>> gather;
  std::optional<LaneTable<Wide>> lanes;
  std::optional<Pixels<Wide>> pixels;
  std::optional<PixelPairs<Wide>> pairs;  // for "few_pixels"
  // The elements of a row that are read, as intervals; with channels innermost, where outputs leave
  // out many, without those between.
  std::vector<std::pair<int64_t, int64_t>> parts_read;

  static double bytes_of_parts(const TapTable<Wide>& taps, int64_t channels) {
    const int64_t most = std::min(taps.input, static_cast<int64_t>(taps.index.size()));
    return within_rows(channels) ? 16 : 16.0 * static_cast<double>(most + 1);
  }
  void find_parts(const TapTable<Wide>& taps, int64_t channels) {
    const int64_t low = taps.low, high = std::max(taps.high, taps.low) + 1;
    if (!within_rows(channels)) {
      int64_t sum = 0;
      for (const auto& [begin, end] : intervals(taps)) {
        parts_read.emplace_back(begin * channels, end * channels);
        sum += end - begin;
      }
      if (4 * sum <= 3 * (high - low)) return;
      parts_read.clear();
    }
    parts_read.emplace_back(low * channels, high * channels);
  }

  // Whether a few channels, innermost, are resampled together with the axis next to them.
  static bool within_rows(int64_t channels) { return GatherTable<Wide>::within_rows(channels); }
  static bool prefers_gather(const TapTable<Wide>& taps, int64_t channels) {
    return kPermutes<Wide> && GatherTable<Wide>::supports(taps, channels) &&
           (taps.width == 2 || taps.width == 4);
  }

  // Whether outputs have so many taps, side by side, that vectors along the row are faster.
  // `widens`: elements of the row are converted for each output.
  static bool reads_runs(const TapTable<Wide>& taps, int64_t channels, bool widens) {
    const int64_t many = widens ? 512 : 64;
    return channels == 1 && taps.widest >= many && taps.span == taps.widest;
  }

 private:
  // The source indices that are read, as ascending intervals that do not touch. The time does not
  // depend on the length of the axis: of 2^31 elements, a few may be read.
  static std::vector<std::pair<int64_t, int64_t>> intervals(const TapTable<Wide>& taps) {
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const int64_t index : taps.index) {  // most continue the interval of the tap before
      if (found.empty() || index < found.back().first - 1 || index > found.back().second) {
        found.emplace_back(index, index + 1);
      } else {
        auto& [begin, end] = found.back();
        begin = std::min(begin, index);
        end = std::max(end, index + 1);
      }
    }
    std::sort(found.begin(), found.end());
    size_t count = 0;
    for (const auto& [begin, end] : found) {
      if (count == 0 || begin > found[count - 1].second) {
        found[count++] = {begin, end};
      } else {
        found[count - 1].second = std::max(found[count - 1].second, end);
      }
    }
    found.resize(count);
    return found;
  }
};

template <class Wide>
class LastAxis {
 public:
  LastAxis(const KernelContext& context, const Plan<Wide>& plan, const LastAxisTables<Wide>& tables)
      : tables_(tables),
        taps_(plan.levels.back().taps),
        stride_(plan.levels.back().in_volume),
        gather_(tables.gather ? &*tables.gather : nullptr) {
    if (tables.lanes) lanes_.emplace(context, *tables.lanes, taps_);
    if (!LastAxisTables<Wide>::within_rows(stride_)) channels_.emplace(context, taps_);
  }

  int64_t outputs() const { return taps_.output; }
  const auto& parts_read() const { return tables_.parts_read; }

  // Whether outputs read so few elements of a row that preparing all between the first and the last
  // would take longer and, for a long row, too much memory.
  bool reads_little() const {
    constexpr double kFew = 16;
    const int64_t span = (std::max(taps_.high, taps_.low) + 1 - taps_.low) * stride_;
    return static_cast<double>(span) >
           kFew * static_cast<double>(stride_) * static_cast<double>(taps_.first[outputs()]);
  }

  static constexpr int64_t kMostTogether = 8 * LaneSum<Wide>::kRows;
  // Of "gather": from more rows at once, the L1 cache loses what they share of a line.
  static constexpr int64_t kGatherTogether = 8;
  // How many rows are best made together, if one takes `bytes` of working memory.
  int64_t together(int64_t bytes) const {
    constexpr int64_t kRowsBytes = 40 << 10, kShortRow = 256;
    if (lanes_) return bytes <= kShortRow ? kMostTogether : LaneSum<Wide>::kRows;
    int64_t rows = tables_.pixels ? Pixels<Wide>::kTogether : 1;
    if (gather_ != nullptr) {
      while (rows < kGatherTogether && 2 * rows * bytes <= kRowsBytes) rows *= 2;
    }
    return rows;
  }

  // Outputs [begin, end) of a row whose elements are value(i), one by one.
  template <class Value, class Out>
  void scalar(int64_t begin, int64_t end, const Value& value, Out* target) const {
    const auto sum = [&](int64_t o) {
      const int64_t first = taps_.first[o], count = taps_.count(o);
      for (int64_t channel = 0; channel < stride_; ++channel) {
        target[(o - begin) * stride_ + channel] = to_element<Out>(weighted<Wide>(
            count, [&](int64_t k) { return taps_.weight[first + k]; },
            [&](int64_t k) { return value(taps_.index[first + k] * stride_ + channel); }));
      }
    };
    if (taps_.is_sparse()) {
      std::memset(static_cast<void*>(target), 0, bytes_of<Out>((end - begin) * stride_));
      return taps_.each_filled(begin, end, sum);
    }
    for (int64_t o = begin; o < end; ++o) sum(o);
  }

  // The name of what makes rows, where there is more than one.
  const char* kernel() const {
    if (channels_) return "slab_sum";
    if (tables_.pixels) return "pixels";
    if (gather_ != nullptr) return "gather";
    return lanes_ ? "lanes" : "one_by_one";
  }

  // Whole rows, `pitch` elements apart. `lines`: as in SlabSum::run(), used where slabs are summed.
  template <class From, class Out>
  void rows(int64_t count, const From* const* sources, Out* target, int64_t pitch,
            LineBuffer<Out>* lines = nullptr) const {
    if constexpr (kPermutes<Wide>) {
      if (gather_ != nullptr) {
        for (int64_t row = 0; row < count; row += kGatherTogether) {
          gather_->sum(0, gather_->elements(),
                       GatherRows<const From* const*, Out>{sources + row,
                                                           std::min(kGatherTogether, count - row),
                                                           target + row * pitch, pitch});
        }
        return;
      }
      if (tables_.pixels) {
        return tables_.pixels->rows(count, 0, outputs(), sources, target, pitch);
      }
    }
    if (lanes_ && count > 1) return lanes_->rows(count, sources, target, pitch);
    for (int64_t row = 0; row < count; ++row) {
      part(0, outputs(), sources[row], target + row * pitch, lines);
    }
  }

  // Outputs [begin, end) of one row. `lines`: as in SlabSum::run().
  template <class From, class Out>
  void part(int64_t begin, int64_t end, const From* source, Out* target,
            LineBuffer<Out>* lines = nullptr) const {
    if (channels_) {
      const SlabPlaces<From> places{source, stride_, source + taps_.input * stride_};
      channels_->run(begin, end, places, stride_, target, lines);
      return;
    }
    if constexpr (kPermutes<Wide>) {
      if (gather_ != nullptr) {
        return gather_->sum(
            begin * stride_, end * stride_,
            GatherRows<const From* const*, Out>{&source, 1, target - begin * stride_, 0});
      }
      if (tables_.pixels) return tables_.pixels->rows(1, begin, end, &source, target, 0);
    }
    if (stride_ == 1 && !taps_.is_sparse() && taps_.widest > 4) {
      for (int64_t o = begin; o < end; ++o) {
        const int64_t first = taps_.first[o], count = taps_.count(o);
        const Wide* weights = taps_.weight.data() + first;
        const int64_t* index = taps_.index.data() + first;
        const bool run = count > 4 && index[count - 1] - index[0] + 1 == count;
        target[o - begin] = to_element<Out>(
            run ? weighted_run(count, weights, source + index[0])
                : weighted<Wide>(
                      count, [&](int64_t k) { return weights[k]; },
                      [&](int64_t k) { return static_cast<Wide>(source[index[k]]); }));
      }
      return;
    }
    if (stride_ == 1 && taps_.widest <= 4) return few_taps(begin, end, source, target);
    scalar(begin, end, [&](int64_t i) { return static_cast<Wide>(source[i]); }, target);
  }

 private:
  // Outputs of one channel that have at most four taps.
  template <class From, class Out>
  void few_taps(int64_t begin, int64_t end, const From* source, Out* target) const {
    const auto run = [&](auto most, auto all) { few<most, all>(begin, end, source, target); };
    using Yes = std::true_type;
    using No = std::false_type;
    if (taps_.width == 2) return run(Count<2>(), Yes());
    if (taps_.width == 4) return run(Count<4>(), Yes());
    switch (taps_.widest) {
      case 0:
      case 1:
        return run(Count<1>(), No());
      case 2:
        return run(Count<2>(), No());
      case 3:
        return run(Count<3>(), No());
      default:
        return run(Count<4>(), No());
    }
  }
  template <int kTaps>
  using Count = std::integral_constant<int, kTaps>;

  // At most kTaps each, padded as in lane_table.h if their number varies: a wrongly predicted
  // branch would take longer than the sum.
  template <int kTaps, bool kAll, class From, class Out>
  MYOPS_NOINLINE void few(int64_t begin, int64_t end, const From* source,
                          Out* __restrict target) const {
    const int64_t *first = taps_.first.data(), *index = taps_.index.data();
    const Wide* weights = taps_.weight.data();
    const int64_t last = first[taps_.output] - 1;
    const auto sum = [=](int64_t o) MYOPS_INLINED {
      const int64_t start = kAll ? o * kTaps : first[o];
      const int64_t count = kAll ? kTaps : first[o + 1] - start;
      Wide total{};
      for (int k = 0; k < kTaps; ++k) {
        const int64_t tap = kAll ? start + k : std::min(start + k, last);
        const Wide x = static_cast<Wide>(source[index[tap]]), w = weights[tap];
        const bool there = kAll || k < count;
        const Wide value = there ? x : Wide(0);
        const Wide weight = there ? w : k == 0 ? Wide(0) : -Wide(0);
        total = k == 0 ? weight * value : fma(weight, value, total);
      }
      return to_element<Out>(total);
    };
    if (last < 0 || taps_.is_sparse()) {
      std::memset(static_cast<void*>(target), 0, bytes_of<Out>(end - begin));
      return taps_.each_filled(begin, end, [&](int64_t o) { target[o - begin] = sum(o); });
    }
    for (int64_t o = begin; o < end; ++o) target[o - begin] = sum(o);
  }

  const LastAxisTables<Wide>& tables_;
  const TapTable<Wide>& taps_;
  const int64_t stride_;
  const Gather<Wide>* gather_;
  std::optional<LaneSum<Wide>> lanes_;
  std::optional<SlabSum<Wide>> channels_;
};

}  // namespace myops::resize::MYOPS_ISA
