// PlaneConvolution where one product computes more than a block's share of the sums: all of them,
// or those of several blocks.
#pragma once

#include "plane_convolution.h"

namespace myops::deform::MYOPS_ISA {

// All that is added to the bias for `part` of a tile: to Y, or to the sums. weights_of(o): the
// weights of the panel of outputs from o on.
template <class T>
template <class WeightsOf>
void PlaneConvolution<T>::multiply_once(const Tile& tile, const Range& outputs, const Range& part,
                                        int64_t depth, const Rows<const A>& planes,
                                        const WeightsOf& weights_of, const A* bias, A* sums) const {
  constexpr int64_t L = kLanes<A>;
  const int64_t row = this->row();
  const auto each_panel = [&](const auto& body) MYOPS_INLINED {
    for (int64_t o = 0; o < outputs.count(); o += kPanel<A>) {
      body(o, std::min(kPanel<A>, outputs.count() - o), weights_of(o));
    }
  };
  if constexpr (std::is_same_v<T, A>) {
    if (stores_sums()) {
      // The last pixels of a line are fewer than a vector, and behind them may be those of another
      // task.
      const bool fetch = prefetches();
      const auto line = [&](T* to, int64_t count, int64_t first) {
        const int64_t whole = count / L * L;
        const Rows<const A> from{planes.data + first, planes.row};
        each_panel([&](int64_t o, int64_t rows, const auto& weights) MYOPS_INLINED {
          T* const out = to + o * out_.step[1];
          weighted_sums<Result::Begin>(rows, depth, weights, from,
                                       SumRows<A>{{out, out_.step[1]}, bias + o, fetch}, whole);
          if (whole == count) return;
          A last[kPanel<A> * L];
          weighted_sums<Result::Begin>(rows, depth, weights,
                                       Rows<const A>{from.data + whole, from.row},
                                       SumRows<A>{{last, L}, bias + o}, L);
          for (int64_t i = 0; i < rows; ++i) {
            store_part<A>(out + i * out_.step[1] + whole, load(last + i * L), count - whole);
          }
        });
      };
      if (out_.step[2] == tile.columns) {  // lines without a gap
        T* const to = out_.at(tile.image, outputs.first, tile.top, tile.left);
        return line(to + part.first, part.count(), 0);
      }
      return for_each_line(tile, part, [&](int64_t y, int64_t x, int64_t count, int64_t done) {
        line(out_.at(tile.image, outputs.first, y, x), count, done);
      });
    }
  }
  each_panel([&](int64_t o, int64_t rows, const auto& weights) MYOPS_INLINED {
    weighted_sums<Result::Begin>(rows, depth, weights, planes,
                                 SumRows<A>{{sums + o * row + part.first, row}, bias + o},
                                 round_up(part.count(), L));
  });
}

// A tile where there is one block.
template <class T>
void PlaneConvolution<T>::run_one_block(Buffers& buffers, const Tile& tile, const Range& outputs,
                                        const A* packed) const {
  const Range taps{0, conv_.taps}, block{0, conv_.channels};
  const int64_t channels = block.count(), depth = taps.count() * channels;
  const int64_t pixels = tile.pixels(), strip = this->strip(planes_of_block());
  if (!packed) {
    filters_.pack_forward({block, outputs}, taps, buffers.packed.get());
    packed = buffers.packed.get();
  }
  A bias[kOutputs<A>];
  load_bias(outputs, bias);
  PlanePlace places[kMostPlanes];
  for (int64_t c = 0; c < channels; ++c) places[c] = {c, channels};
  buffers.samples.place(tile, 0, taps);
  buffers.samples.begin(block, places);
  const Rows<const A> planes{buffers.planes.get(), plane_of(strip)};
  for (int64_t first = 0; first < pixels; first += strip) {
    const Range part{first, std::min(first + strip, pixels)};
    buffers.samples.sample(part, buffers.planes.get(), planes.row);
    multiply_once(
        tile, outputs, part, depth, planes,
        [&](int64_t o) MYOPS_INLINED { return Rows<const A>{packed + o * depth, kPanel<A>}; }, bias,
        buffers.sums.get());
  }
  if (!stores_sums()) write_planes(buffers.sums.get(), row(), out_, tile, outputs);
}

// A tile where the channels of a block belong to one weight group: the planes of several blocks
// are multiplied together, because a product of a few planes reads and writes more sums than it
// computes.
template <class T>
void PlaneConvolution<T>::run_together(Buffers& buffers, const Tile& tile, const Range& outputs,
                                       const A* packed) const {
  const int64_t pixels = tile.pixels(), row = this->row(), plane = plane_of(row);
  A *const sums = buffers.sums.get(), *const planes = buffers.planes.get();
  A bias[kOutputs<A>];
  load_bias(outputs, bias);
  Range group = outputs;  // that the planes are multiplied for
  bool begun = false;     // its sums
  // Of each plane: its weights in the first panel of outputs, and from there to the next panel.
  const A* first_weights[kMostDepth];
  int64_t panel[kMostDepth], depth = 0;
  const A* weights[kMostDepth];
  const auto weights_of = [&](int64_t o) MYOPS_INLINED {
    for (int64_t r = 0; r < depth; ++r) weights[r] = first_weights[r] + o / kPanel<A> * panel[r];
    return RowList<const A>{weights};
  };
  // Multiplies the planes of some blocks; `once`: of all.
  const auto multiply = [&](bool once) {
    const int64_t strip = this->strip(std::max<int64_t>(depth, 1));
    for (int64_t first = 0; first < pixels; first += strip) {
      const Range part{first, std::min(first + strip, pixels)};
      const Rows<const A> from{planes + first, plane};
      if (once) {
        multiply_once(tile, outputs, part, depth, from, weights_of, bias, sums);
        continue;
      }
      const int64_t count = round_up(part.count(), kLanes<A>);
      for (int64_t o = 0; o < group.count(); o += kPanel<A>) {
        const int64_t rows = std::min(kPanel<A>, group.count() - o);
        const int64_t output = group.first - outputs.first + o;
        const SumRows<A> to{{sums + output * row + first, row}, bias + output};
        begun ? weighted_sums<Result::Add>(rows, depth, weights_of(o), from, to, count)
              : weighted_sums<Result::Begin>(rows, depth, weights_of(o), from, to, count);
      }
    }
    begun = true;
    depth = 0;
  };
  const auto on_taps = [&](int64_t offset_group, const Range& taps) {
    buffers.samples.place(tile, offset_group, taps);
  };
  for_each_block(conv_, channels_for(conv_, outputs), on_taps,
                 [&](const Range& taps, const Range& block) {
                   const int64_t channels = block.count(), count = taps.count() * channels;
                   for_each_share(conv_, block, outputs, [&](const Share& share) {  // there is one
                     const bool same = share.outputs == group;
                     if (depth > 0 && (depth + count > depth_ || !same)) multiply(false);
                     if (!same) begun = false;
                     group = share.outputs;
                   });
                   PlanePlace places[kMostPlanes];
                   for (int64_t c = 0; c < channels; ++c) places[c] = {c, channels};
                   buffers.samples.begin(block, places);
                   buffers.samples.sample({0, pixels}, planes + depth * plane, plane);
                   for (int64_t r = 0; r < count; ++r, ++depth) {
                     first_weights[depth] = packed + r * kPanel<A>;
                     panel[depth] = count * kPanel<A>;
                   }
                   packed += round_up(group.count(), kPanel<A>) * count;
                 });
  const bool once = !begun && group == outputs;
  multiply(once);
  if (!once || !stores_sums()) write_planes(sums, row, out_, tile, outputs);
}

}  // namespace myops::deform::MYOPS_ISA
