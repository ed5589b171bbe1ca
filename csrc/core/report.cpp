#include "report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "json.h"
#include "library_names.h"
#include "myops/isa.h"

namespace myops {

std::atomic<int> detail::reporters{detail::kUndecided};

namespace {

bool decide_verbose() {
  const char* wanted = std::getenv("MYOPS_VERBOSE");
  if (wanted == nullptr || *wanted == '\0') return false;
  const std::string text(wanted);
  if (text == "0" || text == "1") return text == "1";
  throw Error(str("MYOPS_VERBOSE: got ", quoted(text), ", expected 0 or 1"));
}

bool verbose() {
  static const bool wanted = decide_verbose();
  return wanted;
}

struct Recording {
  std::mutex mutex;
  bool active = false;
  std::string lines;
};

// Never destroyed: kernels may run until the process ends.
Recording& recording() {
  static auto* const made = new Recording;
  return *made;
}

// Whether the call of this thread asked which instruction set to use.
thread_local bool uses_instruction_set = false;

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::string time_text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4f", number);
  return text;
}

std::string layout_of(const Tensor& tensor) {
  if (tensor.is(Layout::Contiguous) || tensor.elements() == 0) return "\"contiguous\"";
  if (tensor.is(Layout::ChannelsLast)) return "\"channels_last\"";
  return str("\"strided\", \"strides\": ", json_list(tensor.strides));
}

std::string described(const std::string& name, const Tensor& tensor) {
  return str("{\"name\": ", json_text(name), ", \"dtype\": \"", dtype_name(tensor.dtype),
             "\", \"shape\": ", json_list(tensor.shape), ", \"layout\": ", layout_of(tensor));
}

// `values`: whether the numbers of lists that decide a shape may be read.
std::string described_inputs(const Op& op, const TensorPointers& tensors, bool values) {
  std::string text = "[";
  for (size_t i = 0; i < tensors.size() && (i < op.inputs.size() || op.is_variadic()); ++i) {
    const Tensor& tensor = *tensors[i];
    if (!tensor.present) continue;
    text += (text.size() > 1 ? ", " : "") + described(op.input_name(i), tensor);
    constexpr int64_t kMost = 64;  // numbers
    if (values && op.declared(i).has_values && tensor.elements() <= kMost) {
      text += ", \"values\": " + json_list(read_values(tensor));
    }
    text += "}";
  }
  return text + "]";
}

}  // namespace

int detail::decide_reporters() {
  const bool wanted = verbose();
  int undecided = kUndecided;
  reporters.compare_exchange_strong(undecided, wanted ? 1 : 0);
  return reporters;
}

void record_calls() {
  (void)calls_are_reported();  // decides on MYOPS_VERBOSE first
  Recording& own = recording();
  const std::lock_guard<std::mutex> lock(own.mutex);
  own.lines.clear();
  if (!own.active) ++detail::reporters;
  own.active = true;
}

std::string recorded_calls() {
  Recording& own = recording();
  const std::lock_guard<std::mutex> lock(own.mutex);
  if (own.active) --detail::reporters;
  own.active = false;
  return std::exchange(own.lines, {});
}

void note_instruction_set() { uses_instruction_set = true; }

Report::Report(const Op& op, const Attributes& attributes, Runtime& runtime)
    : op_(op), attributes_(attributes), runtime_(runtime) {
  uses_instruction_set = false;
}

void Report::starts_kernel(const TensorPointers& inputs, const Tensors& outputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  inputs_ = described_inputs(op_, inputs, true);
  describe_outputs(outputs);
  left_ = runtime_.budget().left();
  runtime_.budget().watch();
}

void Report::made_outputs(const Tensors& outputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  outputs_.clear();
  describe_outputs(outputs);
}

void Report::describe_outputs(const Tensors& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].present) continue;  // left out, or the kernel makes it
    outputs_ += (outputs_.empty() ? "" : ", ") + described(op_.outputs[i].name, outputs[i]) + "}";
  }
}

void Report::add(std::string_view kernel, std::string_view axis, std::string_view reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (pass_ran_) end_pass(now);
  if (pass_.empty()) {
    memory_ = std::max(memory_, memory());
    pass_start_ = now;
  }
  const auto same = std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.kernel == kernel && step.axis == axis && step.reason == reason;
  });
  const auto index = static_cast<size_t>(same - steps_.begin());
  if (same == steps_.end()) {
    steps_.push_back({std::string(kernel), std::string(axis), std::string(reason), 0, 0, 0});
  }
  if (std::find(pass_.begin(), pass_.end(), index) == pass_.end()) pass_.push_back(index);
}

void Report::end_pass(Clock::time_point now) {
  const int64_t memory = this->memory();
  memory_ = std::max(memory_, memory);
  for (const size_t index : pass_) {
    steps_[index].ms += milliseconds(now - pass_start_);
    steps_[index].memory = std::max(steps_[index].memory, memory);
  }
  pass_.clear();
  pass_ran_ = false;
}

int64_t Report::memory() {
  const int64_t most = left_ < 0 ? 0 : left_ - runtime_.budget().least();
  if (left_ >= 0) runtime_.budget().watch();
  return most;
}

void Report::starts_pieces(int64_t pieces) {
  const std::lock_guard<std::mutex> lock(mutex_);
  pieces_ += pieces;
  pass_ran_ = true;
  for (const size_t index : pass_) steps_[index].pieces += pieces;
}

void Report::runs_piece() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::thread::id own = std::this_thread::get_id();
  if (std::find(threads_.begin(), threads_.end(), own) == threads_.end()) threads_.push_back(own);
}

void Report::finish(const Tensors& given, const char* error) {
  const Clock::time_point end = Clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  end_pass(end);
  const std::string text = line(given, error, end);
  if (verbose()) {
    // One call of fwrite(), so that the lines of several threads do not mix.
    const std::string printed = "myops_verbose " + text + "\n";
    (void)std::fwrite(printed.data(), 1, printed.size(), stderr);
  }
  Recording& own = recording();
  const std::lock_guard<std::mutex> recorded(own.mutex);
  if (own.active) own.lines += text + "\n";
}

std::string Report::line(const Tensors& given, const char* error, Clock::time_point end) {
  if (inputs_.empty()) {  // the call was refused
    TensorPointers pointers;
    for (const Tensor& tensor : given) pointers.push_back(&tensor);
    inputs_ = described_inputs(op_, pointers, false);
  }
  std::string text = str("{\"version\": 1, \"domain\": ", json_text(library_domain()),
                         ", \"op\": ", json_text(op_.name), ", \"runtime\": \"", runtime_.name(),
                         "\", \"node\": ", json_text(runtime_.node()), ", \"inputs\": ", inputs_,
                         ", \"outputs\": [", outputs_, "], \"attributes\": {");
  bool first = true;
  for (size_t i = 0; i < op_.attributes.size(); ++i) {
    const Attribute& attribute = op_.attributes[i];
    if (!attributes_.value(i).given()) continue;
    const std::string value = json_value(attributes_.value(i));
    const bool has_default = !attribute.is_required && !attribute.is_optional;
    if (has_default && value == json_value(attribute.default_value)) continue;
    text += str(first ? "" : ", ", json_text(attribute.name), ": ", value);
    first = false;
  }
  text += str("}, \"isa\": \"", uses_instruction_set ? isa_name(isa()) : "", "\", \"plan\": [");
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    text += str(i == 0 ? "" : ", ", "{\"kernel\": ", json_text(step.kernel),
                ", \"axis\": ", json_text(step.axis), ", \"reason\": ", json_text(step.reason),
                ", \"pieces\": ", step.pieces, ", \"memory\": ", step.memory,
                ", \"ms\": ", time_text(step.ms), "}");
  }
  // A call without pieces, or with one, runs on its own thread.
  const size_t threads = std::max<size_t>(threads_.size(), 1);
  text += str("], \"threads\": ", threads, ", \"pieces\": ", pieces_, ", \"memory\": ", memory_);
  if (error != nullptr) text += ", \"error\": " + json_text(error);
  const double start = std::chrono::duration<double>(start_.time_since_epoch()).count();
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.6f", start);
  return text +
         str(", \"start\": ", seconds, ", \"ms\": ", time_text(milliseconds(end - start_)), "}");
}

}  // namespace myops
