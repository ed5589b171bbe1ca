#include "taken_names.h"

#include <sstream>

namespace myops {
namespace {

// Domains of ONNX, ONNX Runtime and the exporters. What follows a "." belongs to them too.
constexpr const char* kDomains[] = {"ai.onnx",    "com.microsoft", "com.ms.internal", "onnx",
                                    "onnxscript", "org.pytorch",   "pkg.onnxscript",  "pkg.torch"};

// Namespaces that torch registers operators in, some only when a submodule is imported or where it
// was built for a device.
constexpr const char* kNamespaces =
    "_c10d_functional _c10d_functional_autograd _caffe2 _dtensor _inductor_debug _inductor_test "
    "_native _native_aot _quantized _test _torch_testing ao aten bucketing c10d c10d_functional "
    "coor cuda debug_mode_ops debugprims device_mesh export flex_gemm flex_lib fsdp "
    "higher_order inductor inductor_prims mempool metal metal_prepack mkl mkldnn "
    "mkldnn_prepacked nnapi onednn onnx_symbolic prepacked prim prim_data prims profiler "
    "quantization quantized quantized_decomposed rngprims semi_structured sparse "
    "sparse_quantized static_runtime streams symm_mem tensorexpr torch torch_attn triton vulkan "
    "vulkan_prepack vulkan_quantized xnnpack ";

bool is_in(const std::string& name, const std::string& owner) {
  return name == owner || name.compare(0, owner.size() + 1, owner + ".") == 0;
}

}  // namespace

std::string taken_by(const std::string& name) {
  for (const char* owner : kDomains) {
    if (is_in(name, owner)) return owner;
  }
  std::istringstream namespaces(kNamespaces);
  for (std::string owner; namespaces >> owner;) {
    if (is_in(name, owner)) return owner;
  }
  return "";
}

}  // namespace myops
