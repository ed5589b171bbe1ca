// Kernels for CUDA without a GPU: the whole path from a description to the launch of a kernel, with
// stand-ins for the driver and for NVRTC. The kernels' own text runs on the CPU, thread by thread,
// and is compared with the kernels for the CPU.
//
// With a real NVRTC, named by MYOPS_NVRTC, and the argument "compile", every source is compiled for
// the architecture FAKE_CUDA_ARCHITECTURE as a call would do it, and nothing runs.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "../checking.h"
#include "cases.h"
#include "on_device.h"

using namespace fake_cuda;

namespace {

double number(const Tensor& tensor, int64_t place) {
  double value = 0;
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t>(tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) == 2) {
      value = static_cast<float>(tensor.as<T>()[place]);
    } else {
      value = static_cast<double>(tensor.as<T>()[place]);
    }
  });
  return value;
}

bool equal_bits(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides &&
         std::memcmp(a.data, b.data, byte_count(a.shape, a.dtype)) == 0;
}

// Of one ulp (unit in the last place) of numbers from 1 to 2.
double unit(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return std::ldexp(1, -10);
    case DType::BFloat16:
      return std::ldexp(1, -7);
    case DType::Float32:
      return std::ldexp(1, -23);
    default:
      return std::ldexp(1, -52);
  }
}

// The largest difference, in ulp of the largest number of the result, or of 1 if that is larger;
// NaN must be NaN in both.
double difference(const Tensor& expected, const Tensor& found) {
  if (expected.shape != found.shape || expected.strides != found.strides) return INFINITY;
  double largest = 1, most = 0;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = number(expected, i), b = number(found, i);
    if (std::isnan(a) != std::isnan(b)) return INFINITY;
    if (std::isnan(a)) continue;
    largest = std::max(largest, std::abs(a));
    most = std::max(most, std::abs(a - b));
  }
  return most / std::ldexp(unit(expected.dtype), std::ilogb(largest));
}

// In ulp, as docs/cuda.md states them.
double tolerance(DType dtype, bool tf32) {
  switch (dtype) {
    case DType::Float16:
    case DType::BFloat16:
      return 1;
    case DType::Float32:
      return tf32 ? 16384 : 16;  // a factor of TF32 has 13 bits less, 2^13 ulp
    case DType::Float64:
      return 16;
    default:
      return 0;
  }
}

struct Compared {
  int calls = 0, equal = 0;
  std::map<std::string, double> most;  // difference of a dtype, in ulp
};

// Which GPU: 3 is a small one without tensor cores for all types; and whether TF32 is accepted.
struct Place {
  int device = 0;
  bool tf32 = false;
};

// How results must agree with the CPU: in all bits, as numbers (0 equals -0), or approximately.
enum class Wanted { Close, Bits, Numbers };

// An emulator of another CPU takes ten times as long. There, an eighth of the random calls shows
// that the host's side of a call works; what a kernel computes is tested where nothing is emulated.
#ifdef MYOPS_EMULATED
constexpr int kFraction = 8;
#else
constexpr int kFraction = 1;
#endif

// Results must be as expected, and have equal bits in every order of the threads.
void compare(const Case& made, Wanted wanted, Compared& compared, Place place = {}) {
  PlainRuntime cpu;
  invoke(*made.op, made.inputs, made.attributes, cpu);
  DeviceRuntime forward, backward, mixed;
  for (DeviceRuntime* runtime : {&forward, &backward, &mixed}) {
    runtime->device = place.device;
    runtime->tf32 = place.tf32;
  }
  run_on_device(made, forward, 0);
  run_on_device(made, backward, 1);
  run_on_device(made, mixed, 2);
  for (size_t i = 0; i < cpu.outputs.size(); ++i) {
    const Tensor& expected = cpu.outputs[i];
    const Tensor& found = forward.outputs[i];
    const bool equal = equal_bits(expected, found);
    ++compared.calls;
    compared.equal += equal;
    const double most = equal ? 0 : difference(expected, found);
    const bool coarse = place.tf32 && place.device == 0 && expected.dtype == DType::Float32;
    const double allowed = tolerance(expected.dtype, coarse);
    compared.most[str(dtype_name(expected.dtype), coarse ? " as TF32" : "")] =
        std::max(compared.most[str(dtype_name(expected.dtype), coarse ? " as TF32" : "")], most);
    expect(wanted == Wanted::Bits      ? equal
           : wanted == Wanted::Numbers ? most == 0
                                       : most <= allowed,
           str(made.text, ": output ", i, ": differs by ", most, " ulp"));
    expect(equal_bits(found, backward.outputs[i]) && equal_bits(found, mixed.outputs[i]),
           str(made.text, ": output ", i, " depends on the order of the threads"));
  }
}

void compare_all(const char* what, int count, Wanted wanted,
                 const std::function<std::unique_ptr<Case>(Random&)>& make,
                 const std::vector<Place>& places = {Place()}) {
  Compared compared;
  for (int seed = 0; seed < count / kFraction; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    std::string text = what;
    try {
      const std::unique_ptr<Case> made = make(random);
      text = made->text;
      for (const Place& place : places) compare(*made, wanted, compared, place);
    } catch (const std::exception& error) {
      expect(false, str(text, ", seed ", seed, ": ", error.what()));
    }
    if (failures > 20) return;
  }
  std::printf("%s: %d outputs, %d with the CPU's bits", what, compared.calls, compared.equal);
  for (const auto& [dtype, most] : compared.most) std::printf("; %s %.3g ulp", dtype.c_str(), most);
  std::printf("\n");
}

// -0 everywhere in the first input, if its numbers have a sign.
std::unique_ptr<Case> with_negative_zeros(std::unique_ptr<Case> made) {
  const Tensor& x = made->inputs[0];
  dispatch<Half, BFloat16, float, double, uint8_t>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < x.elements(); ++i) x.as<T>()[i] = static_cast<T>(-0.0f);
  });
  made->text += " -0";
  return made;
}

void test_resize(int count) {
  compare_all("resize", 2 * count, Wanted::Bits,
              [](Random& random) { return random_resize(random, false); });
  compare_all("resize", count / 4, Wanted::Bits,
              [](Random& random) { return with_negative_zeros(random_resize(random, false)); });
  compare_all("resize_backward", count, Wanted::Close,
              [](Random& random) { return random_resize(random, true); });
}

void test_kernels() {
  compare_all("my_add", 300, Wanted::Bits, random_add);
  test_resize(800);
  compare_all("deform_conv2d_int8", 600, Wanted::Bits, random_deform_int8);
  const char* deform[] = {"deform_conv2d", "deform_conv2d_backward",
                          "deform_conv2d_backward_backward"};
  for (int order = 0; order < 3; ++order) {
    compare_all(deform[order], 150, Wanted::Close,
                [order](Random& random) { return random_deform(random, order); },
                {{0, false}, {0, true}, {3, true}});
  }
}

// With deform_conv2d.cuda_tiles turned off: the kernels for tensors that are too large for tiles.
int test_without_tiles() {
  const char* deform[] = {"deform_conv2d", "deform_conv2d_backward",
                          "deform_conv2d_backward_backward"};
  for (int order = 0; order < 3; ++order) {
    compare_all(deform[order], 100, Wanted::Close,
                [order](Random& random) { return random_deform(random, order); });
  }
  return finish("CUDA kernels without tiles");
}

// Products and sums of small integers are exact in every type, so an element at a wrong position in
// a register changes the result.
void test_products_of_integers() {
  int launched = 0;
  for (int seed = 0; seed < 60 / kFraction; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    for (int order = 0; order < 2; ++order) {
      const std::unique_ptr<Case> made = integer_deform(random, order);
      for (const Place& place : {Place{0, true}, Place{0, false}, Place{3, true}}) {
        Compared compared;
        compare(*made, Wanted::Numbers, compared, place);
        launched += compared.calls;
      }
    }
  }
  expect(launched > 300 / kFraction, "integer products");
}

// float32 with TF32 off is not rounded, and float64 never is.
void test_tf32_only_if_requested() {
  Random random(3);
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    Case made("deform_conv2d");
    made.add_numbers(random, dtype, {1, 8, 6, 6});
    made.add_numbers(random, dtype, {16, 8, 1, 1});
    made.add_numbers(random, dtype, {1, 2, 6, 6});
    made.add_nothing();
    made.add_nothing();
    DeviceRuntime exact, coarse;
    coarse.tf32 = true;
    run_on_device(made, exact, 0);
    run_on_device(made, coarse, 0);
    const double most = difference(exact.outputs[0], coarse.outputs[0]);
    expect(dtype == DType::Float32 ? most > 80 : most == 0, str("TF32 changes by ", most, " ulp"));
  }
}

// Many entries in one cell, more rows than a tile has, and many slices of pixels; with few outputs,
// and with so many that products are made in tiles.
void test_larger_deform_conv2d() {
  for (const auto& [outputs, size] : {std::pair<int64_t, int64_t>(3, 40), {18, 24}}) {
    for (const bool backward : {false, true}) {
      Case made(backward ? "deform_conv2d_backward" : "deform_conv2d");
      made.set("pads", std::vector<int64_t>{1, 1, 1, 1});
      Random random(5);
      if (backward) made.add_numbers(random, DType::Float32, {2, outputs, size, size});
      made.add_numbers(random, DType::Float32, {2, 5, size, size});
      made.add_numbers(random, DType::Float32, {outputs, 5, 3, 3});
      made.add_numbers(random, DType::Float32, {2, 18, size, size}, 100);
      if (!backward) made.add_nothing();
      made.add_nothing();
      Compared compared;
      compare(made, Wanted::Close, compared);
    }
  }
}

// All taps in few cells: lists that are longer than those that are not sorted.
void test_long_lists() {
  Case made("deform_conv2d_backward");
  made.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  Random random(6);
  made.add_numbers(random, DType::Float32, {2, 16, 9, 11});
  made.add_numbers(random, DType::Float32, {2, 3, 9, 11});
  made.add_numbers(random, DType::Float32, {16, 3, 3, 3});
  made.add_numbers(random, DType::Float32, {2, 18, 9, 11});
  const Tensor& offset = made.inputs.back();
  for (int64_t i = 0; i < offset.elements(); ++i) {  // all near (4, 5)
    const int64_t plane = i / 99 % 18, pixel = i % 99, tap = plane / 2;
    const int64_t from = plane % 2 == 0 ? pixel / 11 - 1 + tap / 3 : pixel % 11 - 1 + tap % 3;
    offset.as<float>()[i] += static_cast<float>((plane % 2 == 0 ? 4 : 5) - from);
  }
  made.add_nothing();
  Compared compared;
  compare(made, Wanted::Close, compared);
}

// What a mask that is not finite makes of a sample, inside of the image and outside: channels that
// fill up a pack must not appear in a result.
void test_infinite_masks() {
  for (const int64_t channels : {3, 8}) {
    Case made("deform_conv2d");
    Random random(7);
    made.add_integers(random, DType::Float32, {1, channels, 6, 6}, 3);
    made.add_integers(random, DType::Float32, {16, channels, 1, 1}, 3);
    for (const Tensor& input : made.inputs) {  // positive, so that infinite sums are not NaN
      for (int64_t i = 0; i < input.elements(); ++i) {
        input.as<float>()[i] = std::abs(input.as<float>()[i]) + 1;
      }
    }
    made.add_numbers(random, DType::Float32, {1, 2, 6, 6}, 0.9);
    made.add_nothing();
    made.add_numbers(random, DType::Float32, {1, 1, 6, 6});
    const Tensor& mask = made.inputs.back();
    for (int64_t i = 0; i < 36; i += 5) mask.as<float>()[i] = i % 2 == 0 ? INFINITY : -INFINITY;
    Compared compared;
    compare(made, Wanted::Close, compared);
  }
}

// Ops of other kinds than ours: probe_ops.cpp.
void test_lists_and_optional_outputs() {
  for (const bool wanted : {false, true}) {
    for (const int items : {1, 3}) {
      Random random(static_cast<uint64_t>(items));
      Case made("list_probe");
      made.set("with_largest", wanted);
      for (int i = 0; i < items; ++i) made.add_numbers(random, DType::Float32, {300});
      Compared compared;
      compare(made, Wanted::Bits, compared);
      expect(compared.calls == (wanted ? 2 : 1), "outputs of a list");
    }
  }
}

void test_random_numbers() {
  Random random(1);
  Case made("noise_probe");
  made.set("seed", int64_t{7});
  made.add_numbers(random, DType::Float32, {1000});
  made.add_nothing();  // the key
  Compared compared;
  compare(made, Wanted::Bits, compared);
}

// Features that a kernel on a device lacks are refused when the library is loaded, or in a call.
void test_unsupported_ops_and_calls_are_refused() {
  const auto refusal = [](const std::function<void(Op&)>& change) {
    Op op = *find_op("noise_probe");
    change(op);
    try {
      check_description(op);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  expect(refusal([](Op&) {}).empty(), "a description that is right");
  expect(refusal([](Op& op) {
           op.onnx_type.clear();
           op.inputs[0].is_written = true;
         }) ==
             "noise_probe: cuda: got a kernel for CUDA in an op that writes into its inputs, "
             "expected none: describe an op with outputs alone",
         "an op that writes");
  expect(refusal([](Op& op) { op.types[0].dtypes.push_back(DType::String); }) ==
             "noise_probe: x: got dtype string in an op with a kernel for CUDA, expected none: a "
             "device has no strings",
         "an op of strings");
  Op decided = *find_op("list_probe");
  decided.shape_rule = [](ShapeContext& context) {
    context.set_output(0, {Dim::at_most(context.dims(0)[0], "K")});
    context.set_output(1, context.dims(0));
  };
  Random random(1);
  Case made("list_probe");
  made.add_numbers(random, DType::Float32, {4});
  expect(refusal_of(decided, made.inputs, made.attributes) ==
             "list_probe: CUDA: got a length that the kernel decides, expected lengths that the "
             "shape rule knows: the CPU would have to wait for the device. Call the op on the CPU",
         "a length that the kernel decides");
}

// Each device has a context and modules of its own; the current context is restored after a call.
void test_several_devices() {
  const auto get = control<int(void**)>("cuCtxGetCurrent");
  const auto set = control<int(void*)>("cuCtxSetCurrent");
  const auto retain = control<int(void**, int)>("cuDevicePrimaryCtxRetain");
  Random random(3);
  const std::unique_ptr<Case> made = random_deform(random, 1);
  void *first = nullptr, *found = nullptr;
  retain(&first, 0);
  for (void* before : {static_cast<void*>(nullptr), first}) {
    for (const int device : {1, 0, 2}) {
      set(before);
      DeviceRuntime runtime;
      runtime.device = device;
      run_on_device(*made, runtime, 0);
      expect(control<int()>("fake_device_of_last_launch")() == device, "the device of the call");
      get(&found);
      expect(found == before, "the context that was current");
    }
  }
  const auto retained = control<int()>("fake_contexts_retained");
  const int before = retained();
  for (int call = 0; call < 3; ++call) {
    set(nullptr);
    DeviceRuntime runtime;
    run_on_device(*made, runtime, 0);
  }
  expect(retained() == before, "a context is retained once");
}

void test_properties() {
  static cuda::Properties found;
  static Op op = *find_op("my_add");
  op.compute_cuda = [](KernelContext& context) { found = cuda::properties(context); };
  Random random(1);
  Case made("my_add");
  for (int i = 0; i < 2; ++i) made.add_numbers(random, DType::Float32, {4});
  for (const auto& [device, architecture] : {std::pair(0, 90), std::pair(3, 75)}) {
    DeviceRuntime runtime;
    runtime.device = device;
    invoke(cuda::on_device(op), made.inputs, made.attributes, runtime);
    expect(found.architecture == architecture, "the architecture");
    expect(found.multiprocessors == (device == 3 ? 2 : 132), "multiprocessors");
  }
}

void test_stream() {
  Random random(3);
  const std::unique_ptr<Case> made = random_deform(random, 1);
  DeviceRuntime runtime;
  run_on_device(*made, runtime, 0);
  expect(control<void*()>("fake_last_stream")() == runtime.stream(), "the stream of the call");
}

// Every source for every element type, through calls.
int compile() {
  int calls = 0;
  for (const char* probe : {"list_probe", "noise_probe"}) {
    Random random(1);
    Case made(probe);
    made.add_numbers(random, DType::Float32, {4});
    if (made.op->is_random) made.add_nothing();
    expect(refusal_of(*made.op, made.inputs, made.attributes).empty(), probe);
  }
  for (int seed = 0; seed < 60; ++seed) {
    for (int kind = 0; kind < 7; ++kind) {
      Random random(static_cast<uint64_t>(seed));
      const std::unique_ptr<Case> made = kind == 0  ? random_add(random)
                                         : kind < 3 ? random_resize(random, kind == 2)
                                         : kind < 6 ? random_deform(random, kind - 3)
                                                    : random_deform_int8(random);
      try {
        for (const bool tf32 : {false, true}) {
          DeviceRuntime runtime;
          runtime.tf32 = tf32;
          run_on_device(*made, runtime, 0);
          ++calls;
        }
      } catch (const std::exception& error) {
        expect(false, str(made->text, ": ", error.what()));
        return finish("CUDA sources");
      }
    }
  }
  std::printf("%d calls, %d kernels launched\n", calls, control<int()>("fake_launches")());
  return finish("CUDA sources");
}

}  // namespace

int main(int count, char** arguments) {
  setenv("MYOPS_CUDA_DRIVER", FAKE_DRIVER, 1);
  if (count > 1 && std::string(arguments[1]) == "compile") return compile();
  setenv("MYOPS_NVRTC", FAKE_NVRTC, 1);
  setenv("MYOPS_CUDA_CACHE", "", 1);
  if (count > 1 && std::string(arguments[1]) == "without-tiles") return test_without_tiles();
  if (count > 1 && std::string(arguments[1]) == "resize") {
    test_resize(300);
    return finish("tests of resize with kernels off");
  }
  test_kernels();
  test_products_of_integers();
  test_tf32_only_if_requested();
  test_larger_deform_conv2d();
  test_long_lists();
  test_infinite_masks();
  test_lists_and_optional_outputs();
  test_random_numbers();
  test_unsupported_ops_and_calls_are_refused();
  test_several_devices();
  test_properties();
  test_stream();
  return finish("tests of CUDA kernels");
}
