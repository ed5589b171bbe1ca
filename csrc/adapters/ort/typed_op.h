// An op of the description with its type parameters chosen: ONNX Runtime takes one custom op for
// each combination of element types and selects one of those with the same name.
#pragma once

#include <vector>

#include "../../core/library_names.h"
#include "abi.h"
#include "myops/op.h"

namespace myops::ort {

// The ONNX Runtime that has loaded the library.
struct Host {
  const Api api;
  const uint32_t version;  // of the API

  // Up to 1.23 ONNX Runtime dereferences a null pointer, before it calls this library, when it
  // infers shapes for a node that leaves out an input which is not the last.
  bool infers_with_gaps() const { return version >= kNewerApiVersion; }

  // Whether kernels for the execution provider of CUDA are registered. The host says which
  // providers it was built with, not which it has loaded as plugins, so they always are: those of a
  // provider that is not there are never looked for.
  bool takes_cuda() const { return version >= kNewerApiVersion; }
};

inline constexpr const char* kCudaProvider = "CUDAExecutionProvider";

// ONNX Runtime receives a pointer to the CustomOp; every callback passes it back, and it is
// converted to the TypedOp.
struct TypedOp : CustomOp {
  TypedOp(const std::vector<const Op*>& versions, const Host& host, std::vector<DType> inputs,
          std::vector<DType> outputs, bool on_cuda = false);

  static const TypedOp& of(const CustomOp* base) { return *static_cast<const TypedOp*>(base); }

  // What a node of this version means.
  const Op& of_version(int64_t version) const;

  const Op* op;                     // the newest version
  std::vector<const Op*> versions;  // oldest first
  const Api* api;
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  bool on_cuda;  // for the execution provider of CUDA
};

// Of one ONNX type, whose versions these are, oldest first. ONNX Runtime chooses a kernel by name
// and element types: it has one schema for a name, so the version of the model's domain does not
// count. The node says which version it means (kVersion), and create_kernel() chooses.
//
// Where the host is new enough, and each version has a kernel for CUDA, there is a second op with
// every signature, for nodes that the execution provider of CUDA takes.
std::vector<TypedOp> typed_ops(const std::vector<const Op*>& versions, const Host& host);

// The attribute of a node with the version of its meaning; a node without it has version 1.
inline constexpr const char* kVersion = "since_version";

// kernel.cpp: one node of a model that is being run.
Status* create_kernel(const CustomOp*, const Table*, const KernelInfo*, void** kernel) noexcept;
Status* compute(void* kernel, ComputeContext*) noexcept;
Status* compute_on_cuda(void* kernel, ComputeContext*) noexcept;
void destroy_kernel(void* kernel) noexcept;

// shape_inference.cpp
Status* infer_output_shape(const CustomOp*, ShapeInferContext*) noexcept;

// kernel_attributes.cpp and inference_attributes.cpp. A missing attribute has its default; one of
// another type is refused.
int64_t read_version(const TypedOp& typed, const KernelInfo* info);
int64_t read_version(const TypedOp& typed, const ShapeInferContext* context);
Attributes read_attributes(const Op& op, const Api& api, const KernelInfo* info);
Attributes read_attributes(const Op& op, const Api& api, const ShapeInferContext* context);

ElementType to_element_type(DType dtype);
DType from_element_type(ElementType type);

}  // namespace myops::ort
