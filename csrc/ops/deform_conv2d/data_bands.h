// DataGradient's passes over bands (data_gradient.h): of tiles whose gradients of positions are
// stored in slots, and of an image whose 16-bit gradients are summed in float32.
#pragma once

#include "data_gradient.h"

namespace myops::deform::MYOPS_ISA {

// The pass over bands of tiles. A unit is an offset group of an image; several are processed side
// by side, and the `parts` of a unit by as many tasks, each with a slot for every tile of the band.
template <class T>
class DataGradient<T>::Bands {
 public:
  // `held`: the gradients of X are 16-bit types, and their sums are those of whole images.
  Bands(const DataGradient& gradient, bool held)
      : of_(gradient),
        held_(held),
        parts_(of_.parts_),
        tiles_(of_.tiling_.count()),
        slot_(3 * of_.blocking_.taps * of_.tiling_.pixels()),
        length_(std::clamp<int64_t>(kSlots<A> / (slot_ * of_.width_ * parts_), 1, tiles_)),
        together_(units_together()),
        pixels_(of_.conv_.height * of_.conv_.width),
        image_(pixels_ * of_.conv_.channels_per_offset()),
        slots_(of_.context_, slot_ * together_ * parts_ * length_),
        images_(of_.context_, held ? together_ * image_ : 0) {}

  void run() {
    for (first_ = 0; first_ < of_.units(); first_ += together_) {
      choose_order(std::min(together_, of_.units() - first_));
      if (held_) images_.zero(count_ * image_);
      of_.for_each_taps([&](const Range& taps) {
        for (int64_t tile = 0; tile < tiles_; tile += length_) {
          const Range band{tile, std::min(tile + length_, tiles_)};
          add(band, taps);
          write_positions(band, taps);
        }
      });
      if (held_) write_images();
    }
  }

 private:
  // Tasks process several units one after the other, as many as have slots.
  int64_t units_together() const {
    const int64_t width = of_.width_, groups = of_.conv_.offset_groups;
    int64_t each = std::max<int64_t>(kSlots<A> / (slot_ * width * parts_ * length_), 1);
    const bool fit = !held_ || of_.narrow_fits(width * each, kImagesBytes);
    if (length_ < tiles_ || !fit) each = 1;
    const int64_t most = std::min(width * each, of_.units());
    return most > groups ? most - most % groups : most;  // whole images
  }
  // All images of an offset group one after another, because they have the same weights; if they
  // are small, a block of channels of all of them before the next block.
  void choose_order(int64_t count) {
    const int64_t groups = of_.conv_.offset_groups, blocks = panels(of_.blocks_, parts_);
    count_ = count;
    images_together_ = count % groups == 0 ? count / groups : 0;
    const bool small = tiles_ * of_.tiling_.pixels() <= kSmall;
    turns_ = small && count > 1 ? blocks : 1;
    in_turn_ = turns_ > 1 ? std::max<int64_t>(images_together_, 1) : count;
  }
  // The unit that is processed as number `place`.
  int64_t unit_at(int64_t place) const {
    if (images_together_ == 0) return place;
    return place % images_together_ * of_.conv_.offset_groups + place / images_together_;
  }
  // Calls body(unit, block) for every `step`-th place from `first` on.
  template <class Body>
  void for_each_unit(int64_t first, int64_t step, const Body& body) const {
    for (int64_t begin = 0; begin < count_; begin += in_turn_) {
      for (int64_t block = 0; block < turns_; ++block) {
        for (int64_t place = begin; place < begin + in_turn_; ++place) {
          if (place % step == first) body(unit_at(place), block);
        }
      }
    }
  }

  A* slot_of(int64_t index, int64_t tile) const {  // `index`: of [unit][part]
    return slots_.get() + (index * length_ + tile) * slot_;
  }
  A* image_of(int64_t unit) const { return held_ ? images_.get() + unit * image_ : nullptr; }

  // The sums of a band in the slots, and in the gradient of X.
  void add(const Range& band, const Range& taps) const {
    const int64_t tasks = std::min(count_, of_.width_) * parts_, step = tasks / parts_;
    of_.context_.parallel_for(tasks, 1, [&](int64_t own, int64_t) {
      TileGradient<T> work = of_.tile_gradient(true);
      const int64_t part = own % parts_, first = own / parts_;
      for (int64_t place = first; place < count_; place += step) {
        std::fill_n(slot_of(unit_at(place) * parts_ + part, 0), band.count() * slot_, A{});
      }
      for_each_unit(first, step, [&](int64_t unit, int64_t block) {
        const int64_t index = unit * parts_ + part;
        const Task whole = of_.task(first_ * parts_ + index, parts_);
        const Task of = turns_ > 1 ? of_.block_of(whole, block) : whole;
        for (int64_t tile = 0; tile < band.count(); ++tile) {
          of_.add_tile(work, of, band.first + tile, taps, slot_of(index, tile), nullptr,
                       image_of(unit));
        }
      });
      work.finish();
    });
  }
  // Adds the slots of the parts of a unit in order.
  void write_positions(const Range& band, const Range& taps) const {
    of_.context_.parallel_for(count_ * band.count(), 1, [&](int64_t index, int64_t) {
      const int64_t from = index / band.count() * parts_, tile = index % band.count();
      A* const sums = slot_of(from, tile);
      for (int64_t part = 1; part < parts_; ++part) {
        const A* const more = slot_of(from + part, tile);
        for (int64_t i = 0; i < slot_; ++i) sums[i] += more[i];
      }
      const Task own = of_.task(first_ * parts_ + from, parts_);
      of_.write_positions(of_.tiling_.at(own.image, band.first + tile), own.offset_group, taps,
                          sums);
    });
  }
  void write_images() const {
    const int64_t blocks = of_.blocks_;
    of_.context_.parallel_for(count_ * blocks, 1, [&](int64_t index, int64_t) {
      const Task own = of_.task(first_ * blocks + index, blocks);
      const int64_t before = index % blocks * of_.blocking_.channels;
      write_pixels(image_of(index / blocks) + before * pixels_, of_.X_, own.image, own.channels,
                   {0, pixels_});
    });
  }

  const DataGradient& of_;
  bool held_;
  int64_t parts_, tiles_;
  int64_t slot_;      // elements of a slot
  int64_t length_;    // tiles of a band
  int64_t together_;  // units at a time, at most
  int64_t pixels_, image_;
  Buffer<A> slots_, images_;
  int64_t first_ = 0, count_ = 0;    // the units of this time
  int64_t images_together_ = 0;      // 0: they are not whole images
  int64_t turns_ = 1, in_turn_ = 1;  // blocks, one after the other, and the units of each of them
};

template <class T>
void DataGradient<T>::run_in_bands(bool held) const {
  Bands(*this, held).run();
}

// For 16-bit types: sums of a band of pixels in float, rounded once at the end. With `positions`,
// whose sums need all channels of an offset group in one block, those of a tile are computed with
// the first band that it touches.
template <class T>
void DataGradient<T>::run_image_in_bands(bool positions) const {
  const int64_t channels = blocking_.channels, size = conv_.height * conv_.width;
  const int64_t band = std::min<int64_t>(kImageBandBytes / sizeof(A) / channels, size);
  const int64_t moves = 3 * blocking_.taps * tiling_.pixels();
  context_.parallel_for(units() * blocks_, 1, [&](int64_t index, int64_t) {
    const Task own = task(index, blocks_);
    TileGradient<T> work = tile_gradient(positions);
    const Buffer<A> sums(context_, band * channels), moved(context_, positions ? moves : 0);
    // For each block of taps and tile, whether its gradients of positions are written.
    const int64_t visits = panels(conv_.taps, blocking_.taps) * tiling_.count();
    const Buffer<uint8_t> written(context_, positions ? visits : 0);
    if (positions) written.zero(visits);
    const auto visit = [&](const Range& taps, int64_t tile, const PixelSums<A>& target) {
      const int64_t number = taps.first / blocking_.taps * tiling_.count() + tile;
      if (!positions || written.get()[number] != 0) return work.run(own.channels, target, nullptr);
      moved.zero(moves);
      work.run(own.channels, target, moved.get());
      write_positions(tiling_.at(own.image, tile), own.offset_group, taps, moved.get());
      written.get()[number] = 1;
    };
    for (int64_t first = 0; first < size; first += band) {
      const int64_t last = std::min(first + band, size), count = own.channels.count();
      const PixelSums<A> target{sums.get(), 1, count, first, last};
      sums.zero((last - first) * count);
      for_each_taps([&](const Range& taps) {
        for (int64_t tile = 0; tile < tiling_.count(); ++tile) {
          work.place(tiling_.at(own.image, tile), own.offset_group, taps);
          if (work.touches(target)) visit(taps, tile, target);
        }
      });
      write_pixels(sums.get(), X_, own.image, own.channels, {first, last});
    }
    if (!positions) return;
    moved.zero(moves);  // of tiles all of whose samples are outside of the image
    for_each_taps([&](const Range& taps) {
      for (int64_t tile = 0; tile < tiling_.count(); ++tile) {
        if (written.get()[taps.first / blocking_.taps * tiling_.count() + tile] != 0) continue;
        write_positions(tiling_.at(own.image, tile), own.offset_group, taps, moved.get());
      }
    });
  });
}

}  // namespace myops::deform::MYOPS_ISA
