// The Python module `_numpy`: descriptions, shape inference and the kernels on NumPy arrays.
// It needs NumPy and nothing else; checks of memory layout are in python/myops/_numpy_call.py.
#include <cstring>
#include <optional>
#include <thread>

#include "../../core/dispatcher_schema.h"
#include "../../core/library_names.h"
#include "../../core/prepared_cache.h"
#include "../../core/report.h"
#include "../../core/taken_names.h"
#include "convert.h"
#include "description.h"
#include "myops/isa.h"
#include "prepared.h"
#include "released_gil.h"
#include "thread_pool.h"
#ifndef MYOPS_WITHOUT_FAST_CALL  // in a build without PyTorch's headers
#include "../fast_call/fast_call.h"
#endif

namespace myops::numpy {
namespace {

class NumpyRuntime final : public Runtime {
 public:
  // `beside`: bytes of `fill` before and after each result, for tests that look at them after a
  // call.
  NumpyRuntime(const Op& op, int threads, size_t beside, int fill)
      : op_(op), threads_(threads), beside_(beside), fill_(fill) {}

  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) override {
    released_gil_.reset();
    Shape strides = strides_for(shape, layout);
    std::vector<py::ssize_t> bytes;
    const auto size = dtype == DType::String ? sizeof(PyObject*) : dtype_size(dtype);
    for (int64_t stride : strides) {
      bytes.push_back(stride * static_cast<py::ssize_t>(size));
    }
    void* data = nullptr;
    {  // the last use of Python, including the end of a reference
      const bool surrounded = beside_ > 0 && dtype != DType::String;
      py::array array = surrounded ? inside_larger(dtype, shape, bytes)
                                   : py::array(to_numpy(dtype), shape, bytes);
      data = dtype == DType::String ? strings.make(op_, output, array) : array.mutable_data();
      if (output == outputs.size()) {
        outputs.append(array);
      } else {
        pad();
        outputs[output] = array;
      }
    }
    released_gil_.emplace();
    return Tensor(data, dtype, shape, std::move(strides));
  }

  void leave_out(size_t output, DType) override {
    left_out.resize(op_.outputs.size());
    left_out[output] = true;
  }

  void begin_kernel() override {
    if (!released_gil_) released_gil_.emplace();
  }

  void run(int64_t count, Task task, void* argument) override {
    ThreadPool::instance().run(count, threads_, task, argument);
  }

  const char* name() const override { return "numpy"; }

  // Called before Python is used again.
  void reacquire_gil() { released_gil_.reset(); }

  // None for what is left out, or not made yet.
  void pad() {
    while (outputs.size() < op_.outputs.size()) outputs.append(py::none());
  }

  py::list outputs;
  std::vector<bool> left_out;  // empty: none
  Strings strings;

 private:
  py::array inside_larger(DType dtype, const Shape& shape,
                          const std::vector<py::ssize_t>& strides) {
    const auto size = static_cast<py::ssize_t>(byte_count(shape, dtype) + 2 * beside_);
    py::array_t<uint8_t> memory(size);
    std::memset(memory.mutable_data(), fill_, static_cast<size_t>(size));
    return py::array(to_numpy(dtype), shape, strides, memory.mutable_data() + beside_, memory);
  }

  const Op& op_;
  int threads_;
  size_t beside_;
  int fill_;
  std::optional<ReleasedGil> released_gil_;
};

// `body`: of a prototype, the Python function that fills the outputs; else None. `beside`: results
// lie in the middle of larger arrays, their `base`, with so many bytes of `fill` on each side.
py::list call(const Op& op, const std::vector<std::optional<py::array>>& arrays,
              const py::dict& given, int threads, const py::object& body, size_t beside, int fill) {
  if (op.is_variadic() ? arrays.size() + 1 < op.inputs.size() : arrays.size() != op.inputs.size()) {
    fail(op.name, "inputs", str(arrays.size(), " of them"), str(op.inputs.size()));
  }
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  NumpyRuntime runtime(op, threads, beside, fill);
  Tensors inputs;
  for (size_t i = 0; i < arrays.size(); ++i) {
    inputs.push_back(arrays[i]
                         ? view(op, op.declared(i), *arrays[i], runtime.strings, runtime.budget())
                         : Tensor());
  }
  const Attributes attributes = attributes_from(op, given);
  Prepared prepared;
  if (!op.prepared_inputs.empty()) prepared = find_prepared(op, arrays, inputs, attributes);
  const PrototypeBody fills([&](const KernelContext& context) {
    runtime.reacquire_gil();
    if (body.is_none()) return;
    runtime.pad();
    // Makes an output that has a length which the function decides; None: it is left out.
    body(runtime.outputs,
         py::cpp_function([&](size_t output, const std::vector<int64_t>& shape) -> py::object {
           if (!runtime.left_out.empty() && runtime.left_out[output]) return py::none();
           context.allocate_output(output, Shape(shape.begin(), shape.end()));
           runtime.reacquire_gil();
           return runtime.outputs[output];
         }));
  });
  invoke(op, inputs, attributes, runtime, prepared.get());
  runtime.reacquire_gil();
  runtime.pad();
  if (body.is_none()) runtime.strings.write(op);  // else Python has filled the outputs
  return runtime.outputs;
}

// Charges the copy of an input whose layout the kernel does not accept, which Python makes before
// call().
void check_copy(const Op& op, const std::string& input, const std::vector<int64_t>& shape,
                size_t bytes) {
  Budget().take(op.name, input, str("a copy of shape ", shape), bytes);
}

py::list infer_shapes(const Op& op, const std::vector<std::optional<PyDims>>& shapes,
                      const std::vector<std::optional<std::string>>& dtypes, const py::dict& given,
                      const std::vector<std::optional<std::vector<double>>>& values) {
  const Attributes attributes = attributes_from(op, given);
  ShapeContext context(op, attributes);
  const size_t count = op.is_variadic() ? shapes.size() : op.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    context.inputs_.push_back(i < shapes.size() && shapes[i] ? std::optional(to_dims(*shapes[i]))
                                                             : std::nullopt);
    context.dtypes_.push_back(i < dtypes.size() && dtypes[i]
                                  ? std::optional(from_name(op, op.declared(i), *dtypes[i]))
                                  : std::nullopt);
    context.values_.push_back(i < values.size() ? values[i] : std::nullopt);
  }
  infer(op, attributes, context);
  py::list results;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    results.append(py::make_tuple(dtype_name(output_dtype(op, i, context.dtypes_)),
                                  to_python(context.output(i))));
  }
  return results;
}

// The instruction sets of this CPU, the best first.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Isa isa : available_isas()) names.emplace_back(isa_name(isa));
  return names;
}

}  // namespace
}  // namespace myops::numpy

// Local to the module: another op library in the process has an Op of its own.
PYBIND11_MODULE(_numpy, module) {
  using myops::Op;
  namespace numpy = myops::numpy;
  namespace py = pybind11;
  module.doc() = "Descriptions of the ops, and their kernels on NumPy arrays.";
  module.attr("INTERFACE") = 12;  // counts up when what Python relies on here changes
  module.attr("DOMAIN") = myops::library_domain();
  module.attr("NAMESPACE") = myops::library_namespace();
  py::register_local_exception<myops::Error>(module, "Error", PyExc_ValueError);
  myops::refuse_faults();  // an ImportError
  py::class_<Op>(module, "Op", py::module_local())
      .def(py::init(&numpy::prototype), py::arg("description"), py::arg("rule"))
      .def("describe", &numpy::describe)
      .def("dispatcher_schema",
           [](const Op& op, bool values) {
             return dispatcher_schema(op, myops::Overload{values, false});
           })
      .def("complete",
           [](const Op& op, const py::dict& given) {
             return numpy::to_python(numpy::attributes_from(op, given));
           })
      .def("call", &numpy::call, py::arg("arrays"), py::arg("attributes"), py::arg("threads"),
           py::arg("body") = py::none(), py::arg("beside") = 0, py::arg("fill") = 0)
#ifndef MYOPS_WITHOUT_FAST_CALL
      .def("direct", &myops::fast_call::make_fast_call)
      .def_static("use_gradient", &myops::fast_call::use_gradient)
#endif
      .def("check_copy", &numpy::check_copy)
      .def("infer", &numpy::infer_shapes);
  py::list ops;
  for (const Op& op : myops::all_ops()) {
    ops.append(py::cast(&op, py::return_value_policy::reference));
  }
  module.attr("OPS") = py::tuple(ops);
  module.def("record_calls", &myops::record_calls);
  module.def("recorded_calls", &myops::recorded_calls);
  module.def("forget_prepared", &myops::forget_prepared);
  module.def("max_bytes", &myops::max_bytes);
  module.def("taken_by", &myops::taken_by);
  module.def("instruction_set", [] { return std::string(myops::isa_name(myops::isa())); });
  module.def("instruction_sets", &numpy::instruction_sets);
}
