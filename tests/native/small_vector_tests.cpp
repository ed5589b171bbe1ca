// SmallVector against std::vector: the same random operations on both, below and above the inline
// capacity.
#include <random>
#include <string>
#include <vector>

#include "checking.h"
#include "myops/error.h"
#include "myops/small_vector.h"

namespace {

using namespace myops;

// Long strings, so that one that is moved, copied or freed once too often is detected.
std::string word(int64_t number) { return "a string that needs memory " + std::to_string(number); }

template <class T, class Make>
void follow_a_vector(const Make& make) {
  using Small = SmallVector<T, 4>;
  std::mt19937 random(0);
  std::vector<T> expected;
  Small got;
  for (int step = 0; step < 20000; ++step) {
    const T value = make(step);
    const size_t place = expected.empty() ? 0 : random() % expected.size();
    switch (random() % 11) {
      case 0:
      case 1:
      case 2:
        expected.push_back(value), got.push_back(value);
        break;
      case 3:
        expected.insert(expected.begin() + place, value), got.insert(got.begin() + place, value);
        break;
      case 4:
        if (!expected.empty()) expected.erase(expected.begin() + place), got.erase(&got[place]);
        break;
      case 5:
        if (!expected.empty()) expected.pop_back(), got.pop_back();
        break;
      case 6: {
        const size_t count = random() % 9;
        expected.resize(count, value), got.resize(count, value);
        break;
      }
      case 7: {
        Small copy(got);
        const Small other(random() % 9, value);
        got = other;
        got = copy;
        break;
      }
      case 8: {
        Small moved(std::move(got));
        expect(got.empty(), "a moved vector is empty");
        for (size_t count = random() % 9; count > 0; --count) got.push_back(value);
        got = std::move(moved);
        break;
      }
      case 9:
        got = Small(expected);
        break;
      default:
        if (step % 50 == 0) expected.clear(), got.clear();
    }
    expect(std::vector<T>(got.begin(), got.end()) == expected, "the same elements");
    expect(got == Small(expected.begin(), expected.end()), "== as the elements");
    if (!expected.empty()) {
      expect(got.front() == expected.front() && got.back() == expected.back(), "the ends");
      expect(got != Small(expected.begin(), expected.end() - 1), "!= for another size");
    }
  }
}

void test_words() {
  expect(str(SmallVector<int64_t, 2>{1, 2, 3}) == "[1, 2, 3]", "printed as a list");
  expect(str(SmallVector<int64_t, 2>()) == "[]", "printed when empty");
}

}  // namespace

int main() {
  follow_a_vector<int64_t>([](int64_t number) { return number; });
  follow_a_vector<std::string>(word);
  test_words();
  return finish("small vector tests");
}
