// Y = B + W A with few channels in each offset group: samples and sums are planes of pixels. Tiles,
// chunks of outputs, packed weights and the order of the sums are those of Convolution
// (convolve.h), so that the results have the same bits.
#pragma once

#include "convolve.h"
#include "pixel_products.h"
#include "plane_samples.h"
#include "write_results.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class PlaneConvolution {
 public:
  using A = Accumulate<T>;

  static bool supports(const ConvShape& conv, const StridedView<T>& out) {
    return few(conv, out.channels_last()) && kernel_enabled("deform_conv2d.planes_product");
  }

  PlaneConvolution(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
                   const std::vector<Term<T>>& terms, const Tensor& bias, const Tensor& out)
      : context_(context),
        conv_(conv),
        inputs_(inputs),
        bias_(bias),
        out_(out),
        filters_(terms.front().filters),
        weights_(conv, terms),
        blocking_(conv),
        shared_(static_cast<size_t>(weights_.size()) * sizeof(A) <= kSharedBytes),
        tiling_(conv, tile_pixels(), INT64_MAX, row_pixels(conv)),
        depth_(depth()) {}

  // `prepared`: the packed weights, or null; see Convolution::run().
  void run(const A* prepared) const {
    if (context_.reports()) report(prepared != nullptr);
    run_tiles(
        context_, weights_, conv_.batch * tiling_.count(), 1, shared_, prepared,
        [&](bool packs) { return buffers(packs); },
        [&](Buffers& buffers, const Range& tiles, const Range& outputs, const A* packed) {
          const int64_t image = tiles.first / tiling_.count();
          run_tile(buffers, tiling_.at(image, tiles.first % tiling_.count()), outputs, packed);
        });
  }

 private:
  static constexpr int64_t kTilePixels = 8192 / sizeof(A);
  // Of samples: half of the L1 cache, or a part of the L2 cache where there are many outputs, of
  // which longer parts of rows are written.
  static constexpr int64_t kStripBytes = 16384, kLongStripBytes = 131072, kManyOutputs = 32;
  static constexpr int64_t kFewPlanes = 12;  // see few()
  // Planes of some offset groups that are multiplied together, and their bytes.
  static constexpr int64_t kMostDepth = 32, kMostBytes = 131072;
  static constexpr int64_t kStep = kSumVectors * kLanes<A>;

  // The most channels, measured. Vectors of channels are used badly by few channels, and by those
  // of several weight groups, which products take apart.
  static bool few(const ConvShape& conv, bool channels_last) {
    constexpr bool kDouble = sizeof(A) == sizeof(double), kWide = MYOPS_VECTOR_BYTES >= 32;
    static const bool gathers = gathers_pay();
    const int64_t channels = conv.channels_per_offset(), outputs = conv.group_outputs();
    if (conv.depthwise()) {
      const bool padded = pixel_of<A>(channels) != channels;
      if (kWide && !gathers) return channels <= kFewPlanes && channels % 8 != 0;
      return channels < (padded || gathers ? 8 : 4);
    }
    const bool one = conv.group_channels() % channels == 0;  // weight group
    const bool all = conv.group_channels() == channels;      // of its channels
    // Columns transpose Y, which takes most of the time if there are many outputs for each sample.
    if (one && !channels_last && (all || conv.taps == 1)) {
      const bool many = outputs >= 4 * conv.taps * channels;
      if (many || (kDouble && kWide && all)) return channels <= kFewPlanes;
    }
    if (kGathersPairs<A> && gathers) {
      // (Where planes of sums are transposed, and a single block of channels is sampled, columns
      // take less time.)
      if (channels_last && all) return channels <= (outputs <= 4 ? 12 : outputs <= 64 ? 4 : 1);
      return channels <= (one && !all ? 6 : 12);
    }
    if (kWide && !kDouble && !one) return channels <= kMostPlanes;
    // (Columns read X in place.)
    if (kWide && !kDouble && !all && conv.taps == 1 && channels_last) return channels <= 3;
    if (kWide && (all || !kDouble)) return channels <= kFewPlanes;
    return channels <= (one ? 6 : 8);
  }

  struct Buffers {  // of one task
    Buffer<A> sums, packed, planes;
    PlaneSamples<T> samples;
  };
  // `packs`: the task packs weights for itself.
  Buffers buffers(bool packs) const {
    const int64_t outputs = weights_.chunks().longest();
    const int64_t planes = planes_of_block();
    const int64_t widest = round_up(std::min(outputs, conv_.group_outputs()), kPanel<A>);
    const int64_t sampled = std::max(planes * plane_of(strip(planes)), depth_ * plane_of(row()));
    return {Buffer<A>(context_, outputs * row()), Buffer<A>(context_, packs ? widest * planes : 0),
            Buffer<A>(context_, sampled),
            PlaneSamples<T>(context_, conv_, inputs_.X, inputs_.positions, blocking_.taps,
                            tiling_.pixels())};
  }
  int64_t tile_pixels() const {
    const int64_t most = std::min(kTilePixels, kSums<A> / weights_.chunks().longest());
    const double share = static_cast<double>(conv_.batch) * static_cast<double>(conv_.out_height) *
                         static_cast<double>(conv_.out_width) / 8;
    return std::clamp(static_cast<int64_t>(std::min(share, 1e9)), std::min<int64_t>(most, 256),
                      most);
  }
  // Of the rows of tiles. Offsets, masks and results are read and written faster in long ones, but
  // then the window has more pixels for each sample.
  static int64_t row_pixels(const ConvShape& conv) {
    const bool small = conv.channels_per_offset() * static_cast<int64_t>(sizeof(A)) <= 16;
    return small ? 2 * kRow : kRow;
  }
  // From the sums of an output to those of the next.
  int64_t row() const { return round_up(tiling_.pixels(), kLanes<A>); }
  int64_t planes_of_block() const { return blocking_.taps * conv_.channels_per_offset(); }
  int64_t strip(int64_t planes) const {  // pixels that are sampled and multiplied together
    const bool many = weights_.chunks().longest() >= kManyOutputs;
    const int64_t bytes = many ? kLongStripBytes : kStripBytes;
    const int64_t most = bytes / static_cast<int64_t>(sizeof(A)) / planes;
    return std::min(std::max(most / kStep, int64_t{2}) * kStep, row());
  }
  // From one plane of samples to the next.
  static int64_t plane_of(int64_t pixels) { return pixels + kLanes<A>; }
  // How many planes are multiplied together; 0: those of each block.
  int64_t depth() const {
    const int64_t channels = conv_.channels_per_offset(), all = conv_.group_channels();
    const bool several = all > channels || conv_.taps > kTaps;
    if (!several || all % channels != 0 || conv_.depthwise()) return 0;
    const int64_t fit = kMostBytes / static_cast<int64_t>(sizeof(A)) / plane_of(row());
    const int64_t most = std::min(kMostDepth, fit);
    return most < 2 * planes_of_block() ? 0 : most;
  }
  void report(bool prepared) const;
  void multiply_share(const Share& share, int64_t taps, const A* planes, int64_t plane,
                      const A* weights, int64_t pixels, A* sums) const;
  // The numbers with which the sums of some outputs begin.
  void load_bias(const Range& outputs, A* to) const {
    std::fill_n(to, outputs.count(), A{});
    if (!bias_.present) return;
    const T* const from = static_cast<const T*>(bias_.data) + outputs.first * bias_.strides[0];
    for (int64_t o = 0; o < outputs.count(); ++o)
      to[o] = static_cast<A>(from[o * bias_.strides[0]]);
  }
  // Whether sums are stored in Y as they are.
  bool stores_sums() const { return std::is_same_v<T, A> && out_.step[3] == 1; }
  // Whether cache lines of Y are fetched before sums are stored in them: where no cache has them.
  bool prefetches() const {
    return (out_.end - out_.data) * static_cast<int64_t>(sizeof(T)) >= cached_bytes();
  }
  template <class WeightsOf>
  void multiply_once(const Tile& tile, const Range& outputs, const Range& part, int64_t depth,
                     const Rows<const A>& planes, const WeightsOf& weights_of, const A* bias,
                     A* sums) const;
  void run_tile(Buffers& buffers, const Tile& tile, const Range& outputs, const A* packed) const;
  void run_one_block(Buffers& buffers, const Tile& tile, const Range& outputs,
                     const A* packed) const;
  void run_together(Buffers& buffers, const Tile& tile, const Range& outputs,
                    const A* packed) const;

  const KernelContext& context_;
  const ConvShape& conv_;
  const Inputs<T>& inputs_;
  const Tensor& bias_;
  StridedView<T> out_;
  const Filters<T>& filters_;
  PackedWeights<T> weights_;
  Blocking blocking_;
  bool shared_;
  Tiling tiling_;
  int64_t depth_;
};

template <class T>
void PlaneConvolution<T>::report(bool prepared) const {
  context_.report("planes_product", "Y",
                  str("few channels in an offset group: vectors run over pixels; tiles of at most ",
                      tiling_.pixels(), " pixels"));
  report_weights(context_, weights_.size() * static_cast<int64_t>(sizeof(A)), prepared, shared_);
}

template <class T>
void PlaneConvolution<T>::multiply_share(const Share& share, int64_t taps, const A* planes,
                                         int64_t plane, const A* weights, int64_t pixels,
                                         A* sums) const {
  const int64_t count = share.channels.count(), row = this->row();
  if (conv_.depthwise()) {  // nothing is summed over channels
    for (int64_t c = 0; c < count; ++c) {
      weighted_sums<Result::Add>(1, taps, Rows<const A>{weights + c, count},
                                 Rows<const A>{planes + c * plane, count * plane},
                                 SumRows<A>{{sums + c * row, row}}, pixels);
    }
    return;
  }
  const int64_t depth = taps * count, outputs = share.outputs.count();
  for (int64_t o = 0; o < outputs; o += kPanel<A>, weights += depth * kPanel<A>) {
    weighted_sums<Result::Add>(std::min(kPanel<A>, outputs - o), depth,
                               Rows<const A>{weights, kPanel<A>}, Rows<const A>{planes, plane},
                               SumRows<A>{{sums + o * row, row}}, pixels);
  }
}

template <class T>
void PlaneConvolution<T>::run_tile(Buffers& buffers, const Tile& tile, const Range& outputs,
                                   const A* packed) const {
  if (depth_ > 0 && packed) return run_together(buffers, tile, outputs, packed);
  if (conv_.groups == 1 && !conv_.depthwise() && conv_.offset_groups == 1 && conv_.taps <= kTaps) {
    return run_one_block(buffers, tile, outputs, packed);
  }
  const int64_t pixels = tile.pixels(), row = this->row(), strip = this->strip(planes_of_block());
  const int64_t plane = plane_of(strip);
  A* const sums = buffers.sums.get();
  A bias[kOutputs<A>];
  load_bias(outputs, bias);
  for (int64_t o = 0; o < outputs.count(); ++o) {
    std::fill_n(sums + o * row, round_up(pixels, kLanes<A>), bias[o]);
  }
  const auto on_taps = [&](int64_t offset_group, const Range& taps) {
    buffers.samples.place(tile, offset_group, taps);
  };
  for_each_block(conv_, channels_for(conv_, outputs), on_taps,
                 [&](const Range& taps, const Range& block) {
                   const A* weights = packed ? packed : buffers.packed.get();
                   PlanePlace places[kMostPlanes];
                   int64_t planes = 0, size = 0;
                   for_each_share(conv_, block, outputs, [&](const Share& share) {
                     const int64_t count = share.channels.count();
                     for (int64_t c = 0; c < count; ++c) {
                       places[share.channels.first - block.first + c] = {planes + c, count};
                     }
                     planes += taps.count() * count;
                     if (!packed) filters_.pack_forward(share, taps, buffers.packed.get() + size);
                     size += packed_forward<T>(conv_, share, taps.count());
                   });
                   buffers.samples.begin(block, places);
                   for (int64_t first = 0; first < pixels; first += strip) {
                     const Range part{first, std::min(first + strip, pixels)};
                     buffers.samples.sample(part, buffers.planes.get(), plane);
                     const A *from = buffers.planes.get(), *factors = weights;
                     for_each_share(conv_, block, outputs, [&](const Share& share) {
                       const int64_t depth = taps.count() * share.channels.count();
                       const int64_t count = round_up(part.count(), kLanes<A>);
                       A* to = sums + (share.outputs.first - outputs.first) * row + first;
                       multiply_share(share, taps.count(), from, plane, factors, count, to);
                       from += depth * plane;
                       factors += packed_forward<T>(conv_, share, taps.count());
                     });
                   }
                   if (packed) packed += size;
                 });
  write_planes(sums, row, out_, tile, outputs);
}

}  // namespace myops::deform::MYOPS_ISA
