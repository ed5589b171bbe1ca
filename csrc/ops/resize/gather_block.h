// One block of elements of any strategy; the second part of gather.h.
#pragma once

#include "gather.h"

namespace myops::resize::MYOPS_ISA {

// kTaps: 0 for a copy, 1 for what has no such strategies.
template <class Wide>
template <int kTaps>
MYOPS_INLINE typename Gather<Wide>::V Gather<Wide>::block_of(const Block& block, int64_t first,
                                                             const Wide* source) const {
  constexpr int kValues = kTaps > 1 ? kTaps : 1;
  const Wide* from = source + block.low;
  const int32_t* index = table_.index(block);
  V x[4] = {};
  if (block.strategy == Strategy::ScalarWideIndex) return scalar<kTaps == 0>(first, source);
  if (kTaps == 1 && block.strategy == Strategy::Scalar) return scalar<false>(first, source);
  if (block.strategy == Strategy::PartialSumsPerElement) return partial_sums(block, from);
  if (block.strategy == Strategy::ManyTapsTwoLoads) return many<2>(block, from);
  if (block.strategy == Strategy::ManyTapsFourLoads) return many<4>(block, from);
  if (block.strategy == Strategy::Scalar) {
    for (int k = 0; k < kValues; ++k) {
      Wide part[L];
      for (int64_t i = 0; i < L; ++i) part[i] = from[index[k * L + i]];
      x[k] = load(part);
    }
  } else if (block.strategy == Strategy::FourNeighbours) {
    if constexpr (L >= 4) {
      for (int j = 0; j < 4; ++j) x[j] = load_fours(from, index + j);
      transpose_fours<Wide>(x);
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

// Elements without a tap are read as 0, because a weight of 0 times infinity would be NaN.
template <class Wide>
typename Gather<Wide>::V Gather<Wide>::partial_sums(const Block& block, const Wide* from) const {
  if constexpr (L >= 4) {
    const int32_t* index = table_.index(block);
    const Wide* weight = table_.weight(block);
    const Wide* real = weight + L * block.places;
    V x[4] = {};
    for (int four = 0; 4 * four < block.places; ++four, from += 4, weight += 4 * L, real += 4 * L) {
      for (int v = 0; v < 4; ++v) {
        V value = load_fours(from, index + v);
        if (!block.full) value = load(real + v * L) != V{} ? value : V{};
        const V w = load(weight + v * L);
        x[v] = fma(w, value, x[v]);
      }
    }
    return sums_of_fours(x, std::make_integer_sequence<int, L>());
  } else {
    return V{};
  }
}

template <class Wide>
template <int kVectors>
typename Gather<Wide>::V Gather<Wide>::many(const Block& block, const Wide* from) const {
  if constexpr (kPermutes<Wide>) {
    const auto at = load_as<Index<Wide>>(table_.index(block));
    const Wide* weight = table_.weight(block);
    const Wide* real = weight + L * block.places;
    const auto tap = [&](int64_t k) {
      const Wide* begin = from + k * table_.step();
      const V value = permute(load(begin), load(begin + L), at);
      if constexpr (kVectors == 4) {  // permute() uses only the lower bits of an index
        const V far = permute(load(begin + 2 * L), load(begin + 3 * L), at);
        return at < static_cast<int32_t>(2 * L) ? value : far;
      }
      return value;
    };
    if (block.places <= 4) {
      V sum = load(weight) * tap(0);
      for (int k = 1; k < block.places; ++k) sum = fma(load(weight + k * L), tap(k), sum);
      return sum;
    }
    V x[4] = {};
    for (int k = 0; k < block.places; ++k, weight += L, real += L) {
      V value = tap(k);
      if (!block.full) value = load(real) != V{} ? value : V{};
      const V sum =
          fma(load(weight), value, x[0]);  // the partial sum k mod 4, rotated to the front
      x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = sum;
    }
    // The partial sums are rotated by the number of taps, which does not change the result: the
    // pairs (0, 2) and (1, 3) remain pairs.
    return (x[0] + x[2]) + (x[1] + x[3]);
  } else {
    return V{};
  }
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
