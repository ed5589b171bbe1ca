#include "compare.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "../checking.h"

namespace fake_cuda {
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

}  // namespace

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

void compare(const Case& made, Wanted wanted, Compared& compared, Place place) {
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
                 const std::vector<Place>& places) {
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

}  // namespace fake_cuda
