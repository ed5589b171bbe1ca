// Tiles, for operands that lie in another order than the result: such an operand has no gaps along
// an axis that is not the innermost one. A tile has some places of that axis, its rows, and some of
// the axes inside of it, its columns, so that each line of the operand's memory is read once.
#pragma once

#include <array>

#include "rows.h"

namespace myops::my_add::MYOPS_ISA {

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

// Rows of fewer bytes are computed many at a time, because a loop for each takes longer.
constexpr int64_t kShortRow = 64;

// The axes of the columns: the innermost one, and those outside of it as long as all are few.
constexpr int64_t kMostColumns = 256;
inline size_t first_of_columns(const Axes& axes, size_t across) {
  size_t first = axes.size() - 1;
  int64_t length = axes[first].length;
  while (first - 1 > across && length * axes[first - 1].length <= kMostColumns) {
    length *= axes[--first].length;
  }
  return first;
}

template <class T>
inline constexpr int64_t kTile = 16384 / static_cast<int64_t>(sizeof(T));  // elements at most

struct Tiles {
  using Places = std::array<int64_t, kMostColumns>;

  // Where an operand has the columns of a tile, and whether they are copied.
  struct Operand {
    Places at;
    bool copied = false;
  };

  Axis across;            // along the rows
  int64_t length;         // of the axes of the columns, together
  int64_t rows, columns;  // of a tile
  Operand a, b;
  bool whole;  // the rows of a tile follow one another in the result and, or copied, the operands
  Axes axes;   // the others, then those of the tiles
  int64_t count = 1;

  // `most`: elements of a tile, `wide`: of a row that is not short. The widest tiles have one cache
  // line of each line of an operand that is transposed: more of it were slower.
  Tiles(const Axes& all, size_t axis, int64_t most, int64_t wide) : across(all[axis]) {
    const size_t inner = first_of_columns(all, axis);
    length = 1;
    for (size_t i = inner; i < all.size(); ++i) length *= all[i].length;
    columns = inner + 1 < all.size() ? length : std::min(length, kMostColumns);
    rows = std::clamp<int64_t>(most / columns, 1, across.length);
    whole = across.c == columns && length == columns;
    for (Operand* it : {&a, &b}) {
      const auto step = it == &a ? &Axis::a : &Axis::b;
      const bool gaps = !place(all, inner, step, *it);
      const bool apart = whole && (all.back().*step != 1 || across.*step != columns);
      it->copied = gaps || (apart && columns < wide);
      if (apart && !it->copied) whole = false;
    }
    for (size_t i = 0; i < inner; ++i) {
      if (i != axis) axes.push_back(all[i]);
    }
    const auto tiled = [](const Axis& of, int64_t all_of_it, int64_t by) {
      return Axis{(all_of_it + by - 1) / by, by * of.a, by * of.b, by * of.c};
    };
    axes.push_back(tiled(across, across.length, rows));
    axes.push_back(tiled(all.back(), length, columns));
    for (const Axis& it : axes) count *= it.length;
  }

 private:
  // Sets the columns of an operand; returns whether all its steps from one to the next are 1, or
  // all are 0.
  bool place(const Axes& all, size_t inner, int64_t Axis::* step, Operand& operand) const {
    Places& at = operand.at;
    at[0] = 0;
    int64_t done = 1;
    for (size_t i = all.size(); i-- > inner;) {
      const int64_t times = std::min(all[i].length, columns / done);
      for (int64_t j = done; j < times * done; ++j) at[j] = at[j - done] + all[i].*step;
      done *= times;
    }
    const int64_t first = all.back().*step;
    if (first != 0 && first != 1) return false;
    for (int64_t j = 0; j < done; ++j) {
      if (at[j] != j * first) return false;
    }
    return true;
  }
};

template <class T>
void run_tiles(const Call<T>& call, const Tiles& tiles, int64_t begin, int64_t end) {
  const Axis &across = tiles.across, &inner = call.axes.back();
  const bool a_copied = tiles.a.copied, b_copied = tiles.b.copied;
  const Axis in_row{0, a_copied ? 1 : inner.a, b_copied ? 1 : inner.b, 1};
  const Loop loop = loop_for(in_row.a, in_row.b);
  alignas(64) T a_copy[kTile<T> + kSlack<T>], b_copy[kTile<T> + kSlack<T>];
  for (Place<T> at(tiles.axes, call.a, call.b, call.c, begin); begin < end; ++begin) {
    const T *a = at.a, *b = at.b;
    const int64_t rows = std::min(tiles.rows, across.length - at.row() * tiles.rows);
    const int64_t columns = std::min(tiles.columns, tiles.length - at.column * tiles.columns);
    if (a_copied) pack_columns(a, across.a, tiles.a.at.data(), rows, columns, a_copy);
    if (b_copied) pack_columns(b, across.b, tiles.b.at.data(), rows, columns, b_copy);
    if (a_copied) a = a_copy;
    if (b_copied) b = b_copy;
    if (tiles.whole) {
      run_whole(a, b, at.c, rows * columns, Stores::Plain);
    } else {
      const Axis steps{0, a_copied ? columns : across.a, b_copied ? columns : across.b, across.c};
      run_block(loop, steps, in_row, a, b, at.c, rows, columns, Stores::Plain);
    }
    at.advance(1, 1);
  }
}

// The axis along which an operand with gaps in its rows has none; the number of axes where there is
// no such axis, or where tiles would have short rows one by one. `wide`: elements of a row that is
// not short.
inline size_t axis_across(const Axes& axes, int64_t wide) {
  constexpr int64_t kLeast = 4;  // elements side by side, or copying one by one is as fast
  if (!kernel_enabled("my_add.tiles")) return axes.size();
  for (int64_t Axis::* step : {&Axis::a, &Axis::b}) {
    if (axes.back().*step == 0 || axes.back().*step == 1) continue;
    for (size_t i = axes.size() - 1; i-- > 0;) {
      if (axes[i].*step != 1 || axes[i].length < kLeast) continue;
      const size_t first = first_of_columns(axes, i);
      int64_t length = 1;
      for (size_t axis = first; axis < axes.size(); ++axis) length *= axes[axis].length;
      if (first == i + 1 || 2 * length >= wide) return i;
    }
  }
  return axes.size();
}

}  // namespace myops::my_add::MYOPS_ISA
