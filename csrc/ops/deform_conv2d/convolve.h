// Y = B + W A, or for the double backward W' A + W A': columns times weights, tile by tile.
//
// Each task computes one tile of output pixels and one chunk of output channels; it sums over
// blocks of taps and channels in an order that does not depend on the tile.
#pragma once

#include "columns.h"
#include "depthwise.h"
#include "weights.h"

namespace myops::deform::MYOPS_ISA {

// The output channels, divided into chunks that fit a task's buffers: whole weight groups if
// possible.
class OutputChunks {
 public:
  OutputChunks(const ConvShape& conv, int64_t limit)
      : outputs_(conv.outputs), group_(conv.group_outputs()) {
    length_ = group_ > limit ? limit : limit / group_ * group_;
    per_group_ = group_ > limit ? panels(group_, limit) : 0;
  }
  int64_t count() const {
    return per_group_ ? outputs_ / group_ * per_group_ : panels(outputs_, length_);
  }
  int64_t longest() const { return std::min(length_, outputs_); }
  Range at(int64_t index) const {
    if (!per_group_) return {index * length_, std::min((index + 1) * length_, outputs_)};
    const int64_t base = index / per_group_ * group_, first = index % per_group_ * length_;
    return {base + first, base + std::min(first + length_, group_)};
  }

 private:
  int64_t outputs_, group_, length_, per_group_;
};

// The input channels that a range of outputs sums over.
inline Range channels_for(const ConvShape& conv, const Range& outputs) {
  const int64_t C = conv.group_channels(), O = conv.group_outputs();
  return {outputs.first / O * C, ((outputs.last - 1) / O + 1) * C};
}

// Visits blocks of `channels` that share offsets: on_taps(offset_group, taps), then on_block(taps,
// channels) for each of its blocks. Sums and packed weights have the same order.
template <class OnTaps, class OnBlock>
void for_each_block(const ConvShape& conv, const Range& channels, const OnTaps& on_taps,
                    const OnBlock& on_block) {
  const Blocking blocking(conv);
  const int64_t length = conv.channels_per_offset();
  for (int64_t d = channels.first / length; d * length < channels.last; ++d) {
    for (int64_t k = 0; k < conv.taps; k += blocking.taps) {
      const Range taps{k, std::min(k + blocking.taps, conv.taps)};
      on_taps(d, taps);
      for (int64_t c = d * length; c < (d + 1) * length; c += blocking.channels) {
        const Range block{std::max(c, channels.first),
                          std::min({c + blocking.channels, (d + 1) * length, channels.last})};
        if (block.first < block.last) on_block(taps, block);
      }
    }
  }
}

template <class T>
struct Term {
  Filters<T> filters;
  Column column;
};

// Weights packed for convolve(), separately so that constant weights are packed once. One chunk of
// outputs after another, each in the order of for_each_block().
template <class T>
class PackedWeights {
 public:
  using A = Accumulate<T>;

  PackedWeights(const ConvShape& conv, const std::vector<Term<T>>& terms)
      : conv_(conv), terms_(terms), chunks_(conv, kOutputs<A>) {
    for (int64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
      begins_.push_back(size_);
      for_each_part(chunk, [&](const Term<T>&, const Share& share, const Range& taps) {
        size_ += packed_forward<T>(conv_, share, taps.count());
      });
    }
  }
  // Filters of a depthwise convolution are read in whole vectors of 16 bytes.
  int64_t size() const { return size_ + (conv_.depthwise() ? kQuad<A> : 0); }
  const OutputChunks& chunks() const { return chunks_; }
  int64_t begin(int64_t chunk) const { return begins_[static_cast<size_t>(chunk)]; }

  void pack(Sample<T>* out) const {
    for (int64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
      for_each_part(chunk, [&](const Term<T>& term, const Share& share, const Range& taps) {
        term.filters.pack_forward(share, taps, out);
        out += packed_forward<T>(conv_, share, taps.count());
      });
    }
  }

 private:
  template <class Body>
  void for_each_part(int64_t chunk, const Body& body) const {
    const Range outputs = chunks_.at(chunk);
    for_each_block(
        conv_, channels_for(conv_, outputs), [](int64_t, const Range&) {},
        [&](const Range& taps, const Range& channels) {
          for (const Term<T>& term : terms_) {
            for_each_share(conv_, channels, outputs,
                           [&](const Share& share) { body(term, share, taps); });
          }
        });
  }

  const ConvShape& conv_;
  const std::vector<Term<T>>& terms_;
  OutputChunks chunks_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
};

// A forward pass: all tiles of pixels for all chunks of outputs, in parallel. `prepared`: the
// packed weights, or null; then they are packed once if they are `shared`, and otherwise by each
// task. make_buffers(packs): what a task needs; run_tile(buffers, tile, outputs, packed or null).
template <class T, class S, class MakeBuffers, class RunTile>
void run_tiles(const KernelContext& context, const PackedWeights<T>& weights, const Tiling& tiling,
               int64_t batch, bool shared, const S* prepared, const MakeBuffers& make_buffers,
               const RunTile& run_tile) {
  const bool own = shared && prepared == nullptr;
  const Buffer<S> packed(context, own ? weights.size() : 0);
  if (own) weights.pack(packed.get());
  const S* all = own ? packed.get() : prepared;
  const int64_t chunks = weights.chunks().count(), tiles = tiling.count();
  Pool<decltype(make_buffers(false))> pool;
  context.parallel_for(batch * tiles * chunks, 1, [&](int64_t piece, int64_t) {
    auto buffers = pool.take([&] { return make_buffers(all == nullptr); });
    const int64_t chunk = piece % chunks;
    run_tile(*buffers, tiling.at(piece / chunks / tiles, piece / chunks % tiles),
             weights.chunks().at(chunk), all ? all + weights.begin(chunk) : nullptr);
    pool.give_back(std::move(buffers));
  });
}

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
        shared_(static_cast<size_t>(weights_.size()) * sizeof(S) <= kSharedBytes),
        tiling_(conv, Blocking(conv).tile_pixels<A>(conv, weights_.chunks().longest(),
                                                    shared_ ? 256 : 512)) {}

  // `prepared`: the packed weights, or null. Without them, weights that fit the shared buffers are
  // packed once per call, and larger ones by each task; in the second case tiles have more pixels,
  // so that the packing takes a smaller part of the time.
  void run(const S* prepared = nullptr) const {
    if (context_.reports()) report(prepared != nullptr);
    run_tiles(
        context_, weights_, tiling_, conv_.batch, shared_, prepared,
        [&](bool packs) { return buffers(packs); },
        [&](Buffers& buffers, const Tile& tile, const Range& outputs, const S* packed) {
          run_tile(buffers, tile, outputs, packed);
        });
  }

 private:
  static constexpr bool kPairs = kFactorSamples<T> > 1;  // never depthwise

  void report(bool prepared) const {
    const Blocking blocking(conv_);
    const std::string blocks = str("blocks of ", blocking.taps, " taps and ", blocking.channels,
                                   " channels, tiles of at most ", tiling_.pixels(), " pixels");
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
    return {
        Buffer<A>(context_, tiling_.pixels() * sums_row({0, outputs}) + kLanes<A>),
        Buffer<S>(context_, packs ? widest * depth_of<T>(blocking.taps * blocking.channels) : 0),
        Columns<T>(context_, conv_, inputs_, blocking, tiling_.pixels(), kColumns<S>)};
  }
  // Elements from the sums of one pixel to those of the next. If no other group follows, they are
  // rounded up to halves of vectors, so that products have no incomplete block.
  int64_t sums_row(const Range& outputs) const {
    const bool alone = conv_.groups == 1 && !conv_.depthwise();
    return alone ? round_up(outputs.count(), kHalf<A>) : outputs.count();
  }
  void run_tile(Buffers& buffers, const Tile& tile, const Range& outputs, const S* packed) const;
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
  bool shared_;
  Tiling tiling_;
};

template <class T>
void Convolution<T>::run_tile(Buffers& buffers, const Tile& tile, const Range& outputs,
                              const S* packed) const {
  Columns<T>& columns = buffers.columns;
  A* const sums = buffers.sums.get();
  S* const own = buffers.packed.get();
  const int64_t sums_row = this->sums_row(outputs);
  start(outputs, tile.pixels(), sums);
  const Range all = channels_for(conv_, outputs);
  int64_t end = 0;  // of the channels that share offsets
  const auto on_taps = [&](int64_t offset_group, const Range& taps) {
    columns.place(conv_, tile, offset_group, taps);
    end = std::min((offset_group + 1) * conv_.channels_per_offset(), all.last);
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
          A* to = sums + first * sums_row;
          multiply_block(taps, block, outputs, strip.count(), sampled, weights, to);
        }
      });
    }
  });
  write(tile, outputs, sums);
}

// Initialises the sums of every pixel with the bias.
template <class T>
void Convolution<T>::start(const Range& outputs, int64_t pixels, A* sums) const {
  const int64_t width = sums_row(outputs);
  std::fill_n(sums, width, A{});
  for (int64_t o = 0; bias_.present && o < outputs.count(); ++o) {
    const T* bias = static_cast<const T*>(bias_.data);
    sums[o] = static_cast<A>(bias[(outputs.first + o) * bias_.strides[0]]);
  }
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
    A* to = sums + share.outputs.first - outputs.first;
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
    const int64_t columns = conv_.groups == 1 ? sums_row : share.outputs.count();
    multiply(pixels, columns, depth, MatrixView<F>{reinterpret_cast<const F*>(from), row / n},
             reinterpret_cast<const F*>(weights), kPanel<A>, depth.count * depth.length * kPanel<A>,
             to, sums_row);
    weights += packed_forward<T>(conv_, share, taps.count());
  });
}

template <class T>
void Convolution<T>::write(const Tile& tile, const Range& outputs, const A* sums) const {
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
