#include "prepared_cache.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "shape_cache.h"

namespace myops {
namespace {

constexpr size_t kMostVariants = 8;  // entries for the same memory with different attributes

constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // odd, and without a pattern in its bits
constexpr size_t kLine = 64;
constexpr size_t kStride = 4096;        // of larger tensors, one line of so many bytes is read
constexpr size_t kSmall = 4 * kStride;  // up to this size, all bytes are read

// Mixes the words in [begin, begin + size) into `state`; four sums at a time, as one would wait
// for its own multiplication.
void mix(const unsigned char* begin, size_t size, uint64_t (&state)[4]) {
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, begin + at, std::min<size_t>(8, size - at));
    uint64_t& sum = state[at / 8 % 4];
    sum = (sum ^ word) * kFactor;
    sum ^= sum >> 29;
  }
}

const void* first_address(const Tensors& inputs, const std::vector<size_t>& places) {
  for (const size_t place : places) {
    if (inputs[place].present) return inputs[place].data;
  }
  return nullptr;
}

std::vector<size_t> prepared_places(const Op& op) {
  std::vector<size_t> places;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto& names = op.prepared_inputs;
    if (std::find(names.begin(), names.end(), op.inputs[i].name) != names.end()) {
      places.push_back(i);
    }
  }
  return places;
}

}  // namespace

bool PreparedCache::dead(const CachedResult& entry) {
  return std::any_of(entry.states.begin(), entry.states.end(),
                     [](const InputState& held) { return held.present && !held.watch->alive(); });
}

PreparedCache::CachedResults::iterator PreparedCache::matching(const std::vector<InputState>& now,
                                                               const Attributes& attributes) {
  const auto same = [](const InputState& one, const InputState& other) {
    if (one.present != other.present) return false;
    return !one.present ||
           (one.data == other.data && one.dtype == other.dtype && one.owner.id == other.owner.id &&
            one.owner.version == other.owner.version && one.fingerprint == other.fingerprint &&
            one.shape == other.shape && one.strides == other.strides);
  };
  const auto first =
      std::find_if(now.begin(), now.end(), [](const InputState& held) { return held.present; });
  const auto [begin, end] = results_.equal_range(first->data);
  for (auto place = begin; place != end; ++place) {
    const CachedResult& entry = place->second;
    if (std::equal(now.begin(), now.end(), entry.states.begin(), entry.states.end(), same) &&
        equal_attributes(attributes.values(), entry.attributes) && !dead(entry)) {
      return place;
    }
  }
  return results_.end();
}

// Removes earlier versions of the same memory, and every entry whose memory was freed.
void PreparedCache::drop_outdated(const std::vector<InputState>& now) {
  const auto outdated = [&](const CachedResult& entry) {
    for (size_t i = 0; i < now.size(); ++i) {
      const InputState &then = entry.states[i], &held = now[i];
      if (then.present && held.present && then.owner.id == held.owner.id &&
          (then.owner.version != held.owner.version ||
           (then.data == held.data && then.shape == held.shape &&
            then.fingerprint != held.fingerprint))) {
        return true;
      }
    }
    return dead(entry);
  };
  for (auto place = results_.begin(); place != results_.end();) {
    place = outdated(place->second) ? results_.erase(place) : std::next(place);
  }
}

Prepared PreparedCache::find(const Op& op, const Tensors& inputs, const Attributes& attributes,
                             const SmallVector<const void*, 6>& handles, const Owners& owners) {
  const std::vector<size_t> places = prepared_places(op);
  if (first_address(inputs, places) == nullptr) return nullptr;
  std::vector<InputState> now(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Tensor& tensor = inputs[places[i]];
    if (!tensor.present) continue;
    const void* handle = handles[places[i]];
    const Owner owner = handle == nullptr ? Owner() : owners.owner(handle);
    const bool dense = tensor.is(Layout::Contiguous) || tensor.is(Layout::ChannelsLast);
    if (owner.id == nullptr || !dense || tensor.dtype == DType::String) return nullptr;
    now[i] = {true,           tensor.data,         tensor.dtype, tensor.shape,
              tensor.strides, fingerprint(tensor), owner,        nullptr};
  }
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock) return nullptr;
  const auto known = matching(now, attributes);
  if (known == results_.end()) {
    for (size_t i = 0; i < places.size(); ++i) {
      if (now[i].present) now[i].watch = owners.watch(handles[places[i]]);
    }
    drop_outdated(now);
    const void* address = first_address(inputs, places);
    if (results_.count(address) >= kMostVariants) results_.erase(address);
    results_.emplace(address, CachedResult{std::move(now), attributes.values(), false, nullptr});
    return nullptr;
  }
  CachedResult& entry = known->second;
  if (!entry.is_made) {
    Tensors constants(op.inputs.size());
    for (const size_t place : places) constants[place] = inputs[place];
    entry.prepared = prepare(op, constants, attributes);
    entry.is_made = true;
  }
  return entry.prepared;
}

void PreparedCache::clear() {
  CachedResults freed;  // after the lock is free
  const std::lock_guard<std::mutex> lock(mutex_);
  results_.swap(freed);
}

namespace {

// Never destroyed: kernels may run until the process ends.
struct Caches {
  std::mutex mutex;
  std::map<std::string, PreparedCache> by_op;

  static Caches& instance() {
    static Caches& caches = *new Caches;
    return caches;
  }
};

}  // namespace

PreparedCache& prepared_cache_of(const std::string& op) {
  Caches& caches = Caches::instance();
  const std::lock_guard<std::mutex> lock(caches.mutex);
  return caches.by_op[op];
}

void forget_prepared() {
  Caches& caches = Caches::instance();
  const std::lock_guard<std::mutex> lock(caches.mutex);
  for (auto& [op, cache] : caches.by_op) cache.clear();
}

uint64_t fingerprint(const Tensor& tensor) {
  const auto* begin = static_cast<const unsigned char*>(tensor.data);
  const size_t size = byte_count(tensor.shape, tensor.dtype);
  uint64_t state[4] = {size, 1, 2, 3};
  if (size <= kSmall) {
    mix(begin, size, state);
  } else {
    for (size_t at = 0; at < size; at += kStride)
      mix(begin + at, std::min(kLine, size - at), state);
    mix(begin + size - kLine, kLine, state);
  }
  uint64_t result = 0;
  for (const uint64_t sum : state) result = (result ^ sum) * kFactor;
  return result ^ result >> 32;
}

}  // namespace myops
