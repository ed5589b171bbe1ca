// A runtime whose device is the stand-in of the driver: outputs and scratch memory are blocks of
// exactly their size, so that AddressSanitizer detects any access outside, and initially contain
// garbage.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "myops/cuda.h"

namespace fake_cuda {

using namespace myops;

class Blocks {
 public:
  void* make(size_t bytes) {
    blocks_.emplace_back(new uint8_t[bytes > 0 ? bytes : 1]);
    std::memset(blocks_.back().get(), 0xff, bytes);
    return blocks_.back().get();
  }

 private:
  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
};

class PlainRuntime : public Runtime {
 public:
  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    outputs.push_back(Tensor(blocks.make(byte_count(shape, dtype)), dtype, shape, layout));
    return outputs.back();
  }
  Tensor allocate_strided(size_t, DType dtype, const Shape& shape, const Shape& strides) override {
    outputs.push_back(Tensor(blocks.make(byte_count(shape, dtype)), dtype, shape, strides));
    return outputs.back();
  }
  void run(int64_t count, Task task, void* argument) override {
    for (int64_t i = 0; i < count; ++i) task(argument, i);
  }

  std::vector<Tensor> outputs;
  Blocks blocks;
};

class DeviceRuntime final : public PlainRuntime, public cuda::Device {
 public:
  void run(int64_t, Task, void*) override { throw Error("parallel_for on the device"); }
  cuda::Device* cuda_device() override { return this; }
  int index() const override { return device; }
  void* stream() const override { return const_cast<int*>(&stream_); }
  void* scratch(size_t bytes) override { return blocks.make(bytes); }

  bool allow_tf32() const override { return tf32; }

  int device = 0;
  bool tf32 = false;

 private:
  int stream_ = 0;
};

}  // namespace fake_cuda
