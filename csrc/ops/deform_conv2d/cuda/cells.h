// Lists of the taps in each cell of the image: the gradient of an element of X is a sum over the
// taps that sampled it. Each list is sorted, whatever the order of the threads was, so that sums
// over it are equal in every run.
//
// Cell (y, x) of an image and an offset group has the corners (y - 1, x - 1) to (y, x), so that
// there are (height + 1) * (width + 1). Entry e is tap k of pixel p:
// e = ((n * offset_groups + g) * taps + k) * pixels + p.
#pragma once

#include "deform_conv2d/cuda/positions.h"

namespace myops {

struct DeformCells {
  static constexpr int64_t kChunk = 1024;
  DeformInputs inputs;
  int64_t cells;
  int64_t* count;   // of the entries of each cell
  int64_t* start;   // where they begin in `entry`
  int64_t* filled;  // how many are there
  int64_t* entry;
  int64_t* chunk;  // sums of kChunk counts
};

namespace deform_kernels {

struct Entry {
  int64_t n, group, tap, pixel;
};

inline int64_t entries_of_image(const DeformSizes& sizes) {
  return sizes.offset_groups * sizes.taps * pixels(sizes);
}

inline Entry entry_of(const DeformSizes& sizes, int64_t e) {
  const int64_t all = pixels(sizes), plane = e / all;
  const int64_t image = plane / sizes.taps;
  return {image / sizes.offset_groups, image % sizes.offset_groups, plane % sizes.taps, e % all};
}

template <class T, class A>
Position<A> position_of(const DeformInputs& inputs, const Entry& entry) {
  return position<T, A>(inputs, entry.n, entry.group, entry.tap, entry.pixel);
}

inline int64_t cells_of(const DeformSizes& sizes) {
  return sizes.batch * sizes.offset_groups * (sizes.height + 1) * (sizes.width + 1);
}

// `image`: of n and an offset group.
inline int64_t cell_of(const DeformSizes& sizes, int64_t image, int64_t y, int64_t x) {
  return (image * (sizes.height + 1) + y + 1) * (sizes.width + 1) + x + 1;
}

inline void swap(int64_t& a, int64_t& b) {
  const int64_t kept = a;
  a = b;
  b = kept;
}

// Heap sort, which needs no memory and is fast in the worst case too.
inline void sort(int64_t* list, int64_t length) {
  const auto sink = [&](int64_t at, int64_t end) {
    for (int64_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
      if (child + 1 < end && list[child] < list[child + 1]) ++child;
      if (list[child] <= list[at]) return;
      swap(list[at], list[child]);
      at = child;
    }
  };
  for (int64_t at = length / 2; at-- > 0;) sink(at, length);
  for (int64_t end = length - 1; end > 0; --end) {
    swap(list[0], list[end]);
    sink(0, end);
  }
}

// The cell of an entry; -1 where it samples nothing.
template <class T, class A>
int64_t cell_of_entry(const DeformCells& cells, int64_t e) {
  const DeformSizes& sizes = cells.inputs.sizes;
  const Entry entry = entry_of(sizes, e);
  const Position<A> at = position_of<T, A>(cells.inputs, entry);
  return at.hit ? cell_of(sizes, entry.n * sizes.offset_groups + entry.group, at.y, at.x) : -1;
}

}  // namespace deform_kernels

template <class T, class A>
void count_entry(const DeformCells& cells, int64_t e) {
  const int64_t cell = deform_kernels::cell_of_entry<T, A>(cells, e);
  if (cell >= 0) (void)count_up(&cells.count[cell]);
}

template <class T, class A>
void sum_chunk(const DeformCells& cells, int64_t chunk) {
  const int64_t begin = chunk * DeformCells::kChunk;
  const int64_t end = smaller(begin + DeformCells::kChunk, cells.cells);
  int64_t sum = 0;
  for (int64_t cell = begin; cell < end; ++cell) sum += cells.count[cell];
  cells.chunk[chunk] = sum;
}

template <class T, class A>
void start_chunks(const DeformCells& cells, int64_t) {  // one thread
  const int64_t chunks = (cells.cells + DeformCells::kChunk - 1) / DeformCells::kChunk;
  int64_t sum = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t count = cells.chunk[chunk];
    cells.chunk[chunk] = sum;
    sum += count;
  }
}

template <class T, class A>
void start_cells(const DeformCells& cells, int64_t chunk) {
  const int64_t begin = chunk * DeformCells::kChunk;
  const int64_t end = smaller(begin + DeformCells::kChunk, cells.cells);
  int64_t sum = cells.chunk[chunk];
  for (int64_t cell = begin; cell < end; ++cell) {
    cells.start[cell] = sum;
    sum += cells.count[cell];
  }
}

template <class T, class A>
void list_entry(const DeformCells& cells, int64_t e) {
  const int64_t cell = deform_kernels::cell_of_entry<T, A>(cells, e);
  if (cell >= 0) cells.entry[cells.start[cell] + count_up(&cells.filled[cell])] = e;
}

// The entries are in no particular order yet.
template <class T, class A>
void sort_cell(const DeformCells& cells, int64_t cell) {
  deform_kernels::sort(cells.entry + cells.start[cell], cells.count[cell]);
}

}  // namespace myops

MYOPS_KERNEL(count_entry, DeformCells, count_entry)
MYOPS_KERNEL(sum_chunk, DeformCells, sum_chunk)
MYOPS_KERNEL(start_chunks, DeformCells, start_chunks)
MYOPS_KERNEL(start_cells, DeformCells, start_cells)
MYOPS_KERNEL(list_entry, DeformCells, list_entry)
MYOPS_KERNEL(sort_cell, DeformCells, sort_cell)
