// The ONNX Runtime library in a stand-in for ONNX Runtime: many sessions and threads at once,
// failing calls between others, and models with wrong statements.
#include <cstdlib>
#include <thread>

#include "checking.h"
#include "fake_ort.h"
#include "ort_nodes.h"

namespace {

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

// An older release passes shapes to the kernel in another way.
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

void test_inputs_that_may_be_overwritten() {
  expect(Session(add_node()).overwritten() == std::vector<int>{0, 1}, "my_add: either addend");
  expect(Session(add_node(), Release::Older).overwritten().empty(), "an older release: none");
  expect(Session(deform_node()).overwritten().empty(), "deform_conv2d: nothing");
}

// A shape for an output that the node leaves out ends the process in ONNX Runtime 1.17.
void test_outputs_that_are_left_out() {
  const Input numbers = input<double>(ElementType::Float64, {3}, {1, 2, 3});
  for (const bool flag : {false, true}) {
    for (const bool more : {false, true}) {
      Node node{"Parts", {{"flag", {int64_t{flag}}}, {"more", {int64_t{more}}}}, {numbers}};
      if (!flag) node.left_out.push_back(1);
      if (!more) node.left_out.push_back(2);
      for (const Release release : {Release::Newest, Release::Older}) {
        const Session session(node, release);
        expect(session.refusal().empty(), session.refusal());
        if (!session.refusal().empty()) continue;
        const auto& inferred = session.inferred();
        expect(inferred[0] && inferred[0]->dims == Dims{3}, "y has a shape");
        expect(inferred[1].has_value() == flag, "flagged has a shape where it is computed");
        expect(inferred[2].has_value() == more, "extra has a shape where it is computed");
        const auto result = session.run(node, Order::Forward, 0xff);
        expect(result.refusal.empty(), "run: " + result.refusal);
      }
    }
  }
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

void test_failing_calls_do_not_disturb_others() {
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

// Other sizes are written into the tensor when the shape of Y has been decided: the result has the
// sizes at the beginning of the call, in the first call and in one that uses the shape cache.
void test_sizes_that_change_meanwhile() {
  const auto sizes = [](int64_t height, int64_t width) {
    return input<int64_t>(ElementType::Int64, {2}, {height, width}).value.bytes;
  };
  const Node good = resize_node({50, 60});
  Node node = good;
  const Session session(node);
  const auto expected = session.run(good, Order::Forward, 0).outputs.at(0).bytes;
  for (const auto& other : {sizes(3000, 4), sizes(4, 3000), sizes(1, 1)}) {
    for (int call = 0; call < 3; ++call) {
      node.inputs[3]->value.bytes = sizes(50, 60);
      const auto result = session.run(node, Order::Threads, 0xff, [&] {
        std::copy(other.begin(), other.end(), node.inputs[3]->value.bytes.begin());
      });
      expect(result.refusal.empty() && result.outputs.at(0).bytes == expected, "as at the start");
    }
  }
  node.inputs[3]->value.bytes = sizes(7, 8);
  expect(session.run(node, Order::Forward, 0).outputs.at(0).dims == Dims{1, 3, 7, 8}, "the next");
}

void test_wrong_lengths_are_refused_or_harmless() {
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
  // A huge length that is not resized, of an empty tensor: any result is accepted.
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
  test_sessions_made_in_threads();  // first: one of these threads creates the static objects
  test_sessions_and_threads();
  test_an_older_release();
  test_inputs_that_may_be_overwritten();
  test_outputs_that_are_left_out();
  test_failing_calls_do_not_disturb_others();
  test_sizes_that_change_meanwhile();
  test_wrong_lengths_are_refused_or_harmless();
  expect(fake_ort::live_statuses() == 0, "every status is released");
  expect(fake_ort::live_values() == 0, "every tensor of an attribute is released");
  return finish("tests of the ONNX Runtime library");
}
