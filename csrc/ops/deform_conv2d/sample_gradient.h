// The gradient of the samples of a strip, T(c, k, p) = sum_o W(o, c, k) G(o, p).
#pragma once

#include "gradient.h"
#include "weights.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class SampleGradient {
 public:
  using A = Accumulate<T>;

  SampleGradient(const KernelContext& context, const ConvShape& conv, const Blocking& blocking,
                 const Filters<T>& filters, int64_t strip)
      : conv_(conv), filters_(filters) {
    if (!filters) return;
    // Memory for all shares of a block if it is small, otherwise for one share and kOutputs at a
    // time.
    const int64_t O = conv.group_outputs(), C = conv.group_channels();
    const int64_t columns =
        round_up(blocking.taps * std::min(C, blocking.channels), kPanel<A>);  // of a share
    // Whether every block lies in one weight group. Blocks begin anew in each offset group.
    const int64_t field = conv.channels_per_offset();
    const bool whole =
        conv.groups == 1 || C % field == 0 || (field % C == 0 && C % blocking.channels == 0);
    const int64_t all = columns * O * (whole ? 1 : panels(blocking.channels, C) + 1);
    const bool once = all <= kPacked<A> / 4 * 5;
    packed_ = std::make_unique<Buffer<A>>(context, once ? all : columns * std::min(O, kOutputs<A>));
    once_ = once;
    result_ =
        std::make_unique<Buffer<A>>(context, strip * row_of<A>(blocking.taps, blocking.channels));
    result_->zero(strip * row_of<A>(blocking.taps, blocking.channels));
  }
  explicit operator bool() const { return static_cast<bool>(filters_); }

  // Selects the channels and taps of the following run().
  void select(const Range& taps, const Range& block) {
    if (taps == taps_ && block == block_) return;  // of another tile
    taps_ = taps;
    block_ = block;
    if (!filters_ || !once_) return;
    A* to = packed_->get();
    for_each_share(conv_, block, {0, conv_.outputs}, [&](const Share& share) {
      filters_.pack_backward(share, taps, columns_of(share), to);
      to += packed(share);
    });
  }

  // Row p, row() elements behind the previous one, holds T of the channels of the block for each
  // tap. Valid until the next call.
  const A* run(const GradientStrip<T>& gradient, const Tile& tile, const Range& pixels) {
    if (conv_.depthwise()) return run_depthwise(gradient, tile, pixels);
    const A* weights = packed_->get();
    for_each_share(conv_, block_, {0, conv_.outputs}, [&](const Share& whole) {
      for (int64_t o = whole.outputs.first; o < whole.outputs.last; o += kOutputs<A>) {
        const Share share{whole.channels, {o, std::min(o + kOutputs<A>, whole.outputs.last)}};
        if (!once_) filters_.pack_backward(share, taps_, columns_of(share), packed_->get());
        const int64_t before = once_ ? o - whole.outputs.first : 0;
        run_share(gradient, tile, pixels, share, weights + before * kPanel<A>,
                  (once_ ? whole : share).outputs.count() * kPanel<A>, o == whole.outputs.first);
      }
      if (once_) weights += packed(whole);
    });
    return result_->get();
  }
  const A* get() const { return result_ ? result_->get() : nullptr; }
  int64_t row() const { return row_of<A>(taps_.count(), block_.count()); }

 private:
  // Whether one product writes all of a row: the block is one share.
  bool whole_rows() const {
    const int64_t C = conv_.group_channels();
    return block_.first / C == (block_.last - 1) / C;
  }
  Runs columns_of(const Share& share) const {
    if (conv_.depthwise()) return Runs{};
    return Runs{1, taps_.count() * share.channels.count(), 0};
  }
  int64_t packed(const Share& share) const {  // elements that pack_backward writes
    if (conv_.depthwise()) return taps_.count() * share.channels.count();
    const Runs columns = columns_of(share);
    return columns.count * round_up(columns.length, kPanel<A>) * share.outputs.count();
  }

  void run_share(const GradientStrip<T>& gradient, const Tile& tile, const Range& pixels,
                 const Share& share, const A* weights, int64_t panel, bool overwrite) {
    const int64_t depth = share.outputs.count(), taps = taps_.count();
    const int64_t count = share.channels.count(), width = block_.count();
    const int64_t length = apart_row<A>(taps, count);
    const auto product = overwrite ? multiply<Result::Overwrite, A> : multiply<Result::Add, A>;
    gradient.by_output(
        tile, pixels, share.outputs, length,
        [&](const A* data, int64_t data_row, const Range& part) {
          A* out = result_->get() + part.first * row();
          if (whole_rows()) {
            return product(part.count(), length, Runs{1, depth, 0},
                           MatrixView<A>{data, 1, data_row}, weights, kPanel<A>, panel, out, row());
          }
          A apart[kApart<A>] = {};
          out += share.channels.first - block_.first;
          const int64_t most = kApart<A> / length;
          for (int64_t p = 0; p < part.count(); p += most) {
            const int64_t some = std::min(most, part.count() - p);
            A* const to = out + p * row();
            if (!overwrite) {
              copy_share(to, row(), width, apart, length, count, some, taps, count);
            }
            product(some, length, Runs{1, depth, 0}, MatrixView<A>{data + p, 1, data_row}, weights,
                    kPanel<A>, panel, apart, length);
            copy_share(apart, length, count, to, row(), width, some, taps, count);
          }
        });
  }

  const A* run_depthwise(const GradientStrip<T>& gradient, const Tile& tile, const Range& pixels) {
    const MatrixView<A> rows = gradient.by_pixel(tile, pixels, block_);
    if (!once_) filters_.pack_backward({block_, block_}, taps_, Runs{}, packed_->get());
    const int64_t count = block_.count();
    for (int64_t p = 0; p < pixels.count(); ++p) {
      const A* const from = rows.data + p * rows.row;
      A* out = result_->get() + p * row();
      for (int64_t k = 0; k < taps_.count(); ++k, out += count) {
        const A* weights = packed_->get() + k * count;
        for (int64_t c = 0; c < count; ++c) out[c] = weights[c] * from[c];
      }
    }
    return result_->get();
  }

  const ConvShape& conv_;
  Filters<T> filters_;
  bool once_ = false;
  Range taps_{0, 0}, block_{0, 0};
  std::unique_ptr<Buffer<A>> packed_, result_;
};

}  // namespace myops::deform::MYOPS_ISA
