// Nodes for the tests of the ONNX Runtime library, and how they are refused.
#pragma once

#include "checking.h"
#include "fake_ort.h"
#include "myops/error.h"
#include "myops/op.h"

using fake_ort::ElementType;
using fake_ort::Input;
using fake_ort::Node;
using fake_ort::NodeAttribute;
using fake_ort::Order;
using fake_ort::Release;
using fake_ort::Session;
using fake_ort::Value;
using myops::str;
using myops::ort::OtherKind;
using Dims = std::vector<int64_t>;
using Ints = std::vector<int64_t>;

template <class T>
Input input(ElementType type, const Dims& dims, const std::vector<T>& numbers) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
  Input made;
  made.value = {type, dims, std::vector<uint8_t>(bytes, bytes + numbers.size() * sizeof(T))};
  made.declared = {type, dims, {}};
  return made;
}

inline Input floats(const Dims& dims, unsigned seed = 1) {
  std::vector<float> numbers(static_cast<size_t>(myops::element_count(dims)));
  for (float& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return input(ElementType::Float32, dims, numbers);
}

inline Node add_node() { return {"MyAdd", {}, {floats({40, 999}), floats({999}, 2)}}; }

inline Node resize_node(const Ints& sizes) {
  const auto count = static_cast<int64_t>(sizes.size());
  return {"Resize",
          {{"mode", {std::string("cubic")}}, {"axes", {Ints{2, 3}}}},
          {floats({1, 3, 33, 35}), std::nullopt, std::nullopt,
           input(ElementType::Int64, {count}, sizes)}};
}

// W is an initializer, so that the session packs it once for all threads.
inline Node deform_node() {
  Node node{"DeformConv",
            {{"pads", {Ints{1, 1, 1, 1}}}},
            {floats({1, 8, 20, 21}), floats({6, 8, 3, 3}), floats({1, 18, 20, 21}), floats({6}),
             floats({1, 9, 20, 21})}};
  node.inputs[1]->is_constant = true;
  return node;
}

// A tensor that is an attribute.
template <class T>
NodeAttribute tensor(ElementType type, const Dims& dims, const std::vector<T>& numbers) {
  return {input(type, dims, numbers).value};
}

inline NodeAttribute texts(const std::vector<std::string>& texts) {
  return {Value{ElementType::String, {static_cast<int64_t>(texts.size())}, {}, texts}};
}

// An op with every other kind of attribute: kinds_op.cpp.
inline Node kinds_node() {
  return {"Kinds",
          {{"needed", {int64_t{2}}},
           {"words", texts({"cde", "", "ab"})},
           {"fine", tensor<double>(ElementType::Float64, {}, {0.1})},
           {"fines", tensor<double>(ElementType::Float64, {2}, {1.0 / 3, 1e300})}},
          {input<double>(ElementType::Float64, {8}, std::vector<double>(8))}};
}

inline std::vector<Node> good_nodes() {
  return {add_node(), resize_node({50, 60}), deform_node(), kinds_node()};
}

// The text with which the library refuses the node, when it is loaded or when it runs.
inline std::string refusal_of(const Node& node) {
  const Session session(node);
  return session.refusal().empty() ? session.run(node, Order::Forward, 0).refusal
                                   : session.refusal();
}

inline void expect_refusal(const Node& node, const std::string& text) {
  const std::string refusal = refusal_of(node);
  expect(refusal.find(text) != std::string::npos, str("got \"", refusal, "\", not ", text));
}

inline void expect_starts(const std::string& refusal, const std::string& text) {
  expect(refusal.rfind(text, 0) == 0, str("got \"", refusal, "\", not ", text));
}
