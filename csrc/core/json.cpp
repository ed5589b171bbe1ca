#include "json.h"

#include <cmath>
#include <cstdio>

namespace myops {
namespace {

// The length of the UTF-8 character at the front of `text`; 0 if there is none.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool too_large = first == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

template <class List, class Function>
std::string joined(const List& items, const Function& text_of) {
  std::string text = "[";
  for (const auto& item : items) text += (text.size() > 1 ? ", " : "") + text_of(item);
  return text + "]";
}

std::string integer_text(int64_t number) { return std::to_string(number); }

}  // namespace

std::string json_text(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      result += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      result += '\\';
      result += text[0];
    } else if (first < 0x20 || first == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", first);
      result += escaped;
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result + '"';
}

std::string json_number(double number) {
  if (std::isnan(number)) return "\"nan\"";
  if (std::isinf(number)) return number > 0 ? "\"inf\"" : "\"-inf\"";
  constexpr double kExact = 9007199254740992;  // 2^53
  if (number == std::floor(number) && std::fabs(number) <= kExact) {
    return std::signbit(number) && number == 0 ? "-0.0"
                                               : integer_text(static_cast<int64_t>(number));
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  return text;
}

std::string json_value(const AttributeValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return integer_text(*integer);
  if (const auto* real = std::get_if<double>(&value)) return json_number(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return json_text(*text);
  if (const auto* reals = std::get_if<std::vector<double>>(&value)) return json_list(*reals);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return joined(*texts, [](const std::string& text) { return json_text(text); });
  }
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    return joined(*integers, integer_text);
  }
  return "null";  // no value was given
}

}  // namespace myops
