// The reports of calls: the steps that kernels report, pieces, memory, errors, and JSON with any
// text. If no report is requested, they cost no allocation.
#include <cstdlib>
#include <new>
#include <vector>

#include "../../csrc/core/json.h"
#include "../../csrc/core/report.h"
#include "checking.h"
#include "guarded_runtime.h"

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MYOPS_OWN_NEW  // Clang's thread sanitizer has an operator new of its own
#endif
#endif
#ifndef MYOPS_OWN_NEW
void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace {

using namespace myops;

void (*steps)(KernelContext&) = nullptr;

Op described() {
  return Op("probe")
      .type("T", {DType::Float32})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "As x."})
      .attribute({"factor", 1.0, "Not used."})
      .attribute({"word", std::string("plain"), "Not used."})
      .attribute({"words", std::vector<std::string>(), "Not used."})
      .attribute(Attribute{"sizes", std::vector<int64_t>(), "Not used."}.optional())
      .shape([](ShapeContext& context) { context.set_output(0, context.dims(0)); })
      .kernel([](KernelContext& context) { steps(context); });
}

void call(Attributes* attributes = nullptr, Order order = Order::Forward) {
  const Op op = described();
  std::vector<float> x(6);
  Tensors inputs;
  inputs.push_back(Tensor(x.data(), DType::Float32, {2, 3}));
  TestRuntime runtime(order);
  invoke(op, inputs, attributes ? *attributes : Attributes(op.attributes), runtime);
}

std::string line_of(Attributes* attributes = nullptr, Order order = Order::Forward) {
  record_calls();
  try {
    call(attributes, order);
  } catch (const Error&) {  // the line says it
  }
  return recorded_calls();
}

void has(const std::string& line, const std::string& part) {
  expect(line.find(part) != std::string::npos, "\"" + part + "\" in " + line);
}

void test_a_kernel_that_reports_nothing() {
  steps = [](KernelContext&) {};
  const std::string line = line_of();
  expect(line.find("sizes") == std::string::npos, "an attribute without a value is left out");
  has(line, "\"op\": \"probe\", \"runtime\": \"cpp\", \"node\": \"\"");
  has(line,
      "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2, 3], "
      "\"layout\": \"contiguous\"}]");
  has(line, "\"attributes\": {}, \"isa\": \"\", \"plan\": [], \"threads\": 1, \"pieces\": 0");
  expect(line.back() == '\n' && line.find('\n') + 1 == line.size(), "one line");
  expect(recorded_calls().empty(), "a recording ends");
}

void test_steps_of_a_pass_share_what_ran() {
  steps = [](KernelContext& context) {
    context.parallel_for(3, 1, [](int64_t, int64_t) {});  // before any step
    context.report("first", "rows", "because");
    context.report("second", "columns");
    context.parallel_for(10, 4, [](int64_t, int64_t) {});
    for (int turn = 0; turn < 3; ++turn) {  // a loop reports the same again and again
      context.report("third", "rest");
      context.parallel_for(2, 5, [](int64_t, int64_t) {});
    }
  };
  const std::string line = line_of();
  has(line,
      "\"kernel\": \"first\", \"axis\": \"rows\", \"reason\": \"because\", \"pieces\": 3, "
      "\"memory\": 0");
  has(line, "\"kernel\": \"second\", \"axis\": \"columns\", \"reason\": \"\", \"pieces\": 3");
  has(line, "\"kernel\": \"third\", \"axis\": \"rest\", \"reason\": \"\", \"pieces\": 3");
  has(line, "\"threads\": 1, \"pieces\": 9");
  expect(line.find("third") == line.rfind("third"), "a step that is repeated is one step");
  has(line_of(nullptr, Order::Threads),
      "\"threads\": 3");  // of 3 pieces before, then 3, then 1 each
}

void test_memory_is_the_peak() {
  steps = [](KernelContext& context) {
    const Scratch held = context.scratch(1000);
    context.report("small", "a");
    context.parallel_for(4, 1, [&](int64_t, int64_t) { (void)context.scratch(500); });
    context.report("large", "b");
    context.parallel_for(1, 1, [&](int64_t, int64_t) { (void)context.scratch(7000); });
  };
  const std::string line = line_of();
  has(line, "\"axis\": \"a\", \"reason\": \"\", \"pieces\": 4, \"memory\": 1500");
  has(line, "\"axis\": \"b\", \"reason\": \"\", \"pieces\": 1, \"memory\": 8000");
  has(line, "\"pieces\": 5, \"memory\": 8000");
}

void test_failures_and_attributes() {
  steps = [](KernelContext&) { throw Error("probe: x: got \"that\""); };
  const std::vector<Attribute> declared = described().attributes;
  Attributes attributes(declared);
  attributes.set(0, -std::numeric_limits<double>::infinity());
  attributes.set(1, std::string("a\nb"));
  const std::string line = line_of(&attributes);
  has(line, "\"error\": \"probe: x: got \\\"that\\\"\"");
  has(line, "\"attributes\": {\"factor\": \"-inf\", \"word\": \"a\\u000ab\"}");
}

void test_calls_without_a_report_allocate_nothing() {
  static int64_t before, after;
  steps = [](KernelContext& context) {
    before = allocations;
    context.report("a name that is too long for a short string", "axis", "reason");
    after = allocations;
    expect(!context.reports(), "nobody asked");
  };
  call();
  expect(before == after, "report() allocates nothing");
}

void test_attributes() {
  steps = [](KernelContext&) {};
  const Op op = described();
  Attributes attributes(op.attributes);
  attributes.set(2, std::vector<std::string>{"a", "b"});
  attributes.set(3, std::vector<int64_t>());
  has(line_of(&attributes), "\"attributes\": {\"words\": [\"a\", \"b\"], \"sizes\": []}");
}

void test_json() {
  const auto same = [](const std::string& got, const std::string& expected) {
    expect(got == expected, "got " + got + ", expected " + expected);
  };
  same(json_text("a\"\\\n\x7f"), "\"a\\\"\\\\\\u000a\\u007f\"");
  same(json_text("\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x99\x82"),
       "\"\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x99\x82\"");
  // Not UTF-8: a single byte, a truncated character, an overlong one, a surrogate, one beyond the
  // last.
  for (const char* text : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    const std::string got = json_text(text);
    expect(got.find("\\ufffd") != std::string::npos, "replaced: " + got);
    for (const char byte : got) expect(static_cast<unsigned char>(byte) < 0x80, "ASCII: " + got);
  }
  same(json_number(0.1f), "0.10000000149011612");
  same(json_number(-3), "-3");
  same(json_number(1e300), "1.0000000000000001e+300");
  same(json_number(std::numeric_limits<double>::quiet_NaN()), "\"nan\"");
  same(json_value(AttributeValue(std::vector<std::string>{"a", "\""})), "[\"a\", \"\\\"\"]");
  same(json_value(AttributeValue(std::monostate())), "null");
  same(json_value(AttributeValue(std::vector<int64_t>{INT64_MAX, -1})),
       "[9223372036854775807, -1]");
  same(json_value(AttributeValue(true)), "true");
}

}  // namespace

int main() {
  test_attributes();
  test_a_kernel_that_reports_nothing();
  test_steps_of_a_pass_share_what_ran();
  test_memory_is_the_peak();
  test_failures_and_attributes();
  test_calls_without_a_report_allocate_nothing();
  test_json();
  return finish("report tests");
}
