// A vector that stores its first few elements in the object itself.
//
// Every call makes dozens of shapes, which hardly ever have more than six lengths. With
// std::vector, their allocations took longer than the rest of a small call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace myops {

// As std::vector, for a default-constructible T; kInline: how many elements are stored in the
// object.
template <class T, size_t kInline>
class SmallVector {
  template <class Iterator>
  using Traversal = typename std::iterator_traits<Iterator>::iterator_category;

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() {}  // not defaulted, so that `const Shape none;` compiles
  explicit SmallVector(size_t count, const T& value = T()) { resize(count, value); }
  template <class Iterator, class = Traversal<Iterator>>
  SmallVector(Iterator first, Iterator last) {
    assign(first, last);
  }
  SmallVector(std::initializer_list<T> items) { assign(items.begin(), items.end()); }
  SmallVector(const std::vector<T>& items) { assign(items.begin(), items.end()); }
  SmallVector(const SmallVector& other) { copy(other); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) copy(other);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~SmallVector() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ ? heap_.get() : inline_.data(); }
  const T* data() const { return heap_ ? heap_.get() : inline_.data(); }
  T* begin() { return data(); }
  const T* begin() const { return data(); }
  T* end() { return data() + size_; }
  const T* end() const { return data() + size_; }
  T& operator[](size_t index) { return data()[index]; }
  const T& operator[](size_t index) const { return data()[index]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void reserve(size_t count) {
    if (count <= capacity_) return;
    const size_t capacity = std::max(count, 2 * capacity_);
    std::unique_ptr<T[]> larger(new T[capacity]);
    std::move(begin(), end(), larger.get());
    heap_ = std::move(larger);
    capacity_ = capacity;
  }
  void resize(size_t count, const T& value = T()) {
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = count;
  }
  template <class Iterator, class = Traversal<Iterator>>
  void assign(Iterator first, Iterator last) {
    const auto count = static_cast<size_t>(std::distance(first, last));
    reserve(count);
    std::copy(first, last, data());
    size_ = count;
  }
  void clear() { size_ = 0; }
  void push_back(T value) {
    reserve(size_ + 1);
    data()[size_++] = std::move(value);
  }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    push_back(T(std::forward<Arguments>(arguments)...));
    return back();
  }
  void pop_back() { --size_; }
  T* insert(const T* place, T value) {
    const auto index = static_cast<size_t>(place - begin());
    push_back(std::move(value));
    std::rotate(begin() + index, end() - 1, end());
    return begin() + index;
  }
  T* erase(const T* place) {
    T* hole = begin() + (place - begin());
    std::move(hole + 1, end(), hole);
    --size_;
    return hole;
  }

  friend bool operator==(const SmallVector& left, const SmallVector& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end());
  }
  friend bool operator!=(const SmallVector& left, const SmallVector& right) {
    return !(left == right);
  }

 private:
  // Small trivially copyable elements are copied as a whole array, whatever their count: a few
  // instructions instead of a call of memmove(), dozens of which a call of an op would make.
  static constexpr bool kCopiedWhole = std::is_trivially_copyable_v<T> && kInline * sizeof(T) <= 64;

  void copy(const SmallVector& other) {
    if constexpr (kCopiedWhole) {
      if (!heap_ && !other.heap_) {
        std::memcpy(inline_.data(), other.inline_.data(), sizeof(inline_));
        size_ = other.size_;
        return;
      }
    }
    assign(other.begin(), other.end());
  }

  void take(SmallVector& other) {
    if (other.heap_) {
      heap_ = std::move(other.heap_);
      capacity_ = std::exchange(other.capacity_, kInline);
      size_ = other.size_;
    } else {  // there is capacity for these in any case
      if constexpr (kCopiedWhole) {
        copy(other);
      } else {
        std::move(other.begin(), other.end(), data());
        size_ = other.size_;
      }
    }
    other.size_ = 0;
  }

  size_t size_ = 0, capacity_ = kInline;
  std::array<T, kInline> inline_;
  std::unique_ptr<T[]> heap_;  // holds the elements once they exceed the inline storage
};

}  // namespace myops
