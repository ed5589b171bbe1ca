// Kernels for CUDA without a GPU: the whole path from a description to the launch of a kernel, with
// stand-ins for the driver and for NVRTC. The kernels' own text runs on the CPU, thread by thread,
// and is compared with the kernels for the CPU.
//
// With a real NVRTC, named by MYOPS_NVRTC, and the argument "compile", every source is compiled for
// the architecture FAKE_CUDA_ARCHITECTURE as a call would do it, and nothing runs.
#include "cuda_tests.h"

#include <cstdio>
#include <cstdlib>

#include "../checking.h"
#include "compare.h"

using namespace fake_cuda;

namespace {

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
  test_chosen_calls();
  test_devices();
  return finish("tests of CUDA kernels");
}
