// The fuzz target, for libFuzzer or replay.cpp. The bytes become a call of any op. It is made
// through invoke() with strided tensors, as torch and NumPy pass them, and through the ONNX Runtime
// library, as in a session (fake_ort.h).
//
// Besides the sanitizers' findings these are failures: a result that differs from a simple
// reference in float64 (reference.h); one that depends on the order in which the pieces of work
// run,
// on threads, on what the output's memory held before, or on the strides of an input; bits that
// differ between invoke() and the library; an output that is not of the shape that was inferred; a
// message that is empty or endless; a status that nobody releases.
//
// At the end a table says how many calls there were of each kind.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "direct.h"
#include "findings.h"
#include "reference.h"
#include "tally.h"

#ifndef MYOPS_FUZZ_THREADS
#define MYOPS_FUZZ_THREADS 16  // one call in so many runs its pieces on threads
#endif

namespace {

using namespace myops;
using fuzz::Argument;
using fuzz::Bytes;
using fuzz::Call;
using fuzz::Direct;
using fuzz::Order;
using fuzz::Spread;

void expect(bool condition, const Call& call, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "FAILED: %s: %s\nin %s\n", call.op->name.c_str(), what,
               fuzz::describe(call).c_str());
  std::abort();
}

void expect_message(const Call& call, const std::string& text) {
  expect(!text.empty() && text.size() < 4000, call, "a message of a reasonable length");
}

// ---- Through the library.

constexpr ort::ElementType kElementTypes[kDTypeCount] = {
    ort::ElementType::Float16,      ort::ElementType::BFloat16,   ort::ElementType::Float32,
    ort::ElementType::Float64,      ort::ElementType::UInt8,      ort::ElementType::Int32,
    ort::ElementType::Int64,        ort::ElementType::Bool,       ort::ElementType::Int8,
    ort::ElementType::Int16,        ort::ElementType::UInt16,     ort::ElementType::UInt32,
    ort::ElementType::UInt64,       ort::ElementType::Complex64,  ort::ElementType::Complex128,
    ort::ElementType::Float8E4M3FN, ort::ElementType::Float8E5M2, ort::ElementType::String};

// The shape of an input in the model: lengths, names, or unknown.
ort::TypeAndShape declare(Bytes& bytes, const Argument& argument) {
  ort::TypeAndShape declared{kElementTypes[static_cast<int>(argument.dtype)],
                             {argument.shape.begin(), argument.shape.end()},
                             {}};
  if (bytes.one_in(8)) declared.dims.clear();  // unknown rank
  declared.symbols.resize(declared.dims.size());
  for (size_t axis = 0; axis < declared.dims.size(); ++axis) {
    const size_t kind = bytes.below(8);
    if (kind < 6) continue;
    declared.dims[axis] = -1;
    if (kind == 6) declared.symbols[axis] = std::string(1, static_cast<char>('a' + axis));
  }
  return declared;
}

void expect_inferred(const Call& call, const std::optional<ort::TypeAndShape>& inferred,
                     const ort::Value& output) {
  if (!inferred) return;
  expect(inferred->type == output.type, call, "the inferred type");
  bool fits = inferred->dims.size() == output.dims.size();
  for (size_t axis = 0; fits && axis < output.dims.size(); ++axis) {
    fits = inferred->dims[axis] < 0 || inferred->dims[axis] == output.dims[axis];
  }
  expect(fits, call, "the inferred shape");
}

// `direct`: what invoke() gave, if it was accepted.
void through_the_library(Bytes& bytes, const Call& call, const Tensors& direct) {
  fake_ort::Node node{call.op->onnx_type, {call.attributes.begin(), call.attributes.end()}, {}};
  for (const std::optional<Argument>& argument : call.inputs) {
    if (!argument) {
      node.inputs.push_back(std::nullopt);
      continue;
    }
    fake_ort::Input input;
    input.declared = declare(bytes, *argument);
    input.value = {
        input.declared.type, {argument->shape.begin(), argument->shape.end()}, argument->bytes};
    input.is_constant = bytes.one_in(4);
    node.inputs.push_back(std::move(input));
  }
  while (!node.inputs.empty() && !node.inputs.back()) node.inputs.pop_back();
  {
    const fake_ort::Session session(node);
    if (!session.refusal().empty()) {
      expect_message(call, session.refusal());
    } else {
      const auto forward = session.run(node, fake_ort::Order::Forward, 0xa5);
      const auto backward = session.run(node, fake_ort::Order::Backward, 0x5a);
      expect(forward.refusal == backward.refusal, call, "the same refusal again");
      if (!forward.refusal.empty()) {
        expect_message(call, forward.refusal);
      } else {
        for (size_t i = 0; i < forward.outputs.size(); ++i) {
          expect(forward.outputs[i].bytes == backward.outputs[i].bytes, call,
                 "equal bits in any order, every element written");
          expect_inferred(call, session.inferred()[i], forward.outputs[i]);
          if (direct.empty()) continue;
          std::vector<uint8_t> result = forward.outputs[i].bytes;
          const std::vector<int64_t>& dims = forward.outputs[i].dims;
          const Tensor tensor(result.data(), direct[i].dtype, Shape(dims.begin(), dims.end()));
          expect(fuzz::same(tensor, direct[i]), call, "the bits of invoke()");
        }
      }
    }
  }
  expect(fake_ort::live_statuses() == 0, call, "every status released");
}

// ---- Through invoke().

std::map<std::string, fuzz::MakeReference>& references() {
  static std::map<std::string, fuzz::MakeReference> known;
  return known;
}

fuzz::Reference reference_of(const Call& call, const Tensors& inputs) {
  const auto found = references().find(call.op->name);
  if (found == references().end()) return std::nullopt;
  return found->second(call.op->name, inputs, fuzz::attributes_of(call));
}

// Products of such numbers may be too large for float32 on the way to a sum that is not.
bool has_huge_numbers(const Tensors& inputs) {
  for (const Tensor& tensor : inputs) {
    if (!tensor.present) continue;
    for (const double value : fuzz::elements_of(tensor)) {
      if (std::isfinite(value) && std::fabs(value) > 1e6) return true;
    }
  }
  return false;
}

void compare_with_reference(Call& call, const Tensors& inputs, const Tensors& outputs) {
  const fuzz::Reference wanted = reference_of(call, inputs);
  if (!wanted || (!(*wanted)[0].copies && has_huge_numbers(inputs))) {
    call.facts.push_back("reference: left out");
    return;
  }
  expect(wanted->size() == outputs.size(), call, "as many outputs as the reference has");
  int64_t compared = 0, elements = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string difference = fuzz::compare(outputs[i], (*wanted)[i], compared);
    elements += outputs[i].elements();
    if (difference.empty()) continue;
    expect(false, call, (call.op->outputs[i].name + ", " + difference).c_str());
  }
  call.facts.push_back(elements == 0              ? "reference: nothing to compare"
                       : compared == elements     ? "reference: all elements compared"
                       : compared * 2 >= elements ? "reference: most elements compared"
                                                  : "reference: few elements compared");
}

// The outputs with all inputs in order, in `forward`; none where the call is refused.
void through_invoke(Bytes& bytes, Call& call, Direct& forward) {
  std::vector<Spread> plain, spread;
  Tensors plain_inputs, spread_inputs;
  plain.reserve(call.inputs.size());
  spread.reserve(call.inputs.size());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    std::optional<Argument>& argument = call.inputs[i];
    plain_inputs.emplace_back();
    spread_inputs.emplace_back();
    if (!argument) continue;
    const fuzz::Strides strides =
        fuzz::any_strides(bytes, argument->shape, call.op->inputs[i].access_mode);
    spread.emplace_back(*argument, strides.steps);
    spread_inputs.back() = spread.back().tensor;
    argument->bytes = spread.back().in_order();
    plain.emplace_back(*argument, strides_for(argument->shape, Layout::Contiguous));
    plain_inputs.back() = plain.back().tensor;
    call.facts.push_back("layout of " + call.op->inputs[i].name + ": " + strides.kind);
  }
  const bool threads = bytes.one_in(MYOPS_FUZZ_THREADS);
  if (threads) call.facts.push_back("order of the pieces: on threads");
  Direct other(threads ? Order::Threads : Order::Backward, 0x5a);
  const std::string refusal = fuzz::direct_call(call, plain_inputs, forward);
  const std::string again = fuzz::direct_call(call, spread_inputs, other);
  for (const std::string& text : {refusal, again}) {
    if (!text.empty()) expect_message(call, text);
  }
  // A layout that must be copied takes more memory, perhaps too much.
  const bool too_much = (refusal + again).find("MYOPS_MAX_BYTES") != std::string::npos;
  expect(again == refusal || too_much, call, "the same refusal");
  const bool accepted = refusal.empty() && again.empty();
  if (accepted) {
    compare_with_reference(call, plain_inputs, forward.outputs);
    for (size_t i = 0; i < forward.outputs.size(); ++i) {
      expect(fuzz::same(forward.outputs[i], other.outputs[i]), call,
             "equal bits for any strides and order, every element written");
    }
  } else {
    forward.outputs.clear();
  }
  fuzz::count(call, accepted);
}

void run(Bytes& bytes, Call& call) {
  if (std::getenv("MYOPS_FUZZ_SHOW") != nullptr) {  // of what ends in a sanitizer's report
    std::fprintf(stderr, "%s\n", fuzz::describe(call).c_str());
  }
  const bool library = bytes.one_in(3) && !call.op->onnx_type.empty();
  if (library) call.facts.push_back("also: through the ONNX Runtime library");
  Direct direct(Order::Forward, 0xa5);
  through_invoke(bytes, call, direct);
  if (library) through_the_library(bytes, call, direct.outputs);
}

}  // namespace

fuzz::AddReference::AddReference(std::initializer_list<const char*> ops, MakeReference make) {
  for (const char* op : ops) references()[op] = make;
}

// Memory that was not written yet, scratch memory too, begins with NaN in every float dtype. Filled
// as a whole, the scratch memory of some calls would take seconds.
extern "C" const char* __asan_default_options() {
  return "malloc_fill_byte=255:max_malloc_fill_size=65536";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("MYOPS_MAX_BYTES", "16000000", 0);  // a call takes milliseconds, not the machine's memory
  // Small results take the ways of large ones as well: those that prefetch, and past the caches.
  setenv("MYOPS_CACHED_BYTES", "65536", 0);
  fuzz::print_counts_at_exit();
  for (Call& call : fuzz::findings()) {
    Bytes bytes(nullptr, 0);
    run(bytes, call);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  Call call = fuzz::make_call(bytes);
  run(bytes, call);
  return 0;
}
