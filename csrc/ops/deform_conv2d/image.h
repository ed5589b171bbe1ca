// Windows of X in the layout that sampling reads: the channels of a pixel contiguous, in the
// accumulation type.
//
// The bounding box of the sampled pixels is copied into a window of bounded size. The box may
// extend one pixel beyond each side of X; these pixels are zeros, so that sampling needs no tests
// at the border. The gradient of X follows the same steps in reverse order.
#pragma once

#include "taps.h"
#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// A window with some channels; `data` is the first pixel of the box.
template <class A>
struct WindowView {
  A* data = nullptr;
  int64_t row = 0, pixel = 0;
};

// The corners of the cell that begins at `place`.
template <class A>
struct Corners {
  A* const at[4];
  Corners(const WindowView<A>& view, int64_t place)
      : at{view.data + place, view.data + place + view.pixel, view.data + place + view.row,
           view.data + place + view.row + view.pixel} {}
};

// Copies of the corners of a cell of X that is read in place, with zeros for corners outside, and
// behind the last channel, where memory may end.
template <class A>
class CopiedCorners {
 public:
  template <class T>
  CopiedCorners(const WindowView<const A>& X, const Taps<T>& taps, int64_t entry,
                int64_t channels) {
    for (int64_t number = 0; number < 4; ++number) {
      const int64_t y = taps.row(entry) + number / 2, x = taps.column(entry) + number % 2;
      A* const to = copies_ + number * kMostChannels;
      std::fill_n(to, pixel_of<A>(channels), A{});
      if (taps.inside(y, x)) std::copy_n(X.data + y * X.row + x * X.pixel, channels, to);
      at[number] = to;
    }
  }
  const A* at[4];

 private:
  A copies_[4 * kMostChannels];
};

// The largest number of elements that a window needs: those of the whole image, or `most` if that
// is less, or half of `most` if pixels have few channels.
template <class A>
inline int64_t window_size(const ConvShape& conv, int64_t most) {
  const double all = static_cast<double>(conv.height + 2) * static_cast<double>(conv.width + 2) *
                     static_cast<double>(pixel_of<A>(conv.channels_per_offset()));
  const bool few = conv.channels_per_offset() <= kFewChannels;
  return static_cast<int64_t>(std::min(all, static_cast<double>(few ? most / 2 : most)));
}

// Reads X, or its direction X'.
template <class T>
class Source {
 public:
  using A = Accumulate<T>;

  // `hold`: a copy of the image may be made for cells that are far apart.
  Source(const KernelContext& context, const ConvShape& conv, const StridedView<const T>& field,
         int64_t capacity, bool hold = false)
      : context_(context),
        view_(field),
        height_(conv.height),
        width_(conv.width),
        window_(context, view_ ? capacity : 0),
        hold_(hold && view_.step[1] != 1) {}
  explicit operator bool() const { return static_cast<bool>(view_); }

  // Whether samples can be computed from X itself, instead of from a window: offsets of cells are
  // numbers of 32 bits, of which negative ones have a meaning of their own. Of an image of one row
  // or column, all cells are partly outside.
  bool in_place() const {
    return std::is_same_v<T, A> && view_.channels_last() && height_ > 1 && width_ > 1 &&
           view_.step[2] >= 0 && view_.step[3] >= 0 &&
           height_ * view_.step[2] + width_ * view_.step[3] <= INT32_MAX;
  }
  // Elements from the first pixel of an image to the end of memory.
  int64_t rest(int64_t image) const { return view_.end - view_.at(image, 0, 0, 0); }
  WindowView<const A> whole(int64_t image) const {
    if constexpr (std::is_same_v<T, A>) {
      return {view_.at(image, 0, 0, 0), view_.step[2], view_.step[3]};
    } else {
      return {};
    }
  }

  // Copies the cells of entries that are far apart, four pixels each, which must fit the window:
  // two rows, in which each entry has two pixels. See Taps::number().
  WindowView<const A> read_cells(int64_t image, const Range& channels, const Taps<T>& taps,
                                 const Entries& entries) {
    if (hold_) hold(image, channels);
    const int64_t pixel = pixel_of<A>(channels.count());
    const WindowView<const A> view{window_.get(), 2 * entries.taps() * entries.pixels() * pixel,
                                   pixel};
    A* to = window_.get();
    for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
      for (int64_t p = entries.first; p < entries.last; ++p, to += 2 * pixel) {
        const int64_t entry = k * taps.stride() + p;
        if (taps.missed(entry)) continue;
        const int64_t y = taps.row(entry), x = taps.column(entry);
        if (hold_ && y >= 0 && y + 1 < height_ && x >= 0 && x + 1 < width_) {
          const A* const from = held_->get() + (y * width_ + x) * pixel;
          copy_pair(from, pixel, to);
          copy_pair(from + width_ * pixel, pixel, to + view.row);
          continue;
        }
        for (int64_t corner = 0; corner < 4; ++corner) {
          copy_any(image, channels, y + corner / 2, x + corner % 2, pixel,
                   to + corner / 2 * view.row + corner % 2 * pixel);
        }
      }
    }
    return view;
  }

  // Copies channels of the pixels of `box`, which must fit the window. Valid until the next call.
  WindowView<const A> read(int64_t image, const Range& channels, const Box& box) const {
    const int64_t pixel = pixel_of<A>(channels.count());
    const WindowView<const A> view{window_.get(), box.columns() * pixel, pixel};
    const Box inside{std::max<int64_t>(box.top, 0), std::min(box.bottom, height_),
                     std::max<int64_t>(box.left, 0), std::min(box.right, width_)};
    clear_border(box, inside, view);
    if (inside.top >= inside.bottom || inside.left >= inside.right) return view;
    copy_inside(
        image, channels, inside, view,
        window_.get() + (inside.top - box.top) * view.row + (inside.left - box.left) * pixel);
    return view;
  }

 private:
  // Writes the zeros around X.
  void clear_border(const Box& box, const Box& inside, const WindowView<const A>& view) const {
    A* to = window_.get();
    for (int64_t y = box.top; y < box.bottom; ++y, to += view.row) {
      if (y < inside.top || y >= inside.bottom || inside.left >= inside.right) {
        std::fill_n(to, view.row, A{});
        continue;
      }
      std::fill_n(to, (inside.left - box.left) * view.pixel, A{});
      std::fill_n(to + (inside.right - box.left) * view.pixel,
                  (box.right - inside.right) * view.pixel, A{});
    }
  }

  void copy_inside(int64_t image, const Range& channels, const Box& inside,
                   const WindowView<const A>& view, A* to) const {
    if (view_.step[3] == 1 && view_.step[1] != 1) {
      return copy_planes(image, channels, inside, view, to);
    }
    for (int64_t y = inside.top; y < inside.bottom; ++y, to += view.row) {
      copy_pixels(view_.at(image, channels.first, y, inside.left), channels.count(),
                  inside.columns(), view.pixel, to);
    }
  }

  // In NCHW, a few channels are copied for all lines before the next channels, so that memory is
  // read in order. Short lines without gaps are read as one.
  void copy_planes(int64_t image, const Range& channels, const Box& inside,
                   const WindowView<const A>& view, A* to) const {
    const int64_t columns = inside.columns(), lines = inside.bottom - inside.top;
    const bool together = columns == width_ && view_.step[2] == width_;
    const PixelLines at{view.pixel, columns, view.row - columns * view.pixel};
    for (int64_t c = 0; c < channels.count(); c += kLanes<A>) {
      const int64_t count = std::min(kLanes<A>, channels.count() - c);
      const T* from = view_.at(image, channels.first + c, inside.top, inside.left);
      if (together) {
        planes_to_pixels(from, view_.step[1], count, lines * columns, to + c, at);
        continue;
      }
      for (int64_t y = 0; y < lines; ++y) {
        planes_to_pixels(from + y * view_.step[2], view_.step[1], count, columns,
                         to + c + y * view.row, at);
      }
    }
  }

  // The pixels of a line. Elements behind the channels of a pixel are set to 0, as those of
  // planes_to_pixels().
  void copy_pixels(const T* from, int64_t channels, int64_t columns, int64_t pixel, A* to) const {
    const int64_t step = view_.step[3];
    if (view_.step[1] != 1) {
      for (int64_t x = 0; x < columns; ++x, from += step, to += pixel) {
        widen(from, view_.step[1], channels, to);
        std::fill_n(to + channels, pixel - channels, A{});
      }
      return;
    }
    int64_t done = 0;
    if (pixel == kQuad<A>) {
      done = copy_several<kQuad<A>>(from, channels, columns, to);
    } else if (pixel == kHalf<A>) {
      done = copy_several<kHalf<A>>(from, channels, columns, to);
    }
    from += done * step;
    to += done * pixel;
    const bool apart = step != channels;
    for (int64_t x = done; x < columns; ++x, from += step, to += pixel) {
      if (apart) prefetch_channels(from + kPrefetchPixels * step, channels);
      copy_pixel(from, channels, to);
    }
  }
  // Several pixels of kSide elements in one vector, as long as memory behind the last channel
  // belongs to X. Returns the number of pixels that were copied.
  template <int64_t kSide>
  int64_t copy_several(const T* from, int64_t channels, int64_t columns, A* to) const {
    constexpr int64_t L = kLanes<A>, kCount = L / kSide;
    if constexpr (kCount == 1) return 0;
    using Bits = Lanes<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>, L>;
    const int64_t step = view_.step[3];
    Bits used{};
    for (int64_t lane = 0; lane < L; ++lane) used[lane] = lane % kSide < channels ? -1 : 0;
    int64_t x = 0;
    for (; x + kCount <= columns; x += kCount, from += kCount * step, to += L) {
      if (view_.end - from < (kCount - 1) * step + kSide) break;
      __builtin_prefetch(from + kPrefetchPixels * step);
      store(to, (Vector<A>)((Bits)load_groups_wide<kSide, A>(from, step) & used));
    }
    return x;
  }
  // Copies an image in the order of pixels, unless it was the last one.
  void hold(int64_t image, const Range& channels) {
    if (held_image_ == image && held_channels_ == channels) return;
    const int64_t pixel = pixel_of<A>(channels.count());
    if (!held_ || channels.count() > held_channels_.count()) {
      held_.emplace(context_, height_ * width_ * pixel);
    }
    held_image_ = image;
    held_channels_ = channels;
    const WindowView<const A> view{held_->get(), width_ * pixel, pixel};
    copy_inside(image, channels, {0, height_, 0, width_}, view, held_->get());
  }
  // A pixel that may be next to X.
  MYOPS_INLINE void copy_any(int64_t image, const Range& channels, int64_t y, int64_t x,
                             int64_t pixel, A* to) const {
    if (y < 0 || y >= height_ || x < 0 || x >= width_) {
      std::fill_n(to, pixel, A{});
      return;
    }
    if (hold_) {
      const A* const from = held_->get() + (y * width_ + x) * pixel;
      for (int64_t c = 0; c < pixel; c += kQuad<A>) {
        store(to + c, load_as<Lanes<A, kQuad<A>>>(from + c));
      }
      return;
    }
    const T* const from = view_.at(image, channels.first, y, x);
    if (view_.step[1] == 1) return copy_pixel(from, channels.count(), to);
    for (int64_t c = 0; c < channels.count(); ++c) to[c] = static_cast<A>(from[c * view_.step[1]]);
    std::fill_n(to + channels.count(), pixel - channels.count(), A{});
  }
  void copy_pixel(const T* from, int64_t channels, A* to) const {
    constexpr int64_t L = kLanes<A>, Q = kQuad<A>;
    int64_t c = 0;
    for (; c + L <= channels; c += L) store(to + c, load_wide<A>(from + c));
    if (c == channels) return;
    const Vector<A> last = load_last(from + c, channels - c);
    if (c + L - Q < channels) return store(to + c, last);
    A rest[L];
    store(rest, last);
    for (int64_t i = 0; c + i < channels; i += Q) {
      store(to + c + i, load_as<Lanes<A, Q>>(rest + i));
    }
  }
  // As load_part(). Some instruction sets have masked loads of 32 and 64 bits only, so whole
  // vectors are read, as long as memory behind the last channel belongs to X.
  Vector<A> load_last(const T* from, int64_t count) const {
    constexpr int64_t L = kLanes<A>;
    if (sizeof(T) == sizeof(A) || view_.end - from < L) return load_part<A>(from, count);
    using Bits = Lanes<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>, L>;
    const Bits used = __builtin_convertvector(
        load_as<Index<A>>(kLaneNumbers) < static_cast<int32_t>(count), Bits);
    return (Vector<A>)((Bits)load_wide<A>(from) & used);
  }

  const KernelContext& context_;
  StridedView<const T> view_;
  int64_t height_, width_;
  Buffer<A> window_;
  bool hold_;
  std::optional<Buffer<A>> held_;
  int64_t held_image_ = -1;
  Range held_channels_{0, 0};
};

// A box has many more pixels than its entries read if there are more of them for each entry. The
// pixels of a box are copied one after the other, which takes a fraction of the time that as many
// take elsewhere in memory.
inline constexpr int64_t kFarApart = 32;

// Calls body(place, y, x) for the cells of entries, four places apart, that lie whole in rows of an
// image, and corner(place, number, y, x) for corners of others that do.
template <class T, class Whole, class Corner>
MYOPS_INLINE void each_far_cell(const Taps<T>& taps, const Entries& entries, const Range& rows,
                                int64_t width, const Whole& whole, const Corner& corner) {
  int64_t place = 0;
  for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
    const int64_t first = k * taps.stride();
    for (int64_t p = entries.first; p < entries.last; ++p, place += 4) {
      const int64_t y = taps.row(first + p), x = taps.column(first + p);
      if (y >= rows.first && y + 1 < rows.last && x >= 0 && x + 1 < width) {
        whole(place, y, x);
        continue;
      }
      if (taps.missed(first + p)) continue;
      for (int64_t number = 0; number < 4; ++number) {
        const int64_t line = y + number / 2, column = x + number % 2;
        if (line < rows.first || line >= rows.last || column < 0 || column >= width) continue;
        corner(place, number, line, column);
      }
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
