// What a fast call of one op needs: collected once, in fast_call.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "../../core/shape_cache.h"
#include "../torch/cuda_call.h"
#include "plain_arguments.h"

namespace myops::fast_call {

constexpr const char* kCapsuleName = "myops.fast_call";

// C functions of the op's torch library (adapters/torch/services.cpp, prepared.cpp, cuda_call.cpp).
struct Services {
  void (*run_tasks)(int64_t, Runtime::Task, void*);
  void* (*new_tensor)(DType, const Shape&, const Shape&, void** data);
  void (*delete_tensor)(void*);
  bool (*grad_enabled)();
  bool (*find_prepared)(const Op&, const Tensors&, const Attributes&,
                        const SmallVector<const void*, 6>& tensors, Prepared&, std::string& error);
  const Op* (*cuda_op)(const char* name);
  CudaOutcome (*call_on_cuda)(const CudaCall&, std::string& error);
};

// A model calls an op with several shapes in turn: each of them mostly finds its own cache.
using ShapeCaches = std::array<ShapeCache, 8>;

// Those of each CUDA device, because what a kernel caches may depend on it.
class DeviceCaches {
 public:
  DeviceCaches() = default;
  ~DeviceCaches() {
    for (const auto& caches : caches_) delete caches.load();
  }
  DeviceCaches(const DeviceCaches&) = delete;
  DeviceCaches& operator=(const DeviceCaches&) = delete;

  // Null for a device behind the first ones.
  ShapeCaches* of(int32_t device) {
    const auto index = static_cast<size_t>(device);
    if (index >= caches_.size()) return nullptr;
    ShapeCaches* known = caches_[index].load();
    if (known != nullptr) return known;
    auto made = std::make_unique<ShapeCaches>();  // any thread may make the first call
    return caches_[index].compare_exchange_strong(known, made.get()) ? made.release() : known;
  }

 private:
  std::array<std::atomic<ShapeCaches*>, 16> caches_ = {};
};

struct Binding;

// Where the gradients of an op with respect to its inputs are computed by an op too
// (recorded_call.h). Indices of "our" inputs are those of the op that is differentiated.
struct Gradient {
  static constexpr int kNone = -1;

  const Binding& op;
  py::object owner;  // of `op`
  // The same as f(grad, inputs, needed, attributes), with one gradient or None for each input.
  py::object python;
  std::vector<int> inputs = {};   // for each input of `op` after `grad`: the index of ours
  std::vector<int> outputs = {};  // for each of our inputs: the output of `op`, or kNone
  int needs = kNone;              // the attribute that says which outputs are needed, or kNone
  int summed = kNone;  // ours whose gradient is the sum of grad for each channel, or kNone
};

struct ConstantAttributes {
  py::object owner;  // so that no other object gets its address
  Attributes values;
};

// What a fast call of one op needs.
struct Binding {
  const Op& op;
  const Attributes defaults;
  Services services;
  TensorReader reader;
  py::object wrap;                    // function: a Python tensor from a new one's handle
  py::object bump;                    // function
  py::dict forward_ad;                // the names of this module
  std::vector<py::object> observers;  // functions: whether something observes calls
  py::str level;
  const Op* cuda_op;  // the op with its kernel for CUDA, or null
  mutable ShapeCaches last = {};
  mutable DeviceCaches last_on_cuda = {};
  py::object is_inference = {};  // method; asked of `out` only
  std::optional<Gradient> gradient = {};
  py::object constant = {};  // the type of attributes that never change, a kind of dict
  mutable std::unordered_map<PyObject*, ConstantAttributes> constants = {};

  // The attributes of a call; read into `own` where they are not known.
  const Attributes& attributes_of(PyObject* given, std::optional<Attributes>& own) const {
    constexpr size_t kMost = 256;
    if (constant.ptr() == reinterpret_cast<PyObject*>(Py_TYPE(given))) {
      if (const auto known = constants.find(given); known != constants.end()) {
        return known->second.values;
      }
      own.emplace(plain_attributes(op, given));
      if (constants.size() < kMost) {
        constants.emplace(given,
                          ConstantAttributes{py::reinterpret_borrow<py::object>(given), *own});
      }
      return *own;
    }
    require_plain(PyDict_CheckExact(given));
    return PyDict_GET_SIZE(given) == 0 ? defaults : own.emplace(plain_attributes(op, given));
  }

  ShapeCache& cache_of(const Tensors& inputs) const { return last[place_of(inputs)]; }
  ShapeCache* cache_of(const Tensors& inputs, int32_t device) const {
    ShapeCaches* caches = last_on_cuda.of(device);
    return caches == nullptr ? nullptr : &(*caches)[place_of(inputs)];
  }

  // In ShapeCaches.
  size_t place_of(const Tensors& inputs) const {
    uint64_t hash = 0;
    const auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15u; };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      for (const int64_t length : input.shape) mix(static_cast<uint64_t>(length));
      const bool list = input.present && i < op.inputs.size() && op.inputs[i].has_values;
      if (!list || input.rank() != 1 || dtype_size(input.dtype) != sizeof(uint64_t)) continue;
      const int64_t count = std::min<int64_t>(input.shape[0], 8);
      for (int64_t k = 0; k < count; ++k) {
        uint64_t word = 0;
        std::memcpy(&word, input.as<const char>() + k * input.strides[0] * 8, sizeof word);
        mix(word);
      }
    }
    return hash >> 61;
  }

  // A handle, or null if torch cannot allocate the tensor. (That of a large one is the service's,
  // which asks for huge pages.)
  void* new_tensor(DType dtype, const Shape& shape, const Shape& strides, void** data) const {
    constexpr size_t kSmall = 1 << 20;
    if (reader.internals != nullptr && byte_count(shape, dtype) <= kSmall) {
      return reader.internals->new_tensor(dtype, shape, strides, data);
    }
    return services.new_tensor(dtype, shape, strides, data);
  }

  // Increments the version by which autograd notices that a tensor was written to. False where the
  // tensor has none.
  bool count_write(PyObject* out) const {
    if (reader.internals != nullptr) return reader.internals->count_write(out);
    if (is_true(PyObject_CallOneArg(is_inference.ptr(), out))) return false;
    const py::object outs = py::make_tuple(py::handle(out));
    PyObject* none = PyObject_CallOneArg(bump.ptr(), outs.ptr());
    if (none == nullptr) PyErr_Clear();
    Py_XDECREF(none);
    return none != nullptr;
  }

  // A new reference to `tensor`; the caller still owns one.
  py::object python_tensor(void* tensor) const {
    if (reader.internals != nullptr) return take(reader.internals->wrap(tensor));
    const py::object capsule = take(PyCapsule_New(tensor, nullptr, nullptr));
    return take(PyObject_CallOneArg(wrap.ptr(), capsule.ptr()));
  }
};

// The new tensors of one call, by output: null where an output was left out or taken.
class NewTensors {
 public:
  explicit NewTensors(const Binding& binding) : binding_(binding) {}
  NewTensors(const NewTensors&) = delete;
  NewTensors& operator=(const NewTensors&) = delete;
  ~NewTensors() {
    for (void* tensor : tensors_) {
      if (tensor != nullptr) binding_.services.delete_tensor(tensor);
    }
  }

  // The memory of a new tensor; none if torch cannot allocate it.
  std::optional<Tensor> make(size_t output, DType dtype, const Shape& shape, const Shape& strides) {
    void* data = nullptr;
    void* tensor = binding_.new_tensor(dtype, shape, strides, &data);
    if (tensor == nullptr) return {};
    if (output >= tensors_.size()) tensors_.resize(output + 1, nullptr);
    tensors_[output] = tensor;
    return Tensor(data, dtype, shape, strides);
  }
  void* at(size_t output) const { return output < tensors_.size() ? tensors_[output] : nullptr; }
  // The handles; what is put in here is owned from now on.
  SmallVector<void*, 6>& all() { return tensors_; }
  // The caller owns the tensor from now on.
  void* take(size_t output) {
    return output < tensors_.size() ? std::exchange(tensors_[output], nullptr) : nullptr;
  }

 private:
  const Binding& binding_;
  SmallVector<void*, 6> tensors_;
};

}  // namespace myops::fast_call
