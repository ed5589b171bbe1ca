// The gradients of X, offset and mask from products in tiles (transposed.h): gradients.h with the
// channels of a pixel next to each other. Every sum over a list or over channels that are a fixed
// distance apart is computed by one thread, and those of channels are then added in order.
#pragma once

#include "deform_conv2d/cuda/lists.h"
#include "deform_conv2d/cuda/samples.h"

namespace myops {

struct DeformTileGradients {
  static constexpr int kThreads = 256, kBlocks = 4;
  static constexpr int kAcross = 32, kPacks = 8;                  // of a block of gather_packs
  static constexpr int kLanes = 8, kEntries = kThreads / kLanes;  // of a block of add_channels
  DeformLists lists;
  const void *X, *X_direction;         // packed
  const void *direct, *changed;        // T' and T of the rows from first_row on; null: 0
  int32_t block, blocks;               // channels of a row, rows of a part
  int32_t packs;                       // of A, of a block
  int32_t gather_across, gather_down;  // blocks of threads of gather_packs, of a row
  Divisor by_all_blocks, by_blocks;
  int32_t first_row, rows, all_blocks;  // all_blocks: rows of an image
  // F_j and H_j of each entry, [entries, 4], where the rows of an offset group are not all there;
  // null: they always are.
  void *direct_sums, *changed_sums;
  int32_t tiles;  // blocks of threads for the entries of one tap of an image
  DeformResult grad_X, grad_offset, grad_mask;
};

// A block of threads handles kAcross elements of an image plane times kPacks packs of channels.
template <class A>
struct GatherShared {
  // Written as they are summed, and read along the planes.
  A sums[DeformTileGradients::kPacks * Pack<A>::kCount][DeformTileGradients::kAcross + 1];
};

namespace deform_kernels {

inline int64_t gather_blocks(const DeformTileGradients& arguments) {
  return int64_t{arguments.rows} * arguments.gather_across * arguments.gather_down;
}

// The sums of a pack of channels over the lists of an element's four cells.
template <class A>
void gather_lists(const DeformTileGradients& arguments, int32_t cell, const Pack<A>* direct,
                  const Pack<A>* changed, A* sums) {
  constexpr int kCount = Pack<A>::kCount;
  const DeformLists& lists = arguments.lists;
  for (int j = 0; j < 4; ++j) {  // the elements are corner j of this cell
    const int32_t from = cell - j / 2 * (lists.shape.width + 1) - j % 2;
    const int32_t begin = lists.start[from], end = begin + lists.count[from];
    const auto add = [&](const Pack<A>* all, const void* weights) {
      const A* factors = static_cast<const A*>(weights) + j;
      for (int32_t e = begin; e < end; ++e) {
        const Pack<A> t = all[int64_t{lists.place[e]} * arguments.packs];
        const A factor = factors[int64_t{4} * e];
        for (int v = 0; v < kCount; ++v) sums[v] = std::fma(factor, t.at[v], sums[v]);
      }
    };
    if (direct != nullptr) add(direct, lists.masked);
    if (changed != nullptr) add(changed, lists.changes);
  }
}

}  // namespace deform_kernels

// Elements of the gradient of X, in the rows whose products are there: sums over the taps of their
// four cells of a_j T' + b_j T.
template <class T, class A, class B>
void gather_packs(const DeformTileGradients& arguments, const B& block, int64_t i,
                  GatherShared<A>& shared) {
  constexpr int kCount = Pack<A>::kCount, kPacks = DeformTileGradients::kPacks;
  constexpr int kAcross = DeformTileGradients::kAcross;
  const DeformLists& lists = arguments.lists;
  const DeformShape& shape = lists.shape;
  const auto tile = static_cast<uint32_t>(i);
  const auto down = static_cast<uint32_t>(arguments.gather_down);
  const auto across = static_cast<uint32_t>(arguments.gather_across);
  const auto first_pack = static_cast<int32_t>(tile % down) * kPacks;
  const auto first = static_cast<int32_t>(tile / down % across) * kAcross;
  const auto row = static_cast<int32_t>(tile / down / across);
  const int32_t n = divided(arguments.first_row + row, arguments.by_all_blocks);
  const int32_t of_image = arguments.first_row + row - n * arguments.all_blocks;
  const int32_t part = divided(of_image, arguments.by_blocks);
  const int32_t in_part = (of_image - part * arguments.blocks) * arguments.block;
  const int32_t elements = shape.height * shape.width;
  block.each([&](int thread) {  // neighbouring threads have neighbouring packs
    const int32_t place = first + thread / kPacks, pack = first_pack + thread % kPacks;
    if (place >= elements || pack >= arguments.packs) return;
    const int32_t y = divided(place, shape.by_width), x = place - y * shape.width;
    const int32_t cell = deform_kernels::first_cell(shape, n, part / shape.parts_of_offsets) +
                         (y + 1) * (shape.width + 1) + x + 1;
    const int64_t begin = int64_t{row} * shape.padded_pixels * shape.taps * arguments.packs + pack;
    const auto products = [&](const void* all) {
      return all != nullptr ? static_cast<const Pack<A>*>(all) + begin : nullptr;
    };
    A sums[kCount] = {};
    deform_kernels::gather_lists<A>(
        arguments, cell, products(arguments.direct),
        products(lists.changes != nullptr ? arguments.changed : nullptr), sums);
    for (int v = 0; v < kCount; ++v) {
      shared.sums[thread % kPacks * kCount + v][thread / kPacks] = sums[v];
    }
  });
  block.each([&](int thread) {  // neighbouring threads have neighbouring elements
    const int32_t place = first + thread % kAcross;
    if (place >= elements) return;
    const int32_t y = divided(place, shape.by_width), x = place - y * shape.width;
    T* to = static_cast<T*>(arguments.grad_X.data) + n * arguments.grad_X.stride[0] +
            y * arguments.grad_X.stride[2] + x * arguments.grad_X.stride[3];
    for (int c = thread / kAcross; c < kPacks * kCount; c += B::kThreads / kAcross) {
      const int32_t in_block = first_pack * kCount + c, channel = in_part + in_block;
      if (in_block >= arguments.block || channel >= shape.channels) return;
      to[(part * shape.channels + channel) * arguments.grad_X.stride[1]] =
          static_cast<T>(shared.sums[c][thread % kAcross]);
    }
  });
}

// A block of threads handles kEntries pixels of a tap, with kLanes threads for each.
template <class A>
struct AddChannelsShared {
  static constexpr int kEntries = DeformTileGradients::kEntries;
  deform_kernels::Position<A, int32_t> at[kEntries];
  uint32_t corners[kEntries][4];
  A direct[kEntries][DeformTileGradients::kLanes + 1][4];
  A changed[kEntries][DeformTileGradients::kLanes + 1][4];
};

namespace deform_kernels {

inline int64_t channel_blocks(const DeformTileGradients& arguments) {
  const int32_t last = (arguments.first_row + arguments.rows - 1) / arguments.all_blocks;
  const int32_t images = last - arguments.first_row / arguments.all_blocks + 1;
  const DeformShape& shape = arguments.lists.shape;
  return int64_t{images} * shape.offset_groups * shape.taps * arguments.tiles;
}

// The gradients of an entry's offset and mask, from F_j and H_j.
template <class T, class A>
void write_positions(const DeformTileGradients& arguments, const TileEntry& entry,
                     const Position<A, int32_t>& at, const A* direct, const A* changed) {
  const DeformInputs& inputs = arguments.lists.inputs;
  const DeformShape& shape = arguments.lists.shape;
  const int32_t plane = entry.group * shape.taps + entry.tap;
  const RowColumn place = row_column(shape, entry.pixel);
  A y = 0, x = 0, mask = 0;
  if (at.hit) {
    const auto all = [](const A* sums) { return Corners<A>{{sums[0], sums[1], sums[2], sums[3]}}; };
    const Corners<A> F = all(direct);
    const auto w = value_weights(at), wy = y_weights(at), wx = x_weights(at);
    y = at.mask * dot(wy, F);
    x = at.mask * dot(wx, F);
    mask = dot(w, F);
    if (arguments.changed != nullptr) {
      const Corners<A> H = all(changed);
      const auto move = move_at<T, A>(inputs, entry.n, plane, place.row, place.column);
      const Corners<A> wxy{{1, -1, -1, 1}};
      const A y_sum = dot(wy, H), x_sum = dot(wx, H), both = at.mask * dot(wxy, H);
      y += move.mask * y_sum + move.x * both;
      x += move.mask * x_sum + move.y * both;
      mask += move.y * y_sum + move.x * x_sum;
    }
  }
  if (arguments.grad_offset.data != nullptr) {
    write<T, A>(arguments.grad_offset, entry.n, 2 * plane, place.row, place.column, y);
    write<T, A>(arguments.grad_offset, entry.n, 2 * plane + 1, place.row, place.column, x);
  }
  if (arguments.grad_mask.data != nullptr) {
    write<T, A>(arguments.grad_mask, entry.n, plane, place.row, place.column, mask);
  }
}

// Adds to F_j and H_j what a thread has of the channels of one row.
template <class T, class A>
void add_row(const DeformTileGradients& arguments, int lane, int32_t row, int32_t part,
             int32_t in_part, int32_t place, const uint32_t* corners, A* direct, A* changed) {
  constexpr int kCount = Pack<T>::kCount, kPacks = kCount / Pack<A>::kCount;
  const DeformShape& shape = arguments.lists.shape;
  const int64_t size = int64_t{shape.padded_pixels} * shape.taps * arguments.packs;
  const int64_t first = row * size + int64_t{place} * arguments.packs;
  const auto of_part = static_cast<uint32_t>(part * (shape.padded_channels / kCount));
  for (int32_t c = lane * kCount; c < arguments.block; c += DeformTileGradients::kLanes * kCount) {
    const int32_t channel = in_part + c;
    if (channel >= shape.channels) return;
    const auto products = [&](const void* all, A* to) {
      for (int p = 0; p < kPacks; ++p) {
        const Pack<A> pack = static_cast<const Pack<A>*>(all)[first + c / Pack<A>::kCount + p];
        for (int v = 0; v < Pack<A>::kCount; ++v) to[p * Pack<A>::kCount + v] = pack.at[v];
      }
      for (int v = 0; v < kCount; ++v) {
        if (channel + v >= shape.channels) to[v] = 0;  // may be NaN
      }
    };
    const auto values = [&](const void* X) {
      return corner_packs(X, corners, static_cast<int32_t>(of_part) + channel / kCount);
    };
    const auto add = [&](const A* t, const CornerPacks& X, A* sums) {
      for (int j = 0; j < 4; ++j) {
        for (int v = 0; v < kCount; ++v) {
          sums[j] = std::fma(t[v], element_of<T, A>(X.at[j], v), sums[j]);
        }
      }
    };
    const CornerPacks X = values(arguments.X);
    A t[kCount];
    if (arguments.direct != nullptr) {
      products(arguments.direct, t);
      add(t, X, direct);
    }
    if (arguments.changed == nullptr) continue;
    products(arguments.changed, t);
    add(t, X, changed);
    if (arguments.X_direction != nullptr) add(t, values(arguments.X_direction), direct);
  }
}

}  // namespace deform_kernels

// F_j and H_j of entries, summed over the rows whose products are there; and, with the last row of
// an offset group, the gradients of offset and mask.
template <class T, class A, class B>
void add_channels(const DeformTileGradients& arguments, const B& block, int64_t i,
                  AddChannelsShared<A>& shared) {
  constexpr int kLanes = DeformTileGradients::kLanes, kEntries = DeformTileGradients::kEntries;
  const DeformShape& shape = arguments.lists.shape;
  const auto number = static_cast<int32_t>(i);
  const int32_t tap_plane = number / arguments.tiles;
  const int32_t first_pixel = (number - tap_plane * arguments.tiles) * kEntries;
  const int32_t image = divided(tap_plane, shape.by_taps), tap = tap_plane - image * shape.taps;
  const int32_t of_first = divided(image, shape.by_offset_groups);
  const int32_t group = image - of_first * shape.offset_groups;
  const int32_t n = arguments.first_row / arguments.all_blocks + of_first;
  // The rows of this offset group, and those that are there.
  const int32_t rows = shape.parts_of_offsets * arguments.blocks;
  const int32_t first_row = n * arguments.all_blocks + group * rows;
  const int32_t begin = larger(first_row, arguments.first_row);
  const int32_t end = smaller(first_row + rows, arguments.first_row + arguments.rows);
  if (begin >= end) return;
  const bool is_first = begin == first_row, is_last = end == first_row + rows;
  const auto entry_of = [&](int e) {
    return deform_kernels::TileEntry{n, group, tap, first_pixel + e};
  };
  block.each([&](int e) {
    if (e >= kEntries || first_pixel + e >= shape.pixels) return;
    const auto at =
        deform_kernels::position<T, A>(arguments.lists.inputs, shape, n, group, tap,
                                       deform_kernels::row_column(shape, first_pixel + e));
    shared.at[e] = at;
    deform_kernels::place_corners<T, A>(shape, n, 0, at, shared.corners[e]);
  });
  block.each([&](int thread) {
    const int e = thread / kLanes, lane = thread % kLanes;
    A direct[4] = {}, changed[4] = {};
    if (first_pixel + e < shape.pixels && shared.at[e].hit) {
      const int32_t place = (first_pixel + e) * shape.taps + tap;
      for (int32_t row = begin; row < end; ++row) {
        const int32_t of_image = row - n * arguments.all_blocks;
        const int32_t part = divided(of_image, arguments.by_blocks);
        deform_kernels::add_row<T, A>(arguments, lane, row - arguments.first_row, part,
                                      (of_image - part * arguments.blocks) * arguments.block, place,
                                      shared.corners[e], direct, changed);
      }
    }
    for (int j = 0; j < 4; ++j) {
      shared.direct[e][lane][j] = direct[j];
      shared.changed[e][lane][j] = changed[j];
    }
  });
  block.each([&](int thread) {  // one thread for each entry and corner
    const int e = thread / 4, j = thread % 4;
    if (e >= kEntries || first_pixel + e >= shape.pixels) return;
    const int64_t place =
        (((int64_t{n} * shape.offset_groups + group) * shape.taps + tap) * shape.pixels +
         first_pixel + e) *
            4 +
        j;
    const auto all = [&](A(&lanes)[kLanes + 1][4], void* sums) {
      A sum = is_first ? A(0) : static_cast<const A*>(sums)[place];
      for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane][j];
      lanes[kLanes][j] = sum;
      if (!is_last) static_cast<A*>(sums)[place] = sum;
    };
    all(shared.direct[e], arguments.direct_sums);
    if (arguments.changed != nullptr) all(shared.changed[e], arguments.changed_sums);
  });
  block.each([&](int e) {
    if (!is_last || e >= kEntries || first_pixel + e >= shape.pixels) return;
    deform_kernels::write_positions<T, A>(arguments, entry_of(e), shared.at[e],
                                          shared.direct[e][kLanes], shared.changed[e][kLanes]);
  });
}

}  // namespace myops

MYOPS_BLOCK_KERNEL(gather_packs, DeformTileGradients, GatherShared, gather_packs)
MYOPS_BLOCK_KERNEL(add_channels, DeformTileGradients, AddChannelsShared, add_channels)
