// W packed in the order in which the products read it.
//
// The channels of an offset group may belong to several weight groups, so a block of channels is
// divided into shares: channels and outputs of one weight group. In a depthwise convolution there
// is no sum over channels, and a block is one share.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

struct Share {
  Range channels, outputs;
};

// Calls body(share) for each weight group with some of `channels` and some of `outputs`.
template <class Body>
void for_each_share(const ConvShape& conv, const Range& channels, const Range& outputs,
                    const Body& body) {
  if (conv.depthwise()) {
    const Range both{std::max(channels.first, outputs.first),
                     std::min(channels.last, outputs.last)};
    if (both.first < both.last) body(Share{both, both});
    return;
  }
  const int64_t C = conv.group_channels(), O = conv.group_outputs();
  for (int64_t group = channels.first / C; group * C < channels.last; ++group) {
    const Share share{
        {std::max(channels.first, group * C), std::min(channels.last, (group + 1) * C)},
        {std::max(outputs.first, group * O), std::min(outputs.last, (group + 1) * O)}};
    if (share.outputs.first < share.outputs.last) body(share);
  }
}

// The columns of a share in a row of a block; the row has `taps` times `width` columns.
inline Runs columns_of(const Share& share, int64_t taps, int64_t width) {
  const int64_t count = share.channels.count();
  return count == width ? Runs{1, taps * count, 0} : Runs{taps, count, width};
}

// A share with fewer channels than its block has gaps between its taps, [tap][width]. Products
// would need one call for each tap, of few columns, so some rows at a time are copied:
// [tap][count].
template <class A>
inline constexpr int64_t kApart = 16384 / sizeof(A);  // elements of these rows

template <class A>
inline int64_t apart_row(int64_t taps, int64_t count) {
  return round_up(taps * count, kHalf<A>);
}
template <class A>
void copy_share(const A* from, int64_t from_row, int64_t from_width, A* to, int64_t to_row,
                int64_t to_width, int64_t rows, int64_t taps, int64_t count) {
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
    for (int64_t k = 0; k < taps; ++k) {
      for (int64_t c = 0; c < count; ++c) to[k * to_width + c] = from[k * from_width + c];
    }
  }
}

// Strided access to W: output, channel within the group, tap.
template <class T>
class Filters {
 public:
  using A = Accumulate<T>;

  Filters() = default;
  Filters(const ConvShape& conv, const Tensor& tensor)
      : view_(tensor),
        group_channels_(conv.group_channels()),
        taps_(conv.taps),
        kernel_width_(conv.kernel_width),
        depthwise_(conv.depthwise()) {}
  explicit operator bool() const { return static_cast<bool>(view_); }

  // For the forward product, sum over (tap, channel): panels of outputs, each
  // [tap][channel][kPanel], or [factor][kPanel][sample] where a factor has several samples.
  // Depthwise: [tap][channel].
  void pack_forward(const Share& share, const Range& taps, Sample<T>* out) const {
    if constexpr (kFactorSamples<T> == 1) {
      if (depthwise_) return pack_depthwise(share, taps, out);
    }
    const int64_t size = depth_of<T>(taps.count() * share.channels.count()) * kPanel<A>;
    for (int64_t o = share.outputs.first; o < share.outputs.last; o += kPanel<A>, out += size) {
      const int64_t lanes = std::min(kPanel<A>, share.outputs.last - o);
      if (lanes < kPanel<A> || kFactorSamples<T> > 1) std::fill_n(out, size, Sample<T>{});
      const bool vectors = lanes == kPanel<A> && taps.count() == taps_ && view_.step[3] == 1 &&
                           view_.step[2] == kernel_width_ && view_.step[1] == taps_;
      if (vectors) {
        pack_lines(at(o, share.channels.first, 0), share.channels.count(), out);
        pack_lines(at(o + kLanes<A>, share.channels.first, 0), share.channels.count(),
                   out + kLanes<A> * kFactorSamples<T>);
        continue;
      }
      int64_t r = 0;
      for (int64_t k = taps.first; k < taps.last; ++k) {
        const T* from = at(o, share.channels.first, k);
        for (int64_t c = 0; c < share.channels.count(); ++c, ++r) {
          const T* column = from + c * view_.step[1];
          Sample<T>* to = out + place_of(r);
          for (int64_t lane = 0; lane < lanes; ++lane) {
            to[lane * kFactorSamples<T>] = static_cast<Sample<T>>(column[lane * view_.step[0]]);
          }
        }
      }
    }
  }

  // For T = W^T G, sum over outputs: the columns of each run of columns_of(), in panels of
  // [output][kPanel]. Depthwise: [tap][channel].
  void pack_backward(const Share& share, const Range& taps, const Runs& columns, A* out) const {
    if (depthwise_) return pack_depthwise(share, taps, out);
    const int64_t count = share.channels.count(), rows = share.outputs.count();
    const int64_t run_taps = columns.length / count, panel = rows * kPanel<A>;
    const bool even =
        view_.step[2] == kernel_width_ * view_.step[3];  // whether the taps have one common stride
    A line[kTaps * 2 * kChannels];                       // the columns of one output
    for (int64_t k = taps.first; k < taps.last; k += run_taps) {
      const int64_t size = panels(columns.length, kPanel<A>) * panel;
      if (columns.length % kPanel<A> != 0) std::fill_n(out, size, A{});
      for (int64_t o = 0; o < rows; ++o) {
        const int64_t output = share.outputs.first + o;
        const T* const from = at(output, share.channels.first, k);
        if (even && view_.step[3] == 1) {
          transpose_copy(from, view_.step[1], line, count, count, run_taps);
        } else {
          for (int64_t tap = 0; tap < run_taps; ++tap) {
            widen(even ? from + tap * view_.step[3] : at(output, share.channels.first, k + tap),
                  view_.step[1], count, line + tap * count);
          }
        }
        for (int64_t first = 0; first < columns.length; first += kPanel<A>) {
          std::copy_n(line + first, std::min(kPanel<A>, columns.length - first),
                      out + first * rows + o * kPanel<A>);
        }
      }
      out += size;
    }
  }

 private:
  const T* at(int64_t output, int64_t channel, int64_t tap) const {
    return view_.at(output, channel % group_channels_, tap / kernel_width_, tap % kernel_width_);
  }
  // Where the weights of (tap, channel) number r begin in a panel.
  static int64_t place_of(int64_t r) {
    constexpr int64_t n = kFactorSamples<T>;
    return r / n * n * kPanel<A> + r % n;
  }
  // Packs kLanes outputs whose filters are contiguous, [channel][tap], by transposing them.
  void pack_lines(const T* from, int64_t channels, Sample<T>* out) const {
    constexpr int64_t L = kLanes<A>;
    int64_t c = 0, k = 0;  // of the next column of the line
    const auto next = [&] {
      const int64_t r = k * channels + c;
      if (++k == taps_) {
        k = 0;
        ++c;
      }
      return r;
    };
    int64_t column = 0;
    for (; column + L <= channels * taps_; column += L) {
      Vector<A> square[L];
      for (int64_t lane = 0; lane < L; ++lane) {
        square[lane] = load_wide<A>(from + lane * view_.step[0] + column);
      }
      transpose<A, L>(square);
      for (int64_t lane = 0; lane < L; ++lane) store_column(square[lane], next(), out);
    }
    for (; column < channels * taps_; ++column) {
      Sample<T>* to = out + place_of(next());
      for (int64_t lane = 0; lane < L; ++lane) {
        to[lane * kFactorSamples<T>] = static_cast<Sample<T>>(from[lane * view_.step[0] + column]);
      }
    }
  }
  // Of a pair, the other one stays as it is.
  static void store_column(const Vector<A>& weights, int64_t r, Sample<T>* out) {
    if constexpr (kFactorSamples<T> == 1) {
      store(out + place_of(r), weights);
    } else {
      using Pairs = Lanes<uint32_t, kLanes<A>>;
      Sample<T>* to = out + place_of(r / 2 * 2);
      const Pairs upper = (Pairs)weights;  // bfloat16 in float has zeros behind it
      store(to, load_as<Pairs>(to) | (r % 2 != 0 ? upper : upper >> 16));
    }
  }

  void pack_depthwise(const Share& share, const Range& taps, A* out) const {
    for (int64_t k = taps.first; k < taps.last; ++k) {
      for (int64_t c = share.channels.first; c < share.channels.last; ++c) {
        *out++ = static_cast<A>(*at(c, c, k));
      }
    }
  }

  StridedView<const T> view_;
  int64_t group_channels_ = 1, taps_ = 1, kernel_width_ = 1;
  bool depthwise_ = false;
};

// Elements that pack_forward writes.
template <class T>
int64_t packed_forward(const ConvShape& conv, const Share& share, int64_t taps) {
  using A = Accumulate<T>;
  if (conv.depthwise()) return taps * share.channels.count();
  return round_up(share.outputs.count(), kPanel<A>) * depth_of<T>(taps * share.channels.count());
}

inline void report_weights(const KernelContext& context, int64_t bytes, bool prepared,
                           bool shared) {
  context.report(prepared ? "packed_with_model"
                 : shared ? "packed_once"
                          : "packed_by_task",
                 "W",
                 str(bytes, " bytes, ",
                     prepared ? "constant"
                     : shared ? "fit the shared buffer"
                              : "more than the shared buffer"));
}

}  // namespace myops::deform::MYOPS_ISA
