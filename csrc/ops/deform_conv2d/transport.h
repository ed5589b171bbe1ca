// T(c, k, p) = sum_o W(o, c, k) G(o, p): the gradient of Y carried back to the samples of a strip.
#pragma once

#include "weights.h"

namespace myops::deform::MYOPS_ISA {

// The gradient of Y over a strip of a tile's pixels, in the type of the arithmetic.
template <class T>
class GradientStrip {
 public:
  using A = Accumulate<T>;

  GradientStrip(const KernelContext& context, const Tensor& gradient, int64_t outputs,
                int64_t strip)
      : gradient_(gradient), strip_(strip), buffer_(context, strip * outputs) {}

  // Row o holds the pixels of an output, row() elements apart.
  const A* by_output(const Tile& tile, const Range& pixels, const Range& outputs) {
    for_each_line(tile, pixels, [&](int64_t row, int64_t column, int64_t count, int64_t done) {
      const T* from = gradient_.at(tile.image, outputs.first, row, column);
      A* to = buffer_.get() + done;
      if (gradient_.step[1] == 1) {
        transpose_copy(from, gradient_.step[3], to, strip_, count, outputs.count());
        return;
      }
      for (int64_t o = 0; o < outputs.count(); ++o, from += gradient_.step[1], to += strip_) {
        widen(from, gradient_.step[3], count, to);
      }
    });
    return buffer_.get();
  }
  int64_t row() const { return strip_; }

  // Row p holds the outputs of a pixel.
  const A* by_pixel(const Tile& tile, const Range& pixels, const Range& outputs) {
    for_each_line(tile, pixels, [&](int64_t row, int64_t column, int64_t count, int64_t done) {
      const T* from = gradient_.at(tile.image, outputs.first, row, column);
      A* to = buffer_.get() + done * outputs.count();
      if (gradient_.step[3] == 1) {
        transpose_copy(from, gradient_.step[1], to, outputs.count(), outputs.count(), count);
        return;
      }
      for (int64_t c = 0; c < count; ++c, from += gradient_.step[3], to += outputs.count()) {
        widen(from, gradient_.step[1], outputs.count(), to);
      }
    });
    return buffer_.get();
  }

 private:
  Field<const T> gradient_;
  int64_t strip_;
  Buffer<A> buffer_;
};

template <class T>
class Transport {
 public:
  using A = Accumulate<T>;

  Transport(const KernelContext& context, const Problem& problem, const Blocking& blocking,
            const Filters<T>& filters, int64_t strip)
      : problem_(problem), filters_(filters) {
    if (!filters) return;
    // What all shares of a block need if they are few, or else one share and kOutputs at a time.
    const int64_t O = problem.group_outputs(), C = problem.group_channels();
    const int64_t lanes = round_up(std::min(C, blocking.channels), kPanel<A>);
    const int64_t columns =
        std::max(round_up(blocking.taps * blocking.channels, kPanel<A>), blocking.taps * lanes);
    const bool whole = problem.groups == 1 || C % blocking.channels == 0;
    const int64_t all = columns * O * (whole ? 1 : panels(blocking.channels, C) + 1);
    const bool once = all <= 2 * kPacked<A>;
    packed_ = std::make_unique<Buffer<A>>(context, once ? all : columns * std::min(O, kOutputs<A>));
    once_ = once;
    result_ = std::make_unique<Buffer<A>>(
        context, strip * blocking.taps * pixel_of<A>(blocking.channels) + kPanel<A>);
  }
  explicit operator bool() const { return static_cast<bool>(filters_); }

  // Before run() for other channels or taps.
  void select(const Range& taps, const Range& block) {
    taps_ = taps;
    block_ = block;
    if (!filters_ || !once_) return;
    A* to = packed_->get();
    for_each_share(problem_, block, {0, problem_.outputs}, [&](const Share& share) {
      filters_.pack_backward(share, taps, columns_of(share), to);
      to += packed(share);
    });
  }

  // Row p holds, tap by tap, T of the channels of the block, pixel_of() of them. Valid until the
  // next call.
  const A* run(GradientStrip<T>& gradient, const Tile& tile, const Range& pixels) {
    const int64_t pixel = pixel_of<A>(block_.count()), row = taps_.count() * pixel;
    if (problem_.depthwise()) return run_depthwise(gradient, tile, pixels);
    std::fill_n(result_->get(), pixels.count() * row, A{});
    const A* weights = packed_->get();
    for_each_share(problem_, block_, {0, problem_.outputs}, [&](const Share& whole) {
      const int64_t most = once_ ? whole.outputs.count() : kOutputs<A>;
      for (int64_t o = whole.outputs.first; o < whole.outputs.last; o += most) {
        const Share share{whole.channels, {o, std::min(o + most, whole.outputs.last)}};
        if (!once_) filters_.pack_backward(share, taps_, columns_of(share), packed_->get());
        run_share(gradient, tile, pixels, share, weights);
        if (once_) weights += packed(share);
      }
    });
    return result_->get();
  }
  const A* get() const { return result_ ? result_->get() : nullptr; }

 private:
  Runs columns_of(const Share& share) const {
    if (problem_.depthwise()) return Runs{};
    return deform::MYOPS_ISA::columns_of(share, taps_.count(), pixel_of<A>(block_.count()));
  }
  int64_t packed(const Share& share) const {  // elements that pack_backward writes
    if (problem_.depthwise()) return taps_.count() * share.channels.count();
    const Runs columns = columns_of(share);
    return columns.count * round_up(columns.length, kPanel<A>) * share.outputs.count();
  }

  void run_share(GradientStrip<T>& gradient, const Tile& tile, const Range& pixels,
                 const Share& share, const A* weights) {
    const Runs columns = columns_of(share);
    const int64_t depth = share.outputs.count();
    const int64_t row = taps_.count() * pixel_of<A>(block_.count());
    const Rows<A> left{gradient.by_output(tile, pixels, share.outputs), 1, gradient.row()};
    A* out = result_->get() + share.channels.first - block_.first;
    for (int64_t run = 0; run < columns.count; ++run, out += columns.step) {
      multiply(pixels.count(), columns.length, Runs{1, depth, 0}, left, weights, kPanel<A>,
               depth * kPanel<A>, out, row);
      weights += round_up(columns.length, kPanel<A>) * depth;
    }
  }

  const A* run_depthwise(GradientStrip<T>& gradient, const Tile& tile, const Range& pixels) {
    const A* from = gradient.by_pixel(tile, pixels, block_);
    if (!once_) filters_.pack_backward({block_, block_}, taps_, Runs{}, packed_->get());
    const int64_t count = block_.count(), pixel = pixel_of<A>(count);
    A* out = result_->get();
    for (int64_t p = 0; p < pixels.count(); ++p, from += count) {
      for (int64_t k = 0; k < taps_.count(); ++k, out += pixel) {
        const A* weights = packed_->get() + k * count;
        for (int64_t c = 0; c < count; ++c) out[c] = weights[c] * from[c];
        for (int64_t c = count; c < pixel; ++c) out[c] = A{};
      }
    }
    return result_->get();
  }

  const Problem& problem_;
  Filters<T> filters_;
  bool once_ = false;
  Range taps_{0, 0}, block_{0, 0};
  std::unique_ptr<Buffer<A>> packed_, result_;
};

}  // namespace myops::deform::MYOPS_ISA
