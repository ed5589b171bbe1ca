// Caches the tables of earlier calls. For a small image, making the tables would take longer than
// the image itself, and would evict the image from the CPU's caches.
#pragma once

#include <cstdint>
#include <memory>

#include "../spec/geometry.h"
#include "myops/small_vector.h"

namespace myops::resize {

// All arguments that determine the tables of a call, as words. (Of rank 5 with a roi, 31.)
using Key = SmallVector<int64_t, 40>;

// The memory of the tensor that is resampled. Strided: there are gaps between its elements, or its
// axes lie in another order, so that a copy is resampled: a row-major or a channels_last one.
enum class SourceLayout : uint8_t { RowMajor, ChannelsLast, Strided, ChannelsLastStrided };

inline bool is_strided(SourceLayout layout) { return layout >= SourceLayout::Strided; }

inline bool is_channels_last(SourceLayout layout) {
  return layout == SourceLayout::ChannelsLast || layout == SourceLayout::ChannelsLastStrided;
}

inline SourceLayout layout_of(const Tensor& tensor) {
  if (tensor.is(Layout::Contiguous)) return SourceLayout::RowMajor;
  if (tensor.is(Layout::ChannelsLast)) return SourceLayout::ChannelsLast;
  return tensor.channels_last() ? SourceLayout::ChannelsLastStrided : SourceLayout::Strided;
}

// `maker`: an address that identifies the code that makes the tables.
Key key_of(const Request& request, SourceLayout layout, const void* maker);

// The tables of an earlier call with this key, or null. Never blocks.
std::shared_ptr<const void> find_tables(const Key& key);

// `bytes`: an upper bound of their size. Tables of more bytes than this are not cached.
inline constexpr int64_t kMostCachedBytes = 2 << 20;
void store_tables(const Key& key, std::shared_ptr<const void> tables, int64_t bytes);

}  // namespace myops::resize
