// The Python module `_numpy`: descriptions, shape inference and the kernels on NumPy arrays.
// It needs NumPy and nothing else; checks of memory layout are in python/myops/_description.py.
#include <thread>

#include "convert.h"
#include "myops/isa.h"
#include "thread_pool.h"

namespace myops::numpy {
namespace {

const Op& get(const std::string& name) {
  const Op* op = find_op(name);
  if (op == nullptr) throw py::key_error(name);
  return *op;
}

class NumpyRuntime final : public Runtime {
 public:
  explicit NumpyRuntime(int threads) : threads_(threads) {}

  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    const py::gil_scoped_acquire gil;
    Shape strides = strides_for(shape, layout);
    std::vector<py::ssize_t> bytes;
    for (int64_t stride : strides) {
      bytes.push_back(stride * static_cast<py::ssize_t>(dtype_size(dtype)));
    }
    const py::array array(to_numpy(dtype), shape, bytes);
    outputs.append(array);
    return Tensor(const_cast<void*>(array.data()), dtype, shape, std::move(strides));
  }

  void run(int64_t count, Task task, void* argument) override {
    ThreadPool::instance().run(count, threads_, task, argument);
  }

  py::list outputs;

 private:
  int threads_;
};

py::list call(const std::string& name, const std::vector<std::optional<py::array>>& arrays,
              const py::dict& given, int threads) {
  const Op& op = get(name);
  if (arrays.size() != op.inputs.size()) {
    fail(op.name, "inputs", str(arrays.size(), " of them"), str(op.inputs.size()));
  }
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < arrays.size(); ++i) {
    inputs.push_back(arrays[i] ? view(op, op.inputs[i], *arrays[i]) : Tensor());
  }
  const Attributes attributes = attributes_from(op, given);
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  NumpyRuntime runtime(threads);
  {
    const py::gil_scoped_release release;
    invoke(op, inputs, attributes, runtime);
  }
  return runtime.outputs;
}

// For the copy of an input that the kernel cannot walk, which Python makes before call().
void check_copy(const std::string& name, const std::string& input,
                const std::vector<int64_t>& shape, size_t bytes) {
  Budget().take(name, input, str("a copy of shape ", shape), bytes);
}

using PyDims = std::vector<std::variant<std::monostate, int64_t, std::string>>;

py::list infer_shapes(const std::string& name, const std::vector<std::optional<PyDims>>& shapes,
                      const std::vector<std::optional<std::string>>& dtypes, const py::dict& given,
                      const std::vector<std::optional<std::vector<double>>>& values) {
  const Op& op = get(name);
  const Attributes attributes = attributes_from(op, given);
  ShapeContext context(op, attributes);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    std::optional<Dims> dims;
    if (i < shapes.size() && shapes[i]) {
      dims.emplace();
      for (const auto& dim : *shapes[i]) {
        if (const auto* number = std::get_if<int64_t>(&dim)) {
          dims->push_back(Dim(*number));
        } else if (const auto* symbol = std::get_if<std::string>(&dim)) {
          dims->push_back(Dim(*symbol));
        } else {
          dims->push_back(Dim());
        }
      }
    }
    context.dtypes_.push_back(i < dtypes.size() && dtypes[i]
                                  ? std::optional(from_name(op, op.inputs[i], *dtypes[i]))
                                  : std::nullopt);
    context.inputs_.push_back(std::move(dims));
    context.values_.push_back(i < values.size() ? values[i] : std::nullopt);
  }
  infer(op, attributes, context);
  py::list results;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    py::object dims = py::none();
    if (context.output(i)) {
      py::list lengths;
      for (const Dim& dim : *context.output(i)) {
        if (dim.known()) {
          lengths.append(dim.value);
        } else if (!dim.symbol.empty()) {
          lengths.append(dim.symbol);
        } else {
          lengths.append(py::none());
        }
      }
      dims = lengths;
    }
    results.append(py::make_tuple(dtype_name(output_dtype(op, i, context.dtypes_)), dims));
  }
  return results;
}

py::list describe_all() {
  py::list descriptions;
  for (const Op& op : all_ops()) descriptions.append(describe(op));
  return descriptions;
}

// Those that this CPU has, the best first.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Isa isa : available_isas()) names.emplace_back(isa_name(isa));
  return names;
}

}  // namespace
}  // namespace myops::numpy

PYBIND11_MODULE(_numpy, module) {
  namespace numpy = myops::numpy;
  module.doc() = "Descriptions of the ops, and their kernels on NumPy arrays.";
  pybind11::register_local_exception<myops::Error>(module, "Error", PyExc_ValueError);
  module.def("describe_all", &numpy::describe_all);
  module.def("call", &numpy::call);
  module.def("infer", &numpy::infer_shapes);
  module.def("max_bytes", &myops::max_bytes);
  module.def("check_copy", &numpy::check_copy);
  module.def("instruction_set", [] { return std::string(myops::isa_name(myops::isa())); });
  module.def("instruction_sets", &numpy::instruction_sets);
}
