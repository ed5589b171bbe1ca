// The last two levels, rows and columns, where a slab of the level of the rows is one row. Source
// rows are first resampled into a strip, a buffer, and then combined; or, if the axis of the rows
// shrinks (Level::first), first combined and then resampled.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "last_axis.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
class Strips {
 public:
  // `element`: the bytes of an element of the result.
  Strips(const KernelContext& context, const Plan<Wide>& plan, const LastAxis<Wide>& last,
         size_t element, bool streams)
      : level_(plan.levels[plan.levels.size() - 2]),
        last_(last),
        sum_(context, level_.taps, plan.levels.size() == 2 && plan.zeroes_first()) {
    constexpr int64_t kBytes = 128 << 10;
    if (level_.first) {
      if (last_.reads_little()) return;
      strip_ = last_.together((level_.in_volume + level_.out_volume) *
                              static_cast<int64_t>(sizeof(Wide)));
      rows_.emplace(context.scratch(bytes_of<Wide>(strip_, level_.in_volume)));
      if (streams) {
        result_.emplace(context.scratch(element * static_cast<size_t>(strip_ * level_.out_volume)));
      }
    } else {
      pitch_ = pitch_of(level_.out_volume);
      const int64_t bytes = pitch_ * static_cast<int64_t>(sizeof(Wide));
      const int64_t group = last_.together(bytes);
      const int64_t most =
          std::min(kBytes / std::max<int64_t>(bytes, 1), level_.taps.input * plan.outer);
      strip_ = std::max<int64_t>(1, most / group) * group + level_.taps.span - 1;
      rows_.emplace(context.scratch(bytes_of<Wide>(strip_, pitch_)));
    }
    sources_.emplace(context.scratch(bytes_of<const void*>(strip_, 1)));
  }

  // `lines`: as in SlabSum::run().
  template <class From, class Out>
  void fill(int64_t begin, int64_t end, const From* source, LineBuffer<Out>* lines, Out* target) {
    if (level_.first) return rows_first(begin, end, source, lines, target);
    columns_first(begin, end, source, lines, target);
  }

 private:
  // Elements from one row of a strip to the next. Rows that are not short begin with a cache line,
  // and not all in the same sets of the L1 cache (images that grow: 0.75 to 1.0 of the time).
  static int64_t pitch_of(int64_t size) {
    constexpr int64_t kLine = 64 / sizeof(Wide), kWay = 4096 / sizeof(Wide);
    if (size < 8 * kLine) return size;
    const int64_t pitch = (size + kLine - 1) / kLine * kLine;
    return pitch % kWay == 0 ? pitch + kLine : pitch;
  }

  template <class From, class Out>
  void rows_first(int64_t begin, int64_t end, const From* source, LineBuffer<Out>* lines,
                  Out* target) {
    const TapTable<Wide>& taps = level_.taps;
    const int64_t size = level_.in_volume;
    const auto slabs_of = [&](int64_t tensor, int64_t from) {
      const From* begin = source + tensor * taps.input * size;
      return SlabPlaces<From>{begin + from, size, begin + taps.input * size};
    };
    if (last_.reads_little()) {
      return each_tensor(level_, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
        const auto slab = slabs_of(tensor, 0);
        for (int64_t o = from; o < to; ++o, target += level_.out_volume) {
          const int64_t first = taps.first[o];
          const auto value = [&](int64_t i) {
            return weighted<Wide>(
                taps.count(o), [&](int64_t k) { return taps.weight[first + k]; },
                [&](int64_t k) { return static_cast<Wide>(slab[taps.index[first + k]][i]); });
          };
          last_.scalar(0, last_.outputs(), value, target);
        }
      });
    }
    Wide* rows = rows_->template as<Wide>();
    const Wide* combined[LastAxis<Wide>::kMostTogether];
    const auto& parts = last_.parts_read();
    // A row of the strip has no elements before the first part and none behind the last.
    const int64_t low = parts.front().first, width = parts.back().second - low;
    for (int64_t at = begin; at < end;) {
      const int64_t count = std::min(strip_, end - at);
      for (int64_t row = 0; row < count; ++row) combined[row] = rows + row * width - low;
      Wide* row = rows;
      each_tensor(level_, at, at + count, [&](int64_t tensor, int64_t from, int64_t to) {
        // Rows together if nothing lies between them.
        const int64_t step = parts.size() == 1 ? to - from : 1;
        for (int64_t o = from; o < to; o += step, row += step * width) {
          for (const auto& [first, last] : parts) {
            sum_.run(o, o + step, slabs_of(tensor, first), last - first, row + first - low);
          }
        }
      });
      Out* result = lines != nullptr ? result_->template as<Out>() : target;
      last_.rows(count, combined, result, level_.out_volume);
      if (lines != nullptr) stream_copy(result, count * level_.out_volume, target);
      at += count;
      target += count * level_.out_volume;
    }
  }

  // A part of a tensor in a strip: the outputs [begin, end), which read source rows [low, high).
  struct Part {
    int64_t tensor, begin, end, low, high;
  };

  // The longest part from output `at` on that reads at most `rows` source rows.
  Part part_of(int64_t at, int64_t end, int64_t rows) {
    const TapTable<Wide>& taps = level_.taps;
    const int64_t tensor = at / taps.output, begin = at - tensor * taps.output;
    if (begin == 0 && end - at >= taps.output && taps.high + 1 - taps.low <= rows) {
      return {tensor, 0, taps.output, taps.low, taps.high + 1};
    }
    Part part{tensor, begin, begin, taps.input, 0};
    const int64_t stop = std::min(taps.output, begin + end - at);
    // 64 outputs at a time while they fit, then one: a loop over many taps is vectorised.
    for (int64_t step = 64; part.end < stop;) {
      const int64_t next = std::min(part.end + step, stop);
      int64_t low = part.low, high = part.high;
      for (int64_t k = taps.first[part.end]; k < taps.first[next]; ++k) {
        low = std::min(low, taps.index[k]), high = std::max(high, taps.index[k] + 1);
      }
      if (high - low <= rows) {
        part.low = low, part.high = high, part.end = next;
      } else if (step > 1) {
        step = 1;
      } else {
        break;
      }
    }
    if (part.high < part.low) part.high = part.low;
    return part;
  }

  template <class From, class Out>
  void columns_first(int64_t begin, int64_t end, const From* source, LineBuffer<Out>* lines,
                     Out* target) {
    const int64_t size = level_.out_volume, pitch = pitch_;
    Wide* rows = rows_->template as<Wide>();
    const From** sources = sources_->template as<const From*>();
    Part before{-1, 0, 0, 0, 0};  // the last part of the previous strip
    int64_t rows_before = 0;      // of the strip, without that part
    while (begin < end) {
      // The first rows may be those that the previous strip has made already. Otherwise `span - 1`
      // places stay free for those that the next strip keeps.
      const bool follows = begin / level_.taps.output == before.tensor;
      const int64_t most =
          follows ? strip_ : std::max(strip_ + 1 - level_.taps.span, level_.taps.span);
      Part part = part_of(begin, end, most);
      int64_t made = 0;
      if (part.tensor == before.tensor && part.low >= before.low && part.low < before.high) {
        made = std::min(before.high, part.high) - part.low;
        std::memmove(rows, rows + (rows_before + part.low - before.low) * pitch,
                     static_cast<size_t>(made * pitch) * sizeof(Wide));
      }
      int64_t count = 0, at = begin;
      parts_.clear();
      while (part.end > part.begin) {
        parts_.push_back(part);
        const From* tensor = source + part.tensor * level_.taps.input * level_.in_volume;
        for (int64_t row = part.low; row < part.high; ++row) {
          sources[count++] = tensor + row * level_.in_volume;
        }
        at += part.end - part.begin;
        if (at == end || part.end < level_.taps.output) break;
        part = part_of(at, end, most - count);
      }
      last_.rows(count - made, sources + made, rows + made * pitch, pitch);
      const Wide* first = rows;
      for (const Part& each : parts_) {
        const Wide* low = first - each.low * pitch;
        sum_.run(each.begin, each.end, SlabPlaces<Wide>{low, pitch, rows + count * pitch}, size,
                 target, lines);
        target += (each.end - each.begin) * size;
        first += (each.high - each.low) * pitch;
      }
      before = parts_.back();
      rows_before = count - (before.high - before.low);
      begin = at;
    }
  }

  const Level<Wide>& level_;
  const LastAxis<Wide>& last_;
  SlabSum<Wide> sum_;
  int64_t pitch_ = 0;            // elements from one row of a strip to the next
  int64_t strip_ = 0;            // rows of a strip
  std::optional<Scratch> rows_;  // of a strip
  std::optional<Scratch> sources_;
  std::vector<Part> parts_;        // of a strip
  std::optional<Scratch> result_;  // rows that are then copied past the caches
};

}  // namespace myops::resize::MYOPS_ISA
