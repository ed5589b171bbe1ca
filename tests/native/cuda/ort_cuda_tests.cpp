// The library for ONNX Runtime in a host with the execution provider of CUDA: which ops it
// registers, and calls with the host's stream and memory, with inputs on the CPU and on the device.
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "../checking.h"
#include "../fake_ort.h"
#include "myops/error.h"

namespace {

using fake_ort::ElementType;
using fake_ort::Input;
using fake_ort::Node;
using fake_ort::Order;
using fake_ort::Release;
using fake_ort::Session;
using Dims = std::vector<int64_t>;

template <class T>
Input input(ElementType type, const Dims& dims, const std::vector<T>& numbers) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
  Input made;
  made.value = {type, dims, std::vector<uint8_t>(bytes, bytes + numbers.size() * sizeof(T))};
  made.declared = {type, dims, {}};
  return made;
}

Input floats(const Dims& dims, unsigned seed = 1) {
  size_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return input(ElementType::Float32, dims, numbers);
}

std::vector<Node> nodes() {
  Node add{"MyAdd", {}, {floats({40, 33}), floats({33}, 2)}};
  Node resize{"Resize",
              {{"mode", {std::string("cubic")}}, {"axes", {Dims{2, 3}}}},
              {floats({1, 3, 17, 9}), std::nullopt, std::nullopt,
               input<int64_t>(ElementType::Int64, {2}, {21, 30})}};
  Node deform{"DeformConv",
              {{"pads", {Dims{1, 1, 1, 1}}}},
              {floats({1, 4, 9, 8}), floats({3, 4, 3, 3}), floats({1, 18, 9, 8}), floats({3}),
               floats({1, 9, 9, 8})}};
  deform.inputs[1]->is_constant = true;  // which nothing may read on the CPU
  Node list{"ListProbe", {}, {floats({40}), floats({40}, 2), floats({40}, 3)}};
  Node noise{"NoiseProbe", {{"seed", {int64_t{7}}}}, {floats({40})}};
  return {add, resize, deform, list, noise};
}

double largest_difference(const fake_ort::Value& a, const fake_ort::Value& b) {
  if (a.dims != b.dims || a.bytes.size() != b.bytes.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < a.bytes.size(); i += sizeof(float)) {
    float left, right;
    std::memcpy(&left, &a.bytes[i], sizeof left);
    std::memcpy(&right, &b.bytes[i], sizeof right);
    const double difference = std::abs(static_cast<double>(left) - right);
    if (!(difference <= most)) most = difference;
  }
  return most;
}

void test_calls() {
  void* driver = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  const auto last_stream = reinterpret_cast<void* (*)()>(dlsym(driver, "fake_last_stream"));
  const auto launches = reinterpret_cast<int (*)()>(dlsym(driver, "fake_launches"));
  for (Node node : nodes()) {
    const auto expected = Session(node).run(node, Order::Forward, 0);
    const int before = launches();
    node.on_cuda = true;
    const Session session(node);
    expect(session.refusal().empty(), node.type + ": " + session.refusal());
    const auto found = session.run(node, Order::Forward, 0xff);
    expect(found.refusal.empty(), node.type + ": " + found.refusal);
    if (found.outputs.empty()) continue;
    const double most = largest_difference(expected.outputs[0], found.outputs[0]);
    const bool exact = node.type != "DeformConv";
    expect(most <= (exact ? 0 : 1e-5), myops::str(node.type, ": differs by ", most));
    expect(found.outputs[0].on_device, node.type + ": the result is on the device");
    expect(launches() > before, node.type + ": ran on the device");
    expect(last_stream() == fake_ort::cuda_stream(), node.type + ": the stream of the session");
  }
}

// The option use_tf32 of the provider decides how float32 is multiplied.
void test_tf32_follows_the_option_of_the_provider() {
  Node node{
      "DeformConv", {}, {floats({1, 8, 6, 6}), floats({16, 8, 1, 1}, 2), floats({1, 2, 6, 6}, 3)}};
  const auto expected = Session(node).run(node, Order::Forward, 0);
  node.on_cuda = true;
  const Session session(node);
  double most[2];
  for (const bool wanted : {false, true}) {
    fake_ort::use_tf32(wanted);
    const auto found = session.run(node, Order::Forward, 0xff);
    expect(found.refusal.empty(), found.refusal);
    if (found.outputs.empty()) return;
    most[wanted] = largest_difference(expected.outputs[0], found.outputs[0]);
  }
  expect(most[0] <= 1e-6, myops::str("float32 differs by ", most[0]));
  expect(most[1] > 1e-5 && most[1] < 1e-2, myops::str("TF32 differs by ", most[1]));
}

void test_an_older_release_gets_cpu_kernels_only() {
  for (Node node : nodes()) {
    expect(Session(node, Release::Older).refusal().empty(), node.type + " on the CPU");
    node.on_cuda = true;
    expect(!Session(node, Release::Older).refusal().empty(), node.type + " on CUDA");
  }
}

void test_an_op_without_a_cuda_kernel_gets_cpu_kernels_only() {
  Node node{"PlainProbe", {}, {floats({40})}};
  expect(Session(node).refusal().empty(), "on the CPU: " + Session(node).refusal());
  node.on_cuda = true;
  expect(!Session(node).refusal().empty(), "on CUDA");
}

void test_errors() {
  Node node = nodes()[0];
  node.on_cuda = true;
  node.inputs[1] = floats({34});
  // Refused by the shape rule, with the text of the CPU.
  const auto result = Session(node).run(node, Order::Forward, 0);
  expect(result.refusal ==
             "my_add: b: got length 34 on axis 1, expected 1 or 33, the length of a there",
         result.refusal);
}

}  // namespace

int main() {
  setenv("MYOPS_CUDA_DRIVER", FAKE_DRIVER, 1);
  setenv("MYOPS_NVRTC", FAKE_NVRTC, 1);
  setenv("MYOPS_CUDA_CACHE", "", 1);
  test_calls();
  test_tf32_follows_the_option_of_the_provider();
  test_an_older_release_gets_cpu_kernels_only();
  test_an_op_without_a_cuda_kernel_gets_cpu_kernels_only();
  test_errors();
  expect(fake_ort::live_statuses() == 0, "every status is released");
  expect(fake_ort::live_values() == 0, "all memory is given back");
  return finish("tests of CUDA in ONNX Runtime");
}
