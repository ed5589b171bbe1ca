// How the gradient of W is divided into jobs and slices, and where the sums of a job lie.
//
// A job computes a block of channels and taps for some outputs, so jobs write different elements.
// If there are few blocks, the tiles are divided into slices as well; each slice has its own copy
// of the gradient, and the copies are added in order.
#pragma once

#include "weights.h"

namespace myops::deform::MYOPS_ISA {

struct WeightJob {
  int64_t offset_group, first_output;  // of each weight group
  Range taps, channels;
};

// A: the type of the sums.
template <class A>
class WeightJobs {
 public:
  // `size`: elements of W.
  WeightJobs(const ConvShape& conv, int64_t size)
      : conv_(conv),
        blocking_(Blocking::of_gradients<A>(conv)),
        tiling_(conv, blocking_.gradient_pixels<A>()),
        blocks_(panels(conv.channels_per_offset(), blocking_.channels)),
        tap_blocks_(panels(conv.taps, blocking_.taps)) {
    const int64_t most_copies =
        kCopyBytes / static_cast<int64_t>(sizeof(A)) / std::max<int64_t>(size, 1);
    const int64_t wanted = panels(kJobs, blocks());
    slices_ = std::clamp<int64_t>(std::min({wanted, most_copies, items()}), 1, kJobs);
    by_image_ = blocks_ == 1 && conv.batch > 0 && conv.batch <= most_copies;
    if (most_copies < 2) {  // no slices, whose sums would depend on the number of blocks
      blocking_ = Blocking::of_gradients<A>(conv, outputs());
      blocks_ = panels(conv.channels_per_offset(), blocking_.channels);
    } else if (by_image_) {
      const int64_t each = std::min(panels(wanted, conv.batch), most_copies / conv.batch);
      slices_ = conv.batch * std::clamp<int64_t>(each, 1, std::max<int64_t>(tiling_.count(), 1));
    }
  }

  const Blocking& blocking() const { return blocking_; }
  const Tiling& tiling() const { return tiling_; }
  int64_t items() const { return conv_.batch * tiling_.count(); }  // tiles of all images
  int64_t count() const { return blocks() * panels(conv_.group_outputs(), outputs()); }
  WeightJob at(int64_t index) const {
    const int64_t block = index % blocks();
    const int64_t k = block % tap_blocks_ * blocking_.taps, unit = block / tap_blocks_;
    const int64_t group = unit / blocks_, length = conv_.channels_per_offset();
    const int64_t c = unit % blocks_ * blocking_.channels;
    return {group,
            index / blocks() * outputs(),
            {k, std::min(k + blocking_.taps, conv_.taps)},
            {group * length + c, group * length + std::min(c + blocking_.channels, length)}};
  }
  // The job of an offset group that is one block, for the taps from `first_tap` on.
  WeightJob of_group(int64_t offset_group, int64_t first_tap) const {
    return at(offset_group * tap_blocks_ + first_tap / blocking_.taps);
  }

  int64_t slices() const { return slices_; }
  bool by_image() const { return by_image_; }  // no slice has tiles of two images
  Range slice(int64_t index) const { return {begin(index), begin(index + 1)}; }
  int64_t slice_of(int64_t item) const {
    if (!by_image_) return item * slices_ / items();
    const int64_t each = slices_ / conv_.batch, tiles = tiling_.count();
    return item / tiles * each + item % tiles * each / tiles;
  }

  // The number of outputs of each weight group that a job computes.
  int64_t outputs() const { return std::min(conv_.group_outputs(), kOutputs<A>); }
  // Elements of the sums of a job.
  int64_t sums_size() const {
    const int64_t each = std::min(conv_.group_channels(), blocking_.channels);
    const int64_t shares = conv_.groups == 1 ? 1 : panels(blocking_.channels, each) + 1;
    return outputs() * std::max(row_of<A>(blocking_.taps, blocking_.channels),
                                shares * apart_row<A>(blocking_.taps, each));
  }
  // Elements from one output of a share to the next in the sums, padded to whole vectors, whose
  // last elements are unused.
  int64_t sums_row(const WeightJob& job, const Share& share) const {
    const int64_t taps = job.taps.count(), count = share.channels.count();
    return conv_.depthwise() ? taps * count : apart_row<A>(taps, count);
  }
  // Calls body(share, sums) for each share of a job.
  template <class Body>
  void for_each_share(const WeightJob& job, A* sums, const Body& body) const {
    const Range all{0, conv_.outputs};
    MYOPS_ISA::for_each_share(conv_, job.channels, all, [&](const Share& whole) {
      Share share = whole;
      if (!conv_.depthwise()) {
        share.outputs.first += job.first_output;
        share.outputs.last = std::min(share.outputs.first + outputs(), whole.outputs.last);
      }
      body(share, sums);
      sums += outputs() * sums_row(job, share);
    });
  }

 private:
  static constexpr int64_t kJobs = 16;
  static constexpr int64_t kCopyBytes = 640 * 1024;

  int64_t blocks() const { return conv_.offset_groups * blocks_ * tap_blocks_; }
  int64_t begin(int64_t slice) const {
    if (!by_image_) return (items() * slice + slices_ - 1) / slices_;
    const int64_t each = slices_ / conv_.batch, tiles = tiling_.count();
    return slice / each * tiles + (tiles * (slice % each) + each - 1) / each;
  }

  const ConvShape& conv_;
  Blocking blocking_;
  Tiling tiling_;
  int64_t blocks_, tap_blocks_;  // of one offset group; of the kernel
  int64_t slices_;
  bool by_image_;
};

}  // namespace myops::deform::MYOPS_ISA
