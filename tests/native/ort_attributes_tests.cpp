// Attributes of every kind in the ONNX Runtime library, inside a stand-in for ONNX Runtime: valid,
// wrong and absurd ones.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "checking.h"
#include "fake_ort.h"
#include "ort_nodes.h"

namespace {

void test_wrong_attributes_are_refused() {
  const auto with = [](Node node, const char* name, NodeAttribute value) {
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
  expect_refusal(with(resize, "mode", {std::vector<std::string>{"cubic"}}), "a list of strings");
  expect_refusal(with(deform, "pads", {Ints{-1, 0, 0, 0}}), "pads: got [-1, 0, 0, 0]");
  expect_refusal(with(deform, "strides", {Ints{0, 1}}), "strides: got [0, 1]");
  expect_refusal(with(deform, "strides", {Ints(100, 1)}), "and 36 more], expected 2 numbers");
  expect_refusal(with(deform, "dilations", {Ints{INT64_MAX, INT64_MAX}}), "dilations");
  expect_refusal(with(deform, "group", {INT64_MIN}), "group: got -9223372036854775808");
  expect_refusal(with(deform, "offset_group", {INT64_MAX}), "offset_group");
  // Constant weights are packed before other checks.
  expect_refusal(with(deform, "group", {int64_t{0}}), "group: got 0");
  expect_refusal(with(deform, "offset_group", {int64_t{0}}), "offset_group: got 0");
  expect_refusal(with(deform, "group", {int64_t{-1}}), "group: got -1");
  expect_refusal(with(deform, "group", {int64_t{7}}), "group");
  expect_refusal(with(deform, "kernel_shape", {Ints{3, 2147483646}}), "kernel_shape");
}

std::vector<double> report_of(const Node& node, Release release = Release::Newest) {
  const Session session(node, release);
  expect(session.refusal().empty(), session.refusal());
  if (!session.refusal().empty()) return {};
  const auto result = session.run(node, Order::Forward, 0xff);
  expect(result.refusal.empty(), result.refusal);
  std::vector<double> report(8);
  std::memcpy(report.data(), result.outputs.at(0).bytes.data(), sizeof(double) * report.size());
  return report;
}

void test_kinds_of_attributes() {
  using Numbers = std::vector<double>;
  using Texts = std::vector<std::string>;
  const Node good = kinds_node();
  const auto with = [&](const char* name, NodeAttribute value) {
    Node node = good;
    node.attributes[name] = std::move(value);
    return node;
  };
  const auto without = [&](const char* name) {
    Node node = good;
    node.attributes.erase(name);
    return node;
  };
  const Numbers all = {2, 0, 0, 5, 0.1, 1.0 / 3, 1e300, -1};
  expect(report_of(good) == all, "every attribute");
  expect(report_of(good, Release::Older) == all, "every attribute in an older release");
  expect(report_of(without("words"))[3] == 2, "the default of a list of strings");
  expect(report_of(without("fines")) == Numbers{2, 0, 0, 5, 0.1, -1, -1, -1}, "no list of floats");
  expect(report_of(with("maybe", {0.5f})) == Numbers{2, 1, 0.5, 5, 0.1, 1.0 / 3, 1e300, -1},
         "maybe");
  expect(report_of(with("words", {Texts{"ab", "cde"}}))[3] == 5, "a list of strings");
  expect(report_of(with("words", {Texts{}}))[3] == 0, "no strings");
  expect(report_of(with("words", texts({})))[3] == 0, "no strings, in a tensor");
  // Files that are older than exact().
  expect(report_of(with("fine", {0.1f}))[4] == static_cast<double>(0.1f), "a float of 32 bits");
  const Numbers old = report_of(with("fines", {std::vector<float>{0.5f, 0.1f}}));
  expect(old[5] == 0.5 && old[6] == static_cast<double>(0.1f), "floats of 32 bits");

  const auto refuses = [&](const Node& node, const std::string& text) {
    expect(Session(node).refusal() == "kinds: " + text, Session(node).refusal() + ", not " + text);
  };
  refuses(without("needed"), "needed: got nothing, expected an int: the attribute is required");
  refuses(with("needed", {int64_t{3}}), "needed: got 3, expected one of 1, 2, 4");
  refuses(with("maybe", {0.0f}), "maybe: got 0, expected a number above 0 and not above 1");
  refuses(with("maybe", {1.5f}), "maybe: got 1.5, expected a number above 0 and not above 1");
  refuses(with("maybe", {std::nanf("")}),
          "maybe: got nan, expected a number above 0 and not above 1");
  refuses(with("fine", tensor<double>(ElementType::Float64, {}, {1e6})),
          "fine: got 1000000, expected a number below 1000000");
  refuses(with("words", {Texts{"ab", "x"}}),
          "words: got \"x\", expected one of \"ab\", \"cde\", \"\"");
  refuses(
      with("fine", tensor<double>(ElementType::Float64, {1}, {0.5})),
      "fine: got a tensor of float64 of shape [1], expected a tensor of one float64, without axes");
  refuses(
      with("fine", tensor<float>(ElementType::Float32, {}, {0.5f})),
      "fine: got a tensor of float32 of shape [], expected a tensor of one float64, without axes");
  refuses(with("fines", tensor<double>(ElementType::Float64, {1, 1}, {0.5})),
          "fines: got a tensor of float64 of shape [1, 1], expected a list of float64, as a tensor "
          "with one axis");
  refuses(
      with("fines", texts({"a"})),
      "fines: got a tensor of string of shape [1], expected a list of float64, as a tensor with "
      "one axis");
  refuses(with("words", tensor<double>(ElementType::Float64, {1}, {0.5})),
          "words: got a tensor of float64 of shape [1], expected a list of strings");
  refuses(with("fines", tensor(ElementType::Float64, {(1 << 20) + 1}, Numbers((1 << 20) + 1))),
          "fines: got 1048577 elements, expected at most 1048576");
  refuses(with("words", {Texts((1 << 20) + 1)}),
          "words: got 1048577 elements, expected at most 1048576");
  for (const Texts& list : {Texts{"ab"}, Texts{}}) {
    const Session older(with("words", {list}), Release::Older);
    expect(older.refusal() ==
               "kinds: words: got a list that this version of ONNX Runtime does not hand over, "
               "expected ONNX Runtime 1.25 or later for a list of strings, or a tensor of strings "
               "with one axis",
           older.refusal());
  }
}

using myops::AttributeType;

struct Given {
  const char* got;  // the words of a refusal
  NodeAttribute attribute;
  std::optional<AttributeType> right;  // the declaration that it fits
  bool older_can_tell = true;          // 1.17 to 1.23: that it is no empty list
};

// Every kind that an attribute can have, and lists that are empty.
std::vector<Given> every_kind() {
  std::vector<Given> kinds = {
      {"an int", {int64_t{1}}, AttributeType::Int},
      {"a float", {1.5f}, AttributeType::Float},
      {"a string", {std::string("linear")}, AttributeType::String},
      {"a list of ints", {Ints{1, 1}}, AttributeType::Ints},
      {"a list of floats", {std::vector<float>{1.5f}}, AttributeType::Floats},
      {"a list of strings", {std::vector<std::string>{"1"}}, AttributeType::Strings, false},
      {"a list of strings", {std::vector<std::string>{}}, AttributeType::Strings, false},
      {"a list of ints", {Ints{}}, AttributeType::Ints, false},
      {"a list of floats", {std::vector<float>{}}, AttributeType::Floats, false},
      {"a tensor", {OtherKind::Tensor}, {}},
  };
  for (const OtherKind kind :
       {OtherKind::Graph, OtherKind::SparseTensor, OtherKind::Type, OtherKind::Graphs,
        OtherKind::Tensors, OtherKind::SparseTensors, OtherKind::Types}) {
    kinds.push_back({"something else", {kind}, {}, false});
  }
  return kinds;
}

std::string load_refusal(const Node& node, Release release) {
  return Session(node, release).refusal();
}

// All combinations: every attribute of every op, every kind, a host that reports kinds and one that
// does not.
void test_attributes_of_every_wrong_kind() {
  int refused = 0, not_reported = 0;
  for (const Node& good : good_nodes()) {
    for (const myops::Op& op : myops::all_ops()) {
      if (op.onnx_type != good.type) continue;
      for (const myops::Attribute& declared : op.attributes) {
        const AttributeType type = declared.type();
        const bool is_list = type == AttributeType::Ints || type == AttributeType::Floats ||
                             type == AttributeType::Doubles;
        for (const Given& given : every_kind()) {
          const bool also =
              (type == AttributeType::Bool && given.right == AttributeType::Int) ||
              (type == AttributeType::Double && given.right == AttributeType::Float) ||
              (type == AttributeType::Doubles && given.right == AttributeType::Floats);
          if (given.right == type || also) continue;
          Node bad = good;
          bad.attributes[declared.name] = given.attribute;
          const std::string text = str(op.name, ": ", declared.name, ": got ");
          expect_starts(load_refusal(bad, Release::Newest), text + given.got);
          ++refused;
          if (given.older_can_tell || !is_list) {
            const char* got = given.older_can_tell             ? given.got
                              : type == AttributeType::Strings ? "a list that this version"
                                                               : "something else";
            expect_starts(load_refusal(bad, Release::Older), text + got);
          } else {
            Node empty = good;
            empty.attributes[declared.name] = {Ints{}};
            expect(load_refusal(bad, Release::Older) == load_refusal(empty, Release::Older),
                   text + ": an empty list, in an older release");
            ++not_reported;
          }
        }
      }
    }
  }
  expect(refused > 200 && not_reported > 40,
         str(refused, " refused, ", not_reported, " not reported"));
}

// A wrong kind that shape inference has recorded for one node does not affect another model, but
// every node of the same model.
void test_wrong_kinds_are_those_of_one_model() {
  const Node good = deform_node();
  Node empty = good, bad = good;
  empty.attributes["dilations"] = {Ints{}};
  bad.attributes["dilations"] = {OtherKind::SparseTensor};
  const std::string text = "deform_conv2d: dilations: got something else, expected a list of ints";
  for (int round = 0; round < 3; ++round) {
    expect(load_refusal(empty, Release::Newest).empty(), "an empty list of ints");
    expect(load_refusal(bad, Release::Newest) == text, "a wrong kind");
    expect(Session({empty, bad}).refusal() == text, "a wrong kind behind an empty list");
    expect(Session({bad, empty}).refusal() == text, "a wrong kind before an empty list");
    Node unknown = good;
    unknown.type = "Unknown";  // refused when shapes have been inferred, but no kernel created
    expect(!Session({bad, unknown}).refusal().empty(), "an unknown op");
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 50; ++round) {
        const std::string refusal = load_refusal(thread % 2 == 0 ? bad : empty, Release::Newest);
        expect(refusal == (thread % 2 == 0 ? text : ""), "wrong kinds in threads");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Without ranks no shape is inferred, so W is packed before the attributes are checked.
void test_wrong_attributes_are_refused_without_ranks() {
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

}  // namespace

int main() {
  setenv("MYOPS_MAX_BYTES", "64000000", 1);
  test_wrong_attributes_are_refused();
  test_kinds_of_attributes();
  test_attributes_of_every_wrong_kind();
  test_wrong_kinds_are_those_of_one_model();
  test_wrong_attributes_are_refused_without_ranks();
  expect(fake_ort::live_statuses() == 0, "every status is released");
  expect(fake_ort::live_values() == 0, "every tensor of an attribute is released");
  return finish("tests of attributes in the ONNX Runtime library");
}
