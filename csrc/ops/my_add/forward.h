// The kernel of my_add.
#pragma once

#include "../../core/kernel_switch.h"
#include "kernels.h"
#include "loop_nest.h"
#include "myops/simd.h"

namespace myops::my_add::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

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

// Two operands without gaps.
template <class T>
void run_whole(const T* a, const T* b, T* c, int64_t count, Stores stores) {
  using Wide = Accumulate<T>;
  constexpr int64_t L = kLanes<Wide>;
  int64_t i = 0;
  if constexpr (std::is_same_v<T, Wide> && std::is_floating_point_v<T>) {
    if (stores == Stores::NonTemporal) {
      const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(c) / sizeof(T) % L);
      for (; i < count && (offset + i) % L != 0; ++i) c[i] = twice_plus(a[i], b[i]);
      for (; i + L <= count; i += L) {
        const Vector<T> x = load(a + i);
        stream(c + i, x + x + load(b + i));
      }
    }
  }
  for (; i + L <= count; i += L) {
    if (stores == Stores::Prefetch) {
      prefetch_load(a + i);
      prefetch_load(b + i);
      prefetch_store(c + i);
    }
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = Lanes<std::make_unsigned_t<T>, L>;  // wraps instead of being undefined
      const auto x = load_as<Unsigned>(a + i);
      store(c + i, x + x + load_as<Unsigned>(b + i));
    } else {
      const Vector<Wide> x = load_wide<Wide>(a + i);
      store_narrow<Wide>(c + i, x + x + load_wide<Wide>(b + i));
    }
  }
  for (; i < count; ++i) c[i] = twice_plus(a[i], b[i]);
}

// One operand without gaps, and one element of the other; `double_other` where that element is of
// b.
template <class T>
void run_repeated(T element, bool double_other, const T* other, T* c, int64_t count) {
  int64_t i = 0;
  if constexpr (!std::is_integral_v<T>) {  // compilers make vectors of the loops below for integers
    using Wide = Accumulate<T>;
    constexpr int64_t L = kLanes<Wide>;
    const Vector<Wide> one = broadcast(static_cast<Wide>(element));
    const Vector<Wide> fixed = double_other ? one : one + one;
    for (; i + L <= count; i += L) {
      const Vector<Wide> x = load_wide<Wide>(other + i);
      store_narrow<Wide>(c + i, (double_other ? x + x : x) + fixed);
    }
  }
  if (double_other) {
    for (; i < count; ++i) c[i] = twice_plus(other[i], element);
  } else {
    for (; i < count; ++i) c[i] = twice_plus(element, other[i]);
  }
}

// Any steps. Elements of 16 bits are copied side by side first, because vectors convert them many
// times faster than single elements are converted.
template <class T>
void run_strided(const Axis& inner, const T* a, const T* b, T* c, int64_t count) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 2) {
    constexpr int64_t kBlock = 64;
    T x[kBlock], y[kBlock];
    while (count - i >= kLanes<float>) {
      const int64_t length = std::min(kBlock, count - i);
      for (int64_t j = 0; j < length; ++j) x[j] = a[(i + j) * inner.a];
      for (int64_t j = 0; j < length; ++j) y[j] = b[(i + j) * inner.b];
      run_whole(x, y, c + i, length, Stores::Plain);
      i += length;
    }
  }
  for (; i < count; ++i) c[i] = twice_plus(a[i * inner.a], b[i * inner.b]);
}

// The kernels: loops along the innermost axis. Unit and zero steps get loops that vectorise.
enum class Loop : uint8_t { Contiguous, RepeatedA, RepeatedB, Strided };

inline Loop loop_for(const Axis& inner) {
  const int64_t a = inner.a, b = inner.b;
  if (a == 1 && b == 1 && kernel_enabled("my_add.contiguous")) return Loop::Contiguous;
  if (a == 1 && b == 0 && kernel_enabled("my_add.repeated_b")) return Loop::RepeatedB;
  if (a == 0 && b == 1 && kernel_enabled("my_add.repeated_a")) return Loop::RepeatedA;
  return Loop::Strided;
}

// One run along the innermost axis.
template <class T>
void run(Loop loop, const Axis& inner, const T* a, const T* b, T* c, int64_t count, Stores stores) {
  if (loop == Loop::Contiguous) {
    run_whole(a, b, c, count, stores);
  } else if (loop == Loop::RepeatedB) {
    run_repeated(*b, true, a, c, count);
  } else if (loop == Loop::RepeatedA) {
    run_repeated(*a, false, b, c, count);
  } else {
    run_strided(inner, a, b, c, count);
  }
}

inline void report(const KernelContext& context, const Axes& axes, Loop loop, Stores stores) {
  constexpr const char* kernels[] = {"contiguous", "repeated_a", "repeated_b", "strided"};
  constexpr const char* how[] = {"plain", "prefetch", "non_temporal"};
  const Axis& inner = axes.back();
  context.report(kernels[static_cast<size_t>(loop)],
                 str("innermost of ", axes.size(), " after merging, length ", inner.length),
                 str("steps of a and b along it: ", inner.a, " and ", inner.b));
  const Tensor& c = context.output(0);
  context.report(how[static_cast<size_t>(stores)], "stores of c",
                 str(byte_count(c.shape, c.dtype), " bytes"));
}

constexpr int64_t kGrain = 32768;  // elements a piece at most: tens of microseconds

// The length of a piece, such that there are four pieces or a multiple of four, of equal length:
// few threads then have equal work.
inline int64_t piece_of(int64_t count) {
  if (count <= kGrain) return count;
  const int64_t pieces = (count + 4 * kGrain - 1) / (4 * kGrain) * 4;
  return ((count + pieces - 1) / pieces + 15) / 16 * 16;  // whole vectors
}

template <class T>
void compute_typed(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1), &c = context.output(0);
  if (c.elements() == 0) return;
  const Axes axes = loop_nest(a, b, c);
  const Axis inner = axes.back();
  Stores stores = stores_for(c.elements() * static_cast<int64_t>(sizeof(T)));
  // The memory that is overwritten has just been read into the cache.
  if (c.data == a.data || c.data == b.data) stores = Stores::Plain;
  // These CPUs prefetch three streams in hardware; software prefetching cost 7%.
  if (stores == Stores::Prefetch && streaming_stores_pay()) stores = Stores::Plain;
  const Loop loop = loop_for(inner);
  if (context.reports()) report(context, axes, loop, stores);
  // The result is divided by elements, so a piece may begin and end inside a run.
  context.parallel_for(c.elements(), piece_of(c.elements()), [&](int64_t begin, int64_t end) {
    const T *a_run = a.as<T>(), *b_run = b.as<T>();
    T* c_run = c.as<T>();
    const auto advance = [&](const Axis& axis, int64_t steps) {
      a_run += steps * axis.a;
      b_run += steps * axis.b;
      c_run += steps * axis.c;
    };
    int64_t column = begin % inner.length;
    SmallVector<int64_t, 6> index(axes.size(), 0);
    int64_t rest = begin / inner.length;
    for (size_t i = axes.size() - 1; i-- > 0; rest /= axes[i].length) {
      index[i] = rest % axes[i].length;
      advance(axes[i], index[i]);
    }
    while (true) {
      const int64_t count = std::min(inner.length - column, end - begin);
      run(loop, inner, a_run + column * inner.a, b_run + column * inner.b, c_run + column * inner.c,
          count, stores);
      begin += count;
      if (begin >= end) break;
      column = 0;
      for (size_t i = axes.size() - 1;
           i-- > 0;) {  // counts, as divisions cost more than short runs
        advance(axes[i], 1);
        if (++index[i] < axes[i].length) break;
        advance(axes[i], -axes[i].length);
        index[i] = 0;
      }
    }
    if (stores == Stores::NonTemporal) stream_end();
  });
}

void forward(KernelContext& context) {
  dispatch<Half, BFloat16, float, double, int32_t, int64_t>(context.output(0).dtype, [&](auto tag) {
    compute_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace myops::my_add::MYOPS_ISA
