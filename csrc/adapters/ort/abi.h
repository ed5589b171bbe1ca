// The part of the ONNX Runtime C ABI that this library uses, declared by ourselves: the pip
// package of ONNX Runtime ships no headers, and a library built against those of one release
// refuses to load in an older one.
//
// ONNX Runtime provides a table of function pointers that only ever grows at its end, so a
// function is known by its place. tests/native/ort_abi_check.cpp compares every number, type and
// offset below with the official header.
//
// Callbacks use the platform's C calling convention (the official header says __stdcall on
// Windows, which means the same on every 64-bit target).
#pragma once

#include <cstddef>
#include <cstdint>

namespace myops::ort {

// The version that is declared here: the first one with shape inference and ParallelFor for custom
// ops. Every ONNX Runtime >= 1.17 accepts it.
inline constexpr uint32_t kApiVersion = 17;

struct Allocator;
struct ComputeContext;  // OrtKernelContext
struct CustomOpDomain;
struct KernelInfo;
struct MemoryInfo;
struct NodeAttribute;  // OrtOpAttr
struct SessionOptions;
struct ShapeInferContext;
struct Status;
struct Table;         // OrtApi
struct TypeAndShape;  // OrtTensorTypeAndShapeInfo
struct Value;

enum class ErrorCode : int { Fail = 1, InvalidArgument = 2, RuntimeException = 6 };

enum class ElementType : int {
  Undefined = 0,
  Float32 = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Float64 = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E5M2 = 19,
};

enum class AttributeKind : int {
  Undefined = 0,
  Int = 1,
  Ints = 2,
  Float = 3,
  Floats = 4,
  String = 5,
  Strings = 6,
  Tensor = 8,
};
enum class Characteristic : int { Required = 0, Optional = 1, Variadic = 2 };
enum class DeviceType : int { Cpu = 0, Gpu = 1 };
enum class MemoryType : int { CpuInput = -2, CpuOutput = -1, Default = 0 };

// The struct that ONNX Runtime passes to RegisterCustomOps.
struct ApiBase {
  const Table* (*get_api)(uint32_t version);  // null where the host is older than `version`
  const char* (*get_version_string)();
};

// The version from which the last four members of a CustomOp are read.
inline constexpr uint32_t kOverwritingVersion = 18;

// The description of one custom op: callbacks that ONNX Runtime calls with the struct itself.
struct CustomOp {
  uint32_t version = kApiVersion;
  void* (*create_kernel)(const CustomOp*, const Table*, const KernelInfo*) = nullptr;
  const char* (*get_name)(const CustomOp*) = nullptr;
  const char* (*get_execution_provider)(const CustomOp*) = nullptr;
  ElementType (*get_input_type)(const CustomOp*, size_t index) = nullptr;
  size_t (*get_input_count)(const CustomOp*) = nullptr;
  ElementType (*get_output_type)(const CustomOp*, size_t index) = nullptr;
  size_t (*get_output_count)(const CustomOp*) = nullptr;
  void (*compute)(void* kernel, ComputeContext*) = nullptr;
  void (*destroy_kernel)(void* kernel) = nullptr;
  Characteristic (*get_input_characteristic)(const CustomOp*, size_t index) = nullptr;
  Characteristic (*get_output_characteristic)(const CustomOp*, size_t index) = nullptr;
  MemoryType (*get_input_memory)(const CustomOp*, size_t index) = nullptr;
  int (*get_variadic_input_min)(const CustomOp*) = nullptr;
  int (*get_variadic_input_homogeneity)(const CustomOp*) = nullptr;
  int (*get_variadic_output_min)(const CustomOp*) = nullptr;
  int (*get_variadic_output_homogeneity)(const CustomOp*) = nullptr;
  // Version 16: the same as create_kernel and compute, but able to refuse.
  Status* (*create_kernel_v2)(const CustomOp*, const Table*, const KernelInfo*,
                              void** kernel) = nullptr;
  Status* (*compute_v2)(void* kernel, ComputeContext*) = nullptr;
  // Version 17.
  Status* (*infer_output_shape)(const CustomOp*, ShapeInferContext*) = nullptr;
  int (*get_start_version)(const CustomOp*) = nullptr;
  int (*get_end_version)(const CustomOp*) = nullptr;
  // Version 18. A host that reads it without checking `version` finds null, not other memory.
  size_t (*get_may_inplace)(int** inputs, int** outputs) = nullptr;
  void (*release_may_inplace)(int* inputs, int* outputs) = nullptr;
  size_t (*get_alias_map)(int** inputs, int** outputs) = nullptr;
  void (*release_alias_map)(int* inputs, int* outputs) = nullptr;
};

// call(name, place in the table, result, parameters...). Names are the official ones.
// clang-format off
#define MYOPS_ORT_CALLS(call)                                                                      \
  call(CreateStatus, 0, Status*, ErrorCode, const char* text)                                      \
  call(GetErrorCode, 1, ErrorCode, const Status*)                                                  \
  call(GetErrorMessage, 2, const char*, const Status*)                                             \
  call(ReleaseStatus, 93, void, Status*)                                                           \
  /* Registration. */                                                                              \
  call(CreateCustomOpDomain, 26, Status*, const char* name, CustomOpDomain** out)                  \
  call(CustomOpDomain_Add, 27, Status*, CustomOpDomain*, const CustomOp*)                          \
  call(AddCustomOpDomain, 28, Status*, SessionOptions*, CustomOpDomain*)                           \
  call(ReleaseCustomOpDomain, 101, void, CustomOpDomain*)                                          \
  /* Tensors. */                                                                                   \
  call(GetTensorMutableData, 51, Status*, Value*, void** out)                                      \
  call(GetTensorTypeAndShape, 65, Status*, const Value*, TypeAndShape** out)                       \
  call(GetStringTensorDataLength, 53, Status*, const Value*, size_t* bytes)                        \
  call(GetStringTensorContent, 54, Status*, const Value*, void* characters, size_t bytes,          \
       size_t* begins, size_t count)                                                               \
  call(GetResizedStringTensorElementBuffer, 252, Status*, Value*, size_t index, size_t bytes,      \
       char** out)                                                                                 \
  call(GetTensorMemoryInfo, 194, Status*, const Value*, const MemoryInfo** out)                    \
  call(MemoryInfoGetMemType, 73, Status*, const MemoryInfo*, MemoryType* out)                      \
  call(MemoryInfoGetDeviceType, 225, void, const MemoryInfo*, DeviceType* out)                     \
  /* Types and shapes. */                                                                          \
  call(CreateTensorTypeAndShapeInfo, 57, Status*, TypeAndShape** out)                              \
  call(SetTensorElementType, 58, Status*, TypeAndShape*, ElementType)                              \
  call(SetDimensions, 59, Status*, TypeAndShape*, const int64_t* dims, size_t count)               \
  call(GetTensorElementType, 60, Status*, const TypeAndShape*, ElementType* out)                   \
  call(GetDimensionsCount, 61, Status*, const TypeAndShape*, size_t* out)                          \
  call(GetDimensions, 62, Status*, const TypeAndShape*, int64_t* dims, size_t count)               \
  call(GetSymbolicDimensions, 63, Status*, const TypeAndShape*, const char** names, size_t count)  \
  call(SetSymbolicDimensions, 271, Status*, TypeAndShape*, const char** names, size_t count)       \
  call(ReleaseTensorTypeAndShapeInfo, 99, void, TypeAndShape*)                                     \
  /* A kernel's attributes, when it is created. With null for `out`, `size` is filled in. */       \
  call(KernelInfoGetAttribute_float, 85, Status*, const KernelInfo*, const char* name, float* out) \
  call(KernelInfoGetAttribute_int64, 86, Status*, const KernelInfo*, const char* name,             \
       int64_t* out)                                                                               \
  call(KernelInfoGetAttribute_string, 87, Status*, const KernelInfo*, const char* name, char* out, \
       size_t* size)                                                                               \
  call(KernelInfoGetAttributeArray_float, 162, Status*, const KernelInfo*, const char* name,       \
       float* out, size_t* size)                                                                   \
  call(KernelInfoGetAttributeArray_int64, 163, Status*, const KernelInfo*, const char* name,       \
       int64_t* out, size_t* size)                                                                 \
  call(KernelInfoGetAttribute_tensor, 236, Status*, const KernelInfo*, const char* name,           \
       Allocator*, Value** out)                                                                    \
  call(GetAllocatorWithDefaultOptions, 78, Status*, Allocator** out)                               \
  call(AllocatorFree, 76, Status*, Allocator*, void*)                                              \
  call(ReleaseValue, 96, void, Value*)                                                             \
  call(KernelInfo_GetInputCount, 230, Status*, const KernelInfo*, size_t* out)                     \
  call(KernelInfo_GetNodeName, 244, Status*, const KernelInfo*, char* out, size_t* size)           \
  call(KernelInfoGetConstantInput_tensor, 249, Status*, const KernelInfo*, size_t index,           \
       int* is_constant, const Value** out)                                                        \
  /* One run of a kernel. */                                                                       \
  call(KernelContext_GetInputCount, 88, Status*, const ComputeContext*, size_t* out)               \
  call(KernelContext_GetOutputCount, 89, Status*, const ComputeContext*, size_t* out)              \
  call(KernelContext_GetInput, 90, Status*, const ComputeContext*, size_t index,                   \
       const Value** out)                                                                          \
  call(KernelContext_GetOutput, 91, Status*, ComputeContext*, size_t index, const int64_t* dims,   \
       size_t count, Value** out)                                                                  \
  call(KernelContext_ParallelFor, 274, Status*, const ComputeContext*,                             \
       void (*task)(void*, size_t), size_t count, size_t batches, void* argument)                  \
  /* Shape inference, when a model is loaded. */                                                   \
  call(ShapeInferContext_GetInputCount, 267, Status*, const ShapeInferContext*, size_t* out)       \
  call(ShapeInferContext_GetInputTypeShape, 268, Status*, const ShapeInferContext*, size_t index,  \
       TypeAndShape** borrowed)                                                                    \
  call(ShapeInferContext_GetAttribute, 269, Status*, const ShapeInferContext*, const char* name,   \
       const NodeAttribute** out)                                                                  \
  call(ShapeInferContext_SetOutputTypeShape, 270, Status*, const ShapeInferContext*, size_t index, \
       const TypeAndShape*)                                                                        \
  call(ReadOpAttr, 272, Status*, const NodeAttribute*, AttributeKind, void* data, size_t bytes,    \
       size_t* out)

// Optional functions, used from this version on: the shape of a tensor without a temporary object,
// and the type of an attribute.
inline constexpr uint32_t kNewerApiVersion = 24;
#define MYOPS_ORT_NEWER_CALLS(call)                                                                \
  call(GetTensorElementTypeAndShapeDataReference, 414, Status*, const Value*, ElementType* type,   \
       const int64_t** dims, size_t* rank)                                                         \
  call(OpAttr_GetTensorAttributeAsOrtValue, 362, Status*, const NodeAttribute*, Value** out)       \
  call(OpAttr_GetType, 363, Status*, const NodeAttribute*, AttributeKind* out)

// Arguments of KernelContext_GetResource for CUDA's provider (cuda_resource.h of ONNX Runtime): the
// version of its list of resources, and a member of the list.
inline constexpr int kCudaResources = 3;
inline constexpr int kCudaUsesTf32 = 10011;  // the provider's option use_tf32, a bool

// What kernels on a GPU need, used from the same version on.
#define MYOPS_ORT_GPU_CALLS(call)                                                                  \
  call(MemoryInfoGetId, 72, Status*, const MemoryInfo*, int* out)                                  \
  call(KernelContext_GetGPUComputeStream, 193, Status*, const ComputeContext*, void** out)         \
  call(KernelContext_GetScratchBuffer, 277, Status*, const ComputeContext*, const MemoryInfo*,     \
       size_t bytes, void** out)                                                                   \
  call(KernelContext_GetAllocator, 253, Status*, const ComputeContext*, const MemoryInfo*,         \
       Allocator** out)                                                                            \
  call(ReleaseAllocator, 132, void, Allocator*)                                                    \
  call(KernelContext_GetResource, 265, Status*, const ComputeContext*, int version, int resource,  \
       void** out)

// And from this one on: a list of strings, whose memory the caller frees.
inline constexpr uint32_t kNewestApiVersion = 25;
#define MYOPS_ORT_NEWEST_CALLS(call)                                                               \
  call(KernelInfoGetAttributeArray_string, 417, Status*, const KernelInfo*, const char* name,      \
       Allocator*, char*** out, size_t* size)
// clang-format on

// The functions by name, read from the table of one ONNX Runtime. Newer ones are null if the table
// is that of an older version.
struct Api {
#define MYOPS_ORT_MEMBER(name, place, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  MYOPS_ORT_CALLS(MYOPS_ORT_MEMBER)
  MYOPS_ORT_NEWER_CALLS(MYOPS_ORT_MEMBER)
  MYOPS_ORT_GPU_CALLS(MYOPS_ORT_MEMBER)
  MYOPS_ORT_NEWEST_CALLS(MYOPS_ORT_MEMBER)
#undef MYOPS_ORT_MEMBER

  Api(const Table* table, uint32_t version) {
    using Function = void (*)();
    const Function* functions = reinterpret_cast<const Function*>(table);
#define MYOPS_ORT_LOAD(name, place, result, ...) \
  name = reinterpret_cast<decltype(name)>(functions[place]);
    MYOPS_ORT_CALLS(MYOPS_ORT_LOAD)
    if (version < kNewerApiVersion) return;
    MYOPS_ORT_NEWER_CALLS(MYOPS_ORT_LOAD)
    MYOPS_ORT_GPU_CALLS(MYOPS_ORT_LOAD)
    if (version < kNewestApiVersion) return;
    MYOPS_ORT_NEWEST_CALLS(MYOPS_ORT_LOAD)
#undef MYOPS_ORT_LOAD
  }
};

}  // namespace myops::ort
