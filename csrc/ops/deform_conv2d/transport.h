// T(c, k, p) = sum_o W(o, c, k) G(o, p): the gradient of Y carried back to the samples of a tile.
#pragma once

#include "weights.h"

namespace myops::deform::MYOPS_ISA {

// The gradient of Y over one tile, as a matrix in the type of the arithmetic.
template <class T>
class GradientTile {
 public:
  using A = Accumulate<T>;

  GradientTile(const KernelContext& context, const Problem& problem, const Tensor& gradient,
               int64_t pixels)
      : gradient_(gradient), buffer_(context, pixels * widest(problem)) {}

  // Row p holds the outputs of a pixel. The last matrix is kept: blocks share it.
  const A* by_pixel(const Tile& tile, const Range& outputs) {
    const int64_t key[] = {tile.image, tile.top, tile.left, outputs.first, outputs.last};
    if (!std::equal(key, key + 5, key_)) {
      copy(tile, outputs, outputs.count(), 1);
      std::copy_n(key, 5, key_);
    }
    return buffer_.get();
  }
  // Row o holds the pixels of an output.
  const A* by_output(const Tile& tile, const Range& outputs) {
    copy(tile, outputs, 1, tile.pixels());
    key_[0] = -1;
    return buffer_.get();
  }

 private:
  static int64_t widest(const Problem& problem) {
    return problem.depthwise() ? Blocking(problem).channels
                               : std::min(problem.group_outputs(), kOutputs<A>);
  }

  void copy(const Tile& tile, const Range& outputs, int64_t pixel_step, int64_t output_step) {
    A* row_out = buffer_.get();
    const int64_t step = gradient_.step[3];
    for (int64_t row = 0; row < tile.rows; ++row, row_out += tile.columns * pixel_step) {
      const T* from = gradient_.at(tile.image, outputs.first, tile.top + row, tile.left);
      for (int64_t o = 0; o < outputs.count(); ++o, from += gradient_.step[1]) {
        A* out = row_out + o * output_step;
        for (int64_t c = 0; c < tile.columns; ++c) {
          out[c * pixel_step] = static_cast<A>(from[c * step]);
        }
      }
    }
  }

  Field<const T> gradient_;
  Buffer<A> buffer_;
  int64_t key_[5] = {-1, -1, -1, -1, -1};
};

template <class T>
class Transport {
 public:
  using A = Accumulate<T>;

  Transport(const KernelContext& context, const Problem& problem, const Filters<T>& filters,
            int64_t pixels)
      : problem_(problem), blocking_(problem), filters_(filters) {
    if (!filters) return;
    const int64_t columns = blocking_.taps * blocking_.channels;
    const int64_t rows = std::min(problem.group_outputs(), kOutputs<A>);
    // The columns of a block are one run, or a run of a group's channels for each tap.
    const int64_t lanes = panels(std::min(problem.group_channels(), blocking_.channels), kPanel<A>);
    const int64_t widest = std::max(panels(columns, kPanel<A>), blocking_.taps * lanes) * kPanel<A>;
    packed_ = std::make_unique<Buffer<A>>(context, widest * rows);
    result_ = std::make_unique<Buffer<A>>(context, pixels * columns);
  }
  explicit operator bool() const { return static_cast<bool>(filters_); }

  // Row p holds, tap by tap, T of the channels of `block`. Valid until the next call.
  const A* run(GradientTile<T>& gradient, const Tile& tile, const Range& taps, const Range& block) {
    const int64_t row = taps.count() * block.count();
    result_->zero(tile.pixels() * row);
    for_each_share(problem_, block, {0, problem_.outputs}, [&](const Share& whole) {
      if (problem_.depthwise()) return run_depthwise(gradient, tile, taps, block);
      for (int64_t o = whole.outputs.first; o < whole.outputs.last; o += kOutputs<A>) {
        const Share share{whole.channels, {o, std::min(o + kOutputs<A>, whole.outputs.last)}};
        run_share(gradient.by_pixel(tile, share.outputs), tile.pixels(), taps, block, share);
      }
    });
    return result_->get();
  }
  const A* get() const { return result_ ? result_->get() : nullptr; }

 private:
  // Tiles that follow one another mostly ask for the same weights.
  const A* packed(const Share& share, const Range& taps, const Runs& columns) {
    const int64_t key[] = {taps.first, share.channels.first, share.channels.last,
                           share.outputs.first};
    if (!std::equal(key, key + 4, key_)) {
      filters_.pack_backward(share, taps, columns, packed_->get());
      std::copy_n(key, 4, key_);
    }
    return packed_->get();
  }

  void run_share(const A* gradient, int64_t pixels, const Range& taps, const Range& block,
                 const Share& share) {
    const Runs columns = columns_of(share, taps.count(), block.count());
    const int64_t rows = share.outputs.count(), row = taps.count() * block.count();
    const A* weights = packed(share, taps, columns);
    A* out = result_->get() + share.channels.first - block.first;
    for (int64_t run = 0; run < columns.count; ++run, out += columns.step) {
      multiply(pixels, columns.length, Runs{1, rows, 0}, gradient, rows, weights, kPanel<A>,
               rows * kPanel<A>, out, row);
      weights += panels(columns.length, kPanel<A>) * rows * kPanel<A>;
    }
  }

  void run_depthwise(GradientTile<T>& gradient, const Tile& tile, const Range& taps,
                     const Range& block) {
    const A* from = gradient.by_pixel(tile, block);
    const A* weights = packed(Share{block, block}, taps, Runs{});
    const int64_t count = block.count();
    A* out = result_->get();
    for (int64_t p = 0; p < tile.pixels(); ++p, from += count) {
      for (int64_t k = 0; k < taps.count(); ++k, out += count) {
        for (int64_t c = 0; c < count; ++c) out[c] = weights[k * count + c] * from[c];
      }
    }
  }

  const Problem& problem_;
  Blocking blocking_;
  Filters<T> filters_;
  std::unique_ptr<Buffer<A>> packed_, result_;
  int64_t key_[4] = {-1, -1, -1, -1};
};

}  // namespace myops::deform::MYOPS_ISA
