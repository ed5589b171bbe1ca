// One block of elements of any strategy; the second part of gather.h.
#pragma once

#include "gather.h"

namespace myops::resize::MYOPS_ISA {

// kTaps: 0 for a copy.
template <class Wide>
template <int kTaps>
MYOPS_INLINE typename Gather<Wide>::V Gather<Wide>::block_of(const Block& block, int64_t first,
                                                             const Wide* source) const {
  constexpr int kValues = kTaps > 1 ? kTaps : 1;
  const Wide* from = source + block.low;
  const int32_t* index = table_.index(block);
  V x[4] = {};
  if (block.strategy == Strategy::ScalarWideIndex) return scalar<kTaps == 0>(first, source);
  if (block.strategy == Strategy::Scalar) {
    for (int k = 0; k < kValues; ++k) {
      if constexpr (kPermutes<Wide>) {
        x[k] = gather_lanes(from, load_as<Index<Wide>>(index + k * L));
      } else {
        Wide part[L];
        for (int64_t i = 0; i < L; ++i) part[i] = from[index[k * L + i]];
        x[k] = load(part);
      }
    }
  } else {
    if constexpr (kPermutes<Wide>) {
      const auto pick = [&](auto places) {
        places.pick([&](int64_t at) { return load(from + at); }, x);
      };
      if (block.strategy == Strategy::OneLoad) {
        pick(Places<Wide, kValues, Strategy::OneLoad>(index, table_.step()));
      } else if (block.strategy == Strategy::LoadPerTap) {
        pick(Places<Wide, kValues, Strategy::LoadPerTap>(index, table_.step()));
      } else if (block.strategy == Strategy::TwoLoadsPerTap) {
        pick(Places<Wide, kValues, Strategy::TwoLoadsPerTap>(index, table_.step()));
      } else if (block.strategy == Strategy::ThreeLoadsPerTap) {
        pick(Places<Wide, kValues, Strategy::ThreeLoadsPerTap>(index, table_.step()));
      } else {
        const V low = load(from), high = load(from + block.second);
        for (int k = 0; k < kValues; ++k) {
          x[k] = permute(low, high, load_as<Index<Wide>>(index + k * L));
        }
      }
    }
  }
  if constexpr (kTaps == 0) return x[0];
  const Wide* weight = table_.weight(block);
  V total = load(weight) * x[0];
  for (int k = 1; k < kValues; ++k) total = fma(load(weight + k * L), x[k], total);
  return total;
}

template <class Wide>
template <bool kCopies>
typename Gather<Wide>::V Gather<Wide>::scalar(int64_t first, const Wide* source) const {
  Wide parts[L] = {};
  for (int64_t i = 0; i < L && first + i < elements(); ++i) {
    const auto at = table_.element(first + i);
    parts[i] =
        kCopies ? source[at.source(0)] : sum_of(at, [&](int64_t from) { return source[from]; });
  }
  return load(parts);
}

}  // namespace myops::resize::MYOPS_ISA
