#include "typed_op.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "../../core/checks.h"

namespace myops::ort {
namespace {

using E = ElementType;
constexpr ElementType kElementTypes[kDTypeCount] = {
    E::Float16, E::BFloat16,  E::Float32,    E::Float64,      E::UInt8,      E::Int32,
    E::Int64,   E::Bool,      E::Int8,       E::Int16,        E::UInt16,     E::UInt32,
    E::UInt64,  E::Complex64, E::Complex128, E::Float8E4M3FN, E::Float8E5M2, E::String};

// The names in the ONNX standard of the other element types, by number.
const char* foreign_name(size_t type) {
  constexpr size_t kFirst = 18;
  constexpr const char* names[] = {"float8e4m3fnuz", "",      "float8e5m2fnuz",
                                   "uint4",          "int4",  "float4e2m1",
                                   "float8e8m0",     "uint2", "int2"};
  if (type == 0) return "an undefined type";
  const bool known = type >= kFirst && type - kFirst < std::size(names);
  return known ? names[type - kFirst] : "a type that is newer than this library";
}

// ONNX Runtime has no tensors of complex numbers, and refuses a library that names one.
bool has_host_type(DType dtype) { return dtype != DType::Complex64 && dtype != DType::Complex128; }

size_t type_index(const Op& op, const std::string& type) {
  for (size_t i = 0; i < op.types.size(); ++i) {
    if (op.types[i].name == type) return i;
  }
  (void)op.dtypes(type);  // throws: the description names a type that it does not declare
  return 0;
}

template <class Parameters>
std::vector<DType> dtypes_of(const Op& op, const Parameters& parameters,
                             const std::vector<size_t>& choice) {
  std::vector<DType> dtypes;
  for (const auto& parameter : parameters) {
    const size_t type = type_index(op, parameter.type);
    dtypes.push_back(op.types[type].dtypes[choice[type]]);
  }
  return dtypes;
}

// Which of the first inputs the first output may overwrite, a bit for each.
constexpr size_t kOverwritten = 4;
using Overwritten = size_t;

Overwritten overwritten_inputs(const Op& op) {
  Overwritten set = 0;
  if (op.outputs.empty()) return set;
  for (const std::string& name : op.outputs.front().overwritten) {
    const auto place = std::find_if(op.inputs.begin(), op.inputs.end(),
                                    [&](const Input& input) { return input.name == name; });
    if (place == op.inputs.end()) {
      throw Error(str(op.name, ": the description says that ", op.outputs.front().name,
                      " may overwrite ", name, ", which is no input"));
    }
    const auto index = static_cast<size_t>(place - op.inputs.begin());
    if (index < kOverwritten) set |= size_t{1} << index;
  }
  return set;
}

// ONNX Runtime's callback has no argument that identifies the op, so there is a function for each
// set.
template <Overwritten set>
size_t list_overwritten(int** inputs, int** outputs) {
  static int pairs[2][kOverwritten];  // of outputs, whose index is always 0
  static const size_t count = [] {
    size_t found = 0;
    for (size_t i = 0; i < kOverwritten; ++i) {
      if ((set >> i & 1) != 0) pairs[0][found++] = static_cast<int>(i);
    }
    return found;
  }();
  *inputs = pairs[0];
  *outputs = pairs[1];
  return count;
}

template <Overwritten... sets>
auto lister_of(Overwritten set, std::index_sequence<sets...>) {
  constexpr decltype(CustomOp::get_may_inplace) kListers[] = {list_overwritten<sets>...};
  return kListers[set];
}

bool has_optional_inputs(const Op& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [](const Input& input) { return input.is_optional; });
}

}  // namespace

ElementType to_element_type(DType dtype) { return kElementTypes[static_cast<int>(dtype)]; }

DType from_element_type(ElementType type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kElementTypes[i] == type) return static_cast<DType>(i);
  }
  throw Error(str("got a tensor of ", foreign_name(static_cast<size_t>(type)),
                  ", expected a dtype that this library supports"));
}

TypedOp::TypedOp(const std::vector<const Op*>& versions_, const Host& host,
                 std::vector<DType> inputs_, std::vector<DType> outputs_, bool on_cuda_)
    : op(versions_.back()),
      versions(versions_),
      api(&host.api),
      inputs(std::move(inputs_)),
      outputs(std::move(outputs_)),
      on_cuda(on_cuda_) {
  get_name = [](const CustomOp* self) { return of(self).op->onnx_type.c_str(); };
  get_execution_provider = [](const CustomOp* self) -> const char* {
    return of(self).on_cuda ? kCudaProvider : nullptr;  // null: the CPU
  };
  get_input_count = [](const CustomOp* self) { return of(self).inputs.size(); };
  get_output_count = [](const CustomOp* self) { return of(self).outputs.size(); };
  get_input_type = [](const CustomOp* self, size_t i) {
    return to_element_type(of(self).inputs[i]);
  };
  get_output_type = [](const CustomOp* self, size_t i) {
    return to_element_type(of(self).outputs[i]);
  };
  get_input_characteristic = [](const CustomOp* self, size_t i) {
    const Input& input = of(self).op->inputs[i];
    if (input.is_variadic) return Characteristic::Variadic;
    return input.is_optional ? Characteristic::Optional : Characteristic::Required;
  };
  get_output_characteristic = [](const CustomOp* self, size_t i) {
    const bool optional = !of(self).op->outputs[i].condition.empty();
    return optional ? Characteristic::Optional : Characteristic::Required;
  };
  get_variadic_input_min = [](const CustomOp*) { return 1; };
  get_variadic_input_homogeneity = [](const CustomOp*) { return 1; };
  get_variadic_output_min = [](const CustomOp*) { return 1; };
  get_variadic_output_homogeneity = [](const CustomOp*) { return 1; };
  get_input_memory = [](const CustomOp* self, size_t i) {
    const bool on_cpu = of(self).on_cuda && is_read_early(*of(self).op, i);
    return on_cpu ? MemoryType::CpuInput : MemoryType::Default;
  };
  get_start_version = [](const CustomOp* self) { return of(self).versions.front()->since_version; };
  get_end_version = [](const CustomOp*) { return std::numeric_limits<int>::max(); };
  create_kernel_v2 = ort::create_kernel;
  compute_v2 = on_cuda ? ort::compute_on_cuda : ort::compute;
  destroy_kernel = ort::destroy_kernel;
  Overwritten set = overwritten_inputs(*op);
  for (const Op* version : versions) set &= overwritten_inputs(*version);
  if (set != 0 && host.version >= kOverwritingVersion) {
    version = kOverwritingVersion;
    get_may_inplace = lister_of(set, std::make_index_sequence<1 << kOverwritten>());
    release_may_inplace = [](int*, int*) {};
    get_alias_map = [](int**, int**) { return size_t{0}; };
    release_alias_map = [](int*, int*) {};
  }
  if (host.infers_with_gaps() || !has_optional_inputs(*op)) {
    infer_output_shape = ort::infer_output_shape;
  }
}

const Op& TypedOp::of_version(int64_t version) const {
  std::vector<int64_t> known;
  for (const Op* candidate : versions) {
    if (candidate->since_version == version) return *candidate;
    known.push_back(candidate->since_version);
  }
  fail(op->name, kVersion, str("a node of version ", version, " of ", op->onnx_type),
       str("one of ", known, ", which this library has"));
}

namespace {

// The element types of the inputs and outputs of one version, in every combination.
using Signature = std::pair<std::vector<DType>, std::vector<DType>>;

std::vector<Signature> signatures(const Op& op) {
  std::vector<Signature> found;
  std::vector<size_t> choice(op.types.size(), 0);
  // A type parameter that no input has cannot be chosen by a node: it has its first dtype, as in
  // output_dtype().
  std::vector<bool> free(op.types.size(), false);
  for (const Input& input : op.inputs) free[type_index(op, input.type)] = true;

  for (;;) {
    Signature signature(dtypes_of(op, op.inputs, choice), dtypes_of(op, op.outputs, choice));
    if (std::all_of(signature.first.begin(), signature.first.end(), has_host_type) &&
        std::all_of(signature.second.begin(), signature.second.end(), has_host_type)) {
      found.push_back(std::move(signature));
    }
    size_t type = op.types.size();  // count up, the last type fastest
    while (type-- > 0) {
      if (free[type] && ++choice[type] < op.types[type].dtypes.size()) break;
      choice[type] = 0;
    }
    if (type > op.types.size()) return found;  // all combinations have been visited
  }
}

}  // namespace

std::vector<TypedOp> typed_ops(const std::vector<const Op*>& versions, const Host& host) {
  std::vector<Signature> all;
  for (const Op* version : versions) {
    for (Signature& signature : signatures(*version)) {
      if (std::find(all.begin(), all.end(), signature) == all.end()) {
        all.push_back(std::move(signature));
      }
    }
  }
  const bool with_cuda = std::all_of(versions.begin(), versions.end(), [](const Op* version) {
    return version->compute_cuda != nullptr;
  });
  std::vector<TypedOp> typed;
  for (const Signature& signature : all) {
    typed.emplace_back(versions, host, signature.first, signature.second);
  }
  if (!with_cuda || !host.takes_cuda()) return typed;
  for (Signature& signature : all) {
    typed.emplace_back(versions, host, std::move(signature.first), std::move(signature.second),
                       true);
  }
  return typed;
}

}  // namespace myops::ort
