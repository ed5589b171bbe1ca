// The kernel of my_add.
#pragma once

#include "in_order.h"
#include "kernels.h"
#include "tiles.h"

namespace myops::my_add::MYOPS_ISA {

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

// Where the one operand is a row that all others repeat, and the other lies as the result, this row
// is copied once.
constexpr int64_t kShortRepeatedRow = 192;

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
  Call<T> call{a.as<T>(), b.as<T>(), c.as<T>(), loop_nest(a, b, c), stores};
  const InOrder<T> a_in_order(context, call.axes, &Axis::a, call.a);
  const InOrder<T> b_in_order(context, call.axes, &Axis::b, call.b);
  call.axes = merged(call.axes);
  const Axis& inner = call.axes.back();
  constexpr int64_t kWide = kShortRow / static_cast<int64_t>(sizeof(T));  // a row that is not short
  const size_t across = axis_across(call.axes, kWide);
  if (across < call.axes.size()) {
    if (context.reports()) report(context, call.axes, "tiles", Stores::Plain);
    const Tiles tiles(call.axes, across, kTile<T>, kWide);
    const int64_t most = std::max<int64_t>(1, kGrain / (tiles.rows * tiles.columns));
    context.parallel_for(tiles.count, piece_of(tiles.count, most),
                         [&](int64_t begin, int64_t end) { run_tiles(call, tiles, begin, end); });
    return;
  }
  const bool packed = rows_are_packed(call.axes, sizeof(T));
  // The ends of rows are stored one by one: see run_whole().
  constexpr int64_t kStreamedRow = 512;
  if (stores == Stores::NonTemporal && !packed && call.axes.size() > 1 &&
      inner.length * static_cast<int64_t>(sizeof(T)) < kStreamedRow) {
    call.stores = stores = Stores::Plain;
  }
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
