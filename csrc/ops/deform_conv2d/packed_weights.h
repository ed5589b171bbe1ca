// The weights of a forward pass as products read them, and the tasks of the pass: tiles of pixels
// and chunks of output channels.
#pragma once

#include "columns.h"
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
    std::fill_n(out, size() - size_, Sample<T>{});
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
// task, for `together` tiles. make_buffers(packs): what a task needs; run(buffers, tiles, outputs,
// packed or null).
template <class T, class S, class MakeBuffers, class Run>
void run_tiles(const KernelContext& context, const PackedWeights<T>& weights, int64_t tiles,
               int64_t together, bool shared, const S* prepared, const MakeBuffers& make_buffers,
               const Run& run) {
  const bool own = shared && prepared == nullptr;
  const Buffer<S> packed(context, own ? weights.size() : 0);
  if (own) weights.pack(packed.get());
  const S* all = own ? packed.get() : prepared;
  const int64_t chunks = weights.chunks().count();
  Pool<decltype(make_buffers(false))> pool;
  context.parallel_for(panels(tiles, together) * chunks, 1, [&](int64_t piece, int64_t) {
    auto buffers = pool.take([&] { return make_buffers(all == nullptr); });
    const int64_t chunk = piece % chunks, first = piece / chunks * together;
    run(*buffers, Range{first, std::min(first + together, tiles)}, weights.chunks().at(chunk),
        all ? all + weights.begin(chunk) : nullptr);
    pool.give_back(std::move(buffers));
  });
}

}  // namespace myops::deform::MYOPS_ISA
