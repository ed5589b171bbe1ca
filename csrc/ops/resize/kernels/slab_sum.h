// Kernel "slab_sum": weighted sums of whole slabs, that is of rows of an image, channels of a
// pixel, or images of a volume. The number of taps may differ from one result to the next; elements
// of any type are widened when they are loaded. Vectors contain consecutive elements of a slab, so
// no tap needs a permutation.
//
// Every sum is computed in Accumulate<T> and rounded once when it is stored. Its order is the same
// in all kernels, so the result does not depend on the memory layout: up to four terms from the
// left, fma(w3, x3, fma(w2, x2, fma(w1, x1, w0 * x0))); more terms in four partial sums, k mod 4,
// that begin with 0 and are added as (c0 + c2) + (c1 + c3). That is done for every 512 terms, and
// these sums are added from the left: the rounding error of a mean of a million elements would
// otherwise be in the third digit.
#pragma once

#include "line_buffer.h"

namespace myops::resize::MYOPS_ISA {

inline constexpr int64_t kTermsTogether = 512;

// The sum of part(begin, end) for the terms [0, count), of which so many are added together.
template <class Part>
MYOPS_INLINE auto sum_of_parts(int64_t count, const Part& part) {
  decltype(part(0, count)) total{};
  for (int64_t k = 0; k < count; k += kTermsTogether) {
    const auto sum = part(k, std::min(count, k + kTermsTogether));
    total = k == 0 ? sum : total + sum;
  }
  return total;
}

// The sum over k of weight(k) * value(k), for numbers or vectors.
template <class V, class Weight, class Value>
inline V weighted(int64_t taps, const Weight& weight, const Value& value) {
  if (taps == 0) return V{};
  if (taps <= 4) {
    V sum = weight(0) * value(0);
    for (int64_t k = 1; k < taps; ++k) sum = fma(weight(k), value(k), sum);
    return sum;
  }
  return sum_of_parts(taps, [&](int64_t begin, int64_t end) {
    V sums[4] = {};
    for (int64_t k = begin; k < end; ++k) sums[k & 3] = fma(weight(k), value(k), sums[k & 3]);
    return V((sums[0] + sums[2]) + (sums[1] + sums[3]));
  });
}

// The same for more than four elements side by side, in vectors of partial sums.
template <class Wide, class T>
MYOPS_NOINLINE Wide weighted_run(int64_t taps, const Wide* weights, const T* values) {
  constexpr int64_t L = kLanes<Wide>, kPart = L < 4 ? L : 4;
  using Part = Lanes<Wide, kPart>;
  return sum_of_parts(taps, [&](int64_t begin, int64_t end) MYOPS_INLINED {
    const int64_t count = end - begin;
    const Wide* weight = weights + begin;
    const T* from = values + begin;
    Wide widened[std::is_same_v<T, Wide> ? 1 : kTermsTogether];
    const Wide* value = widened;
    int64_t i = 0;
    if constexpr (std::is_same_v<T, Wide>) {
      value = from;
    } else {
      for (; i + L <= count; i += L) store(widened + i, load_wide<Wide>(from + i));
      for (; i < count; ++i) widened[i] = static_cast<Wide>(from[i]);
    }
    Part parts[4 / kPart] = {};
    for (i = 0; i + 4 <= count; i += 4) {
      for (int64_t k = 0; k < 4; k += kPart) {
        Part& sum = parts[k / kPart];
        sum = fma(load_as<Part>(weight + i + k), load_as<Part>(value + i + k), sum);
      }
    }
    Wide sums[4];
    std::memcpy(sums, parts, sizeof sums);
    for (; i < count; ++i) sums[i & 3] = fma(weight[i], value[i], sums[i & 3]);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
  });
}

// Stores make(i, load), the vector of the result from element i on, for all elements. load(from):
// the vector of source elements there, of which those behind a shorter slab have no meaning. `end`
// is that of the memory that may be read. `lines`: null, or for a result of these vectors' type
// that is stored past the caches.
template <class Wide, class From, class T, class Make>
MYOPS_INLINE void for_each_vector(int64_t size, const From* end, LineBuffer<T>* lines, T* target,
                                  const Make& make, int64_t begin = 0) {
  constexpr int64_t L = kLanes<Wide>;
  const auto whole = [](const auto* from) MYOPS_INLINED { return load_wide<Wide>(from); };
  if (size < L) {
    const auto load = [&](const auto* x) MYOPS_INLINED { return load_within<Wide>(x, size, end); };
    return store_part<Wide>(target, make(0, load), size);
  }
  if constexpr (std::is_same_v<Wide, T>) {
    if (lines != nullptr) {
      int64_t i = LineBuffer<T>::before_vector(target);
      if (i > 0) lines->add(target, make(0, whole), i);
      for (; i + L <= size; i += L) stream(target + i, make(i, whole));
      const auto rest = [&](const auto* x)
                            MYOPS_INLINED { return load_within<Wide>(x, size - i, end); };
      if (i < size) lines->add(target + i, make(i, rest), size - i);
      return;
    }
  }
  for (int64_t i = begin; i < size; i += L) {
    i = std::min(i, size - L);  // the last ones a second time
    store_narrow<Wide>(target + i, make(i, whole));
  }
}

// kTaps taps.
template <int kTaps, class From, class Wide, class T>
MYOPS_INLINE void sum_few(const From* const* slabs, const Wide* weights, int64_t size,
                          const From* end, T* __restrict target, LineBuffer<T>* lines = nullptr) {
  const From* from[kTaps];
  Wide weight[kTaps];
  for (int k = 0; k < kTaps; ++k) from[k] = slabs[k], weight[k] = weights[k];
  for_each_vector<Wide>(size, end, lines, target, [&](int64_t i, const auto& load) MYOPS_INLINED {
    Vector<Wide> sum = broadcast(weight[0]) * load(from[0] + i);
    for (int k = 1; k < kTaps; ++k) sum = fma(broadcast(weight[k]), load(from[k] + i), sum);
    return sum;
  });
}

// More than four taps. Vectors side by side share what is loaded for a tap.
template <class From, class Wide, class T>
MYOPS_INLINE void sum_many(const From* const* slabs, const Wide* weights, int64_t taps,
                           int64_t size, const From* end, LineBuffer<T>* lines,
                           T* __restrict target) {
  using V = Vector<Wide>;
  constexpr int64_t L = kLanes<Wide>;
  const auto sum = [&](auto& totals, int64_t i, const auto& load) MYOPS_INLINED {
    constexpr int kCount = sizeof totals / sizeof(V);
    for (int64_t begin = 0; begin < taps; begin += kTermsTogether) {
      const int64_t last = std::min(taps, begin + kTermsTogether);
      V parts[4][kCount] = {};
      const auto add = [&](V(&part)[kCount], int64_t k) MYOPS_INLINED {
        const From* from = slabs[k] + i;
        const V weight = broadcast(weights[k]);
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) part[v] = fma(weight, load(from + v * L), part[v]);
      };
      int64_t k = begin;
      for (; k + 4 <= last; k += 4) {
        add(parts[0], k), add(parts[1], k + 1), add(parts[2], k + 2), add(parts[3], k + 3);
      }
      if (k < last) add(parts[0], k++);
      if (k < last) add(parts[1], k++);
      if (k < last) add(parts[2], k);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        const V part = (parts[0][v] + parts[2][v]) + (parts[1][v] + parts[3][v]);
        totals[v] = begin == 0 ? part : totals[v] + part;
      }
    }
  };
  constexpr int kTogether = MYOPS_REGISTERS / 8;
  int64_t i = 0;
  for (; lines == nullptr && i + kTogether * L <= size; i += kTogether * L) {
    V sums[kTogether] = {};
    sum(sums, i, [](const auto* from) MYOPS_INLINED { return load_wide<Wide>(from); });
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) store_narrow<Wide>(target + i + v * L, sums[v]);
  }
  const auto one = [&](int64_t at, const auto& load) MYOPS_INLINED {
    V total[1] = {};
    sum(total, at, load);
    return total[0];
  };
  for_each_vector<Wide>(size, end, lines, target, one, i);
}

// At least one tap.
template <class From, class Wide, class T>
MYOPS_NOINLINE void sum_slab(const From* const* slabs, const Wide* weights, int64_t taps,
                             int64_t size, const From* end, LineBuffer<T>* lines, T* target) {
  switch (taps) {
    case 1:
      return sum_few<1>(slabs, weights, size, end, target, lines);
    case 2:
      return sum_few<2>(slabs, weights, size, end, target, lines);
    case 3:
      return sum_few<3>(slabs, weights, size, end, target, lines);
    case 4:
      return sum_few<4>(slabs, weights, size, end, target, lines);
    default:
      return sum_many(slabs, weights, taps, size, end, lines, target);
  }
}

// Where source slabs begin: slab i is number i & mask in memory.
template <class From>
struct SlabPlaces {
  const From* begin;
  int64_t size;
  const From* end;  // of the memory that may be read
  int64_t mask = -1;
  MYOPS_INLINE const From* operator[](int64_t i) const { return begin + (i & mask) * size; }
};

// The outputs of an axis, one after the other.
template <class Wide>
class SlabSum {
 public:
  SlabSum(const KernelContext& context, const TapTable<Wide>& taps, bool zeroed = false)
      : taps_(taps), zeroed_(zeroed) {
    if (taps.widest > kFew) slabs_.emplace(context.scratch(bytes_of<const Wide*>(taps.widest)));
  }

  // Outputs [begin, end), in consecutive slabs of `size` elements from `target` on.
  template <class From, class T>
  void run(int64_t begin, int64_t end, const SlabPlaces<From>& places, int64_t size, T* target,
           LineBuffer<T>* lines = nullptr) const {
    // (Short slabs that are not whole vectors take longer past the caches.)
    if (size < 2 * kShort && size % kLanes<Wide> != 0) lines = nullptr;
    if (taps_.is_sparse()) return run_sparse(begin, end, places, size, lines, target);
    if (taps_.width == 2) return run_few<2, true>(begin, end, places, size, lines, target);
    if (taps_.width == 4) return run_few<4, true>(begin, end, places, size, lines, target);
    if (size <= kShort && taps_.widest <= 4) {
      lines = nullptr;
      if (taps_.widest == 1) return run_few<1>(begin, end, places, size, lines, target);
      if (taps_.widest == 2) return run_few<2>(begin, end, places, size, lines, target);
      if (taps_.widest == 3) return run_few<3>(begin, end, places, size, lines, target);
      if (taps_.widest == 4) return run_few<4>(begin, end, places, size, lines, target);
    }
    for (int64_t o = begin; o < end; ++o, target += size) {
      if (taps_.count(o) > 0) {
        run_one(o, places, size, lines, target);
      } else {
        std::memset(static_cast<void*>(target), 0, bytes_of<T>(size));
      }
    }
  }

 private:
  static constexpr int64_t kFew = 8;  // taps for which no memory is asked
  static constexpr int64_t kShort = 16 * kLanes<Wide>;

  // Where most outputs have no taps, all are zeroed together.
  template <class From, class T>
  void run_sparse(int64_t begin, int64_t end, const SlabPlaces<From>& places, int64_t size,
                  LineBuffer<T>* lines, T* target) const {
    if (!zeroed_) std::memset(static_cast<void*>(target), 0, bytes_of<T>((end - begin) * size));
    taps_.each_filled(begin, end, [&](int64_t o) {
      run_one(o, places, size, lines, target + (o - begin) * size);
    });
  }

  template <class From, class T>
  void run_one(int64_t o, const SlabPlaces<From>& places, int64_t size, LineBuffer<T>* lines,
               T* target) const {
    const From* few[kFew];
    const From** slabs = slabs_ ? slabs_->as<const From*>() : few;
    const int64_t first = taps_.first[o], count = taps_.count(o);
    for (int64_t k = 0; k < count; ++k) slabs[k] = places[taps_.index[first + k]];
    sum_slab(slabs, taps_.weight.data() + first, count, size, places.end, lines, target);
  }

  // The same for kTaps taps, or for short slabs at most so many. If their number varies, a wrongly
  // predicted branch would take longer than the sum: all have kTaps, of which the last read 0 and
  // have the weight -0, as in lane_table.h.
  template <int kTaps, bool kAll = false, class From, class T>
  MYOPS_NOINLINE void run_few(int64_t begin, int64_t end, const SlabPlaces<From>& given,
                              int64_t size, LineBuffer<T>* lines, T* __restrict target) const {
    constexpr int64_t L = kLanes<Wide>;
    const SlabPlaces<From> places = given;
    const int64_t *first = taps_.first.data(), *index = taps_.index.data();
    const Wide* weights = taps_.weight.data();
    const int64_t last = taps_.first[taps_.output] - 1;
    const auto* zeros = reinterpret_cast<const From*>(zeros_);
    for (int64_t o = begin; o < end; ++o, target += size) {
      const From* from[kTaps];
      Vector<Wide> weight[kTaps];
      const int64_t count = kAll ? kTaps : first[o + 1] - first[o];
      for (int k = 0; k < kTaps; ++k) {
        if constexpr (kAll) {
          from[k] = places[index[o * kTaps + k]];
          weight[k] = broadcast(weights[o * kTaps + k]);
          continue;
        }
        const int64_t tap = std::min(first[o] + k, last);
        const Wide padded = k == 0 ? Wide(0) : -Wide(0);
        const From* slab = places[index[tap]];
        const Wide w = weights[tap];
        from[k] = k < count ? slab : zeros;
        weight[k] = broadcast(k < count ? w : padded);
      }
      const auto sum = [&](const auto& load) MYOPS_INLINED {
        Vector<Wide> total = weight[0] * load(from[0]);
        for (int k = 1; k < kTaps; ++k) total = fma(weight[k], load(from[k]), total);
        return total;
      };
      if (size < L) {
        const auto total = sum([&](const From* x) MYOPS_INLINED {
          return load_within<Wide>(x, size, !kAll && x == zeros ? zeros + kShort : places.end);
        });
        // A whole vector where the outputs that follow overwrite what is too much.
        if ((end - o) * size >= L) {
          store_narrow<Wide>(target, total);
        } else {
          store_part<Wide>(target, total, size);
        }
        continue;
      }
      for_each_vector<Wide>(size, places.end, lines, target,
                            [&](int64_t i, const auto& load) MYOPS_INLINED {
                              return sum([&](const From* x) MYOPS_INLINED { return load(x + i); });
                            });
    }
  }

  const TapTable<Wide>& taps_;
  const bool zeroed_;
  std::optional<Scratch> slabs_;
  alignas(64) unsigned char zeros_[kShort * sizeof(Wide)] = {};
};

}  // namespace myops::resize::MYOPS_ISA
