// The inner loop of CellGradient: one tap of a strip of pixels, with tables of cells
// (cell_table.h). Vectors run over pixels; a sample is read, and its gradient added, with one
// access of four elements.
#pragma once

#include "cell_table.h"
#include "tap_strip.h"

namespace myops::deform::MYOPS_ISA {

// Four elements at each of kLanes places; result j has the elements at place + j.
template <class A>
MYOPS_INLINE void load_cells(const A* from, const int32_t* place, Vector<A> (&corners)[4]) {
  if constexpr (kLanes<A> < 4) {
    for (int j = 0; j < 4; ++j) {
      A lanes[kLanes<A>];  // with a vector, GCC 12 warns that it is not initialised
      for (int64_t i = 0; i < kLanes<A>; ++i) lanes[i] = from[place[i] + j];
      corners[j] = load(lanes);
    }
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#if MYOPS_VECTOR_BYTES == 64
      if constexpr (sizeof(A) == 8) {
        corners[i] =
            (Vector<A>)_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(from + place[i])),
                                          _mm256_loadu_pd(from + place[i + 4]), 1);
        continue;
      }
#endif
      corners[i] = load_fours(from, place + i);
    }
    transpose_fours<A>(corners);
  }
}
// to[place + j] += corner j, pixel after pixel.
template <class A>
MYOPS_INLINE void add_cells(Vector<A> (&corners)[4], const int32_t* place, A* to) {
  constexpr int64_t L = kLanes<A>;
  if constexpr (L < 4) {
    for (int64_t i = 0; i < L; ++i) {
      for (int j = 0; j < 4; ++j) to[place[i] + j] += corners[j][i];
    }
  } else {
    using Cell = Lanes<A, 4>;
    A cells[4 * L];
    transpose_fours<A>(corners);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) store(cells + i * L, corners[i]);
#pragma GCC unroll 16
    for (int64_t i = 0; i < L; ++i) {
      A* const at = to + place[i];
      store(at, load_as<Cell>(at) + load_as<Cell>(cells + i % 4 * L + i / 4 * 4));
    }
  }
}

// One tap of some pixels, for all channels.
template <class A>
struct CellStrip {
  const int32_t* index;  // cells, of the first entry; negative: outside of the image
  int64_t pixels;
  const A* weights;  // of the first corner; `plane` further on those of the next
  const A* points;   // fractions and mask, `plane` apart
  int64_t plane;
  A* rows;  // of a channel: T, then the samples if they are wanted
  int64_t row, channels;
  const A* X;  // tables
  A* out;      // null: not wanted
  int64_t table;
  int32_t outside;
  A* moved;  // gradients of y and x, `tile` elements apart; null: not wanted
  A* masked;
  int64_t tile;
};

template <bool kMoved, bool kSamples, bool kOut, class A>
void run_cells(const CellStrip<A> strip) {
  constexpr int64_t L = kLanes<A>;
  using V = Vector<A>;
  using Mask = Lanes<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>, L>;
  Index<A> lanes{};
  for (int64_t i = 0; i < L; ++i) lanes[i] = static_cast<int32_t>(i);
  for (int64_t p = 0; p < strip.pixels; p += L) {
    const int64_t count = std::min(L, strip.pixels - p);
    const Index<A> index = load_as<Index<A>>(strip.index + p);
    const auto missed = (index < 0) | (lanes >= static_cast<int32_t>(count));
    int32_t place[L];
    store(place, (Index<A>)(missed ? Index<A>{} + strip.outside : index));
    V weights[4], F[4] = {};
    for (int j = 0; j < 4; ++j) weights[j] = load(strip.weights + j * strip.plane + p);
    for (int64_t c = 0; c < strip.channels; ++c) {
      A* const row = strip.rows + c * strip.row + p;
      V T{};
      if constexpr (kMoved || kOut) T = load(row);
      if constexpr (kMoved || kSamples) {
        V X[4];
        load_cells(strip.X + c * strip.table, place, X);
        if constexpr (kMoved) {
          for (int j = 0; j < 4; ++j) F[j] = fma(T, X[j], F[j]);
        }
        if constexpr (kSamples) {
          V sample = weights[0] * X[0];
          for (int j = 1; j < 4; ++j) sample = fma(weights[j], X[j], sample);
          if (count == L) {
            store(row, sample);
          } else {
            store_part<A>(row, sample, count);
          }
        }
      }
      if constexpr (kOut) {
        V parts[4];
        for (int j = 0; j < 4; ++j) parts[j] = weights[j] * T;
        add_cells(parts, place, strip.out + c * strip.table);
      }
    }
    if constexpr (kMoved) {
      const A* from = strip.points + p;
      const Point<V> point{load(from), load(from + strip.plane), load(from + 2 * strip.plane)};
      const Point<V> sum = position_gradient(point, F);
      const auto none = __builtin_convertvector(missed, Mask);
      const auto write = [&](const V& value, A* to) {
        const V found = none ? V{} : value;
        if (count == L) return store(to, found);
        store_part<A>(to, found, count);
      };
      write(sum.y, strip.moved + p);
      write(sum.x, strip.moved + strip.tile + p);
      write(sum.mask, strip.masked + p);
    }
  }
}
template <bool kMoved, bool kSamples, class A>
void run_cells(const CellStrip<A>& strip) {
  if (strip.out != nullptr) return run_cells<kMoved, kSamples, true>(strip);
  if constexpr (kMoved || kSamples) run_cells<kMoved, kSamples, false>(strip);
}
template <class A>
void run_cells(const CellStrip<A>& strip, bool samples) {
  const bool moved = strip.moved != nullptr;
  if (moved && samples) return run_cells<true, true>(strip);
  if (moved) return run_cells<true, false>(strip);
  if (samples) return run_cells<false, true>(strip);
  run_cells<false, false>(strip);
}

}  // namespace myops::deform::MYOPS_ISA
