// Y = B + W A, or for the double backward W' A + W A': columns times weights, tile by tile.
//
// Each task computes one tile of output pixels and one chunk of output channels; it sums over
// blocks of taps and channels in an order that does not depend on the tile.
#pragma once

#include "columns.h"
#include "depthwise.h"
#include "few_outputs.h"
#include "packed_weights.h"
#include "write_results.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class Convolution {
 public:
  using A = Accumulate<T>;
  using S = Sample<T>;

  Convolution(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
              const std::vector<Term<T>>& terms, const Tensor& bias, const Tensor& out)
      : context_(context),
        conv_(conv),
        inputs_(inputs),
        terms_(terms),
        bias_(bias),
        out_(out),
        weights_(conv, terms),
        few_(few_outputs_pay<A>(conv) && kernel_enabled("deform_conv2d.few_outputs")),
        shared_(static_cast<size_t>(weights_.size()) * sizeof(S) <= kSharedBytes),
        tiling_(conv, Blocking(conv).tile_pixels<A>(conv, weights_.chunks().longest(),
                                                    shared_ ? 256 : 512)),
        together_(tiles_together()) {}

  // `prepared`: the packed weights, or null. Without them, weights that fit the shared buffers are
  // packed once per call, and larger ones by each task; in the second case tiles have more pixels,
  // so that the packing takes a smaller part of the time.
  void run(const S* prepared = nullptr) const {
    if (context_.reports()) report(prepared != nullptr);
    run_tiles(
        context_, weights_, conv_.batch * tiling_.count(), together_, shared_, prepared,
        [&](bool packs) { return buffers(packs); },
        [&](Buffers& buffers, const Range& tiles, const Range& outputs, const S* packed) {
          run_tiles_of(buffers, tiles, outputs, packed);
        });
  }

 private:
  static constexpr bool kPairs = kFactorSamples<T> > 1;  // never depthwise

  // Tiles of a task: several of small images where weights are large, because reading or packing
  // these takes longer than a product of a few pixels with them; at least kTasks tasks, if
  // possible.
  int64_t tiles_together() const {
    constexpr int64_t kLeastPixels = 128, kTasks = 4;
    if (shared_ || conv_.depthwise()) return 1;
    const int64_t tasks = conv_.batch * tiling_.count() * weights_.chunks().count();
    const int64_t wanted = panels(kLeastPixels, std::max<int64_t>(tiling_.pixels(), 1));
    return std::max<int64_t>(std::min(wanted, tasks / kTasks), 1);
  }
  Tile tile(int64_t index) const {
    return tiling_.at(index / tiling_.count(), index % tiling_.count());
  }

  void report(bool prepared) const {
    const Blocking blocking(conv_);
    const std::string blocks = str("blocks of ", blocking.taps, " taps and ", blocking.channels,
                                   " channels, tiles of at most ", tiling_.pixels(), " pixels",
                                   together_ > 1 ? " of several images" : "",
                                   few_ ? "; few outputs: vectors run over pixels" : "");
    if (conv_.depthwise()) {
      context_.report("depthwise", "Y", str("one filter for each channel; ", blocks));
    } else {
      context_.report(kPairs ? "bfloat16_product" : "columns_product", "Y",
                      str("sums over channels; ", blocks));
    }
    report_weights(context_, weights_.size() * static_cast<int64_t>(sizeof(S)), prepared, shared_);
  }

  struct Buffers {  // of one task
    Buffer<A> sums;
    Buffer<S> packed;
    Columns<T> columns;
  };
  // `packs`: the task packs weights for itself.
  Buffers buffers(bool packs) const {
    const Blocking blocking(conv_);
    const int64_t outputs = weights_.chunks().longest();
    const int64_t widest = round_up(std::min(outputs, conv_.group_outputs()), kPanel<A>);
    const int64_t packed = packs ? widest * depth_of<T>(blocking.taps * blocking.channels) : 0;
    Buffers made{Buffer<A>(context_, together_ * sums_of_tile({0, outputs}) + kLanes<A>),
                 Buffer<S>(context_, packed),
                 Columns<T>(context_, conv_, inputs_, blocking, tiling_.pixels(), kColumns<S>,
                            few_ ? kLanes<A> : kBlockRows)};
    if (conv_.depthwise()) made.packed.zero(packed);
    return made;
  }
  // Elements from the sums of one pixel to those of the next. If no other group follows, they are
  // rounded up to halves of vectors, so that products have no incomplete block.
  int64_t sums_row(const Range& outputs) const {
    const bool alone = conv_.groups == 1 && !conv_.depthwise();
    return alone ? round_up(outputs.count(), kHalf<A>) : outputs.count();
  }
  // Elements from the sums of one of few outputs to those of the next.
  // (Not all in the same sets of the L1 cache.)
  int64_t plane() const { return round_up(tiling_.pixels(), kLanes<A>) + kLanes<A>; }
  int64_t sums_of_tile(const Range& outputs) const {
    return few_ ? outputs.count() * plane() : tiling_.pixels() * sums_row(outputs);
  }
  // The sums of a pixel, of the first output.
  A* sums_at(A* sums, const Range& outputs, int64_t pixel) const {
    return sums + pixel * (few_ ? 1 : sums_row(outputs));
  }
  void run_tiles_of(Buffers& buffers, const Range& tiles, const Range& outputs,
                    const S* packed) const;
  void add_block(Columns<T>& columns, const Term<T>& term, const Range& taps, const Range& block,
                 int64_t end, const Range& outputs, const S* weights, A* sums) const;
  void start(const Range& outputs, int64_t pixels, A* sums) const;
  void multiply_block(const Range& taps, const Range& block, const Range& outputs, int64_t pixels,
                      const S* sampled, const S* weights, A* sums) const;
  void write(const Tile& tile, const Range& outputs, const A* sums) const;

  const KernelContext& context_;
  const ConvShape& conv_;
  const Inputs<T>& inputs_;
  const std::vector<Term<T>>& terms_;
  const Tensor& bias_;
  StridedView<T> out_;
  PackedWeights<T> weights_;
  bool few_;  // outputs: sums are planes of pixels, of which rows() gives the length
  bool shared_;
  Tiling tiling_;
  int64_t together_;
};

template <class T>
void Convolution<T>::run_tiles_of(Buffers& buffers, const Range& tiles, const Range& outputs,
                                  const S* packed) const {
  Columns<T>& columns = buffers.columns;
  S* const own = buffers.packed.get();
  const bool one = tiles.count() == 1;
  const auto sums_of = [&](int64_t index) {
    return buffers.sums.get() + (index - tiles.first) * sums_of_tile(outputs);
  };
  for (int64_t i = tiles.first; i < tiles.last; ++i) {
    start(outputs, tile(i).pixels(), sums_of(i));
  }
  const Range all = channels_for(conv_, outputs);
  int64_t group = 0;
  const auto on_taps = [&](int64_t offset_group, const Range& taps) {
    group = offset_group;
    if (one) columns.place(conv_, tile(tiles.first), group, taps);
  };
  for_each_block(conv_, all, on_taps, [&](const Range& taps, const Range& block) {
    for (const Term<T>& term : terms_) {
      const S* weights = packed;
      int64_t size = 0;
      for_each_share(conv_, block, outputs, [&](const Share& share) {
        if (!packed) term.filters.pack_forward(share, taps, own + size);
        size += packed_forward<T>(conv_, share, taps.count());
      });
      if (packed) {
        packed += size;
      } else {
        weights = own;
      }
      // Of one tile, further channels that share its offsets come next, and windows have them too.
      const int64_t next = std::min((group + 1) * conv_.channels_per_offset(), all.last);
      for (int64_t i = tiles.first; i < tiles.last; ++i) {
        if (!one) columns.place(conv_, tile(i), group, taps);
        add_block(columns, term, taps, block, one ? next : block.last, outputs, weights,
                  sums_of(i));
      }
    }
  });
  for (int64_t i = tiles.first; i < tiles.last; ++i) write(tile(i), outputs, sums_of(i));
}

// Adds the products of a block to the sums of a tile. `end`: of the channels that come next.
template <class T>
void Convolution<T>::add_block(Columns<T>& columns, const Term<T>& term, const Range& taps,
                               const Range& block, int64_t end, const Range& outputs,
                               const S* weights, A* sums) const {
  const int64_t sums_row = this->sums_row(outputs);
  columns.in_parts(block, end, [&](const Range& part) {
    if constexpr (!kPairs) {
      if (conv_.depthwise() && term.column == Column::Value && columns.held()) {
        const Taps<T>& at = columns.taps();
        A* to = sums + part.first * sums_row + block.first - outputs.first;
        add_depthwise(Strip<A>{columns.window(block.first), at.index(), at.values(), at.plane(),
                               at.stride(), taps.count(), block.count(), weights},
                      part, to, sums_row);
        return;
      }
    }
    for (int64_t first = part.first; first < part.last; first += columns.strip()) {
      const Range strip{first, std::min(first + columns.strip(), part.last)};
      const S* sampled = columns.sample(term.column, block, strip);
      multiply_block(taps, block, outputs, strip.count(), sampled, weights,
                     sums_at(sums, outputs, first));
    }
  });
}

// Initialises the sums of every pixel with the bias.
template <class T>
void Convolution<T>::start(const Range& outputs, int64_t pixels, A* sums) const {
  const auto bias = [&](int64_t o) {
    const T* from = static_cast<const T*>(bias_.data);
    return bias_.present ? static_cast<A>(from[(outputs.first + o) * bias_.strides[0]]) : A{};
  };
  if (few_) {
    for (int64_t o = 0; o < outputs.count(); ++o) {
      std::fill_n(sums + o * plane(), plane(), bias(o));
    }
    return;
  }
  const int64_t width = sums_row(outputs);
  std::fill_n(sums, width, A{});
  for (int64_t o = 0; o < outputs.count(); ++o) sums[o] = bias(o);
  for (int64_t done = 1; done < pixels; done *= 2) {
    std::copy_n(sums, std::min(done, pixels - done) * width, sums + done * width);
  }
}

template <class T>
void Convolution<T>::multiply_block(const Range& taps, const Range& block, const Range& outputs,
                                    int64_t pixels, const S* sampled, const S* weights,
                                    A* sums) const {
  const int64_t width = block.count(), row = row_of<A>(taps.count(), width);
  const int64_t sums_row = this->sums_row(outputs);
  for_each_share(conv_, block, outputs, [&](const Share& share) {
    const S* from = sampled + share.channels.first - block.first;
    A* to = sums + (share.outputs.first - outputs.first) * (few_ ? plane() : 1);
    if constexpr (!kPairs) {
      if (conv_.depthwise()) {
        multiply_depthwise(pixels, taps.count(), share.channels.count(), from, width, row, weights,
                           to, sums_row);
        weights += packed_forward<T>(conv_, share, taps.count());
        return;
      }
    }
    using F = Factors<T>;
    constexpr int64_t n = kFactorSamples<T>;
    const Runs samples = columns_of(share, taps.count(), width);
    // Several runs have even lengths and steps where factors are pairs; see sums_pairs().
    const Runs depth{samples.count, panels(samples.length, n), samples.step / n};
    const MatrixView<F> left{reinterpret_cast<const F*>(from), row / n};
    const F* right = reinterpret_cast<const F*>(weights);
    if (few_) {
      multiply_few<kFewOutputs<A>>(share.outputs.count(), pixels, depth, left, right, to, plane());
    } else {
      const int64_t columns = conv_.groups == 1 ? sums_row : share.outputs.count();
      multiply(pixels, columns, depth, left, right, kPanel<A>,
               depth.count * depth.length * kPanel<A>, to, sums_row);
    }
    weights += packed_forward<T>(conv_, share, taps.count());
  });
}

template <class T>
void Convolution<T>::write(const Tile& tile, const Range& outputs, const A* sums) const {
  if (few_) return write_planes(sums, plane(), out_, tile, outputs);
  const int64_t width = outputs.count(), sums_row = this->sums_row(outputs);
  const bool whole = tile.columns == conv_.out_width && out_.step[2] == tile.columns;
  const int64_t rows = whole ? 1 : tile.rows, columns = tile.pixels() / rows;
  for (int64_t row = 0; row < rows; ++row, sums += columns * sums_row) {
    T* to = out_.at(tile.image, outputs.first, tile.top + row, tile.left);
    if (out_.step[1] != 1) {  // dense: either pixels or channels are contiguous
      pixels_to_planes(sums, sums_row, columns, width, to, out_.step[1]);
      continue;
    }
    if (sums_row == width && out_.step[3] == width) {
      narrow(sums, columns * width, to);
      continue;
    }
    for (int64_t p = 0; p < columns; ++p, to += out_.step[3]) {
      narrow(sums + p * sums_row, width, to);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
