// Rows of the result, computed in vectors: one, or several at equal steps.
#pragma once

#include "../../core/kernel_switch.h"
#include "loop_nest.h"
#include "pack.h"

namespace myops::my_add::MYOPS_ISA {

template <class T>
T twice_plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps instead of being undefined
    return static_cast<T>(Unsigned{2} * static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    using Wide = Accumulate<T>;
    return static_cast<T>(Wide{2} * static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

// Twice as many elements of bfloat16 as a vector has floats: those in the lower halves of 32 bits
// and those in the upper halves are vectors of floats after one instruction. They are rounded as
// store_narrow() rounds.
struct Pairs {
  using Words = Lanes<uint32_t, kLanes<float>>;
  static constexpr int64_t kCount = 2 * kLanes<float>;
  Vector<float> low, high;

  MYOPS_INLINE static Pairs load(const BFloat16* from) {
    const auto words = load_as<Words>(from);
    return {(Vector<float>)(words << 16), (Vector<float>)(words & 0xffff0000u)};
  }
  MYOPS_INLINE Pairs operator+(const Pairs& other) const {
    return {low + other.low, high + other.high};
  }
  MYOPS_INLINE void store(BFloat16* to) const {
    MYOPS_ISA::store(to, (rounded(low) >> 16) | (rounded(high) & 0xffff0000u));
  }

 private:
  // The upper half is the number.
  MYOPS_INLINE static Words rounded(const Vector<float>& value) {
    const auto bits = (Words)value;
    return value != value ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
  }
};

// Calls add(i) for each vector of kLength elements from `i` on; returns the first element that is
// left. `twice`: elements may be computed a second time, so the last vector overlaps the one
// before, which is quicker than the rest one by one.
template <int64_t kLength, class Add>
MYOPS_INLINE int64_t for_each_vector(int64_t i, int64_t count, bool twice, const Add& add) {
  for (; i + 4 * kLength <= count; i += 4 * kLength) {
    add(i);
    add(i + kLength);
    add(i + 2 * kLength);
    add(i + 3 * kLength);
  }
  for (; i + kLength <= count; i += kLength) add(i);
  if (i == count || count < kLength || !twice) return i;
  add(count - kLength);
  return count;
}

// Two operands without gaps.
template <class T>
MYOPS_INLINE void run_whole(const T* a, const T* b, T* c, int64_t count, Stores stores) {
  using Wide = Accumulate<T>;
  constexpr int64_t L = kLanes<Wide>;
  int64_t i = 0;
  if constexpr (std::is_same_v<T, Wide> && std::is_floating_point_v<T>) {
    if (stores == Stores::NonTemporal) {
      // Whole cache lines: one that is written partly with other stores, also later, takes as long
      // as dozens of others.
      constexpr auto kLine = static_cast<int64_t>(64 / sizeof(T));
      const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(c) / sizeof(T) % kLine);
      for (; i < count && (offset + i) % kLine != 0; ++i) c[i] = twice_plus(a[i], b[i]);
      for (; i + kLine <= count; i += kLine) {
        for (int64_t at = i; at < i + kLine; at += L) {
          const Vector<T> x = load(a + at);
          stream(c + at, x + x + load(b + at));
        }
      }
      for (; i < count; ++i) c[i] = twice_plus(a[i], b[i]);
      return;
    }
  }
  const auto add = [&](int64_t at) MYOPS_INLINED {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = Lanes<std::make_unsigned_t<T>, L>;  // wraps instead of being undefined
      const auto x = load_as<Unsigned>(a + at);
      store(c + at, x + x + load_as<Unsigned>(b + at));
    } else {
      const Vector<Wide> x = load_wide<Wide>(a + at);
      store_narrow<Wide>(c + at, x + x + load_wide<Wide>(b + at));
    }
  };
  if (stores == Stores::Prefetch) {
    for (; i + L <= count; i += L) {
      prefetch_load(a + i);
      prefetch_load(b + i);
      prefetch_store(c + i);
      add(i);
    }
  }
  if constexpr (std::is_same_v<T, BFloat16>) {
    for (; i + Pairs::kCount <= count; i += Pairs::kCount) {
      const Pairs x = Pairs::load(a + i);
      (x + x + Pairs::load(b + i)).store(c + i);
    }
  }
  i = for_each_vector<L>(i, count, c != a && c != b, add);
  for (; i < count; ++i) c[i] = twice_plus(a[i], b[i]);
}

// One operand without gaps, and one element of the other; `double_other` where that element is of
// b.
template <class T>
MYOPS_INLINE void run_repeated(T element, bool double_other, const T* other, T* c, int64_t count) {
  int64_t i = 0;
  if constexpr (std::is_integral_v<T>) {
    constexpr int64_t L = kLanes<T>;
    using Unsigned = Lanes<std::make_unsigned_t<T>, L>;  // wraps instead of being undefined
    const Unsigned one = Unsigned{} + static_cast<std::make_unsigned_t<T>>(element);
    const Unsigned fixed = double_other ? one : one + one;
    const auto add = [&](int64_t at) MYOPS_INLINED {
      const auto x = load_as<Unsigned>(other + at);
      store(c + at, (double_other ? x + x : x) + fixed);
    };
    i = for_each_vector<L>(i, count, c != other, add);
  } else {
    using Wide = Accumulate<T>;
    constexpr int64_t L = kLanes<Wide>;
    const Vector<Wide> one = broadcast(static_cast<Wide>(element));
    const Vector<Wide> fixed = double_other ? one : one + one;
    if constexpr (std::is_same_v<T, BFloat16>) {
      const Pairs both{fixed, fixed};
      for (; i + Pairs::kCount <= count; i += Pairs::kCount) {
        const Pairs x = Pairs::load(other + i);
        ((double_other ? x + x : x) + both).store(c + i);
      }
    }
    const auto add = [&](int64_t at) MYOPS_INLINED {
      const Vector<Wide> x = load_wide<Wide>(other + at);
      store_narrow<Wide>(c + at, (double_other ? x + x : x) + fixed);
    };
    i = for_each_vector<L>(i, count, c != other, add);
  }
  if (double_other) {
    for (; i < count; ++i) c[i] = twice_plus(other[i], element);
  } else {
    for (; i < count; ++i) c[i] = twice_plus(element, other[i]);
  }
}

// Any steps, one element at a time.
template <class T>
void run_strided(int64_t a_step, int64_t b_step, const T* a, const T* b, T* c, int64_t count) {
  for (int64_t i = 0; i < count; ++i) c[i] = twice_plus(a[i * a_step], b[i * b_step]);
}

// Loops along a row, by the steps of the operands in it.
enum class Loop : uint8_t { Contiguous, RepeatedA, RepeatedB, Strided };

inline Loop loop_for(int64_t a, int64_t b) {
  if (a == 1 && b == 1 && kernel_enabled("my_add.contiguous")) return Loop::Contiguous;
  if (a == 1 && b == 0 && kernel_enabled("my_add.repeated_b")) return Loop::RepeatedB;
  if (a == 0 && b == 1 && kernel_enabled("my_add.repeated_a")) return Loop::RepeatedA;
  return Loop::Strided;
}

// `rows` rows of `count` elements; `outer` and `inner` have the steps from row to row and in a row.
template <class T>
void run_block(Loop loop, const Axis& outer, const Axis& inner, const T* a, const T* b, T* c,
               int64_t rows, int64_t count, Stores stores) {
  const auto each = [&](const auto& run) MYOPS_INLINED {
    for (; rows > 0; --rows, a += outer.a, b += outer.b, c += outer.c) run();
  };
  if (loop == Loop::Contiguous) {
    each([&]() MYOPS_INLINED { run_whole(a, b, c, count, stores); });
  } else if (loop == Loop::RepeatedB) {
    each([&]() MYOPS_INLINED { run_repeated(*b, true, a, c, count); });
  } else if (loop == Loop::RepeatedA) {
    each([&]() MYOPS_INLINED { run_repeated(*a, false, b, c, count); });
  } else {
    each([&]() MYOPS_INLINED { run_strided(inner.a, inner.b, a, b, c, count); });
  }
}

}  // namespace myops::my_add::MYOPS_ISA
