// The ONNX Runtime library in a stand-in for ONNX Runtime: many sessions and threads at once, calls
// that fail between calls that do not, and models that lie.
#include <cstdlib>
#include <thread>

#include "checking.h"
#include "fake_ort.h"
#include "myops/error.h"

namespace {

using fake_ort::ElementType;
using fake_ort::Input;
using fake_ort::Node;
using fake_ort::Order;
using fake_ort::Release;
using fake_ort::Session;
using fake_ort::Value;
using myops::str;
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

Input floats(const Dims& dims, unsigned seed = 1) {
  std::vector<float> numbers(static_cast<size_t>(myops::element_count(dims)));
  for (float& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return input(ElementType::Float32, dims, numbers);
}

Node add_node() { return {"MyAdd", {}, {floats({40, 999}), floats({999}, 2)}}; }

Node resize_node(const Ints& sizes) {
  const auto count = static_cast<int64_t>(sizes.size());
  return {"Resize",
          {{"mode", {std::string("cubic")}}, {"axes", {Ints{2, 3}}}},
          {floats({1, 3, 33, 35}), std::nullopt, std::nullopt,
           input(ElementType::Int64, {count}, sizes)}};
}

// W is an initializer, so that the session packs it once for all threads.
Node deform_node() {
  Node node{"DeformConv",
            {{"pads", {Ints{1, 1, 1, 1}}}},
            {floats({1, 8, 20, 21}), floats({6, 8, 3, 3}), floats({1, 18, 20, 21}), floats({6}),
             floats({1, 9, 20, 21})}};
  node.inputs[1]->is_constant = true;
  return node;
}

std::vector<Node> good_nodes() { return {add_node(), resize_node({50, 60}), deform_node()}; }

void test_sessions_and_threads() {
  for (const Node& node : good_nodes()) {
    std::vector<uint8_t> expected;
    {
      const Session session(node);
      expect(session.refusal().empty(), node.type + ": " + session.refusal());
      expected = session.run(node, Order::Forward, 0).outputs.at(0).bytes;
    }
    std::vector<std::unique_ptr<Session>> sessions;
    for (int i = 0; i < 8; ++i) sessions.push_back(std::make_unique<Session>(node));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&] {
        for (const auto& session : sessions) {
          const auto result = session->run(node, Order::Threads, 0xff);
          expect(result.outputs.at(0).bytes == expected, node.type + " in many threads");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// Shapes reach the kernel another way there.
void test_an_older_release() {
  std::vector<Node> nodes = good_nodes();
  nodes.push_back({"MyAdd", {}, {floats({}), floats({7})}});  // a scalar has no dims to point to
  for (const Node& node : nodes) {
    const Session newest(node), older(node, Release::Older);
    const auto expected = newest.run(node, Order::Forward, 0);
    const auto result = older.run(node, Order::Forward, 0);
    expect(expected.refusal.empty() && result.refusal.empty(), node.type + " in two releases");
    expect(result.outputs.at(0).bytes == expected.outputs.at(0).bytes, node.type + ": equal bits");
    expect(result.outputs.at(0).dims == expected.outputs.at(0).dims, node.type + ": one shape");
  }
}

void test_what_may_be_overwritten() {
  expect(Session(add_node()).overwritten() == std::vector<int>{0, 1}, "my_add: either addend");
  expect(Session(add_node(), Release::Older).overwritten().empty(), "an older release is not told");
  expect(Session(deform_node()).overwritten().empty(), "deform_conv2d: nothing");
}

void test_sessions_made_in_threads() {
  const std::vector<Node> nodes = good_nodes();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 6; ++round) {
        const Node& node = nodes[static_cast<size_t>(round) % nodes.size()];
        const Session session(node);
        expect(session.run(node, Order::Forward, 0).refusal.empty(), "made in threads");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void test_a_failing_call_between_good_ones() {
  const Node good = resize_node({50, 60});
  Node bad = good;
  bad.inputs[3] = input<int64_t>(ElementType::Int64, {2}, {50, -60});
  const Session session(good);
  const auto expected = session.run(good, Order::Forward, 0).outputs.at(0).bytes;
  for (int round = 0; round < 3; ++round) {
    expect(session.run(bad, Order::Threads, 0).refusal ==
               "resize: sizes: got -60 on axis 3, expected at least 1",
           "the failing call");
    expect(session.run(good, Order::Threads, 0).outputs.at(0).bytes == expected, "the good call");
  }
}

// The text with which the library refuses the node, when it is loaded or when it runs.
std::string refusal_of(const Node& node) {
  const Session session(node);
  return session.refusal().empty() ? session.run(node, Order::Forward, 0).refusal
                                   : session.refusal();
}

void expect_refusal(const Node& node, const std::string& text) {
  const std::string refusal = refusal_of(node);
  expect(refusal.find(text) != std::string::npos, str("got \"", refusal, "\", not ", text));
}

void test_attributes_that_lie() {
  const auto with = [](Node node, const char* name, fake_ort::NodeAttribute value) {
    node.attributes[name] = std::move(value);
    return node;
  };
  const Node resize = resize_node({50, 60}), deform = deform_node();
  const int64_t many = (int64_t{1} << 20) + 1;
  expect_refusal(with(resize, "axes", {Ints(static_cast<size_t>(many))}),
                 "axes: got 1048577 elements, expected at most 1048576");
  expect_refusal(with(resize, "axes", {Ints(1 << 20)}), "repeated");
  expect_refusal(with(resize, "axes", {Ints{2, INT64_MIN}}), "axes: got axis -9223372036854775808");
  expect_refusal(with(resize, "axes", {int64_t{2}}), "axes: got an int");
  expect_refusal(with(resize, "mode", {std::string(static_cast<size_t>(many), 'x')}),
                 "mode: got 1048578 characters");
  expect_refusal(with(resize, "mode", {std::string("\xff\0\n", 3)}), "mode: got \"\\xff");
  expect_refusal(with(resize, "mode", {std::vector<std::string>{"cubic"}}), "something else");
  expect_refusal(with(deform, "pads", {Ints{-1, 0, 0, 0}}), "pads: got [-1, 0, 0, 0]");
  expect_refusal(with(deform, "strides", {Ints{0, 1}}), "strides: got [0, 1]");
  expect_refusal(with(deform, "strides", {Ints(100, 1)}), "and 36 more], expected 2 numbers");
  expect_refusal(with(deform, "dilations", {Ints{INT64_MAX, INT64_MAX}}), "dilations");
  expect_refusal(with(deform, "group", {INT64_MIN}), "group: got -9223372036854775808");
  expect_refusal(with(deform, "offset_group", {INT64_MAX}), "offset_group");
  expect_refusal(with(deform, "kernel_shape", {Ints{3, 2147483646}}), "kernel_shape");
}

// Without ranks no shape is inferred, so W is packed before anyone has looked at the attributes.
void test_attributes_that_lie_of_unknown_ranks() {
  Node node = deform_node();
  for (std::optional<Input>& input : node.inputs) input->declared.dims.clear();
  for (const char* name : {"strides", "dilations", "pads"}) {
    for (const Ints& list : {Ints{1}, Ints(100, 1)}) {
      Node bad = node;
      bad.attributes[name] = {list};
      expect_refusal(bad, str(name, ": got [1"));
    }
  }
}

void test_lengths_that_lie() {
  // 1 * 3 * 100000 * 100000 floats. The limit is set in main().
  expect_refusal(resize_node({100000, 100000}),
                 "resize: Y: got float32 of shape [1, 3, 100000, 100000] (120000000000 bytes), "
                 "expected at most 64000000 bytes; MYOPS_MAX_BYTES sets the limit");
  expect_refusal(resize_node({INT64_MAX, INT64_MAX}), "sizes: got 9.22337204e+18 on axis 2");
  expect_refusal(resize_node({int64_t{1} << 40, int64_t{1} << 40}), "at most 2^40 elements");
  expect_refusal(resize_node(Ints(5000, 1)), "a list of at most 4096");
  // Empty, with a product of lengths near 2^63 and beyond.
  const int64_t large = int64_t{1} << 33;
  Node empty{"MyAdd", {}, {floats({large, 1, 0}), floats({0})}};
  empty.inputs[1]->value.dims = {1, large, 0};
  empty.inputs[1]->declared.dims = {1, large, 0};
  empty.inputs[1]->value.bytes.clear();
  expect_refusal(empty, "my_add: c: got shape [8589934592, 8589934592, 0], expected at most 2^40");
  // An absurd length that is not resized, of a tensor that holds nothing: any answer will do.
  Node absurd = resize_node({0});
  absurd.attributes["axes"] = {Ints{1}};
  for (Dims* dims : {&absurd.inputs[0]->value.dims, &absurd.inputs[0]->declared.dims}) {
    *dims = {1, 0, 7, INT64_MAX};
  }
  absurd.inputs[0]->value.bytes.clear();
  (void)refusal_of(absurd);
}

}  // namespace

int main() {
  setenv("MYOPS_MAX_BYTES", "64000000", 1);
  test_sessions_made_in_threads();  // first: what is made once is made by one of these threads
  test_sessions_and_threads();
  test_an_older_release();
  test_what_may_be_overwritten();
  test_a_failing_call_between_good_ones();
  test_attributes_that_lie();
  test_attributes_that_lie_of_unknown_ranks();
  test_lengths_that_lie();
  expect(fake_ort::live_statuses() == 0, "every status is released");
  return finish("tests of the ONNX Runtime library");
}
