// Every call of a kernel comes through invoke(): check, infer shapes, allocate, compute.
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "call_inputs.h"
#include "checks.h"
#include "decided_outputs.h"
#include "elementwise_order.h"
#include "functional.h"
#include "myops/op.h"
#include "out_argument.h"
#include "report.h"
#include "shape_cache.h"

namespace myops {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;
constexpr size_t kMaxRank = 64;  // as in NumPy; rules may take time that grows with its square

void check_key(const Op& op, const Input& key, const Dims& dims) {
  if (dims.size() == 1 && (!dims[0].known() || dims[0].value == 1)) return;
  fail(op.name, key.name, "shape " + shape_text(dims), "shape [1] (one number)");
}

// Checks that required inputs are present, that lists have rank 1, that each input has a declared
// dtype, and that inputs with the same type parameter have the same dtype.
void check_inputs(const Op& op, const ShapeContext& context) {
  const DTypes& inputs = context.dtypes_;
  if (op.is_variadic() && context.input_count() < op.inputs.size()) {
    fail(op.name, op.inputs.back().name, "an empty list", "a list of at least one tensor");
  }
  bool any = false;
  for (size_t i = 0; i < context.input_count(); ++i) {
    const Input& input = op.declared(i);
    const auto name = [&] { return op.input_name(i); };
    any = any || context.has(i);
    if (!context.has(i) && !input.is_optional) fail(op.name, name(), "nothing", "a tensor");
    if (context.has(i) && context.dims(i).size() > kMaxRank) {
      fail(op.name, name(), str("rank ", context.dims(i).size()), str("at most ", kMaxRank));
    }
    if (context.has(i) && input.has_values && context.dims(i).size() > 1) {
      fail(op.name, name(), str("rank ", context.dims(i).size()), "a list (rank 1)");
    }
    if (op.is_random && i + 1 == op.inputs.size() && context.has(i)) {
      check_key(op, input, context.dims(i));
    }
    if (!inputs[i]) continue;  // left out, or unknown during shape inference
    const std::vector<DType>& legal = op.dtypes(input.type);
    if (std::find(legal.begin(), legal.end(), *inputs[i]) == legal.end()) {
      refuse_dtype(op, input, dtype_name(*inputs[i]));
    }
    for (size_t j = 0; j < i; ++j) {
      if (op.declared(j).type != input.type || !inputs[j]) continue;
      if (*inputs[j] == *inputs[i]) break;  // the inputs before it have this dtype too
      fail(op.name, name(), str("dtype ", dtype_name(*inputs[i])),
           str(dtype_name(*inputs[j]), ", the dtype of ", op.input_name(j)));
    }
  }
  // torch's dispatcher chooses a kernel by the tensors of the call.
  if (!any) fail(op.name, op.inputs[0].name, "no input at all", "a tensor for at least one input");
}

// Whether the rule knew every length, and every number that decides one.
bool knew_all(const Op& op, const ShapeContext& context) {
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has(i)) continue;
    if (op.declared(i).has_values && !context.values(i)) return false;
    for (const Dim& dim : context.dims(i)) {
      if (!dim.known()) return false;
    }
  }
  return true;
}

// Refuses lengths of an output that a rule which knew everything has left unknown, or has computed
// as a number below 0. Where it did not, such a number comes from the -1 of an unknown length, and
// is unknown too.
void check_lengths(const Op& op, const Output& output, std::optional<Dims>& dims, bool knew) {
  if (!dims && knew) {
    fail(op.name, output.name, "no lengths from the shape rule",
         "those of every output where all lengths of the inputs are known: call set_output for it");
  }
  for (size_t axis = 0; dims && axis < dims->size(); ++axis) {
    Dim& dim = (*dims)[axis];
    if (dim.known() || dim.decided()) continue;
    if (knew && dim.value == -1) {
      fail(op.name, output.name, str("an unknown length on axis ", axis, " from the shape rule"),
           "a known one where all lengths of the inputs are; a -1 that it computes is unknown");
    }
    if (knew) {
      fail(op.name, output.name,
           str("a length of ", dim.value, " on axis ", axis, " from the shape rule"),
           "0 or more; let the rule refuse the arguments that lead to it (MYOPS_EXPECT)");
    }
    dim.value = -1;
  }
}

// The output's lengths as integers; -1 for one that the kernel decides. infer() has checked that
// all others are known, as all input lengths were.
Shape concrete(const Op& op, size_t index, const ShapeContext& context) {
  Shape shape;
  for (const Dim& dim : *context.output(index)) shape.push_back(dim.known() ? dim.value : -1);
  // A length of 0 counts as 1: an empty tensor has strides too, which must not overflow.
  double count = 1;
  for (int64_t dim : shape) count *= static_cast<double>(std::max<int64_t>(dim, 1));
  if (count > static_cast<double>(kMaxElements)) {
    fail(op.name, op.outputs[index].name, str("shape ", shape), "at most 2^40 elements");
  }
  return shape;
}

Layout output_layout(const Op& op, const TensorPointers& inputs, const Shape& shape) {
  const Access access = op.inputs[0].access_mode;
  const bool follows =
      access == Access::ChannelsLast || access == Access::Strided || access == Access::StridedOnCpu;
  const bool possible = shape.size() == inputs[0]->shape.size();
  return follows && possible && inputs[0]->channels_last() ? Layout::ChannelsLast
                                                           : Layout::Contiguous;
}

// Runs the op's code for one `part` of a call. Exceptions get the op's name, unless it is an Error,
// which has it, or something of the runtime that passes through: no more memory, an exception of
// Python, a call that goes another way.
template <class Body>
void run_code(const Op& op, const char* part, const Body& body) {
  // No Error: that would say that an argument is wrong.
  const auto failed = [&](const char* got) {
    throw std::runtime_error(str(op.name, ": ", part, ": got ", got,
                                 ", expected none; MYOPS_EXPECT and myops::fail refuse arguments"));
  };
  try {
    body();
  } catch (const Mistake& mistake) {
    throw Error(str(op.name, ": ", mistake.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::logic_error& error) {
    failed(str("an exception, ", error.what()).c_str());
  } catch (const std::runtime_error& error) {
    failed(str("an exception, ", error.what()).c_str());
  } catch (const std::exception&) {
    throw;
  } catch (const NotAFailure&) {
    throw;
  } catch (...) {
    failed("an exception that is not a std::exception");
  }
}

// Checks the inputs and runs the shape rule: dtypes and shapes of the outputs.
void describe_outputs(const Op& op, const TensorPointers& inputs, const Attributes& attributes,
                      CachedCall& call) {
  ShapeContext shapes(op, attributes);
  shapes.dtypes_.reserve(inputs.size());
  shapes.inputs_.resize(inputs.size());
  shapes.values_.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = *inputs[i];
    shapes.dtypes_.push_back(tensor.present ? std::optional(tensor.dtype) : std::nullopt);
    if (tensor.present) shapes.inputs_[i].emplace(tensor.shape.begin(), tensor.shape.end());
    // An input that is no list of numbers is refused by infer() below, with the text of shape
    // inference.
    const bool read = tensor.present && op.declared(i).has_values && tensor.rank() <= 1 &&
                      is_number(tensor.dtype);
    shapes.values_.push_back(read ? std::optional(read_values(tensor)) : std::nullopt);
  }
  infer(op, attributes, shapes);
  call.outputs.clear();
  call.outputs.reserve(op.outputs.size());
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const DType dtype = output_dtype(op, i, shapes.dtypes_);
    if (is_wanted(op, op.outputs[i], shapes)) {
      call.outputs.push_back({dtype, concrete(op, i, shapes), true});
    } else {
      call.outputs.push_back({dtype, {}, false});
    }
  }
  call.decided = decided_axes(shapes);
  call.unusual = call.decided || op.in_place || op.writes();
}

Tensor make_output(const Op& op, size_t index, const TensorPointers& inputs,
                   const OutputDescriptions& described, Runtime& runtime) {
  const auto& [dtype, shape, present] = described[index];
  if (present && op.outputs[index].is_elementwise) {
    const bool plain = std::all_of(inputs.begin(), inputs.end(), [](const Tensor* input) {
      return !input->present || input->is(Layout::Contiguous);
    });
    return plain
               ? runtime.allocate(index, dtype, shape, Layout::Contiguous)
               : runtime.allocate_strided(index, dtype, shape, elementwise_strides(inputs, shape));
  }
  if (present) return runtime.allocate(index, dtype, shape, output_layout(op, inputs, shape));
  runtime.leave_out(index, dtype);
  return Tensor();
}

// The call of an op that decides lengths of its outputs, that writes into its inputs, or that runs
// the kernel of one which does. Such kernels have no call cache.
[[gnu::noinline]] void invoke_unusual(const Op& op, const TensorPointers& given,
                                      const Attributes& attributes, Runtime& runtime,
                                      const void* prepared, const CachedCall& call,
                                      Tensors& outputs, Report* report) {
  if (call.decided && op.in_place) {
    throw Error(str(op.name,
                    ": shape: got a length for the kernel to decide, expected none in an "
                    "op of functional_of()"));
  }
  if (call.decided && runtime.cuda_device() != nullptr) {
    throw Error(str(op.name,
                    ": CUDA: got a length that the kernel decides, expected lengths that the shape "
                    "rule knows: the CPU would have to wait for the device. Call the op on the "
                    "CPU"));
  }
  refuse_shared(op, given);
  const OutputDescriptions& described = call.outputs;
  static const DecidedAxes none;
  std::vector<Layout> layouts;
  for (const OutputDescription& output : described) {
    layouts.push_back(output_layout(op, given, output.shape));
  }
  DecidedOutputs decided(op, described, call.decided ? *call.decided : none, runtime,
                         std::move(layouts), outputs);
  for (size_t i = 0; i < described.size(); ++i) {
    const auto& [dtype, shape, present] = described[i];
    if (present && !decided.has(i)) take_output(op, i, dtype, shape, runtime.budget());
  }
  for (size_t i = 0; i < described.size(); ++i) {
    const bool later = described[i].present && decided.has(i);
    outputs.push_back(later ? Tensor() : make_output(op, i, given, described, runtime));
  }
  if (call.decided) decided.reserve();
  if (report != nullptr) report->starts_kernel(given, outputs);
  TensorPointers inputs = given;
  Tensors copies;
  if (op.in_place) replace_written(op, inputs, outputs, copies);
  KernelContext context(op, inputs, outputs, attributes, runtime, prepared, nullptr, report,
                        call.decided ? &decided : nullptr);
  runtime.begin_kernel();
  run_code(op, "kernel", [&] { op.compute(context); });
  decided.check_complete();
  if (report != nullptr && call.decided) report->made_outputs(outputs);
}

}  // namespace

std::string dtype_names(const std::vector<DType>& dtypes) {
  std::string text;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    text += str(i == 0 ? "" : i + 1 == dtypes.size() ? " or " : ", ", dtype_name(dtypes[i]));
  }
  return text;
}

void refuse_dtype(const Op& op, const Input& input, const std::string& got) {
  fail(op.name, input.name, "dtype " + got, dtype_names(op.dtypes(input.type)));
}

bool is_wanted(const Op& op, const Output& output, const ShapeContext& context) {
  if (output.condition.empty()) return true;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].name == output.condition) return context.has(i);
  }
  return context.attributes().flag(output.condition.c_str());
}

DType output_dtype(const Op& op, size_t output, const DTypes& inputs) {
  const std::string& type = op.outputs[output].type;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] && op.declared(i).type == type) return *inputs[i];
  }
  return op.dtypes(type).front();
}

void ShapeContext::set_output(size_t output, Dims dims) {
  if (output >= outputs_.size()) detail::refuse_place("output", output, outputs_.size());
  outputs_[output] = std::move(dims);
}

void detail::refuse_place(const char* what, size_t index, size_t count) {
  const std::string known = count == 0 ? "none" : str("one from 0 to ", count - 1);
  throw Mistake(
      str(what, " ", index, ": got this index from the code of the op, expected ", known));
}

void detail::refuse_absent(size_t input) {
  throw Mistake(str("input ", input,
                    ": got code of the op that reads its lengths, expected a check with ",
                    "ShapeContext::has() first: the call leaves it out"));
}

void detail::refuse_rank(size_t rank, size_t most) {
  throw Mistake(str("View: got a tensor of rank ", rank, ", expected rank ", most,
                    " or less: the shape rule has to refuse it, or the View needs more axes"));
}

void infer(const Op& op, const Attributes& attributes, ShapeContext& context) {
  check_inputs(op, context);
  check_attributes(op, attributes);
  context.outputs_.clear();
  context.outputs_.resize(op.outputs.size());
  run_code(op, "shape", [&] { op.shape_rule(context); });
  const bool knew = knew_all(op, context);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (!is_wanted(op, op.outputs[i], context)) continue;
    check_lengths(op, op.outputs[i], context.outputs_[i], knew);
  }
}

Prepared prepare(const Op& op, const Tensors& constants, const Attributes& attributes) {
  Prepared prepared;
  if (op.make_prepared == nullptr) return prepared;
  run_code(op, "prepare",
           [&] { prepared = op.make_prepared(PrepareContext(op, constants, attributes)); });
  return prepared;
}

namespace {

// One call. `report`: where to record what it did, or null.
void run(const Op& op, const Tensors& given, const Attributes& attributes, Runtime& runtime,
         const void* prepared, ShapeCache* last, Report* report) {
  const CallInputs call(op, given, runtime.budget());
  const TensorPointers& inputs = call.tensors();
  CachedCall cached;
  if (last == nullptr || !last->find(op, inputs, attributes, cached)) {
    describe_outputs(op, inputs, attributes, cached);
    if (last != nullptr) last->store(op, inputs, attributes, cached);
  }
  const OutputDescriptions& described = cached.outputs;
  Tensors outputs;
  outputs.reserve(described.size());
  if (cached.unusual) {
    invoke_unusual(op, inputs, attributes, runtime, prepared, cached, outputs, report);
    return;
  }
  for (size_t i = 0; i < described.size(); ++i) {
    const auto& [dtype, shape, present] = described[i];
    if (present) take_output(op, i, dtype, shape, runtime.budget());
  }
  for (size_t i = 0; i < described.size(); ++i) {
    outputs.push_back(make_output(op, i, inputs, described, runtime));
  }
  if (report != nullptr) report->starts_kernel(inputs, outputs);
  KernelContext context(op, inputs, outputs, attributes, runtime, prepared,
                        std::move(cached.call_cache), report);
  run_code(op, "kernel", [&] { op.compute(context); });
  if (context.new_call_cache() && cached.number != 0)
    last->store_call_cache(cached.number, context.new_call_cache());
}

// The same with a report. A function of its own, because all calls run through invoke().
[[gnu::noinline, gnu::cold]] void run_reported(const Op& op, const Tensors& inputs,
                                               const Attributes& attributes, Runtime& runtime,
                                               const void* prepared, ShapeCache* last) {
  Report report(op, attributes, runtime);
  try {
    run(op, inputs, attributes, runtime, prepared, last, &report);
  } catch (const std::exception& error) {
    report.finish(inputs, error.what());
    throw;
  }  // Anything else is no failure: a fast call that turns out to need the dispatcher.
  report.finish(inputs);
}

}  // namespace

void invoke(const Op& op, const Tensors& inputs, const Attributes& attributes, Runtime& runtime,
            const void* prepared, ShapeCache* last) {
  if (calls_are_reported()) return run_reported(op, inputs, attributes, runtime, prepared, last);
  run(op, inputs, attributes, runtime, prepared, last, nullptr);
}

std::vector<double> read_values(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  const int64_t step = tensor.rank() == 0 ? 0 : tensor.strides[0];
  // (A description that declares another dtype for such an input is refused.)
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t, int8_t, int16_t, uint16_t,
           uint32_t, uint64_t>(tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = tensor.as<T>()[static_cast<int64_t>(i) * step];
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        values[i] = static_cast<float>(value);
      } else {
        values[i] = static_cast<double>(value);
      }
    }
  });
  return values;
}

}  // namespace myops
