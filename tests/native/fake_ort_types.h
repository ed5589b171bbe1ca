// Types of fake_ort.cpp and fake_ort_table.cpp.
#pragma once

#include <memory>

#include "fake_ort.h"

namespace myops::ort {

struct Allocator {};
struct MemoryInfo {
  DeviceType device;
};
struct CustomOpDomain {
  std::vector<const CustomOp*> ops;
};
struct SessionOptions {
  std::vector<const CustomOpDomain*> domains;
};
struct KernelInfo {
  const fake_ort::Node* node;
};
struct ShapeInferContext {
  const fake_ort::Node* node;
  std::vector<std::unique_ptr<TypeAndShape>> inputs;
  std::vector<std::optional<TypeAndShape>> outputs;
  std::string fault;  // for which ONNX Runtime would end the process
};
struct ComputeContext {
  const fake_ort::Node* node;
  const CustomOp* op;
  fake_ort::Order order;
  uint8_t fill;
  std::vector<std::unique_ptr<Value>> outputs;
  std::function<void()> meanwhile;  // may be empty
};

}  // namespace myops::ort

namespace fake_ort {

// The table of functions that the library gets.
const myops::ort::Table* table(uint32_t version);

// The text of a status, which is released; empty for none.
std::string text_of(myops::ort::Status* status);

}  // namespace fake_ort
