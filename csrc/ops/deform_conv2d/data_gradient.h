// The gradients of X, offset and mask for a whole call, without atomics.
//
// Each task writes some channels of one image, so no two tasks add to the same element of the
// gradient of X. If an offset group has several tasks, each stores its sums of the position
// gradients in a slot, and the slots are added in order; to bound their number, tiles are then
// processed band by band. Sums of 16-bit types are stored in the accumulation type, for whole
// images if they fit a buffer, otherwise for part of the image at a time.
#pragma once

#include "tile_gradient.h"
#include "weight_gradient.h"
#include "write_results.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class DataGradient {
 public:
  using A = Accumulate<T>;

  struct Outputs {  // not present: not needed
    Tensor X, offset, mask;
  };

  DataGradient(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
               const Tensor& gradient, const Filters<T>& direct, const Filters<T>& cross,
               const Outputs& outputs)
      : context_(context),
        conv_(conv),
        inputs_(inputs),
        gradient_(gradient),
        direct_(direct),
        cross_(cross),
        X_(outputs.X),
        offset_(outputs.offset),
        mask_(outputs.mask),
        blocking_(Blocking::of_gradients<A>(conv)),
        blocks_(panels(conv.channels_per_offset(), blocking_.channels)),
        parts_(offset_ || mask_ ? panels(blocks_, panels(blocks_, kParts)) : blocks_),
        width_(std::clamp<int64_t>(kParts / parts_, 1, std::max<int64_t>(units(), 1))),
        tiling_(conv, tile_pixels()) {}

  // Whether run() can pass samples to the gradient of W.
  bool gives_samples(const WeightGradient<T>& weights) const {
    if (!kernel_enabled("deform_conv2d.with_data_gradient")) return false;
    const bool positions = offset_ || mask_;
    if (!std::is_same_v<T, A>) return positions && whole_narrow() && weights.takes_images();
    return positions && weights.takes_images();
  }
  void run(WeightGradient<T>* weights = nullptr) const {
    if (conv_.batch == 0) return;
    if (X_) clear(context_, X_);
    const bool positions = offset_ || mask_;
    const bool narrow = X_ && !std::is_same_v<T, A>;
    const bool held = positions && (whole_narrow() || parts_narrow());  // sums of whole images
    const bool together = narrow && !held && positions && blocks_ == 1;
    const char* what = !positions                     ? "X"
                       : !X_                          ? "offset and mask"
                       : narrow && !held && !together ? "offset and mask"
                                                      : "X, offset and mask";
    if (narrow && !held) {
      context_.report("image_in_bands", together ? what : "X",
                      "sums of 16-bit types are held in float32");
      run_image_in_bands(together);
    }
    if (together || (!positions && (!X_ || narrow))) return;
    if (!positions || parts_ == 1) {
      context_.report("whole_images", what,
                      positions ? "an offset group has one task" : "no gradient of positions");
      if (weights) context_.report("with_data_gradient", "W", "the samples are made already");
      run_whole(positions, weights);
    } else {
      context_.report("bands_of_tiles", what,
                      "tasks of an offset group add their gradients of positions in slots");
      run_in_bands(held);
    }
  }

 private:
  static constexpr int64_t kParts = 8;    // tasks side by side that need slots
  static constexpr int64_t kTasks = 16;   // of small images
  static constexpr int64_t kSmall = 128;  // pixels of these
  static constexpr int64_t kImageBandBytes = 1024 * 1024;
  // Of sums of whole images. Bands take up to five times as long on wide images, because a tile is
  // computed again for each band that it touches.
  static constexpr int64_t kImagesBytes = 32 * 1024 * 1024;

  struct Task {
    int64_t image, offset_group;
    Range channels;
  };

  // Task `index` of [image][offset group][part].
  Task task(int64_t index, int64_t parts) const {
    const int64_t unit = index / parts, part = index % parts, length = conv_.channels_per_offset();
    const int64_t group = unit % conv_.offset_groups, each = panels(blocks_, parts);
    const int64_t first = std::min(part * each * blocking_.channels, length);
    const int64_t last = std::min((part + 1) * each * blocking_.channels, length);
    return {unit / conv_.offset_groups, group, {group * length + first, group * length + last}};
  }
  Task block_of(const Task& whole, int64_t block) const {
    const int64_t first = whole.channels.first + block * blocking_.channels;
    const int64_t last = whole.channels.last;
    return {whole.image,
            whole.offset_group,
            {std::min(first, last), std::min(first + blocking_.channels, last)}};
  }
  int64_t units() const { return conv_.batch * conv_.offset_groups; }
  // Small images are processed together, up to the pixels of a tile, so that weights are packed
  // once for all of them; but there are kTasks tasks, if possible.
  int64_t images_of_task() const {
    const int64_t fit =
        blocking_.gradient_pixels<A>() / std::max<int64_t>(conv_.out_height * conv_.out_width, 1);
    return std::max<int64_t>(std::min(fit, units() * parts_ / kTasks), 1);
  }
  // Whether the sums of 16-bit gradients of X are held for whole images, so that the positions and
  // samples of a tile are computed once: by one task, or by several that share an offset group.
  bool narrow_fits(int64_t images, int64_t bytes) const {
    const double size = static_cast<double>(conv_.height) * static_cast<double>(conv_.width) *
                        static_cast<double>(conv_.channels_per_offset() * images);
    return !std::is_same_v<T, A> && X_ && size * sizeof(A) <= static_cast<double>(bytes) &&
           kernel_enabled("deform_conv2d.narrow_images");
  }
  bool whole_narrow() const { return blocks_ == 1 && narrow_fits(1, kImagesBytes); }
  bool parts_narrow() const { return parts_ > 1 && narrow_fits(width_, kImagesBytes); }

  int64_t tile_pixels() const {
    // The double backward stores more for each entry.
    int64_t most = blocking_.gradient_pixels<A>();
    if (inputs_.changes()) most = std::min(most, kEntries<A> / 2 / blocking_.taps);
    if (parts_ == 1 || !(offset_ || mask_)) return most;
    return std::min(most, kSlots<A> / (3 * blocking_.taps * parts_ * width_));
  }

  TileGradient<T> tile_gradient(bool positions, bool samples = false) const {
    return TileGradient<T>(context_, conv_, inputs_, gradient_, direct_, cross_, tiling_.pixels(),
                           positions, samples, blocks_ <= parts_);
  }

  // The gradient of X from channel `first` on, if sums can be accumulated in place.
  PixelSums<A> target(int64_t image, int64_t first) const {
    if constexpr (std::is_same_v<T, A>) {
      if (X_) {
        return {X_.at(image, first, 0, 0), X_.step[1], X_.step[3], 0, conv_.height * conv_.width};
      }
    }
    return {};
  }

  template <class Body>
  void for_each_taps(const Body& body) const {
    for (int64_t k = 0; k < conv_.taps; k += blocking_.taps) {
      body(Range{k, std::min(k + blocking_.taps, conv_.taps)});
    }
  }
  template <class Body>
  void for_each_channels(const Range& channels, const Body& body) const {
    for (int64_t c = channels.first; c < channels.last; c += blocking_.channels) {
      body(Range{c, std::min(c + blocking_.channels, channels.last)});
    }
  }

  // `image`: where the gradient of X of the offset group is summed, [block][pixel][channel], or
  // null.
  void add_tile(TileGradient<T>& work, const Task& task, int64_t tile, const Range& taps, A* sums,
                const typename TileGradient<T>::Take& take = nullptr, A* image = nullptr) const {
    work.place(tiling_.at(task.image, tile), task.offset_group, taps);
    const int64_t first = task.offset_group * conv_.channels_per_offset();
    const int64_t pixels = conv_.height * conv_.width;
    for_each_channels(task.channels, [&](const Range& block) {
      const PixelSums<A> to =
          image ? PixelSums<A>{image + (block.first - first) * pixels, 1, block.count(), 0, pixels}
                : target(task.image, block.first);
      work.run(block, to, sums, take);
    });
  }

  // Passes the samples of a tile on to the gradient of W, if there is one.
  typename TileGradient<T>::Take take(const std::optional<typename WeightGradient<T>::Total>& total,
                                      const Task& task, int64_t tile) const {
    if (!total) return nullptr;
    return [&total, tile = tiling_.at(task.image, tile)](const Range& strip, const A* sampled,
                                                         const GradientStrip<T>& gradient) {
      total->add(tile, strip, sampled, gradient);
    };
  }

  void run_whole(bool positions, WeightGradient<T>* weights) const;
  class Bands;
  void run_in_bands(bool held) const;
  void run_image_in_bands(bool positions) const;
  void write_positions(const Tile& tile, int64_t offset_group, const Range& taps,
                       const A* sums) const {
    PositionOutputs<T>{offset_, mask_}.write(conv_, tile, offset_group, taps, sums);
  }

  const KernelContext& context_;
  const ConvShape& conv_;
  const Inputs<T>& inputs_;
  const Tensor& gradient_;
  const Filters<T>&direct_, &cross_;
  StridedView<T> X_, offset_, mask_;
  Blocking blocking_;
  int64_t blocks_;  // of one offset group
  int64_t parts_;   // of them, tasks
  int64_t width_;   // images and offset groups side by side, where tasks need slots
  Tiling tiling_;
};

// Each task processes all tiles of some images and writes its own sums.
template <class T>
void DataGradient<T>::run_whole(bool positions, WeightGradient<T>* weights) const {
  const int64_t parts = parts_, tasks = conv_.offset_groups * parts, each = images_of_task();
  if (weights) weights->start_images();
  context_.parallel_for(panels(conv_.batch, each) * tasks, 1, [&](int64_t index, int64_t) {
    TileGradient<T> work = tile_gradient(positions, weights != nullptr);
    const int64_t size = 3 * blocking_.taps * tiling_.pixels();
    const Buffer<A> sums(context_, positions ? size : 0);
    const int64_t pixels = conv_.height * conv_.width;
    const bool held = positions && whole_narrow();
    const Buffer<A> image(context_, held ? pixels * conv_.channels_per_offset() : 0);
    std::optional<typename WeightGradient<T>::Total> total;
    if (weights) total.emplace(*weights);
    const int64_t first = index / tasks * each;
    for (int64_t i = first; i < std::min(first + each, conv_.batch); ++i) {
      const Task own = task(i * tasks + index % tasks, parts);
      if (held) image.zero(pixels * own.channels.count());
      for_each_taps([&](const Range& taps) {
        if (total) total->start(own.offset_group, taps.first);
        for (int64_t tile = 0; tile < tiling_.count(); ++tile) {
          if (positions) sums.zero(size);
          add_tile(work, own, tile, taps, positions ? sums.get() : nullptr, take(total, own, tile),
                   image.get());
          if (total) total->end_tile(own.image * tiling_.count() + tile);
          if (!positions) continue;
          write_positions(tiling_.at(own.image, tile), own.offset_group, taps, sums.get());
        }
      });
      if (held) write_pixels(image.get(), X_, own.image, own.channels, {0, pixels});
    }
    work.finish();
  });
  if (weights) weights->finish_images();
}

}  // namespace myops::deform::MYOPS_ISA

#include "data_bands.h"
