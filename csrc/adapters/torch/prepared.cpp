#include "prepared.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "owned_memory.h"

namespace myops::torch_adapter {
namespace {

std::atomic<const OwnedMemory*> owned_memory{nullptr};

Owner owner(const void* tensor) {
  Owner found;
  if (!owned_memory.load()->owner(tensor, &found.id, &found.version)) found.id = nullptr;
  return found;
}

class StorageWatch final : public Watch {
 public:
  explicit StorageWatch(const void* tensor) : watch_(owned_memory.load()->watch(tensor)) {}
  ~StorageWatch() override { owned_memory.load()->forget(watch_); }
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;
  bool alive() const override { return owned_memory.load()->alive(watch_); }

 private:
  void* watch_;
};

std::unique_ptr<Watch> watch(const void* tensor) { return std::make_unique<StorageWatch>(tensor); }

}  // namespace

Prepared find_prepared(const Op& op, const Tensors& inputs, const Attributes& attributes,
                       const SmallVector<const void*, 6>& tensors) {
  if (owned_memory.load() == nullptr) return nullptr;
  return prepared_cache_of(op.name).find(op, inputs, attributes, tensors, {owner, watch});
}

}  // namespace myops::torch_adapter

#define MYOPS_VISIBLE extern "C" __attribute__((visibility("default")))

MYOPS_VISIBLE void myops_use_owned_memory(const void* functions) {
  myops::torch_adapter::owned_memory = static_cast<const myops::OwnedMemory*>(functions);
}

// The same for calls that do not go through the dispatcher. False: `error` says what Op::prepare
// refused.
MYOPS_VISIBLE bool myops_find_prepared(const myops::Op& op, const myops::Tensors& inputs,
                                       const myops::Attributes& attributes,
                                       const myops::SmallVector<const void*, 6>& tensors,
                                       myops::Prepared& prepared, std::string& error) {
  try {
    prepared = myops::torch_adapter::find_prepared(op, inputs, attributes, tensors);
    return true;
  } catch (const std::exception& refused) {
    error = refused.what();
    return false;
  }
}

MYOPS_VISIBLE bool myops_prepares() {
  return std::any_of(myops::all_ops().begin(), myops::all_ops().end(),
                     [](const myops::Op& op) { return !op.prepared_inputs.empty(); });
}

MYOPS_VISIBLE void myops_forget_prepared() { myops::forget_prepared(); }
