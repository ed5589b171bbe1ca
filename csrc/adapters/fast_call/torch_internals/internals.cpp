#include "autograd_node.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ATen/DLConvertor.h>
#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#pragma GCC diagnostic pop

#include "../../torch/scalar_types.h"

namespace myops::torch_internals {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

// The dispatch keys of an ordinary tensor on the CPU, or on a CUDA device. Lazy negation, zeros
// without memory, subclasses, wrappers of transformations and other devices add keys.
constexpr DispatchKeySet kPlain({DispatchKey::CPU, DispatchKey::ADInplaceOrView,
                                 DispatchKey::AutogradCPU, DispatchKey::AutocastCPU});
constexpr DispatchKeySet kPlainOnCuda({DispatchKey::CUDA, DispatchKey::ADInplaceOrView,
                                       DispatchKey::AutogradCUDA, DispatchKey::AutocastCUDA});

// Sizes and strides remain where the storage has been freed (untyped_storage().resize_(0)).
bool is_freed(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();  // not virtual
  return (!storage || storage.nbytes() == 0) && tensor.numel() != 0;
}

}  // namespace

// Tracing, dispatch modes and transformations include keys while they are active; autocast removes
// some from those that are excluded by default.
bool observed() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return !c10::default_included_set.has_all(keys.included_) ||
         !keys.excluded_.has_all(c10::default_excluded_set) ||
         at::impl::torch_function_mode_enabled() || at::hasCallbacks();
}

bool describe(const at::Tensor& tensor, bool differentiable, bool written, DLTensor* described) {
  if (!tensor.defined()) return false;
  const bool on_cuda = kPlainOnCuda.has_all(tensor.key_set());
  if (!on_cuda && !kPlain.has_all(tensor.key_set())) return false;
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  if (differentiable && tensor.requires_grad()) return false;
  try {
    if (is_freed(tensor)) return false;
    described->dtype = at::getDLDataType(tensor);
    described->data =
        written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
  } catch (const std::exception&) {
    return false;  // a dtype or memory that cannot be read: the dispatcher says why
  }
  // DLPack describes other types of one byte, such as integers of 1 to 7 bits, as integers of 8.
  if (described->dtype.code <= kDLUInt && described->dtype.bits == 8 &&
      tensor.scalar_type() != at::kByte && tensor.scalar_type() != at::kChar) {
    return false;
  }
  described->device = {on_cuda ? kDLCUDA : kDLCPU, on_cuda ? tensor.get_device() : 0};
  described->ndim = static_cast<int32_t>(tensor.dim());
  described->shape = const_cast<int64_t*>(tensor.sizes().data());
  described->strides = const_cast<int64_t*>(tensor.strides().data());
  described->byte_offset = 0;
  return true;
}

namespace {

bool read(PyObject* object, bool differentiable, bool written, DLTensor* described) {
  if (!THPVariable_CheckTypeExact(Py_TYPE(object))) return false;
  return describe(THPVariable_Unpack(object), differentiable, written, described);
}

bool count_write(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (tensor.is_inference()) return c10::InferenceMode::is_enabled();  // these have no version
  tensor.unsafeGetTensorImpl()->bump_version();
  return true;
}

PyObject* wrap(void* handle) {
  try {
    return THPVariable_Wrap(*static_cast<at::Tensor*>(handle));
  } catch (const std::exception& error) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

const void* tensor_of(PyObject* object) { return &THPVariable_Unpack(object); }

bool requires_grad(PyObject* object) {
  return THPVariable_CheckTypeExact(Py_TYPE(object)) && THPVariable_Unpack(object).requires_grad();
}

void* new_tensor(DType dtype, const Shape& shape, const Shape& strides, void** data) {
  try {
    const auto type = torch_adapter::kScalarTypes[static_cast<size_t>(dtype)];
    auto made = std::make_unique<at::Tensor>(at::detail::empty_strided_cpu(
        {shape.data(), shape.size()}, {strides.data(), strides.size()}, type));
    *data = made->mutable_data_ptr();
    return made.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

bool owner(const void* handle, const void** storage, uint64_t* version) {
  const at::Tensor& tensor = *static_cast<const at::Tensor*>(handle);
  // Tensors of inference mode have no version.
  if (!tensor.defined() || !tensor.has_storage() || tensor.is_inference()) return false;
  *storage = tensor.storage().unsafeGetStorageImpl();
  *version = static_cast<uint64_t>(tensor._version());
  return true;
}

void* watch(const void* handle) {
  const at::Tensor& tensor = *static_cast<const at::Tensor*>(handle);
  return new WeakStorage(tensor.storage().getWeakStorageImpl());
}

bool alive(void* watch) { return !static_cast<WeakStorage*>(watch)->expired(); }

void forget(void* watch) { delete static_cast<WeakStorage*>(watch); }

const TorchInternals kInternals{observed, read,       count_write,
                                wrap,     tensor_of,  requires_grad,
                                record,   new_tensor, {owner, watch, alive, forget}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_internals", nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace myops::torch_internals

#define MYOPS_JOIN(left, right) left##right
#define MYOPS_INIT(name) MYOPS_JOIN(PyInit_, name)

// The module has two attributes, `table` and `owned_memory`.
PyMODINIT_FUNC MYOPS_INIT(TORCH_EXTENSION_NAME)() {
  PyObject* module = PyModule_Create(&myops::torch_internals::definition);
  if (module == nullptr) return nullptr;
  PyObject* table =
      PyCapsule_New(const_cast<myops::TorchInternals*>(&myops::torch_internals::kInternals),
                    myops::kTorchInternals, nullptr);
  if (table == nullptr || PyModule_AddObject(module, "table", table) != 0) {
    Py_XDECREF(table);
    Py_DECREF(module);
    return nullptr;
  }
  // For libraries that are called without Python.
  const void* memory = &myops::torch_internals::kInternals.owned_memory;
  PyObject* address = PyLong_FromVoidPtr(const_cast<void*>(memory));
  if (address == nullptr || PyModule_AddObject(module, "owned_memory", address) != 0) {
    Py_XDECREF(address);
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
