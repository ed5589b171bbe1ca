// Names and texts in the description of an op.
#include <algorithm>
#include <set>

#include "description_checks.h"

namespace myops {
namespace {

bool is_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t more = byte < 0x80                   ? 0
                        : byte >= 0xc2 && byte < 0xe0 ? 1
                        : byte >= 0xe0 && byte < 0xf0 ? 2
                        : byte >= 0xf0 && byte < 0xf5 ? 3
                                                      : 4;
    if (more == 4 || i + more >= text.size()) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += 1 + more;
  }
  return true;
}

}  // namespace

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto legal = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), legal);
}

void check_name(const Op& op, const char* what, const std::string& name) {
  if (!is_identifier(name)) fail(op.name, what, str("the name ", quoted(name)), kIdentifier);
}

bool is_reserved(const std::string& name) {
  static const std::set<std::string> words = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "self", "try",    "while",  "with",     "yield"};
  return words.count(name) != 0;
}

void check_free(const Op& op, const std::string& name) {
  if (is_reserved(name))
    fail(op.name, name, "a word that Python or TorchScript reserves", "another name");
}

void check_text(const Op& op, const std::string& name, const std::string& text) {
  if (is_utf8(text)) return;
  fail(op.name, name, str("the text ", quoted(text)), "UTF-8, which Python and ONNX read");
}

void check_once(const Op& op, const char* what, const std::string& name,
                std::set<std::string>& seen) {
  check_name(op, what, name);
  if (!seen.insert(name).second) {
    fail(op.name, name, str("the name of two ", what), "each name once");
  }
}

}  // namespace myops
