// DataGradient's passes over bands (data_gradient.h): of tiles whose gradients of positions are
// stored in slots, and of an image whose 16-bit gradients are summed in float32.
#pragma once

#include "data_gradient.h"

namespace myops::deform::MYOPS_ISA {

// `held`: the gradients of X are 16-bit types, and their sums are those of whole images.
template <class T>
void DataGradient<T>::run_in_bands(bool held) const {
  const int64_t slot = 3 * blocking_.taps * tiling_.pixels(), parts = parts_, width = width_;
  const int64_t length =
      std::clamp<int64_t>(kSlots<A> / (slot * width * parts), 1, tiling_.count());
  // Tasks process several units one after the other, as many as have slots.
  int64_t each = std::max<int64_t>(kSlots<A> / (slot * width * parts * length), 1);
  const bool fit = !held || narrow_fits(width * each, kImagesBytes);
  if (length < tiling_.count() || !fit) each = 1;
  int64_t together = std::min(width * each, units());
  const int64_t groups = conv_.offset_groups;
  if (together > groups) together -= together % groups;  // whole images
  const Buffer<A> slots(context_, slot * together * parts * length);
  const auto slot_of = [&](int64_t index, int64_t tile) {
    return slots.get() + (index * length + tile) * slot;
  };
  const int64_t pixels = conv_.height * conv_.width, image = pixels * conv_.channels_per_offset();
  const Buffer<A> images(context_, held ? together * image : 0);
  const auto image_of = [&](int64_t index) {
    return held ? images.get() + index * image : nullptr;
  };
  for (int64_t unit = 0; unit < units(); unit += together) {
    const int64_t count = std::min(together, units() - unit);
    if (held) images.zero(count * image);
    // All images of an offset group one after another, because they have the same weights; if they
    // are small, a block of channels of all of them before the next block.
    const bool even = count % groups == 0;
    const auto ordered = [&](int64_t j) {
      return even ? j % (count / groups) * groups + j / (count / groups) : j;
    };
    const int64_t blocks = panels(blocks_, parts), area = tiling_.count() * tiling_.pixels();
    const bool by_block = blocks > 1 && count > 1 && area <= kSmall;
    const int64_t turns = by_block ? blocks : 1;
    const int64_t run = !by_block ? count : even ? count / groups : 1;
    for_each_taps([&](const Range& taps) {
      for (int64_t first = 0; first < tiling_.count(); first += length) {
        const int64_t tiles = std::min(length, tiling_.count() - first);
        const int64_t tasks = std::min(count, width) * parts;
        context_.parallel_for(tasks, 1, [&](int64_t own, int64_t) {
          TileGradient<T> work = tile_gradient(true);
          const int64_t part = own % parts, mine = own / parts, step = tasks / parts;
          for (int64_t j = mine; j < count; j += step) {
            std::fill_n(slot_of(ordered(j) * parts + part, 0), tiles * slot, A{});
          }
          for (int64_t begin = 0; begin < count; begin += run) {
            for (int64_t block = 0; block < turns; ++block) {
              for (int64_t j = begin; j < begin + run; ++j) {
                if (j % step != mine) continue;
                const int64_t index = ordered(j) * parts + part;
                const Task whole = task(unit * parts + index, parts);
                const Task of = by_block ? block_of(whole, block) : whole;
                for (int64_t tile = 0; tile < tiles; ++tile) {
                  add_tile(work, of, first + tile, taps, slot_of(index, tile), nullptr,
                           image_of(index / parts));
                }
              }
            }
          }
          work.finish();
        });
        context_.parallel_for(count * tiles, 1, [&](int64_t index, int64_t) {
          const int64_t from = index / tiles * parts, tile = index % tiles;
          A* sums = slot_of(from, tile);
          for (int64_t part = 1; part < parts; ++part) {
            const A* more = slot_of(from + part, tile);
            for (int64_t i = 0; i < slot; ++i) sums[i] += more[i];
          }
          const Task own = task(unit * parts + from, parts);
          write_positions(tiling_.at(own.image, first + tile), own.offset_group, taps, sums);
        });
      }
    });
    if (!held) continue;
    context_.parallel_for(count * blocks_, 1, [&](int64_t index, int64_t) {
      const Task own = task(unit * blocks_ + index, blocks_);
      const int64_t before = index % blocks_ * blocking_.channels;
      write_pixels(image_of(index / blocks_) + before * pixels, X_, own.image, own.channels,
                   {0, pixels});
    });
  }
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
