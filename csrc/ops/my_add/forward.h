// The kernel of my_add.
#pragma once

#include "../../core/kernel_switch.h"
#include "kernels.h"
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
      const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(c) / sizeof(T) % L);
      for (; i < count && (offset + i) % L != 0; ++i) c[i] = twice_plus(a[i], b[i]);
      for (; i + L <= count; i += L) {
        const Vector<T> x = load(a + i);
        stream(c + i, x + x + load(b + i));
      }
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
  if constexpr (!std::is_integral_v<T>) {  // compilers make vectors of the loops below for integers
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

// A call, as all its pieces see it.
template <class T>
struct Call {
  const T *a, *b;
  T* c;
  Axes axes;
  Stores stores;

  Place<T> place(int64_t element) const { return Place<T>(axes, a, b, c, element); }
  Axis outer() const { return axes.size() > 1 ? axes[axes.size() - 2] : Axis{1, 0, 0, 0}; }
};

// Rows where they lie.
template <class T>
void run_rows(const Call<T>& call, int64_t begin, int64_t end) {
  const Axis& inner = call.axes.back();
  const Loop loop = loop_for(inner.a, inner.b);
  for (Place<T> at = call.place(begin); begin < end;) {
    const Block block = at.block(end - begin);
    run_block(loop, call.outer(), inner, at.a, at.b, at.c, block.rows, block.columns, call.stores);
    begin += block.rows * block.columns;
    at.advance(block.rows, block.columns);
  }
}

constexpr int64_t kCopiedBytes = 8192;  // of each operand at a time: both stay in the nearest cache
template <class T>
inline constexpr int64_t kCopied = kCopiedBytes / static_cast<int64_t>(sizeof(T));

// Short rows: many at a time. An operand that is not in the order of the result is copied.
template <class T>
void run_packed(const Call<T>& call, int64_t begin, int64_t end) {
  const Axis inner = call.axes.back();
  const Axis outer = call.outer();
  const bool a_lies_so = lies_as_result(call.axes, &Axis::a);
  const bool b_lies_so = lies_as_result(call.axes, &Axis::b);
  const bool a_is_row = is_one_row(call.axes, &Axis::a);
  const bool b_is_row = is_one_row(call.axes, &Axis::b);
  bool copies_a = !a_lies_so, copies_b = !b_lies_so;
  // Whole rows, if they fit: the copy of a row that is repeated then stays as it is.
  const int64_t most = std::max<int64_t>(kCopied<T> / inner.length, 1) * inner.length;
  alignas(64) T a_copy[kCopied<T> + kSlack<T>], b_copy[kCopied<T> + kSlack<T>];
  for (Place<T> at = call.place(begin); begin < end;) {
    const int64_t count = std::min({most, kCopied<T>, end - begin});
    const T* a = a_lies_so ? at.a : a_copy;
    const T* b = b_lies_so ? at.b : b_copy;
    T* c = at.c;
    for (int64_t done = 0; done < count;) {
      const auto [rows, columns] = at.block(count - done);
      if (copies_a) pack(at.a, outer.a, inner.a, rows, columns, a_copy + done);
      if (copies_b) pack(at.b, outer.b, inner.b, rows, columns, b_copy + done);
      done += rows * columns;
      at.advance(rows, columns);
    }
    run_whole(a, b, c, count, call.stores);
    begin += count;
    if (most <= kCopied<T>) {
      copies_a = copies_a && !a_is_row;
      copies_b = copies_b && !b_is_row;
    }
  }
}

// Tiles of the innermost axis and of the axis along which an operand has no gaps: each line of its
// memory is read once.
struct Tiles {
  Axis across, inner;     // rows, columns
  int64_t rows, columns;  // of a tile
  Axes axes;              // the others, then those of the tiles
  int64_t count = 1;

  Tiles(const Axes& all, size_t axis, int64_t most)
      : across(all[axis]), inner(all.back()), rows(std::min<int64_t>(across.length, 32)) {
    columns = std::min(inner.length, most / rows / 16 * 16);
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      if (i != axis) axes.push_back(all[i]);
    }
    const auto tiled = [](const Axis& axis_, int64_t by) {
      return Axis{(axis_.length + by - 1) / by, by * axis_.a, by * axis_.b, by * axis_.c};
    };
    axes.push_back(tiled(across, rows));
    axes.push_back(tiled(inner, columns));
    for (const Axis& it : axes) count *= it.length;
  }
};

template <class T>
void run_tiles(const Call<T>& call, const Tiles& tiles, int64_t begin, int64_t end) {
  const Axis &across = tiles.across, &inner = tiles.inner;
  const auto is_copied = [](int64_t step) { return step != 0 && step != 1; };
  const bool a_copied = is_copied(inner.a), b_copied = is_copied(inner.b);
  const Loop loop = loop_for(a_copied ? 1 : inner.a, b_copied ? 1 : inner.b);
  const Axis in_row{0, a_copied ? 1 : inner.a, b_copied ? 1 : inner.b, 1};
  alignas(64) T a_copy[kCopied<T> + kSlack<T>], b_copy[kCopied<T> + kSlack<T>];
  for (Place<T> at(tiles.axes, call.a, call.b, call.c, begin); begin < end; ++begin) {
    const T *a = at.a, *b = at.b;
    const int64_t rows = std::min(tiles.rows, across.length - at.row() * tiles.rows);
    const int64_t columns = std::min(tiles.columns, inner.length - at.column * tiles.columns);
    if (a_copied) pack(a, across.a, inner.a, rows, columns, a_copy);
    if (b_copied) pack(b, across.b, inner.b, rows, columns, b_copy);
    const Axis steps{0, a_copied ? columns : across.a, b_copied ? columns : across.b, across.c};
    run_block(loop, steps, in_row, a_copied ? a_copy : a, b_copied ? b_copy : b, at.c, rows,
              columns, Stores::Plain);
    at.advance(1, 1);
  }
}

// The axis along which an operand with gaps in its rows has none; the number of axes where there is
// no such axis, or where rows are so short that copying them is as fast.
inline size_t axis_across(const Axes& axes) {
  const Axis& inner = axes.back();
  if (inner.length < 8 || !kernel_enabled("my_add.tiles")) return axes.size();
  for (int64_t Axis::* step : {&Axis::a, &Axis::b}) {
    if (inner.*step == 0 || inner.*step == 1) continue;
    for (size_t i = axes.size() - 1; i-- > 0;) {
      if (axes[i].*step == 1 && axes[i].length >= 4) return i;
    }
  }
  return axes.size();
}

// Rows of fewer bytes are copied many at a time, because a loop for each takes longer. Where the
// one operand is a row that all others repeat, and the other lies as the result, this row is copied
// once.
constexpr int64_t kShortRow = 64, kShortRepeatedRow = 192;

inline bool rows_are_packed(const Axes& axes, size_t element_size) {
  if (!kernel_enabled("my_add.packed")) return false;
  const Axis& inner = axes.back();
  const bool loops = (inner.a == 0 || inner.a == 1) && (inner.b == 0 || inner.b == 1);
  if (!loops || axes.size() == 1) return !loops;
  const bool repeated = (is_one_row(axes, &Axis::a) && lies_as_result(axes, &Axis::b)) ||
                        (is_one_row(axes, &Axis::b) && lies_as_result(axes, &Axis::a));
  return inner.length * static_cast<int64_t>(element_size) <
         (repeated ? kShortRepeatedRow : kShortRow);
}

inline void report(const KernelContext& context, const Axes& axes, const char* kernel,
                   Stores stores) {
  constexpr const char* how[] = {"plain", "prefetch", "non_temporal"};
  const Axis& inner = axes.back();
  context.report(kernel, str("innermost of ", axes.size(), " after merging, length ", inner.length),
                 str("steps of a and b along it: ", inner.a, " and ", inner.b));
  const Tensor& c = context.output(0);
  context.report(how[static_cast<size_t>(stores)], "stores of c",
                 str(byte_count(c.shape, c.dtype), " bytes"));
}

constexpr int64_t kGrain = 32768;  // elements a piece at most: tens of microseconds

// The length of a piece, such that there are four pieces or a multiple of four, of equal length:
// few threads then have equal work.
inline int64_t piece_of(int64_t count, int64_t most) {
  if (count <= most) return count;
  const int64_t pieces = (count + 4 * most - 1) / (4 * most) * 4;
  return (count + pieces - 1) / pieces;
}

template <class T>
void compute_typed(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1), &c = context.output(0);
  const int64_t count = c.elements();
  if (count == 0) return;
  Stores stores = stores_for(count * static_cast<int64_t>(sizeof(T)));
  // The memory that is overwritten has just been read into the cache.
  if (c.data == a.data || c.data == b.data) stores = Stores::Plain;
  // These CPUs prefetch three streams in hardware; software prefetching cost 7%.
  if (stores == Stores::Prefetch && streaming_stores_pay()) stores = Stores::Plain;
  const Call<T> call{a.as<T>(), b.as<T>(), c.as<T>(), loop_nest(a, b, c), stores};
  const Axis& inner = call.axes.back();
  const size_t across = axis_across(call.axes);
  if (across < call.axes.size()) {
    if (context.reports()) report(context, call.axes, "tiles", Stores::Plain);
    const Tiles tiles(call.axes, across, kCopied<T>);
    const int64_t most = std::max<int64_t>(1, kGrain / (tiles.rows * tiles.columns));
    context.parallel_for(tiles.count, piece_of(tiles.count, most),
                         [&](int64_t begin, int64_t end) { run_tiles(call, tiles, begin, end); });
    return;
  }
  const bool packed = rows_are_packed(call.axes, sizeof(T));
  if (context.reports()) {
    constexpr const char* loops[] = {"contiguous", "repeated_a", "repeated_b", "strided"};
    const auto loop = static_cast<size_t>(loop_for(inner.a, inner.b));
    report(context, call.axes, packed ? "packed" : loops[loop], stores);
  }
  // The result is divided by elements, so a piece may begin and end inside a row.
  const int64_t piece = (piece_of(count, kGrain) + 15) / 16 * 16;  // whole vectors
  context.parallel_for(count, piece, [&](int64_t begin, int64_t end) {
    packed ? run_packed(call, begin, end) : run_rows(call, begin, end);
    if (stores == Stores::NonTemporal) stream_end();
  });
}

void forward(KernelContext& context) {
  dispatch<Half, BFloat16, float, double, int32_t, int64_t>(context.output(0).dtype, [&](auto tag) {
    compute_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace myops::my_add::MYOPS_ISA
