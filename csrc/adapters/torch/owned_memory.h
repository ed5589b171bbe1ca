// The storage of a torch tensor. The stable ABI does not expose it; a module that is built for the
// torch in use does (adapters/fast_call/torch_internals). Without it, no result is prepared.
#pragma once

#include <cstdint>

namespace myops {

// `tensor` is a pointer to torch's own tensor, which is what a handle of the stable ABI is too.
struct OwnedMemory {
  // Its storage and how often autograd has seen a write; false where neither is known.
  bool (*owner)(const void* tensor, const void** storage, uint64_t* version);
  // A weak reference to its storage.
  void* (*watch)(const void* tensor);
  bool (*alive)(void* watch);
  void (*forget)(void* watch);
};

}  // namespace myops
