// Refuses attributes that the description does not allow.
#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "checks.h"
#include "myops/op.h"

namespace myops {
namespace {

// The numbers in an attribute; none if it is a string or a flag.
std::vector<double> numbers(const AttributeValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return {static_cast<double>(*integer)};
  if (const auto* real = std::get_if<double>(&value)) return {*real};
  if (const auto* reals = std::get_if<std::vector<double>>(&value)) return *reals;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    return std::vector<double>(integers->begin(), integers->end());
  }
  return {};
}

// Bounds are rounded as values are, so that 0.7 is not below 0.7.
void check_bound(const Op& op, const Attribute& attribute, const AttributeValue& value) {
  const bool is_real =
      attribute.type() != AttributeType::Int && attribute.type() != AttributeType::Ints;
  const auto end = [&](double bound) { return is_real ? attribute.rounded(bound) : bound; };
  for (const double number : numbers(value)) {
    const bool high = !attribute.bound || (attribute.above_bound ? number > end(*attribute.bound)
                                                                 : number >= end(*attribute.bound));
    const bool low = !attribute.upper || (attribute.below_upper ? number < end(*attribute.upper)
                                                                : number <= end(*attribute.upper));
    if (high && low && number == number) continue;
    std::string expected;
    if (attribute.bound) {
      expected = str(attribute.above_bound ? "above " : "not below ", *attribute.bound);
    }
    if (attribute.upper) {
      expected += str(expected.empty() ? "" : " and ",
                      attribute.below_upper ? "below " : "not above ", *attribute.upper);
    }
    fail(op.name, attribute.name, str(number), "a number " + expected);
  }
}

template <class Items, class Item>
bool holds(const Items& items, const Item& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

void check_choice(const Op& op, const Attribute& attribute, const std::string& text) {
  if (holds(attribute.choices, text)) return;
  std::string legal;
  for (const std::string& choice : attribute.choices) {
    legal += str(legal.empty() ? "\"" : ", \"", choice, "\"");
  }
  fail(op.name, attribute.name, quoted(text), str("one of ", legal));
}

void check_choice(const Op& op, const Attribute& attribute, int64_t number) {
  if (holds(attribute.integers, number)) return;
  std::string legal;
  for (const int64_t choice : attribute.integers) legal += str(legal.empty() ? "" : ", ", choice);
  fail(op.name, attribute.name, str(number), "one of " + legal);
}

}  // namespace

void check_attributes(const Op& op, const Attributes& attributes) {
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    check_attribute(op, op.attributes[i], attributes.value(i));
  }
}

void check_attribute(const Op& op, const Attribute& attribute, const AttributeValue& value) {
  if (!value.given()) {
    if (attribute.is_optional) return;
    fail(op.name, attribute.name, "nothing",
         str(detail::kind_of(attribute.default_value), ": the attribute is required"));
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& text : *texts) {
      if (text.find('\0') == std::string::npos) continue;
      fail(op.name, attribute.name, quoted(text),
           "strings without a zero byte, where they end in ONNX Runtime");
    }
  }
  if (attribute.bound || attribute.upper) check_bound(op, attribute, value);
  if (!attribute.choices.empty()) {
    if (const auto* text = std::get_if<std::string>(&value)) check_choice(op, attribute, *text);
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& text : *texts) check_choice(op, attribute, text);
    }
  }
  if (!attribute.integers.empty()) {
    if (const auto* number = std::get_if<int64_t>(&value)) check_choice(op, attribute, *number);
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
      for (const int64_t number : *numbers) check_choice(op, attribute, number);
    }
  }
}

}  // namespace myops
