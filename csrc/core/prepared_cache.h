// Results of Op::prepare in runtimes without sessions, where nothing states which inputs never
// change.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "myops/op.h"

namespace myops {

// Whose memory a tensor reads, in the terms of a runtime.
struct Owner {
  const void* id = nullptr;  // null: it may change at any time without notice
  uint64_t version = 0;      // counts what is written
};

// Observes an owner without keeping it alive.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual bool alive() const = 0;
};

// How a runtime answers this for the tensor `handle`.
struct Owners {
  Owner (*owner)(const void* handle);
  std::unique_ptr<Watch> (*watch)(const void* handle);
};

// The results for one op. An input counts as unchanged while owner, version, address, dtype, shape,
// strides and fingerprint are the same. The first call with such inputs is only noted, so that what
// changes at every call, such as a weight in training, is never prepared; the second one prepares.
// Results whose inputs are gone are freed when something new is noted.
class PreparedCache {
 public:
  // The result for the op's prepared_inputs, or null. `handles` has one entry for each input of the
  // op; null: it may change. Any thread may call this; one that finds it busy gets null.
  Prepared find(const Op& op, const Tensors& inputs, const Attributes& attributes,
                const SmallVector<const void*, 6>& handles, const Owners& owners);
  // Frees all results. Waits for a call that prepares.
  void clear();

 private:
  struct InputState {
    bool present = false;
    const void* data = nullptr;
    DType dtype = DType::Float32;
    Shape shape, strides;
    uint64_t fingerprint = 0;
    Owner owner;
    std::shared_ptr<const Watch> watch;
  };
  struct CachedResult {
    std::vector<InputState> states;
    std::vector<AttributeValue> attributes;
    bool is_made = false;
    Prepared prepared;
  };
  using CachedResults = std::unordered_multimap<const void*, CachedResult>;

  static bool dead(const CachedResult& entry);
  CachedResults::iterator matching(const std::vector<InputState>& now,
                                   const Attributes& attributes);
  void drop_outdated(const std::vector<InputState>& now);

  std::mutex mutex_;       // find() only tries to lock it
  CachedResults results_;  // by the address of the first input that is present
};

// The cache of the op of this name in this binary. (A fast call has a description from
// another binary.)
PreparedCache& prepared_cache_of(const std::string& op);

// Clears all of them.
void forget_prepared();

// A hash of the elements of a tensor without gaps, to notice writes that nothing counts:
// from all of a small tensor, from 64 bytes of each 4096 of a larger one, so that writes to fewer
// elements may be missed. It takes about as long as reading these bytes.
uint64_t fingerprint(const Tensor& tensor);

}  // namespace myops
