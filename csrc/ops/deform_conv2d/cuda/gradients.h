// The gradients of X, offset and mask, from T' and T (transposed.h): for deform_conv2d, where T is
// 0, and for its gradient. Every sum is computed by one thread, in an order that depends on the
// arguments only.
#pragma once

#include "deform_conv2d/cuda/cells.h"

namespace myops {

struct DeformGradients {
  DeformInputs inputs;
  DeformCells cells;
  const void *direct, *changed;  // T' and T of the rows from first_row on; null: 0
  int64_t first_row, rows;
  void *direct_sums, *changed_sums;  // F_j and H_j of each entry: [entries, 4], of type A
  DeformResult grad_X, grad_offset, grad_mask;
};

namespace deform_kernels {

// What the products have for a tap and a pixel of a row, counted from first_row.
template <class A>
A product_at(const DeformSizes& sizes, const void* products, int64_t row, const Entry& entry) {
  return static_cast<const A*>(
      products)[(row * sizes.taps + entry.tap) * pixels(sizes) + entry.pixel];
}

template <class A>
Corners<A> sums_of(const void* sums, int64_t e) {
  if (sums == nullptr) return {};
  const A* from = static_cast<const A*>(sums) + 4 * e;
  return {{from[0], from[1], from[2], from[3]}};
}

template <class A>
void add(A factor, const Corners<A>& values, Corners<A>& sums) {
  for (int j = 0; j < 4; ++j) sums.at[j] = std::fma(factor, values.at[j], sums.at[j]);
}

}  // namespace deform_kernels

// An element of the gradient of X, in the rows whose products are there: the sum over the taps of
// its four cells of a_j T' + b_j T.
template <class T, class A>
void gather_image(const DeformGradients& arguments, int64_t i) {
  const DeformInputs& inputs = arguments.inputs;
  const DeformSizes& sizes = inputs.sizes;
  const DeformCells& cells = arguments.cells;
  const int64_t x = i % sizes.width, y = i / sizes.width % sizes.height;
  const int64_t row = i / sizes.width / sizes.height;
  const int64_t n = (arguments.first_row + row) / sizes.channels;
  const int64_t c = (arguments.first_row + row) % sizes.channels;
  const int64_t image = n * sizes.offset_groups + c / deform_kernels::sharing(sizes);
  A sum = 0;
  for (int j = 0; j < 4; ++j) {  // the element is corner j of this cell
    const int64_t cell = deform_kernels::cell_of(sizes, image, y - j / 2, x - j % 2);
    const int64_t* entry = cells.entry + cells.start[cell];
    for (int64_t e = 0; e < cells.count[cell]; ++e) {
      const deform_kernels::Entry of = deform_kernels::entry_of(sizes, entry[e]);
      const auto at = deform_kernels::position_of<T, A>(inputs, of);
      if (arguments.direct != nullptr) {
        const A t = deform_kernels::product_at<A>(sizes, arguments.direct, row, of);
        sum = std::fma(deform_kernels::masked(at).at[j], t, sum);
      }
      if (arguments.changed != nullptr && inputs.shifted()) {
        const auto move = deform_kernels::move_of<T, A>(inputs, of.n, of.group, of.tap, of.pixel);
        const A t = deform_kernels::product_at<A>(sizes, arguments.changed, row, of);
        sum = std::fma(deform_kernels::changes(at, move).at[j], t, sum);
      }
    }
  }
  deform_kernels::write<T, A>(arguments.grad_X, n, c, y, x, sum);
}

// Adds to F_j and H_j of an entry what the rows with products contribute. Launched for the entries
// of the images of these rows.
template <class T, class A>
void add_corners(const DeformGradients& arguments, int64_t i) {
  const DeformInputs& inputs = arguments.inputs;
  const DeformSizes& sizes = inputs.sizes;
  const int64_t e =
      arguments.first_row / sizes.channels * deform_kernels::entries_of_image(sizes) + i;
  const deform_kernels::Entry entry = deform_kernels::entry_of(sizes, e);
  const auto at = deform_kernels::position_of<T, A>(inputs, entry);
  if (!at.hit) return;
  const int64_t shared = deform_kernels::sharing(sizes), image = entry.n * sizes.channels;
  const int64_t begin = larger(image + entry.group * shared, arguments.first_row);
  const int64_t end =
      smaller(image + (entry.group + 1) * shared, arguments.first_row + arguments.rows);
  auto direct = deform_kernels::sums_of<A>(arguments.direct_sums, e);
  auto changed = deform_kernels::sums_of<A>(arguments.changed_sums, e);
  const auto values = [&](const DeformTensor& X, int64_t row) {
    return deform_kernels::corners<T, A>(sizes, X, entry.n, row - image, true, at.y, at.x);
  };
  for (int64_t row = begin; row < end; ++row) {
    const int64_t place = row - arguments.first_row;
    const auto X = values(inputs.X, row);
    if (arguments.direct != nullptr) {
      const A t = deform_kernels::product_at<A>(sizes, arguments.direct, place, entry);
      deform_kernels::add(t, X, direct);
    }
    if (arguments.changed != nullptr) {
      const A t = deform_kernels::product_at<A>(sizes, arguments.changed, place, entry);
      deform_kernels::add(t, X, changed);
      if (inputs.X_direction.data != nullptr) {
        deform_kernels::add(t, values(inputs.X_direction, row), direct);
      }
    }
  }
  const auto store = [&](void* sums, const deform_kernels::Corners<A>& from) {
    if (sums == nullptr) return;
    for (int j = 0; j < 4; ++j) static_cast<A*>(sums)[4 * e + j] = from.at[j];
  };
  store(arguments.direct_sums, direct);
  store(arguments.changed_sums, changed);
}

// The gradients of an entry's offset and mask, from F_j and H_j.
template <class T, class A>
void finish_entry(const DeformGradients& arguments, int64_t e) {
  const DeformInputs& inputs = arguments.inputs;
  const DeformSizes& sizes = inputs.sizes;
  const deform_kernels::Entry entry = deform_kernels::entry_of(sizes, e);
  const auto at = deform_kernels::position_of<T, A>(inputs, entry);
  A y = 0, x = 0, mask = 0;
  if (at.hit) {
    const auto F = deform_kernels::sums_of<A>(arguments.direct_sums, e);
    const auto w = deform_kernels::value_weights(at);
    const auto wy = deform_kernels::y_weights(at), wx = deform_kernels::x_weights(at);
    y = at.mask * deform_kernels::dot(wy, F);
    x = at.mask * deform_kernels::dot(wx, F);
    mask = deform_kernels::dot(w, F);
    if (arguments.changed_sums != nullptr) {
      const auto H = deform_kernels::sums_of<A>(arguments.changed_sums, e);
      const auto move =
          deform_kernels::move_of<T, A>(inputs, entry.n, entry.group, entry.tap, entry.pixel);
      const deform_kernels::Corners<A> wxy{{1, -1, -1, 1}};
      const A y_sum = deform_kernels::dot(wy, H), x_sum = deform_kernels::dot(wx, H);
      const A both = at.mask * deform_kernels::dot(wxy, H);
      y += move.mask * y_sum + move.x * both;
      x += move.mask * x_sum + move.y * both;
      mask += move.y * y_sum + move.x * x_sum;
    }
  }
  const int64_t plane = entry.group * sizes.taps + entry.tap;
  const int64_t row = entry.pixel / sizes.out_width, column = entry.pixel % sizes.out_width;
  if (arguments.grad_offset.data != nullptr) {
    deform_kernels::write<T, A>(arguments.grad_offset, entry.n, 2 * plane, row, column, y);
    deform_kernels::write<T, A>(arguments.grad_offset, entry.n, 2 * plane + 1, row, column, x);
  }
  if (arguments.grad_mask.data != nullptr) {
    deform_kernels::write<T, A>(arguments.grad_mask, entry.n, plane, row, column, mask);
  }
}

}  // namespace myops

MYOPS_KERNEL(gather_image, DeformGradients, gather_image)
MYOPS_KERNEL(add_corners, DeformGradients, add_corners)
MYOPS_KERNEL(finish_entry, DeformGradients, finish_entry)
