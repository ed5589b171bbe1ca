// The gradient of W: sum over pixels of G A, or of G A' for the double backward.
//
// A job owns a block of channels and taps, so jobs write different elements. Where there are few
// jobs, tiles are split into slabs as well; each slab has its own copy of the gradient, and the
// copies are added in order.
#pragma once

#include "columns.h"
#include "transport.h"

namespace myops::deform::MYOPS_ISA {

// sums += a * b, element by element.
template <class A>
inline void add_channels(const A* a, const A* b, int64_t count, A* sums) {
  int64_t c = 0;
  for (; c + kLanes<A> <= count; c += kLanes<A>) {
    store(sums + c, fma(load(a + c), load(b + c), load(sums + c)));
  }
  for (; c < count; ++c) sums[c] = fma(a[c], b[c], sums[c]);
}

template <class T>
class WeightGradient {
 public:
  using A = Accumulate<T>;

  WeightGradient(const KernelContext& context, const Problem& problem, const Inputs<T>& inputs,
                 const Tensor& gradient, Column column, const Tensor& out)
      : context_(context),
        problem_(problem),
        inputs_(inputs),
        gradient_(gradient),
        column_(column),
        out_(out),
        size_(out.elements()),
        blocking_(Blocking::of_gradients<A>(problem)),
        tiling_(problem, std::min(kPixels<A>, kEntries<A> / blocking_.taps)),
        items_(problem.batch * tiling_.count()) {}

  void run() const {
    const int64_t blocks = panels(problem_.field_channels(), blocking_.channels);
    const int64_t tap_blocks = panels(problem_.taps, blocking_.taps);
    const int64_t jobs = problem_.offset_groups * blocks * tap_blocks;
    const int64_t room = kCopyBytes / static_cast<int64_t>(sizeof(A)) / size_;
    const int64_t slabs =
        std::clamp<int64_t>(std::min({panels(kJobs, jobs), room, items_}), 1, kJobs);
    const Buffer<A> copies(context_, slabs > 1 ? slabs * size_ : 0);
    context_.parallel_for(jobs * slabs, 1, [&](int64_t index, int64_t) {
      const int64_t slab = index % slabs, job = index / slabs;
      const int64_t k = job % tap_blocks * blocking_.taps, unit = job / tap_blocks;
      const int64_t group = unit / blocks, length = problem_.field_channels();
      const int64_t c = unit % blocks * blocking_.channels;
      const Job own{group,
                    {k, std::min(k + blocking_.taps, problem_.taps)},
                    {group * length + c, group * length + std::min(c + blocking_.channels, length)},
                    {items_ * slab / slabs, items_ * (slab + 1) / slabs}};
      if (slabs == 1) {
        run_job(own, out_);
      } else {
        run_job(own, copy(copies.get() + slab * size_));
      }
    });
    if (slabs > 1) add_copies(copies.get(), slabs);
  }

 private:
  static constexpr int64_t kJobs = 16;
  static constexpr int64_t kCopyBytes = 640 * 1024;

  struct Job {
    int64_t offset_group;
    Range taps, channels, items;
  };

  // W in row-major order.
  Field<A> copy(A* data) const {
    Field<A> field;
    field.data = data;
    field.present = true;
    const int64_t steps[] = {problem_.group_channels() * problem_.taps, problem_.taps,
                             problem_.kernel_width, 1};
    std::copy_n(steps, 4, field.step);
    return field;
  }

  void add_copies(const A* copies, int64_t slabs) const {
    const int64_t C = problem_.group_channels(), width = problem_.kernel_width;
    context_.parallel_for(size_ / problem_.taps, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        for (int64_t k = 0; k < problem_.taps; ++k) {
          const A* from = copies + line * problem_.taps + k;
          A sum = from[0];
          for (int64_t slab = 1; slab < slabs; ++slab) sum += from[slab * size_];
          *out_.at(line / C, line % C, k / width, k % width) = static_cast<T>(sum);
        }
      }
    });
  }

  template <class To>
  void run_job(const Job& job, const Field<To>& out) const;
  void add_strip(const Job& job, const Share& share, const Tile& tile, const Range& pixels,
                 const A* sampled, GradientStrip<T>& gradient, A* sums) const;
  template <class To>
  void write(const Job& job, const Share& share, const A* sums, const Field<To>& out) const;

  const KernelContext& context_;
  const Problem& problem_;
  const Inputs<T>& inputs_;
  const Tensor& gradient_;
  Column column_;
  Field<T> out_;
  int64_t size_;
  Blocking blocking_;
  Tiling tiling_;
  int64_t items_;  // tiles of all images
};

// Groups share a pass over the tiles; the many outputs of a large group take several.
template <class T>
template <class To>
void WeightGradient<T>::run_job(const Job& job, const Field<To>& out) const {
  const int64_t O = problem_.group_outputs(), most = std::min(O, kOutputs<A>);
  const int64_t size = most * job.taps.count() * job.channels.count();
  const Buffer<A> sums(context_, size);
  Columns<T> columns(context_, problem_, inputs_, blocking_, tiling_.pixels(), 2 * kColumns<A>);
  GradientStrip<T> gradient(context_, gradient_, problem_.depthwise() ? job.channels.count() : most,
                            columns.strip());
  for (int64_t first = 0; first < O; first += most) {
    const auto for_each_part = [&](const auto& body) {
      A* part = sums.get();
      for_each_share(problem_, job.channels, {0, problem_.outputs}, [&](const Share& whole) {
        Share share = whole;
        if (!problem_.depthwise()) {
          share.outputs.first += first;
          share.outputs.last = std::min(share.outputs.first + most, whole.outputs.last);
        }
        body(share, part);
        part += most * job.taps.count() * share.channels.count();
      });
    };
    sums.zero(size);
    for (int64_t item = job.items.first; item < job.items.last; ++item) {
      const Tile tile = tiling_.at(item / tiling_.count(), item % tiling_.count());
      columns.place(problem_, tile, job.offset_group, job.taps);
      columns.in_parts(job.channels, job.channels.last, [&](const Range& pixels) {
        for (int64_t p = pixels.first; p < pixels.last; p += columns.strip()) {
          const Range strip{p, std::min(p + columns.strip(), pixels.last)};
          const A* sampled = columns.sample(column_, job.channels, strip);
          for_each_part([&](const Share& share, A* part) {
            add_strip(job, share, tile, strip, sampled, gradient, part);
          });
        }
      });
    }
    for_each_part([&](const Share& share, const A* part) { write(job, share, part, out); });
  }
}

// sums[o][tap][c], of a share.
template <class T>
void WeightGradient<T>::add_strip(const Job& job, const Share& share, const Tile& tile,
                                  const Range& pixels, const A* sampled, GradientStrip<T>& gradient,
                                  A* sums) const {
  const int64_t taps = job.taps.count(), count = share.channels.count();
  const int64_t pixel = pixel_of<A>(job.channels.count()), row = taps * pixel;
  if (problem_.depthwise()) {
    const A* from = gradient.by_pixel(tile, pixels, share.outputs);
    for (int64_t p = 0; p < pixels.count(); ++p, from += count, sampled += row) {
      for (int64_t k = 0; k < taps; ++k) {
        add_channels(from, sampled + k * pixel, count, sums + k * count);
      }
    }
    return;
  }
  const Runs runs = columns_of(share, taps, pixel);
  const Rows<A> left{gradient.by_output(tile, pixels, share.outputs), gradient.row()};
  sampled += share.channels.first - job.channels.first;
  for (int64_t run = 0; run < runs.count; ++run, sampled += runs.step, sums += runs.length) {
    multiply(share.outputs.count(), runs.length, Runs{1, pixels.count(), 0}, left, sampled, row,
             kPanel<A>, sums, runs.count * runs.length);
  }
}

template <class T>
template <class To>
void WeightGradient<T>::write(const Job& job, const Share& share, const A* sums,
                              const Field<To>& out) const {
  const int64_t count = share.channels.count(), width = problem_.kernel_width;
  const bool depthwise = problem_.depthwise();  // output c has channel c alone
  const int64_t step = depthwise ? out.step[0] : out.step[1];
  const int64_t last = depthwise ? share.outputs.first + 1 : share.outputs.last;
  const int64_t taps = job.taps.count(), first = share.channels.first % problem_.group_channels();
  for (int64_t o = share.outputs.first; o < last; ++o, sums += taps * count) {
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
