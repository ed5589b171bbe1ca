// Compares adapters/ort/abi.h with the official header; compiling is the test.
//   c++ -std=c++17 -fsyntax-only -I csrc -I <folder of onnxruntime_c_api.h> this_file
#include <onnxruntime_c_api.h>

#include <type_traits>

#include "adapters/ort/abi.h"

// The official functions are marked "use the result", which a template argument drops.
#pragma GCC diagnostic ignored "-Wignored-attributes"

namespace ours = myops::ort;

static_assert(ORT_API_VERSION >= ours::kApiVersion, "the official header is older than ours");

// Two parameters are alike if they are passed alike: the types themselves have different names.
template <class Ours, class Official>
constexpr bool alike() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Official>) {
    return std::is_void_v<Ours> && std::is_void_v<Official>;
  } else {
    return sizeof(Ours) == sizeof(Official) &&
           std::is_pointer_v<Ours> == std::is_pointer_v<Official> &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Official>;
  }
}

template <class Ours, class Official>
struct SameSignature : std::false_type {};
template <class R, class... A, class S, class... B>
struct SameSignature<R (*)(A...), S (*)(B...)> {
  template <class X, class Y, bool = sizeof...(A) == sizeof...(B)>
  struct Parameters : std::false_type {};
  template <class... X, class... Y>
  struct Parameters<void(X...), void(Y...), true> : std::bool_constant<(alike<X, Y>() && ...)> {};
  static constexpr bool value = alike<R, S>() && Parameters<void(A...), void(B...)>::value;
};
// The official functions may be declared noexcept, which C++17 makes part of their type.
template <class R, class... A, class S, class... B>
struct SameSignature<R (*)(A...), S (*)(B...) noexcept> : SameSignature<R (*)(A...), S (*)(B...)> {
};

#define CHECK_CALL(name, place, result, ...)                                             \
  static_assert(offsetof(OrtApi, name) == (place) * sizeof(void*), #name ": place");     \
  static_assert(SameSignature<decltype(ours::Api::name), decltype(OrtApi::name)>::value, \
                #name ": signature");
MYOPS_ORT_CALLS(CHECK_CALL)
#if ORT_API_VERSION >= 18
MYOPS_ORT_GPU_CALLS(CHECK_CALL)
#endif
#if ORT_API_VERSION >= 24
MYOPS_ORT_NEWER_CALLS(CHECK_CALL)
#endif

#define CHECK_MEMBER(ours_struct, ours_name, official_struct, official_name)              \
  static_assert(                                                                          \
      offsetof(ours::ours_struct, ours_name) == offsetof(official_struct, official_name), \
      #official_name ": offset");                                                         \
  static_assert(SameSignature<decltype(ours::ours_struct::ours_name),                     \
                              decltype(official_struct::official_name)>::value,           \
                #official_name ": signature");

CHECK_MEMBER(ApiBase, get_api, OrtApiBase, GetApi)
CHECK_MEMBER(ApiBase, get_version_string, OrtApiBase, GetVersionString)

#define CHECK_OP(ours_name, official_name) \
  CHECK_MEMBER(CustomOp, ours_name, OrtCustomOp, official_name)
static_assert(offsetof(ours::CustomOp, version) == offsetof(OrtCustomOp, version));
static_assert(sizeof(ours::CustomOp::version) == sizeof(OrtCustomOp::version));
CHECK_OP(create_kernel, CreateKernel)
CHECK_OP(get_name, GetName)
CHECK_OP(get_execution_provider, GetExecutionProviderType)
CHECK_OP(get_input_type, GetInputType)
CHECK_OP(get_input_count, GetInputTypeCount)
CHECK_OP(get_output_type, GetOutputType)
CHECK_OP(get_output_count, GetOutputTypeCount)
CHECK_OP(compute, KernelCompute)
CHECK_OP(destroy_kernel, KernelDestroy)
CHECK_OP(get_input_characteristic, GetInputCharacteristic)
CHECK_OP(get_output_characteristic, GetOutputCharacteristic)
CHECK_OP(get_input_memory, GetInputMemoryType)
CHECK_OP(get_variadic_input_min, GetVariadicInputMinArity)
CHECK_OP(get_variadic_input_homogeneity, GetVariadicInputHomogeneity)
CHECK_OP(get_variadic_output_min, GetVariadicOutputMinArity)
CHECK_OP(get_variadic_output_homogeneity, GetVariadicOutputHomogeneity)
CHECK_OP(create_kernel_v2, CreateKernelV2)
CHECK_OP(compute_v2, KernelComputeV2)
CHECK_OP(infer_output_shape, InferOutputShapeFn)
CHECK_OP(get_start_version, GetStartVersion)
CHECK_OP(get_end_version, GetEndVersion)
#if ORT_API_VERSION >= 18
CHECK_OP(get_may_inplace, GetMayInplace)
CHECK_OP(release_may_inplace, ReleaseMayInplace)
CHECK_OP(get_alias_map, GetAliasMap)
CHECK_OP(release_alias_map, ReleaseAliasMap)
#endif

#define CHECK_VALUE(ours_value, official_value)                                           \
  static_assert(static_cast<int>(ours::ours_value) == static_cast<int>(official_value) && \
                    sizeof(ours::ours_value) == sizeof(official_value),                   \
                #official_value);
CHECK_VALUE(ErrorCode::Fail, ORT_FAIL)
CHECK_VALUE(ErrorCode::InvalidArgument, ORT_INVALID_ARGUMENT)
CHECK_VALUE(ErrorCode::RuntimeException, ORT_RUNTIME_EXCEPTION)
CHECK_VALUE(ElementType::Undefined, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED)
CHECK_VALUE(ElementType::Float32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
CHECK_VALUE(ElementType::UInt8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8)
CHECK_VALUE(ElementType::Int32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32)
CHECK_VALUE(ElementType::Int64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)
CHECK_VALUE(ElementType::Float16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16)
CHECK_VALUE(ElementType::Float64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE)
CHECK_VALUE(ElementType::BFloat16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16)
CHECK_VALUE(AttributeKind::Int, ORT_OP_ATTR_INT)
CHECK_VALUE(AttributeKind::Ints, ORT_OP_ATTR_INTS)
CHECK_VALUE(AttributeKind::Float, ORT_OP_ATTR_FLOAT)
CHECK_VALUE(AttributeKind::Floats, ORT_OP_ATTR_FLOATS)
CHECK_VALUE(AttributeKind::String, ORT_OP_ATTR_STRING)
CHECK_VALUE(Characteristic::Required, INPUT_OUTPUT_REQUIRED)
CHECK_VALUE(Characteristic::Optional, INPUT_OUTPUT_OPTIONAL)
CHECK_VALUE(DeviceType::Cpu, OrtMemoryInfoDeviceType_CPU)
CHECK_VALUE(MemoryType::CpuInput, OrtMemTypeCPUInput)
CHECK_VALUE(MemoryType::CpuOutput, OrtMemTypeCPUOutput)
CHECK_VALUE(MemoryType::Default, OrtMemTypeDefault)
