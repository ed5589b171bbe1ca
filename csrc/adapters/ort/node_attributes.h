// What the two readers of a node's attributes share: kernel_attributes.cpp reads them when ONNX
// Runtime creates a kernel, inference_attributes.cpp during shape inference.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "abi.h"
#include "myops/op.h"

namespace myops::ort {

// The value of one attribute of a node, for each type that it can be read as.
struct Found {
  std::optional<int64_t> integer;
  std::optional<float> real;
  std::optional<std::string> text;
  std::optional<std::vector<int64_t>> integers;
  std::optional<std::vector<float>> reals;
  std::optional<std::vector<std::string>> texts;
  std::optional<double> exact;  // in a tensor of float64
  std::optional<std::vector<double>> exacts;
  const char* other = nullptr;  // description of any other kind, if it is known
  bool unread = false;          // it is there, and this host does not say what it is
};

inline constexpr const char* kSomethingElse =
    "something else";  // a graph, a sparse tensor, a type ...

// Refuses a list or a string that is too long, before memory is taken for it.
void check_length(const Op& op, const Attribute& attribute, size_t length, const char* unit);

// Whether ONNX stores the attribute as a tensor.
bool in_a_tensor(AttributeType type);

// Reads and releases the tensor that stands for an attribute: of float64 for floats of 64 bits,
// which ONNX has no other place for, or of strings for a list of them.
void read_tensor(const Op& op, const Attribute& attribute, const Api& api, Value* value,
                 Found& found);

// The attributes of a node, of which `find` reads the one with a given index, as the types that the
// op declares.
Attributes read_attributes(const Op& op, const std::function<Found(size_t)>& find);

// An op with the name of `op` and only the attribute for the version.
Op version_probe(const Op& op);

}  // namespace myops::ort
