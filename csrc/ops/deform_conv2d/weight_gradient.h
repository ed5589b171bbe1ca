// The gradient of W: sum over pixels of G A, or of G A' for the double backward.
//
// Each job computes a block of channels and taps, so jobs write different elements. If there are
// few jobs, tiles are divided into slices as well; each slice has its own copy of the gradient, and
// the copies are added in order. Many offset groups have few channels each and would each read the
// gradient of Y again: then one job computes several groups, and there are more slices instead.
#pragma once

#include "columns.h"
#include "sample_gradient.h"

namespace myops::deform::MYOPS_ISA {

// sums += a * b, element by element.
template <class A>
inline void add_channels(const A* a, const A* b, int64_t count, A* sums) {
  int64_t c = 0;
  for (; c + kLanes<A> <= count; c += kLanes<A>) {
    store(sums + c, fma(load(a + c), load(b + c), load(sums + c)));
  }
  using Quad = Lanes<A, kQuad<A>>;
  for (; c + kQuad<A> <= count; c += kQuad<A>) {
    store(sums + c, fma(load_as<Quad>(a + c), load_as<Quad>(b + c), load_as<Quad>(sums + c)));
  }
  for (; c < count; ++c) sums[c] = fma(a[c], b[c], sums[c]);
}

template <class T>
class WeightGradient {
 public:
  using A = Accumulate<T>;
  struct Job {
    int64_t offset_group;
    Range taps, channels;
  };

  WeightGradient(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
                 const Tensor& gradient, Column column, const Tensor& out)
      : context_(context),
        conv_(conv),
        inputs_(inputs),
        gradient_(gradient),
        column_(column),
        out_(out),
        size_(out.elements()),
        blocking_(Blocking::of_gradients<A>(conv)),
        tiling_(conv, blocking_.gradient_pixels<A>(conv)),
        items_(conv.batch * tiling_.count()),
        blocks_(panels(conv.channels_per_offset(), blocking_.channels)),
        tap_blocks_(panels(conv.taps, blocking_.taps)) {
    const int64_t most_copies =
        kCopyBytes / static_cast<int64_t>(sizeof(A)) / std::max<int64_t>(size_, 1);
    shared_ = kernel_enabled("deform_conv2d.groups_together") && !conv.depthwise() &&
              conv.offset_groups >= kManyGroups && blocks_ * tap_blocks_ == 1 && most_copies > 1 &&
              items_ > 1 && GradientTile<T>::fits(conv.outputs, tiling_.pixels());
    const int64_t wanted = shared_ ? kSharing : panels(kJobs, jobs());
    slices_ = std::clamp<int64_t>(std::min({wanted, most_copies, items_}), 1, kJobs);
    by_image_ = !shared_ && blocks_ == 1 && conv.batch > 0 && conv.batch <= most_copies;
    if (by_image_) {
      const int64_t each = std::min(panels(wanted, conv.batch), most_copies / conv.batch);
      slices_ = conv.batch * std::clamp<int64_t>(each, 1, std::max<int64_t>(tiling_.count(), 1));
    }
    jobs_together_ = shared_ ? jobs() / panels(kSharing, slices_) : 1;
  }

  void run() const {
    if (context_.reports()) {
      context_.report(
          shared_ ? "groups_together" : "jobs", "W",
          str(jobs(), " blocks, ", jobs_together_, " in a job; ", slices_, " parts of the pixels"));
    }
    const Buffer<A> copies(context_, slices_ > 1 ? slices_ * size_ : 0);
    context_.parallel_for(panels(jobs(), jobs_together_) * slices_, 1, [&](int64_t index, int64_t) {
      const int64_t slice = index % slices_, first = index / slices_ * jobs_together_;
      const Range own{first, std::min(first + jobs_together_, jobs())};
      if (slices_ == 1) {
        run_jobs(own, {0, items_}, out_);
      } else {
        run_jobs(own, {begin(slice), begin(slice + 1)}, copy(copies.get() + slice * size_));
      }
    });
    if (slices_ > 1) add_copies(copies.get());
  }

  // Used instead of run() by tasks that sample X for another gradient, one for each offset group of
  // each image: start_images(); in each task, for each block of taps, start() of a Total, then for
  // each tile add() for all strips and end_tile(); finish_images() after the tasks. The slices are
  // those of run(), so the sums are equal.
  bool takes_images() const { return by_image_ && conv_.group_outputs() <= kOutputs<A>; }
  void start_images() {
    if (slices_ > 1) sums_.emplace(context_, slices_ * size_);
  }
  class Total {
   public:
    explicit Total(const WeightGradient& whole)
        : whole_(whole), size_(whole.sums_size()), sums_(whole.context_, size_) {}
    void start(int64_t offset_group, int64_t first_tap) {
      job_ = whole_.job(offset_group * whole_.tap_blocks_ + first_tap / whole_.blocking_.taps);
      sums_.zero(size_);
    }
    void add(const Tile& tile, const Range& strip, const A* sampled,
             const GradientStrip<T>& gradient) const {
      whole_.for_each_part(job_, 0, sums_.get(), [&](const Job& own, const Share& share, A* part) {
        whole_.add_strip(own, share, tile, strip, sampled, gradient, part);
      });
    }
    void end_tile(int64_t item) const {
      const int64_t slice = whole_.slice_of(item);
      if (item + 1 != whole_.begin(slice + 1)) return;
      whole_.for_each_part(
          job_, 0, sums_.get(), [&](const Job& own, const Share& share, const A* part) {
            if (whole_.slices_ == 1) return whole_.write(own, share, part, whole_.out_);
            whole_.write(own, share, part, whole_.copy(whole_.sums_->get() + slice * whole_.size_));
          });
      sums_.zero(size_);
    }

   private:
    const WeightGradient& whole_;
    int64_t size_;
    Job job_{};
    Buffer<A> sums_;
  };
  void finish_images() const {
    if (slices_ > 1) add_copies(sums_->get());
  }

  // Used instead of run() by a pass over the same tiles that samples X, too: start(), then for
  // each tile of each image add() for all strips of all offset groups, and end_tile().
  bool takes_samples() const { return shared_ && conv_.group_outputs() <= kOutputs<A>; }
  void start() {
    sums_.emplace(context_, jobs() * sums_size());
    totals_.emplace(context_, jobs() * sums_size());
    sums_->zero(jobs() * sums_size());
    totals_->zero(jobs() * sums_size());
  }
  void add(int64_t offset_group, const Tile& tile, const Range& strip, const A* sampled,
           const GradientStrip<T>& gradient) const {
    for_each_part(job(offset_group), 0, sums_->get() + offset_group * sums_size(),
                  [&](const Job& own, const Share& share, A* part) {
                    add_strip(own, share, tile, strip, sampled, gradient, part);
                  });
  }
  // Uses the same slices as run(), so the sums are equal.
  void end_tile(int64_t item) const {
    if (item + 1 != begin(slice_of(item) + 1)) return;
    context_.parallel_for(jobs(), 1, [&](int64_t index, int64_t) {
      A *sums = sums_->get() + index * sums_size(), *totals = totals_->get() + index * sums_size();
      for (int64_t i = 0; i < sums_size(); ++i) totals[i] += sums[i];
      std::fill_n(sums, sums_size(), A{});
      if (item + 1 < items_) return;
      for_each_part(job(index), 0, totals, [&](const Job& own, const Share& share, const A* part) {
        write(own, share, part, out_);
      });
    });
  }

 private:
  static constexpr int64_t kJobs = 16;
  static constexpr int64_t kSharing = 8;  // runs of several jobs
  static constexpr int64_t kCopyBytes = 640 * 1024;

  Job job(int64_t index) const {
    const int64_t k = index % tap_blocks_ * blocking_.taps, unit = index / tap_blocks_;
    const int64_t group = unit / blocks_, length = conv_.channels_per_offset();
    const int64_t c = unit % blocks_ * blocking_.channels;
    return {group,
            {k, std::min(k + blocking_.taps, conv_.taps)},
            {group * length + c, group * length + std::min(c + blocking_.channels, length)}};
  }
  int64_t jobs() const { return conv_.offset_groups * blocks_ * tap_blocks_; }
  int64_t begin(int64_t slice) const {
    if (!by_image_) return (items_ * slice + slices_ - 1) / slices_;
    const int64_t each = slices_ / conv_.batch, tiles = tiling_.count();
    return slice / each * tiles + (tiles * (slice % each) + each - 1) / each;
  }
  int64_t slice_of(int64_t item) const {
    if (!by_image_) return item * slices_ / items_;
    const int64_t each = slices_ / conv_.batch, tiles = tiling_.count();
    return item / tiles * each + item % tiles * each / tiles;
  }
  // The number of outputs that one pass of a job computes.
  int64_t outputs() const { return std::min(conv_.group_outputs(), kOutputs<A>); }
  int64_t sums_size() const {
    const int64_t each = std::min(conv_.group_channels(), blocking_.channels);
    const int64_t shares = conv_.groups == 1 ? 1 : panels(blocking_.channels, each) + 1;
    return outputs() * std::max(row_of<A>(blocking_.taps, blocking_.channels),
                                shares * apart_row<A>(blocking_.taps, each));
  }
  // Calls body(job, share, sums) for each share of a job, outputs from `first` of a weight group
  // on.
  template <class Body>
  void for_each_part(const Job& own, int64_t first, A* sums, const Body& body) const {
    for_each_share(conv_, own.channels, {0, conv_.outputs}, [&](const Share& all) {
      Share share = all;
      if (!conv_.depthwise()) {
        share.outputs.first += first;
        share.outputs.last = std::min(share.outputs.first + outputs(), all.outputs.last);
      }
      body(own, share, sums);
      sums += outputs() * sums_row(own, share);
    });
  }
  // Elements from one output of a share to the next in the sums, padded to whole vectors, whose
  // last elements are unused.
  int64_t sums_row(const Job& job, const Share& share) const {
    const int64_t taps = job.taps.count(), count = share.channels.count();
    return conv_.depthwise() ? taps * count : apart_row<A>(taps, count);
  }

  // W in row-major order.
  StridedView<A> copy(A* data) const {
    StridedView<A> field;
    field.data = data;
    field.present = true;
    const int64_t steps[] = {conv_.group_channels() * conv_.taps, conv_.taps, conv_.kernel_width,
                             1};
    std::copy_n(steps, 4, field.step);
    return field;
  }

  void add_copies(const A* copies) const {
    const int64_t C = conv_.group_channels(), width = conv_.kernel_width;
    context_.parallel_for(size_ / conv_.taps, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        for (int64_t k = 0; k < conv_.taps; ++k) {
          const A* from = copies + line * conv_.taps + k;
          A sum = from[0];
          for (int64_t slice = 1; slice < slices_; ++slice) sum += from[slice * size_];
          *out_.at(line / C, line % C, k / width, k % width) = static_cast<T>(sum);
        }
      }
    });
  }

  template <class To>
  void run_jobs(const Range& jobs, const Range& items, const StridedView<To>& out) const;
  void add_strip(const Job& job, const Share& share, const Tile& tile, const Range& pixels,
                 const A* sampled, const GradientStrip<T>& gradient, A* sums) const;
  template <class To>
  void write(const Job& job, const Share& share, const A* sums, const StridedView<To>& out) const;

  const KernelContext& context_;
  const ConvShape& conv_;
  const Inputs<T>& inputs_;
  const Tensor& gradient_;
  Column column_;
  StridedView<T> out_;
  int64_t size_;
  Blocking blocking_;
  Tiling tiling_;
  int64_t items_;                // tiles of all images
  int64_t blocks_, tap_blocks_;  // of one offset group; of the kernel
  // Jobs that run together share the gradient of Y. Those of a depthwise convolution read different
  // channels of it, so they share nothing.
  bool shared_;
  bool by_image_;  // no slice has tiles of two images
  int64_t slices_, jobs_together_;
  std::optional<Buffer<A>> sums_, totals_;
};

// All weight groups are computed in one pass over the tiles; a large number of outputs takes
// several passes.
template <class T>
template <class To>
void WeightGradient<T>::run_jobs(const Range& jobs, const Range& items,
                                 const StridedView<To>& out) const {
  const Buffer<A> sums(context_, jobs.count() * sums_size());
  Columns<T> columns(context_, conv_, inputs_, blocking_, tiling_.pixels(), 2 * kColumns<A>);
  std::optional<GradientTile<T>> whole;
  if (shared_) whole.emplace(context_, gradient_, conv_.outputs, tiling_.pixels());
  const GradientStrip<T> gradient(context_, gradient_,
                                  conv_.depthwise() ? blocking_.channels : outputs(),
                                  columns.strip(), shared_ ? &*whole : nullptr);
  for (int64_t first = 0; first < conv_.group_outputs(); first += outputs()) {
    const auto sums_of = [&](int64_t index) {
      return sums.get() + (index - jobs.first) * sums_size();
    };
    sums.zero(jobs.count() * sums_size());
    for (int64_t item = items.first; item < items.last; ++item) {
      const Tile tile = tiling_.at(item / tiling_.count(), item % tiling_.count());
      if (shared_) whole->read(tile, {0, conv_.outputs}, 0);
      for (int64_t index = jobs.first; index < jobs.last; ++index) {
        const Job own = job(index);
        columns.place(conv_, tile, own.offset_group, own.taps);
        columns.in_parts(own.channels, own.channels.last, [&](const Range& pixels) {
          for (int64_t p = pixels.first; p < pixels.last; p += columns.strip()) {
            const Range strip{p, std::min(p + columns.strip(), pixels.last)};
            const A* sampled = columns.sample(column_, own.channels, strip);
            for_each_part(own, first, sums_of(index), [&](const Job&, const Share& share, A* to) {
              add_strip(own, share, tile, strip, sampled, gradient, to);
            });
          }
        });
      }
    }
    for (int64_t index = jobs.first; index < jobs.last; ++index) {
      for_each_part(
          job(index), first, sums_of(index),
          [&](const Job& own, const Share& share, const A* from) { write(own, share, from, out); });
    }
  }
}

// sums[o][tap][c], of a share.
template <class T>
void WeightGradient<T>::add_strip(const Job& job, const Share& share, const Tile& tile,
                                  const Range& pixels, const A* sampled,
                                  const GradientStrip<T>& gradient, A* sums) const {
  const int64_t taps = job.taps.count(), count = share.channels.count();
  const int64_t width = job.channels.count(), row = row_of<A>(taps, width);
  if (conv_.depthwise()) {
    const MatrixView<A> rows = gradient.by_pixel(tile, pixels, share.outputs);
    for (int64_t p = 0; p < pixels.count(); ++p, sampled += row) {
      const A* const from = rows.data + p * rows.row;
      for (int64_t k = 0; k < taps; ++k) {
        add_channels(from, sampled + k * width, count, sums + k * count);
      }
    }
    return;
  }
  const int64_t length = sums_row(job, share), outputs = share.outputs.count();
  sampled += share.channels.first - job.channels.first;
  gradient.by_output(
      tile, pixels, share.outputs, length, [&](const A* data, int64_t data_row, const Range& part) {
        const A* right = sampled + part.first * row;
        if (count == width) {
          return multiply(outputs, length, Runs{1, part.count(), 0}, MatrixView<A>{data, data_row},
                          right, row, kPanel<A>, sums, length);
        }
        A apart[kApart<A> + kPanel<A>] = {};
        const int64_t most = kApart<A> / length;
        for (int64_t p = 0; p < part.count(); p += most) {
          const int64_t some = std::min(most, part.count() - p);
          copy_share(right + p * row, row, width, apart, length, count, some, taps, count);
          multiply(outputs, length, Runs{1, some, 0}, MatrixView<A>{data + p, data_row}, apart,
                   length, kPanel<A>, sums, length);
        }
      });
}

template <class T>
template <class To>
void WeightGradient<T>::write(const Job& job, const Share& share, const A* sums,
                              const StridedView<To>& out) const {
  const int64_t count = share.channels.count(), width = conv_.kernel_width;
  const bool depthwise = conv_.depthwise();  // output c has channel c alone
  const int64_t step = depthwise ? out.step[0] : out.step[1];
  const int64_t last = depthwise ? share.outputs.first + 1 : share.outputs.last;
  const int64_t taps = job.taps.count(), first = share.channels.first % conv_.group_channels();
  const int64_t row = sums_row(job, share);
  for (int64_t o = share.outputs.first; o < last; ++o, sums += row) {
    if (out.step[3] == 1 && out.step[2] == width) {
      To* to = out.at(o, first, 0, 0) + job.taps.first;
      transpose_copy(sums, count, to, step, taps, count);
      continue;
    }
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t tap = job.taps.first + k;
      To* to = out.at(o, first, tap / width, tap % width);
      if (step == 1) {
        narrow(sums + k * count, count, to);
        continue;
      }
      for (int64_t c = 0; c < count; ++c) to[c * step] = static_cast<To>(sums[k * count + c]);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
