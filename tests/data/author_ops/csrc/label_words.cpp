// label_words: a word before each of the strings, and how many bytes they then have.
#include "myops/op.h"

namespace {
using namespace myops;

void compute(KernelContext& context) {
  const Tensor& words = context.input(0);
  const Tensor &labelled = context.output(0), &lengths = context.output(1);
  const std::string& label = context.attributes().text("label");
  context.parallel_for(words.elements(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::string text = label + words.as<std::string>()[i];
      lengths.as<int64_t>()[i] = static_cast<int64_t>(text.size());
      labelled.as<std::string>()[i] = text;
    }
  });
}

}  // namespace

MYOPS_OP(label_words) {
  return Op("label_words")
      .onnx("LabelWords", 1)
      .doc("A word before each string, and their lengths in bytes.")
      .type("S", {DType::String})
      .type("I", {DType::Int64})
      .input({"words", "S", "Any tensor of strings."})
      .output({"labelled", "S", "Of the shape of words."})
      .output({"lengths", "I", "Of the shape of words."})
      .attribute({"label", "", "What stands before each."})
      .shape("S... -> S..., S...")
      .kernel(compute);
}
