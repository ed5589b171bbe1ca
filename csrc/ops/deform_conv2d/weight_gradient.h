// The gradient of W: sum over pixels of G A, or of G A' for the double backward. Jobs and slices
// are those of weight_jobs.h.
#pragma once

#include "columns.h"
#include "sample_gradient.h"
#include "weight_jobs.h"

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

  WeightGradient(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
                 const Tensor& gradient, Column column, const Tensor& out)
      : context_(context),
        conv_(conv),
        inputs_(inputs),
        gradient_(gradient),
        column_(column),
        out_(out),
        size_(out.elements()),
        jobs_(conv, size_) {}

  void run() const {
    const int64_t slices = jobs_.slices();
    if (context_.reports()) {
      context_.report("jobs", "W", str(jobs_.count(), " jobs; ", slices, " parts of the pixels"));
    }
    const Buffer<A> copies(context_, slices > 1 ? slices * size_ : 0);
    context_.parallel_for(jobs_.count() * slices, 1, [&](int64_t index, int64_t) {
      const WeightJob job = jobs_.at(index / slices);
      const int64_t slice = index % slices;
      if (slices == 1) return run_job(job, jobs_.slice(slice), out_);
      run_job(job, jobs_.slice(slice), copy(copies.get() + slice * size_));
    });
    if (slices > 1) add_copies(copies.get());
  }

  // Used instead of run() by tasks that sample X for another gradient, one for each offset group of
  // each image: start_images(); in each task, for each block of taps, start() of a Total, then for
  // each tile add() for all strips and end_tile(); finish_images() after the tasks. The slices are
  // those of run(), so the sums are equal.
  bool takes_images() const { return jobs_.by_image() && conv_.group_outputs() <= kOutputs<A>; }
  void start_images() {
    if (jobs_.slices() > 1) sums_.emplace(context_, jobs_.slices() * size_);
  }
  class Total {
   public:
    explicit Total(const WeightGradient& whole)
        : whole_(whole), size_(whole.jobs_.sums_size()), sums_(whole.context_, size_) {}
    void start(int64_t offset_group, int64_t first_tap) {
      job_ = whole_.jobs_.of_group(offset_group, first_tap);
      sums_.zero(size_);
    }
    void add(const Tile& tile, const Range& strip, const A* sampled,
             const GradientStrip<T>& gradient) const {
      whole_.add_strip(job_, tile, strip, sampled, gradient, sums_.get());
    }
    void end_tile(int64_t item) const {
      const int64_t slice = whole_.jobs_.slice_of(item);
      if (item + 1 != whole_.jobs_.slice(slice).last) return;
      if (whole_.jobs_.slices() == 1) {
        whole_.write(job_, sums_.get(), whole_.out_);
      } else {
        whole_.write(job_, sums_.get(), whole_.copy(whole_.sums_->get() + slice * whole_.size_));
      }
      sums_.zero(size_);
    }

   private:
    const WeightGradient& whole_;
    int64_t size_;
    WeightJob job_{};
    Buffer<A> sums_;
  };
  void finish_images() const {
    if (jobs_.slices() > 1) add_copies(sums_->get());
  }

 private:
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
          for (int64_t slice = 1; slice < jobs_.slices(); ++slice) sum += from[slice * size_];
          *out_.at(line / C, line % C, k / width, k % width) = static_cast<T>(sum);
        }
      }
    });
  }

  template <class To>
  void run_job(const WeightJob& job, const Range& items, const StridedView<To>& out) const;
  void add_strip(const WeightJob& job, const Tile& tile, const Range& pixels, const A* sampled,
                 const GradientStrip<T>& gradient, A* sums) const;
  void add_share(const WeightJob& job, const Share& share, const Tile& tile, const Range& pixels,
                 const A* sampled, const GradientStrip<T>& gradient, A* sums) const;
  template <class To>
  void write(const WeightJob& job, A* sums, const StridedView<To>& out) const;
  template <class To>
  void write_share(const WeightJob& job, const Share& share, const A* sums,
                   const StridedView<To>& out) const;

  const KernelContext& context_;
  const ConvShape& conv_;
  const Inputs<T>& inputs_;
  const Tensor& gradient_;
  Column column_;
  StridedView<T> out_;
  int64_t size_;
  WeightJobs<A> jobs_;
  std::optional<Buffer<A>> sums_;  // a copy of W for each slice
};

// All weight groups are computed in one pass over the tiles.
template <class T>
template <class To>
void WeightGradient<T>::run_job(const WeightJob& job, const Range& items,
                                const StridedView<To>& out) const {
  const Tiling& tiling = jobs_.tiling();
  const Buffer<A> sums(context_, jobs_.sums_size());
  Columns<T> columns(context_, conv_, inputs_, jobs_.blocking(), tiling.pixels(), 2 * kColumns<A>);
  const GradientStrip<T> gradient(context_, gradient_,
                                  conv_.depthwise() ? jobs_.blocking().channels : jobs_.outputs(),
                                  columns.strip());
  sums.zero(jobs_.sums_size());
  for (int64_t item = items.first; item < items.last; ++item) {
    const Tile tile = tiling.at(item / tiling.count(), item % tiling.count());
    columns.place(conv_, tile, job.offset_group, job.taps);
    columns.in_parts(job.channels, job.channels.last, [&](const Range& pixels) {
      for (int64_t p = pixels.first; p < pixels.last; p += columns.strip()) {
        const Range strip{p, std::min(p + columns.strip(), pixels.last)};
        const A* sampled = columns.sample(column_, job.channels, strip);
        add_strip(job, tile, strip, sampled, gradient, sums.get());
      }
    });
  }
  write(job, sums.get(), out);
}

template <class T>
void WeightGradient<T>::add_strip(const WeightJob& job, const Tile& tile, const Range& pixels,
                                  const A* sampled, const GradientStrip<T>& gradient,
                                  A* sums) const {
  jobs_.for_each_share(job, sums, [&](const Share& share, A* to) {
    add_share(job, share, tile, pixels, sampled, gradient, to);
  });
}
template <class T>
template <class To>
void WeightGradient<T>::write(const WeightJob& job, A* sums, const StridedView<To>& out) const {
  jobs_.for_each_share(
      job, sums, [&](const Share& share, const A* from) { write_share(job, share, from, out); });
}

// sums[o][tap][c], of a share.
template <class T>
void WeightGradient<T>::add_share(const WeightJob& job, const Share& share, const Tile& tile,
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
  const int64_t length = jobs_.sums_row(job, share), outputs = share.outputs.count();
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
void WeightGradient<T>::write_share(const WeightJob& job, const Share& share, const A* sums,
                                    const StridedView<To>& out) const {
  const int64_t count = share.channels.count(), width = conv_.kernel_width;
  const bool depthwise = conv_.depthwise();  // output c has channel c alone
  const int64_t step = depthwise ? out.step[0] : out.step[1];
  const int64_t last = depthwise ? share.outputs.first + 1 : share.outputs.last;
  const int64_t taps = job.taps.count(), first = share.channels.first % conv_.group_channels();
  const int64_t row = jobs_.sums_row(job, share);
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
