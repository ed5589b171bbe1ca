// Lists of the taps in each cell of the image, as cells.h makes them, for products in tiles: with
// numbers of 32 bits, and with the weights of each tap, so that the sums over a list need no
// positions.
//
// Cell (y, x) of an image and an offset group has the corners (y - 1, x - 1) to (y, x), so that
// there are (height + 1) * (width + 1). Entry e is tap k of pixel p:
// e = ((n * offset_groups + g) * taps + k) * pixels + p. A list has its entries in this order,
// whatever the order of the threads was.
#pragma once

#include "deform_conv2d/cuda/shape.h"

namespace myops {

struct DeformLists {
  static constexpr int kCells = 32;  // that a thread of start_lists handles
  static constexpr int kShort = 32;  // longer lists are sorted by one thread
  DeformInputs inputs;
  DeformShape shape;
  int32_t cells;
  int32_t* count;      // of the entries of each cell
  int32_t* used;       // one number: entries that have a place
  int32_t* start;      // where the list of a cell begins
  int32_t *cell, *at;  // of each entry: its cell, or -1, and its place in the list at first
  int32_t* entry;      // the lists, in any order
  // In order: pixel * taps + tap, and the weights a_j and b_j of the corners (null: not needed).
  int32_t* place;
  void *masked, *changes;
};

namespace deform_kernels {

struct TileEntry {
  int32_t n, group, tap, pixel;
};
inline TileEntry entry_of(const DeformShape& shape, int32_t e) {
  const int32_t plane = divided(e, shape.by_pixels), image = divided(plane, shape.by_taps);
  const int32_t n = divided(image, shape.by_offset_groups);
  return {n, image - n * shape.offset_groups, plane - image * shape.taps, e - plane * shape.pixels};
}

// Of cell (-1, -1) of an image and an offset group.
inline int32_t first_cell(const DeformShape& shape, int32_t n, int32_t group) {
  return (n * shape.offset_groups + group) * (shape.height + 1) * (shape.width + 1);
}

inline void sort(int32_t* list, int32_t length) {
  const auto swap = [&](int32_t a, int32_t b) {
    const int32_t kept = list[a];
    list[a] = list[b];
    list[b] = kept;
  };
  const auto sink = [&](int32_t at, int32_t end) {
    for (int32_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
      if (child + 1 < end && list[child] < list[child + 1]) ++child;
      if (list[child] <= list[at]) return;
      swap(at, child);
      at = child;
    }
  };
  for (int32_t at = length / 2; at-- > 0;) sink(at, length);
  for (int32_t end = length - 1; end > 0; --end) {
    swap(0, end);
    sink(0, end);
  }
}

// How many numbers of a list are less than one of it.
inline int32_t rank(const int32_t* list, int32_t length, int32_t number) {
  int32_t low = 0;
  if (length <= DeformLists::kShort) {
    for (int32_t i = 0; i < length; ++i) low += list[i] < number;
    return low;
  }
  for (int32_t end = length; low < end;) {  // sorted by sort_list
    const int32_t middle = low + (end - low) / 2;
    if (list[middle] < number) {
      low = middle + 1;
    } else {
      end = middle;
    }
  }
  return low;
}

}  // namespace deform_kernels

template <class T, class A>
void count_list(const DeformLists& lists, int64_t i) {
  const DeformShape& shape = lists.shape;
  const auto e = static_cast<int32_t>(i);
  const deform_kernels::TileEntry entry = deform_kernels::entry_of(shape, e);
  const auto at =
      deform_kernels::position<T, A>(lists.inputs, shape, entry.n, entry.group, entry.tap,
                                     deform_kernels::row_column(shape, entry.pixel));
  int32_t cell = -1;
  if (at.hit) {
    cell = deform_kernels::first_cell(shape, entry.n, entry.group) +
           (at.y + 1) * (shape.width + 1) + at.x + 1;
    lists.at[e] = count_up(&lists.count[cell]);
  }
  lists.cell[e] = cell;
}

// Where each list begins depends on the order of the threads; what it contains does not.
template <class T, class A>
void start_lists(const DeformLists& lists, int64_t i) {
  const int32_t begin = static_cast<int32_t>(i) * DeformLists::kCells;
  const int32_t end = smaller(begin + DeformLists::kCells, lists.cells);
  int32_t sum = 0;
  for (int32_t cell = begin; cell < end; ++cell) sum += lists.count[cell];
  int32_t start = count_up(lists.used, sum);
  for (int32_t cell = begin; cell < end; ++cell) {
    lists.start[cell] = start;
    start += lists.count[cell];
  }
}

template <class T, class A>
void fill_list(const DeformLists& lists, int64_t i) {
  const auto e = static_cast<int32_t>(i);
  const int32_t cell = lists.cell[e];
  if (cell >= 0) lists.entry[lists.start[cell] + lists.at[e]] = e;
}

template <class T, class A>
void sort_list(const DeformLists& lists, int64_t cell) {
  const int32_t count = lists.count[cell];
  if (count > DeformLists::kShort) deform_kernels::sort(lists.entry + lists.start[cell], count);
}

template <class T, class A>
void finish_list(const DeformLists& lists, int64_t i) {
  const DeformShape& shape = lists.shape;
  const auto e = static_cast<int32_t>(i);
  const int32_t cell = lists.cell[e];
  if (cell < 0) return;
  const deform_kernels::TileEntry entry = deform_kernels::entry_of(shape, e);
  const auto pixel = deform_kernels::row_column(shape, entry.pixel);
  const auto at =
      deform_kernels::position<T, A>(lists.inputs, shape, entry.n, entry.group, entry.tap, pixel);
  const int32_t start = lists.start[cell];
  const int32_t to = start + deform_kernels::rank(lists.entry + start, lists.count[cell], e);
  lists.place[to] = entry.pixel * shape.taps + entry.tap;
  const auto store = [&](void* all, const deform_kernels::Corners<A>& weights) {
    if (all == nullptr) return;
    for (int j = 0; j < 4; ++j) static_cast<A*>(all)[int64_t{4} * to + j] = weights.at[j];
  };
  store(lists.masked, deform_kernels::masked(at));
  if (lists.changes == nullptr) return;
  const auto move = deform_kernels::move_at<T, A>(
      lists.inputs, entry.n, entry.group * shape.taps + entry.tap, pixel.row, pixel.column);
  store(lists.changes, deform_kernels::changes(at, move));
}

}  // namespace myops

MYOPS_KERNEL(count_list, DeformLists, count_list)
MYOPS_KERNEL(start_lists, DeformLists, start_lists)
MYOPS_KERNEL(fill_list, DeformLists, fill_list)
MYOPS_KERNEL(sort_list, DeformLists, sort_list)
MYOPS_KERNEL(finish_list, DeformLists, finish_list)
