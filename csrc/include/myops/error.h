// How an op refuses its arguments: one exception type and one form of message.
//
//   resize: scales: got length 3, expected length 4 (the rank of X)
//
// The check is part of the op, so every runtime shows the same text. Adapters convert the exception
// to their runtime's own kind (RuntimeError, OrtStatus, ValueError).
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "myops/small_vector.h"

namespace myops {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A mistake in the description of an op or in its kernel, thrown where the op's name is not known:
// "argument: got, expected". invoke() and infer() put the name in front.
class Mistake : public Error {
 public:
  using Error::Error;
};

// An adapter throws this through the code of an op to end the call without an error, because the
// call has to be made in another way.
struct NotAFailure {};

namespace detail {
inline void append(std::ostringstream&) {}

template <class T>
void print(std::ostringstream& out, const T& value) {
  out << value;
}

// A list in a model file may have a million numbers; a message shows the first ones.
template <class List>
void print_list(std::ostringstream& out, const List& values) {
  constexpr size_t kMost = 64;
  out << '[';
  for (size_t i = 0; i < values.size() && i < kMost; ++i) {
    out << (i ? ", " : "");
    print(out, values[i]);
  }
  if (values.size() > kMost) out << ", and " << values.size() - kMost << " more";
  out << ']';
}

template <class T>
void print(std::ostringstream& out, const std::vector<T>& values) {
  print_list(out, values);
}

template <class T, size_t kInline>
void print(std::ostringstream& out, const SmallVector<T, kInline>& values) {
  print_list(out, values);
}

template <class T, class... Rest>
void append(std::ostringstream& out, const T& first, const Rest&... rest) {
  print(out, first);
  append(out, rest...);
}
}  // namespace detail

// Joins its arguments into a string; vectors print as [1, 2, 3].
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  out.precision(9);
  detail::append(out, parts...);
  return out.str();
}

// A string from the caller for use in a message: quoted, truncated, and with unprintable bytes
// escaped.
inline std::string quoted(const std::string& text) {
  constexpr size_t kMost = 200;
  constexpr const char* digits = "0123456789abcdef";
  std::string result = "\"";
  for (const char character : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f) {
      result += character;
    } else {
      result += str("\\x", digits[byte >> 4], digits[byte & 15]);
    }
  }
  return result + (text.size() > kMost ? str("\", and ", text.size() - kMost, " more") : "\"");
}

[[noreturn]] inline void fail(const std::string& op, const std::string& argument,
                              const std::string& got, const std::string& expected) {
  throw Error(str(op, ": ", argument, ": got ", got, ", expected ", expected));
}

}  // namespace myops

// Inside a shape rule or a kernel; `got` and `expected` are only evaluated on failure.
#define MYOPS_EXPECT(context, condition, argument, got, expected)                  \
  do {                                                                             \
    if (!(condition)) ::myops::fail((context).op_name(), argument, got, expected); \
  } while (false)
