// The gradients of deform_conv2d on CUDA. Every sum is made by one thread in an order that depends
// on the inputs alone, so results are equal from run to run:
//
// - T(c, k, p) = sum_o W(o, c, k) G(o, p), of some channels at a time ("rows" n * C + c);
// - the gradient of X: a list of the taps that sample each cell, in their order, is made once; then
//   each element of X sums over the lists of its four cells;
// - the gradients of offset and mask: each tap sums over its channels;
// - the gradient of W: sums over slices of the pixels, which are then added in order.
#pragma once

#include "deform_conv2d/cuda/positions.h"

namespace myops {

// The taps of each cell. Cell (y, x) of an image and an offset group has the corners (y - 1, x - 1)
// to (y, x), so that there are (height + 1) * (width + 1). Entry e is tap k of pixel p:
// e = ((n * offset_groups + g) * taps + k) * pixels + p.
struct DeformCells {
  int64_t* count;   // of each cell
  int64_t* start;   // where its entries begin in `entry`
  int64_t* filled;  // how many are there
  int64_t* entry;
  int64_t* chunk;  // sums of kChunk counts
  int64_t cells;
  static constexpr int64_t kChunk = 1024;
};

struct DeformBackward {
  static constexpr int kOutputs = 8;
  DeformSizes sizes;
  DeformTensor grad, X, W, offset, mask;
  DeformCells cells;
  void* products;  // T of the rows from first_row on: [rows, taps, pixels], of type A
  int64_t first_row, rows;
  void* corner_sums;  // F_j of each entry: [entries, 4], of type A
  void* weight_sums;  // [slices, outputs, channels / groups, taps], of type A
  int64_t slices;
  DeformResult grad_X, grad_W, grad_offset, grad_mask;
};

namespace deform_kernels {

struct Entry {
  int64_t n, group, tap, pixel;
};

inline Entry entry_of(const DeformSizes& sizes, int64_t e) {
  const int64_t all = pixels(sizes), plane = e / all;
  const int64_t image = plane / sizes.taps;
  return {image / sizes.offset_groups, image % sizes.offset_groups, plane % sizes.taps, e % all};
}

template <class T, class A>
Position<A> position_of(const DeformBackward& arguments, const Entry& entry) {
  return position<T, A>(arguments.sizes, arguments.offset, arguments.mask, entry.n, entry.group,
                        entry.tap, entry.pixel);
}

inline int64_t cell_of(const DeformSizes& sizes, int64_t image, int64_t y, int64_t x) {
  return (image * (sizes.height + 1) + y + 1) * (sizes.width + 1) + x + 1;
}

inline void swap(int64_t& a, int64_t& b) {
  const int64_t kept = a;
  a = b;
  b = kept;
}

// Heap sort: no worst case that is slower than others, no memory.
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

}  // namespace deform_kernels

// ---- The lists of entries.

template <class T, class A>
void count_entry(const DeformBackward& arguments, int64_t e) {
  const deform_kernels::Entry entry = deform_kernels::entry_of(arguments.sizes, e);
  const auto at = deform_kernels::position_of<T, A>(arguments, entry);
  if (!at.hit) return;
  const int64_t image = entry.n * arguments.sizes.offset_groups + entry.group;
  (void)count_up(
      &arguments.cells.count[deform_kernels::cell_of(arguments.sizes, image, at.y, at.x)]);
}

template <class T, class A>
void sum_chunk(const DeformBackward& arguments, int64_t chunk) {
  const DeformCells& cells = arguments.cells;
  const int64_t begin = chunk * DeformCells::kChunk;
  const int64_t end = smaller(begin + DeformCells::kChunk, cells.cells);
  int64_t sum = 0;
  for (int64_t cell = begin; cell < end; ++cell) sum += cells.count[cell];
  cells.chunk[chunk] = sum;
}

template <class T, class A>
void start_chunks(const DeformBackward& arguments, int64_t) {  // one thread
  const DeformCells& cells = arguments.cells;
  const int64_t chunks = (cells.cells + DeformCells::kChunk - 1) / DeformCells::kChunk;
  int64_t sum = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t count = cells.chunk[chunk];
    cells.chunk[chunk] = sum;
    sum += count;
  }
}

template <class T, class A>
void start_cells(const DeformBackward& arguments, int64_t chunk) {
  const DeformCells& cells = arguments.cells;
  const int64_t begin = chunk * DeformCells::kChunk;
  const int64_t end = smaller(begin + DeformCells::kChunk, cells.cells);
  int64_t sum = cells.chunk[chunk];
  for (int64_t cell = begin; cell < end; ++cell) {
    cells.start[cell] = sum;
    sum += cells.count[cell];
  }
}

template <class T, class A>
void list_entry(const DeformBackward& arguments, int64_t e) {
  const DeformCells& cells = arguments.cells;
  const deform_kernels::Entry entry = deform_kernels::entry_of(arguments.sizes, e);
  const auto at = deform_kernels::position_of<T, A>(arguments, entry);
  if (!at.hit) return;
  const int64_t image = entry.n * arguments.sizes.offset_groups + entry.group;
  const int64_t cell = deform_kernels::cell_of(arguments.sizes, image, at.y, at.x);
  cells.entry[cells.start[cell] + count_up(&cells.filled[cell])] = e;
}

// Entries have come in any order.
template <class T, class A>
void sort_cell(const DeformBackward& arguments, int64_t cell) {
  const DeformCells& cells = arguments.cells;
  deform_kernels::sort(cells.entry + cells.start[cell], cells.count[cell]);
}

// ---- Gradients.

// T of tap k and pixel p of a row.
template <class T, class A>
void multiply_transposed(const DeformBackward& arguments, int64_t i) {
  const DeformSizes& sizes = arguments.sizes;
  const int64_t pixels = deform_kernels::pixels(sizes), pixel = i % pixels;
  const int64_t k = i / pixels % sizes.taps, row = arguments.first_row + i / pixels / sizes.taps;
  const int64_t n = row / sizes.channels, c = row % sizes.channels;
  const int64_t channels = sizes.channels / sizes.groups, each = sizes.outputs / sizes.groups;
  const int64_t group = c / channels;
  A sum = 0;
  for (int64_t o = group * each; o < (group + 1) * each; ++o) {
    const A w = deform_kernels::read<T, A>(arguments.W, o, c % channels, k / sizes.kernel_width,
                                           k % sizes.kernel_width);
    const A g = deform_kernels::read<T, A>(arguments.grad, n, o, pixel / sizes.out_width,
                                           pixel % sizes.out_width);
    sum = std::fma(w, g, sum);
  }
  static_cast<A*>(arguments.products)[i] = sum;
}

// An element of the gradient of X, in the rows whose T is there.
template <class T, class A>
void gather_image(const DeformBackward& arguments, int64_t i) {
  const DeformSizes& sizes = arguments.sizes;
  const DeformCells& cells = arguments.cells;
  const int64_t x = i % sizes.width, y = i / sizes.width % sizes.height;
  const int64_t row = i / sizes.width / sizes.height;
  const int64_t n = (arguments.first_row + row) / sizes.channels;
  const int64_t c = (arguments.first_row + row) % sizes.channels;
  const int64_t image = n * sizes.offset_groups + c / (sizes.channels / sizes.offset_groups);
  const int64_t pixels = deform_kernels::pixels(sizes);
  const A* products = static_cast<const A*>(arguments.products) + row * sizes.taps * pixels;
  A sum = 0;
  for (int j = 0; j < 4; ++j) {  // the corner that this element is of the cell
    const int64_t cell = deform_kernels::cell_of(sizes, image, y - j / 2, x - j % 2);
    const int64_t* entry = cells.entry + cells.start[cell];
    for (int64_t e = 0; e < cells.count[cell]; ++e) {
      const deform_kernels::Entry of = deform_kernels::entry_of(sizes, entry[e]);
      const auto at = deform_kernels::position_of<T, A>(arguments, of);
      sum = std::fma(deform_kernels::masked(at).at[j], products[of.tap * pixels + of.pixel], sum);
    }
  }
  deform_kernels::write<T, A>(arguments.grad_X, n, c, y, x, sum);
}

// Adds to F_j of entry `first_entry` + i what the rows with T contribute. Launched for the entries
// of the images of these rows.
template <class T, class A>
void add_corners(const DeformBackward& arguments, int64_t i) {
  const DeformSizes& sizes = arguments.sizes;
  const int64_t pixels = deform_kernels::pixels(sizes);
  const int64_t first_image = arguments.first_row / sizes.channels;
  const int64_t e = first_image * sizes.offset_groups * sizes.taps * pixels + i;
  const deform_kernels::Entry entry = deform_kernels::entry_of(sizes, e);
  const auto at = deform_kernels::position_of<T, A>(arguments, entry);
  if (!at.hit) return;
  const int64_t shared = sizes.channels / sizes.offset_groups, image = entry.n * sizes.channels;
  const int64_t begin = larger(image + entry.group * shared, arguments.first_row);
  const int64_t end =
      smaller(image + (entry.group + 1) * shared, arguments.first_row + arguments.rows);
  A* sums = static_cast<A*>(arguments.corner_sums) + 4 * e;
  deform_kernels::Corners<A> total{{sums[0], sums[1], sums[2], sums[3]}};
  for (int64_t row = begin; row < end; ++row) {
    const A product = static_cast<const A*>(
        arguments.products)[((row - arguments.first_row) * sizes.taps + entry.tap) * pixels +
                            entry.pixel];
    const auto values = deform_kernels::corners<T, A>(sizes, arguments.X, entry.n, row - image, at);
    for (int j = 0; j < 4; ++j) total.at[j] = std::fma(product, values.at[j], total.at[j]);
  }
  for (int j = 0; j < 4; ++j) sums[j] = total.at[j];
}

// The gradients of an entry's offset and mask, from F_j.
template <class T, class A>
void finish_entry(const DeformBackward& arguments, int64_t e) {
  const DeformSizes& sizes = arguments.sizes;
  const deform_kernels::Entry entry = deform_kernels::entry_of(sizes, e);
  const auto at = deform_kernels::position_of<T, A>(arguments, entry);
  const A* sums = static_cast<const A*>(arguments.corner_sums) + 4 * e;
  const deform_kernels::Corners<A> F{{sums[0], sums[1], sums[2], sums[3]}};
  const int64_t plane = entry.group * sizes.taps + entry.tap;
  const int64_t row = entry.pixel / sizes.out_width, column = entry.pixel % sizes.out_width;
  if (arguments.grad_offset.data != nullptr) {
    const A y = at.hit ? at.mask * deform_kernels::dot(deform_kernels::y_weights(at), F) : A(0);
    const A x = at.hit ? at.mask * deform_kernels::dot(deform_kernels::x_weights(at), F) : A(0);
    deform_kernels::write<T, A>(arguments.grad_offset, entry.n, 2 * plane, row, column, y);
    deform_kernels::write<T, A>(arguments.grad_offset, entry.n, 2 * plane + 1, row, column, x);
  }
  if (arguments.grad_mask.data != nullptr) {
    const A m = at.hit ? deform_kernels::dot(deform_kernels::value_weights(at), F) : A(0);
    deform_kernels::write<T, A>(arguments.grad_mask, entry.n, plane, row, column, m);
  }
}

// The sums over one slice of all pixels, for kOutputs output channels, one channel and one tap.
template <class T, class A>
void sum_weights(const DeformBackward& arguments, int64_t i) {
  constexpr int kOutputs = DeformBackward::kOutputs;
  constexpr int64_t kTogether = 256;  // pixels that are summed before they are added: fewer errors
  const DeformSizes& sizes = arguments.sizes;
  const int64_t channels = sizes.channels / sizes.groups, each = sizes.outputs / sizes.groups;
  const int64_t runs = (each + kOutputs - 1) / kOutputs;
  const int64_t k = i % sizes.taps, c = i / sizes.taps % channels;
  const int64_t run = i / sizes.taps / channels % (runs * sizes.groups);
  const int64_t slice = i / sizes.taps / channels / (runs * sizes.groups);
  const int64_t group = run / runs, first = group * each + run % runs * kOutputs;
  const int64_t count = smaller<int64_t>(kOutputs, (group + 1) * each - first);
  const int64_t channel = group * channels + c;
  const int64_t offset_group = channel / (sizes.channels / sizes.offset_groups);
  const int64_t pixels = deform_kernels::pixels(sizes), all = sizes.batch * pixels;
  const int64_t length = (all + arguments.slices - 1) / arguments.slices;
  const int64_t begin = smaller(slice * length, all), end = smaller(begin + length, all);
  A totals[kOutputs] = {};
  for (int64_t at = begin; at < end; at += kTogether) {
    A sums[kOutputs] = {};
    for (int64_t p = at; p < smaller(at + kTogether, end); ++p) {
      const int64_t n = p / pixels, pixel = p % pixels;
      const auto place = deform_kernels::position<T, A>(sizes, arguments.offset, arguments.mask, n,
                                                        offset_group, k, pixel);
      const A value = deform_kernels::sample<T, A>(sizes, arguments.X, n, channel, place,
                                                   deform_kernels::masked(place));
      for (int o = 0; o < kOutputs; ++o) {
        if (o >= count) break;
        const A g = deform_kernels::read<T, A>(arguments.grad, n, first + o,
                                               pixel / sizes.out_width, pixel % sizes.out_width);
        sums[o] = std::fma(g, value, sums[o]);
      }
    }
    for (int o = 0; o < kOutputs; ++o) totals[o] += sums[o];
  }
  A* to = static_cast<A*>(arguments.weight_sums);
  for (int64_t o = 0; o < count; ++o) {
    to[((slice * sizes.outputs + first + o) * channels + c) * sizes.taps + k] = totals[o];
  }
}

// Adds the slices of an element of W.
template <class T, class A>
void add_slices(const DeformBackward& arguments, int64_t i) {
  const DeformSizes& sizes = arguments.sizes;
  const int64_t weights = sizes.outputs * (sizes.channels / sizes.groups) * sizes.taps;
  const A* from = static_cast<const A*>(arguments.weight_sums);
  A sum = 0;
  for (int64_t slice = 0; slice < arguments.slices; ++slice) sum += from[slice * weights + i];
  const int64_t k = i % sizes.taps, c = i / sizes.taps % (sizes.channels / sizes.groups);
  const int64_t o = i / sizes.taps / (sizes.channels / sizes.groups);
  deform_kernels::write<T, A>(arguments.grad_W, o, c, k / sizes.kernel_width,
                              k % sizes.kernel_width, sum);
}

}  // namespace myops

MYOPS_KERNEL(count_entry, DeformBackward, count_entry)
MYOPS_KERNEL(sum_chunk, DeformBackward, sum_chunk)
MYOPS_KERNEL(start_chunks, DeformBackward, start_chunks)
MYOPS_KERNEL(start_cells, DeformBackward, start_cells)
MYOPS_KERNEL(list_entry, DeformBackward, list_entry)
MYOPS_KERNEL(sort_cell, DeformBackward, sort_cell)
MYOPS_KERNEL(multiply_transposed, DeformBackward, multiply_transposed)
MYOPS_KERNEL(gather_image, DeformBackward, gather_image)
MYOPS_KERNEL(add_corners, DeformBackward, add_corners)
MYOPS_KERNEL(finish_entry, DeformBackward, finish_entry)
MYOPS_KERNEL(sum_weights, DeformBackward, sum_weights)
MYOPS_KERNEL(add_slices, DeformBackward, add_slices)
