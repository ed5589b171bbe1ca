#include "strings.h"

#include <algorithm>

#include "status.h"

namespace myops::ort {

void* Strings::read(const Op& op, const std::string& input, const Api& api, const Value* value,
                    int64_t count, Budget& budget) {
  const auto elements = static_cast<size_t>(count);
  size_t bytes = 0;
  check(api, api.GetStringTensorDataLength(value, &bytes));
  // Twice: all characters in one block, then in one std::string each.
  budget.take(op.name, input, "a copy of its strings",
              2 * bytes + elements * (sizeof(std::string) + sizeof(size_t)));
  std::vector<char> characters(bytes);
  std::vector<size_t> begins(elements);
  if (elements > 0) {
    check(api,
          api.GetStringTensorContent(value, characters.data(), bytes, begins.data(), elements));
  }
  std::vector<std::string>& strings = read_.emplace_back();
  strings.reserve(elements);
  for (size_t i = 0; i < elements; ++i) {
    const size_t begin = begins[i], end = i + 1 < elements ? begins[i + 1] : bytes;
    if (begin > end || end > bytes) {
      fail(op.name, input, "strings at offsets that decrease or exceed the buffer",
           "offsets in ascending order within it");
    }
    strings.emplace_back(characters.data() + begin, end - begin);
  }
  return strings.data();
}

void* Strings::make(Value* value, int64_t count) {
  made_.push_back({value, std::vector<std::string>(static_cast<size_t>(count))});
  return made_.back().strings.data();
}

void Strings::write(const Api& api) const {
  for (const Result& result : made_) {
    for (size_t i = 0; i < result.strings.size(); ++i) {
      const std::string& text = result.strings[i];
      char* buffer = nullptr;
      check(api, api.GetResizedStringTensorElementBuffer(result.value, i, text.size(), &buffer));
      std::copy(text.begin(), text.end(), buffer);
    }
  }
}

}  // namespace myops::ort
