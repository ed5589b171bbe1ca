// An op for tests of the adapters, with kinds of attributes that probe_op.cpp lacks: required and
// optional ones, lists of strings, floats of 64 bits, ints from a list.
#include "myops/op.h"

namespace myops {
namespace {

// report = [needed, whether maybe was given, maybe, length of all words, fine, fines...]
void compute_kinds(KernelContext& context) {
  const Attributes& attributes = context.attributes();
  std::string words;
  for (const std::string& word : attributes.texts("words")) words += word;
  std::vector<double> report = {static_cast<double>(attributes.integer("needed")),
                                attributes.has("maybe") ? 1.0 : 0.0,
                                attributes.has("maybe") ? attributes.real("maybe") : 0.0,
                                static_cast<double>(words.size()), attributes.real("fine")};
  if (attributes.has("fines")) {
    for (double value : attributes.reals("fines")) report.push_back(value);
  }
  const Tensor& result = context.output(0);
  for (int64_t i = 0; i < result.elements(); ++i) {
    const auto place = static_cast<size_t>(i);
    result.as<double>()[i] = place < report.size() ? report[place] : -1;
  }
}

MYOPS_OP(kinds) {
  using Texts = std::vector<std::string>;
  return Op("kinds")
      .onnx("Kinds", 1)
      .doc("Reports its attributes.")
      .type("R", {DType::Float64})
      .input({"x", "R", "As long as the report."})
      .output({"report", "R", "The attributes, then -1."})
      .attribute(Attribute{"needed", int64_t{0}, "An int."}.one_of({1, 2, 4}).required())
      .attribute(Attribute{"maybe", 0.0, "A float."}.above(0).at_most(1).optional())
      .attribute(Attribute{"words", Texts{"ab"}, "Strings."}.one_of(Texts{"ab", "cde", ""}))
      .attribute(Attribute{"fine", 0.1, "A float of 64 bits."}.exact().below(1e6))
      .attribute(Attribute{"fines", std::vector<double>(), "Several."}.exact().optional())
      .shape("N -> N")
      .kernel(compute_kinds);
}

void compute_parts(KernelContext& context) {
  for (size_t i = 0; i < 3; ++i) {
    if (!context.output(i).present) continue;
    for (int64_t j = 0; j < context.output(i).elements(); ++j) {
      context.output(i).as<double>()[j] = static_cast<double>(i);
    }
  }
}

// Outputs that depend on attributes. (With optional inputs, no shapes are inferred in old
// releases.)
MYOPS_OP(parts) {
  return Op("parts")
      .onnx("Parts", 1)
      .doc("The number of each output.")
      .type("R", {DType::Float64})
      .input({"x", "R", "As long as the outputs."})
      .output({"y", "R", "0."})
      .output(Output{"flagged", "R", "1."}.only_if("flag"))
      .output(Output{"extra", "R", "2."}.only_if("more"))
      .attribute({"flag", false, "Whether flagged is computed."})
      .attribute({"more", false, "Whether extra is computed."})
      .shape("N -> N, N, N")
      .kernel(compute_parts);
}

}  // namespace
}  // namespace myops
