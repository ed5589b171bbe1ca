// Ops with kernels for CUDA that our ops do not cover: a list of tensors, an optional output,
// random numbers; and an op without such a kernel.
#include "myops/cuda.h"
#include "myops/random.h"
#include "probe/kernels.h"

MYOPS_CUDA_FILE(probe_source, "probe/kernels.h")

namespace myops {
namespace {

void list_on_cpu(KernelContext& context) {
  const Tensor &sum = context.output(0), &largest = context.output(1);
  for (int64_t i = 0; i < sum.elements(); ++i) {
    ListProbe arguments{{}, static_cast<int32_t>(context.input_count()), sum.data, nullptr};
    for (size_t k = 0; k < context.input_count(); ++k) arguments.items[k] = context.input(k).data;
    if (largest.present) arguments.largest = largest.data;
    sum_of_list<float, float>(arguments, i);
  }
}

void list_on_cuda(KernelContext& context) {
  ListProbe arguments{
      {}, static_cast<int32_t>(context.input_count()), context.output(0).data, nullptr};
  for (size_t k = 0; k < context.input_count(); ++k) arguments.items[k] = context.input(k).data;
  if (context.output(1).present) arguments.largest = context.output(1).data;
  cuda::Gpu(context, {probe_source}, DType::Float32)
      .launch("sum_of_list", context.output(0).elements(), arguments);
}

void noise_on_cpu(KernelContext& context) {
  const NoiseProbe arguments{context.input(0).data, context.output(0).data, context.seed()};
  for (int64_t i = 0; i < context.output(0).elements(); ++i) add_noise<float, float>(arguments, i);
}

void noise_on_cuda(KernelContext& context) {
  const NoiseProbe arguments{context.input(0).data, context.output(0).data, context.seed()};
  cuda::Gpu(context, {probe_source}, DType::Float32)
      .launch("add_noise", context.output(0).elements(), arguments);
}

}  // namespace

MYOPS_OP(list_probe) {
  return Op("list_probe")
      .onnx("ListProbe", 1)
      .doc("The sum of a list, and the largest of it.")
      .type("T", {DType::Float32})
      .input(Input{"items", "T", "At most 4."}.variadic())
      .output({"sum", "T", "."})
      .output(Output{"largest", "T", "."}.only_if("with_largest"))
      .attribute({"with_largest", false, "."})
      .shape([](ShapeContext& context) {
        context.set_output(0, context.dims(0));
        context.set_output(1, context.dims(0));
      })
      .kernel(list_on_cpu)
      .cuda(list_on_cuda);
}

MYOPS_OP(noise_probe) {
  return Op("noise_probe")
      .onnx("NoiseProbe", 1)
      .doc("x and a random number.")
      .type("T", {DType::Float32})
      .input({"x", "T", "."})
      .output({"y", "T", "."})
      .random()
      .shape("N -> N")
      .kernel(noise_on_cpu)
      .cuda(noise_on_cuda);
}

MYOPS_OP(plain_probe) {
  return Op("plain_probe")
      .onnx("PlainProbe", 1)
      .doc("An op without a kernel for CUDA.")
      .type("T", {DType::Float32})
      .input({"x", "T", "."})
      .output({"y", "T", "."})
      .shape("N -> N")
      .kernel([](KernelContext& context) {
        std::copy_n(context.input(0).as<float>(), context.output(0).elements(),
                    context.output(0).as<float>());
      });
}

}  // namespace myops
