// Out of memory: each allocation of each call fails in turn, once or permanently. The call is
// refused with std::bad_alloc or an Error, nothing leaks, and the next call is correct. Also the
// peak memory of a call: at most what MYOPS_MAX_BYTES allows, whether it is refused or not.
#include <functional>
#include <memory>
#include <vector>

#include "../../csrc/core/shape_cache.h"
#include "checking.h"
#include "counting_malloc.h"
#include "fake_ort.h"
#include "myops/op.h"
#include "resize_reference.h"

namespace {

using namespace myops;

// Outputs in memory of the test; each piece of work is a task.
class TestRuntime final : public Runtime {
 public:
  Tensor allocate(size_t index, DType dtype, const Shape& shape, Layout layout) override {
    std::vector<std::unique_ptr<char[]>>& memory = outputs;
    if (memory.size() <= index) memory.resize(index + 1), sizes.resize(index + 1);
    sizes[index] = byte_count(shape, dtype);
    memory[index].reset(new char[sizes[index] + 1]());
    return Tensor(memory[index].get(), dtype, shape, layout);
  }
  void run(int64_t count, Task task, void* argument) override {
    for (int64_t i = 0; i < count; ++i) task(argument, i);
  }
  std::vector<std::unique_ptr<char[]>> outputs;
  std::vector<size_t> sizes;

  std::vector<std::string> results() const {
    std::vector<std::string> all;
    for (size_t i = 0; i < outputs.size(); ++i) all.emplace_back(outputs[i].get(), sizes[i]);
    return all;
  }
};

// A call with inputs of its own.
struct Call {
  std::string text;
  const Op* op;
  Attributes attributes;
  std::vector<std::vector<char>> memory;
  Tensors inputs;

  Call(const std::string& name, const std::vector<std::pair<std::string, AttributeValue>>& set)
      : text(name), op(find_op(name)), attributes(::attributes(*op, set)) {}

  Call& tensor(DType dtype, const Shape& shape, Layout layout = Layout::Contiguous) {
    auto& bytes = memory.emplace_back(byte_count(shape, dtype));
    unsigned seed = 7;
    const auto count = static_cast<int64_t>(element_count(shape));
    dispatch<Half, BFloat16, float, double, uint8_t>(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        reinterpret_cast<T*>(bytes.data())[i] =
            static_cast<T>(static_cast<float>(seed >> 24) / 64.0f);
      }
    });
    inputs.emplace_back(bytes.data(), dtype, shape, layout);
    text += str(" ", dtype_name(dtype), " ", shape);
    return *this;
  }
  Call& sizes(const std::vector<int64_t>& numbers) {
    auto& bytes = memory.emplace_back(numbers.size() * sizeof(int64_t));
    std::copy(numbers.begin(), numbers.end(), reinterpret_cast<int64_t*>(bytes.data()));
    inputs.emplace_back(bytes.data(), DType::Int64, Shape{static_cast<int64_t>(numbers.size())});
    return *this;
  }
  Call& none() {
    inputs.emplace_back();
    return *this;
  }
};

std::vector<Call> calls() {
  using Ints = std::vector<int64_t>;
  std::vector<Call> all;
  const auto add = [&](const std::string& name,
                       const std::vector<std::pair<std::string, AttributeValue>>& set) -> Call& {
    return all.emplace_back(name, set);
  };
  add("my_add", {}).tensor(DType::Float32, {3, 1, 50}).tensor(DType::Float32, {40, 50});
  for (const DType dtype : {DType::UInt8, DType::Float16, DType::Float32, DType::Float64}) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      for (const Layout layout : {Layout::Contiguous, Layout::ChannelsLast}) {
        for (const Ints& to : {Ints{1, 3, 20, 9}, Ints{1, 3, 5, 33}, Ints{2, 4, 11, 13}}) {
          const AttributeValue chosen = std::string(mode);
          add("resize", {{"mode", chosen}})
              .tensor(dtype, {1, 3, 11, 13}, layout)
              .none()
              .none()
              .sizes(to);
          if (dtype == DType::UInt8) continue;
          const Shape grad(to.begin(), to.end());
          add("resize_backward", {{"mode", chosen}})
              .tensor(dtype, grad, layout)
              .tensor(dtype, {1, 3, 11, 13}, layout)
              .none()
              .none()
              .sizes(to);
        }
      }
    }
  }
  add("resize", {{"mode", std::string("cubic")}, {"antialias", true}})
      .tensor(DType::Float32, {1, 2, 40, 40})
      .none()
      .none()
      .sizes({1, 2, 9, 50});
  for (const int64_t groups : {1, 2, 8}) {
    for (const DType dtype : {DType::Float16, DType::Float32}) {
      const int64_t C = 8, O = 8, H = 9, W = 10;
      const std::vector<std::pair<std::string, AttributeValue>> set = {
          {"pads", Ints{1, 1, 1, 1}}, {"group", groups}, {"offset_group", groups}};
      const Shape X{2, C, H, W}, weight{O, C / groups, 3, 3}, Y{2, O, H, W};
      const Shape offset{2, 18 * groups, H, W}, mask{2, 9 * groups, H, W};
      add("deform_conv2d", set)
          .tensor(dtype, X)
          .tensor(dtype, weight)
          .tensor(dtype, offset)
          .tensor(dtype, {O})
          .tensor(dtype, mask);
      add("deform_conv2d_backward", set)
          .tensor(dtype, Y)
          .tensor(dtype, X)
          .tensor(dtype, weight)
          .tensor(dtype, offset)
          .tensor(dtype, mask);
      add("deform_conv2d_backward_backward", set)
          .tensor(dtype, Y)
          .tensor(dtype, X)
          .tensor(dtype, weight)
          .tensor(dtype, offset)
          .tensor(dtype, mask)
          .tensor(dtype, X)
          .tensor(dtype, weight)
          .tensor(dtype, offset)
          .tensor(dtype, mask);
    }
  }
  return all;
}

// Makes each allocation of body() fail in turn, until none is left. Returns their number.
int64_t fail_each(const std::function<void()>& body, bool for_good, const std::string& text) {
  for (int64_t at = 1;; ++at) {
    bool refused = false;
    counting::requests = 0;
    counting::all_after = for_good;
    counting::fails_at = at;
    try {
      body();
    } catch (const std::bad_alloc&) {
      refused = true;
    } catch (const std::exception&) {
      counting::fails_at = 0;
      expect(false, str(text, ": request ", at, " that fails: neither done nor bad_alloc"));
    }
    counting::fails_at = 0;
    const bool reached = counting::requests >= at;
    // An allocation whose failure only makes the call slower (a table that is not cached, for
    // example) does not refuse it.
    if (!reached) {
      expect(!refused, text + ": refused without a reason");
      return at - 1;
    }
  }
}

void test_calls_without_memory() {
  int64_t requests = 0;
  std::vector<Call> all = calls();
  for (Call& call : all) {
    const auto run = [&](ShapeCache* last) {
      TestRuntime runtime;
      invoke(*call.op, call.inputs, call.attributes, runtime, nullptr, last);
      return runtime.results();
    };
    const std::vector<std::string> expected = run(nullptr);
    int64_t live[2] = {0, 0};
    for (int64_t& after : live) {  // caches are filled in the first round
      for (const bool for_good : {false, true}) {
        for (const bool remembers : {false, true}) {
          ShapeCache last;
          requests += fail_each([&] { run(remembers ? &last : nullptr); }, for_good, call.text);
          expect(run(remembers ? &last : nullptr) == expected, call.text + ": the next call");
        }
      }
      after = counting::live_blocks;
    }
    expect(live[0] == live[1],
           str(call.text, ": got ", live[1] - live[0], " blocks that are lost"));
  }
  std::printf("%lld requests failed\n", static_cast<long long>(requests));
}

// The same through the library for ONNX Runtime, whose own allocations fail too: each failure
// becomes a status, and every status is released.
void test_nodes_without_memory() {
  using fake_ort::ElementType;
  using Dims = std::vector<int64_t>;
  const auto input = [](ElementType type, const Dims& dims, std::vector<uint8_t> bytes) {
    fake_ort::Input made;
    made.value = {type, dims, std::move(bytes)};
    made.declared = {type, dims, {}};
    return made;
  };
  const Dims sizes{1, 1, 9, 8};
  const auto* numbers = reinterpret_cast<const uint8_t*>(sizes.data());
  const fake_ort::Node node{
      "Resize",
      {{"mode", {std::string("linear")}}},
      {input(ElementType::Float32, {1, 1, 5, 6}, std::vector<uint8_t>(120, 1)), std::nullopt,
       std::nullopt, input(ElementType::Int64, {4}, {numbers, numbers + 32})}};
  const fake_ort::Session session(node);
  const auto expected = session.run(node, fake_ort::Order::Forward, 0).outputs.at(0).bytes;
  int64_t live[2] = {0, 0};
  for (int64_t& after : live) {
    fail_each(
        [&] {
          const auto result = session.run(node, fake_ort::Order::Forward, 0);
          if (result.refusal.empty()) return;
          counting::fails_at = 0;
          expect(result.refusal.find("memory") != std::string::npos, result.refusal);
        },
        false, "a node");
    expect(session.run(node, fake_ort::Order::Forward, 0).outputs.at(0).bytes == expected,
           "the next run of a node");
    after = counting::live_blocks;
  }
  expect(live[0] == live[1], str("a node: got ", live[1] - live[0], " blocks that are lost"));
  expect(fake_ort::live_statuses() == 0, "every status is released");
}

// The peak memory of a call, refused or not, is at most the limit and the few kilobytes that every
// call needs.
void test_calls_stay_below_the_limit() {
  using Ints = std::vector<int64_t>;
  constexpr int64_t kBeside = 16 << 10;
  int64_t refused = 0, done = 0;
  for (const int64_t groups : {1, 2, 8, 16}) {
    for (const char* name :
         {"deform_conv2d", "deform_conv2d_backward", "deform_conv2d_backward_backward"}) {
      for (int64_t side = 4; side <= 64; side += side < 20 ? 3 : 11) {
        for (const bool channels_last : {false, true}) {
          const int64_t C = 16;
          const Shape X{1, C, side, side}, weight{C, C / groups, 3, 3};
          const Shape offset{1, 18 * groups, side, side}, mask{1, 9 * groups, side, side};
          const Layout layout = channels_last ? Layout::ChannelsLast : Layout::Contiguous;
          Call call(name,
                    {{"pads", Ints{1, 1, 1, 1}}, {"group", groups}, {"offset_group", groups}});
          const std::string title = name;
          if (title != "deform_conv2d") call.tensor(DType::Float32, X, layout);
          for (int round = 0; round < (title == "deform_conv2d_backward_backward" ? 2 : 1);
               ++round) {
            call.tensor(DType::Float32, X, layout).tensor(DType::Float32, weight);
            call.tensor(DType::Float32, offset, layout);
            if (title == "deform_conv2d") call.none();
            call.tensor(DType::Float32, mask, layout);
          }
          const int64_t before = counting::live_bytes;
          counting::most_bytes = before;
          try {
            TestRuntime runtime;
            invoke(*call.op, call.inputs, call.attributes, runtime);
            ++done;
          } catch (const Error&) {
            ++refused;
          }
          const int64_t more = counting::most_bytes - before - max_bytes();
          expect(more <= kBeside, str(call.text, ": got ", more, " bytes more than the limit"));
        }
      }
    }
  }
  expect(refused > 20 && done > 20, str("got ", refused, " refused, ", done, " done"));
}

}  // namespace

int main() {
  setenv("MYOPS_MAX_BYTES", "1500000", 1);
  test_calls_stay_below_the_limit();
  test_calls_without_memory();
  test_nodes_without_memory();
  return finish("tests without memory");
}
