#include "prepared.h"

#include "../../core/prepared_cache.h"

namespace myops::numpy {
namespace {

namespace py = pybind11;

// The last owner may be immutable bytes; any other object may change its memory.
bool is_constant(const py::handle& object) {
  if (PyBytes_Check(object.ptr())) return true;
  if (!py::isinstance<py::array>(object)) return false;
  const auto array = py::reinterpret_borrow<py::array>(object);
  if (array.writeable()) return false;
  const py::object base = array.base();
  return !base || base.is_none() ? array.owndata() : is_constant(base);
}

Owner owner(const void* handle) {
  const py::handle array(static_cast<PyObject*>(const_cast<void*>(handle)));
  return is_constant(array) ? Owner{handle, 0} : Owner();
}

class ArrayWatch final : public Watch {
 public:
  explicit ArrayWatch(const void* array)
      : weak_(PyWeakref_NewRef(static_cast<PyObject*>(const_cast<void*>(array)), nullptr)) {
    if (weak_ == nullptr) throw py::error_already_set();
  }
  ~ArrayWatch() override { Py_DECREF(weak_); }
  ArrayWatch(const ArrayWatch&) = delete;
  ArrayWatch& operator=(const ArrayWatch&) = delete;
  bool alive() const override { return PyObject_IsTrue(call().ptr()) == 1; }

 private:
  py::bool_ call() const {
    const auto array = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(weak_));
    return py::bool_(array && !array.is_none());
  }

  PyObject* weak_;
};

std::unique_ptr<Watch> watch(const void* array) { return std::make_unique<ArrayWatch>(array); }

}  // namespace

Prepared find_prepared(const Op& op, const std::vector<std::optional<py::array>>& arrays,
                       const Tensors& inputs, const Attributes& attributes) {
  SmallVector<const void*, 6> handles;
  for (const auto& array : arrays) handles.push_back(array ? array->ptr() : nullptr);
  return prepared_cache_of(op.name).find(op, inputs, attributes, handles, {owner, watch});
}

}  // namespace myops::numpy
