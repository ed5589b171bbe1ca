// JSON for reports: text and numbers of callers, in a form that every JSON reader accepts.
#pragma once

#include <string>
#include <string_view>

#include "myops/attributes.h"
#include "myops/tensor.h"

namespace myops {

// A quoted string. Names come from model files: what is not UTF-8 is replaced, and control
// characters are escaped, so that no text can begin a line of its own.
std::string json_text(std::string_view text);
// NaN and infinities, which JSON lacks, are strings.
std::string json_number(double number);
std::string json_value(const AttributeValue& value);  // null: no value was given

template <class List>
std::string json_list(const List& items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : ", ") + json_number(static_cast<double>(items[i]));
  }
  return text + "]";
}

}  // namespace myops
