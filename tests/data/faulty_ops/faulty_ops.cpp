// One small op, alpha * sum over k of x[n, k] * w[k] + beta, right once and then wrong in many
// ways: what the conformance suite of myops.testing must find. All are in one binary to be compiled
// once.
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "myops/op.h"

namespace myops {
namespace {

template <class T>
struct Rows {
  const T *x, *w;
  T* y;
  int64_t count, width, step, stride;  // rows, their length, strides of x
  T alpha, beta;

  T sum(int64_t row, int64_t first, int64_t last) const {
    T total{0};
    for (int64_t k = first; k < last; ++k) total += x[row * step + k * stride] * w[k];
    return total;
  }
  void write(int64_t row, T total) const { y[row] = alpha * total + beta; }
};

template <class Body>
void with_rows(KernelContext& context, const Body& body) {
  const Tensor &x = context.input(0), &w = context.input(1), &y = context.output(0);
  dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    body(Rows<T>{x.as<T>(), w.as<T>(), y.as<T>(), x.shape[0], x.shape[1], x.strides[0],
                 x.strides[1], static_cast<T>(context.attributes().real("alpha")),
                 static_cast<T>(context.attributes().real("beta"))});
  });
}

// The shape rule and the kernel that are right.
void shape(ShapeContext& context) {
  const Dims &x = context.dims(0), &w = context.dims(1);
  MYOPS_EXPECT(context, x.size() == 2, "x", str("rank ", x.size()), "rank 2");
  MYOPS_EXPECT(context, w.size() == 1, "w", str("rank ", w.size()), "rank 1");
  const bool differ = w[0].known() && x[1].known() && w[0].value != x[1].value;
  MYOPS_EXPECT(context, !differ, "w", str("length ", w[0].value),
               str(x[1].value, ", the last length of x"));
  context.set_output(0, {x[0]});
}

void sound(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    context.parallel_for(rows.count, 64, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) rows.write(n, rows.sum(n, 0, rows.width));
    });
  });
}

// The rest behind the unrolled part is added by both loops.
void tail_twice(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    for (int64_t n = 0; n < rows.count; ++n) {
      const int64_t whole = rows.width / 8 * 8;
      auto total = rows.sum(n, 0, 0);
      for (int64_t k = 0; k < rows.width; k += 8) {
        total += rows.sum(n, k, std::min(k + 8, rows.width));
      }
      rows.write(n, total + rows.sum(n, whole, rows.width));
    }
  });
}

// One partial sum for each thread that happened to take a piece.
void thread_sums(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    using T = decltype(rows.alpha);
    for (int64_t n = 0; n < rows.count; ++n) {
      std::map<std::thread::id, T> partial;
      std::mutex mutex;
      context.parallel_for(rows.width, 256, [&](int64_t begin, int64_t end) {
        const T piece = rows.sum(n, begin, end);
        std::this_thread::sleep_for(std::chrono::microseconds(100));  // others take pieces too
        const std::lock_guard<std::mutex> lock(mutex);
        partial[std::this_thread::get_id()] += piece;
      });
      T total{0};
      for (const auto& [thread, piece] : partial) total += piece;
      rows.write(n, total);
    }
  });
}

// The factor is in a variable of the calling thread; other threads have their own.
void thread_variable(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    using T = decltype(rows.alpha);
    static thread_local T alpha{1};
    alpha = rows.alpha;
    context.parallel_for(rows.count, 64, [&](int64_t begin, int64_t end) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // others take pieces too
      auto mine = rows;
      mine.alpha = alpha;
      for (int64_t n = begin; n < end; ++n) mine.write(n, mine.sum(n, 0, mine.width));
    });
    alpha = T{1};
  });
}

// Offsets of 32 bits.
void narrow_offsets(KernelContext& context) {
  with_rows(context, [&](auto rows) {
    const auto* x = rows.x;
    for (int64_t n = 0; n < rows.count; ++n) {
      decltype(rows.alpha) total{0};
      for (int64_t k = 0; k < rows.width; ++k) {
        total += x[static_cast<int32_t>(n * rows.step + k * rows.stride)] * rows.w[k];
      }
      rows.write(n, total);
    }
  });
}

// Takes inputs at one address for the same tensor.
void same_address(KernelContext& context) {
  sound(context);
  with_rows(context, [&](const auto& rows) {
    if (rows.x != rows.w || rows.count < 2) return;
    for (int64_t n = 1; n < rows.count; ++n) rows.write(n, (rows.y[0] - rows.beta) / rows.alpha);
  });
}

// Scratch memory that all calls share.
void static_scratch(KernelContext& context) {
  static std::vector<double> scratch(1 << 20);
  with_rows(context, [&](const auto& rows) {
    for (int64_t n = 0; n < rows.count; ++n) scratch[n] = rows.sum(n, 0, rows.width);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int64_t n = 0; n < rows.count; ++n) rows.write(n, scratch[n]);
  });
}

// Weights of the first call are "packed" once and for all calls of that length.
void remembers(KernelContext& context) {
  static std::map<int64_t, std::vector<double>> packed;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  with_rows(context, [&](const auto& rows) {
    auto& weights = packed[rows.width];
    if (weights.empty()) weights.assign(rows.w, rows.w + rows.width);
    for (int64_t n = 0; n < rows.count; ++n) {
      decltype(rows.alpha) total{0};
      for (int64_t k = 0; k < rows.width; ++k) {
        total += rows.x[n * rows.step + k * rows.stride] * weights[k];
      }
      rows.write(n, total);
    }
  });
}

// Sorts out the sign in the memory of its input.
void in_place(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    auto* x = const_cast<std::remove_const_t<std::remove_pointer_t<decltype(rows.x)>>*>(rows.x);
    for (int64_t n = 0; n < rows.count; ++n) {
      rows.write(n, rows.sum(n, 0, rows.width));
      if (rows.width > 0) x[n * rows.step] = -x[n * rows.step];
    }
  });
}

// The last bits come from a clock.
void noisy(KernelContext& context) {
  static std::atomic<int64_t> calls{0};
  with_rows(context, [&](const auto& rows) {
    const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count() + calls++;
    for (int64_t n = 0; n < rows.count; ++n) {
      rows.write(n, rows.sum(n, 0, rows.width) * (1 + static_cast<float>(now % 7) * 1e-7f));
    }
  });
}

// A clamp that a NaN does not survive.
void swallows_nan(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    for (int64_t n = 0; n < rows.count; ++n) {
      const auto total = rows.sum(n, 0, rows.width);
      rows.write(n, std::fmax(total, std::numeric_limits<decltype(rows.alpha)>::lowest()));
    }
  });
}

// Declares that it reads any strides, and does not.
void ignores_strides(KernelContext& context) {
  with_rows(context, [&](auto rows) {
    rows.step = rows.width;
    rows.stride = 1;
    for (int64_t n = 0; n < rows.count; ++n) rows.write(n, rows.sum(n, 0, rows.width));
  });
}

// The last row is weighted by one element behind the end of x.
void reads_past(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    using T = decltype(rows.alpha);
    const T beside = context.input(0).as<T>()[rows.count * rows.width];
    for (int64_t n = 0; n < rows.count; ++n) {
      const T rest = n + 1 == rows.count ? beside * T{0} : T{0};
      rows.write(n, rows.sum(n, 0, rows.width) + rest);
    }
  });
}

// Clears one element behind the end of its result.
void writes_past(KernelContext& context) {
  sound(context);
  with_rows(context, [&](const auto& rows) { rows.write(rows.count, 0); });
}

// Leaves the last row to whatever the memory held.
void unwritten(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    for (int64_t n = 0; n + 1 < rows.count; ++n) rows.write(n, rows.sum(n, 0, rows.width));
  });
}

// Normalises by a length that is 0 for one element.
void length_one(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    const auto length = static_cast<decltype(rows.alpha)>(rows.width - 1);
    for (int64_t n = 0; n < rows.count; ++n) {
      rows.write(n, rows.sum(n, 0, rows.width) / length * length);
    }
  });
}

// float64 is summed in float32.
void narrow(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    for (int64_t n = 0; n < rows.count; ++n) {
      float total = 0;
      for (int64_t k = 0; k < rows.width; ++k) {
        total += static_cast<float>(rows.sum(n, k, k + 1));
      }
      rows.write(n, total);
    }
  });
}

// Right for numbers; for names it takes the other length.
void shape_of_names(ShapeContext& context) {
  shape(context);
  if (!context.dims(0)[0].known()) context.set_output(0, {context.dims(0)[1]});
}

// A text that no two calls have in common.
void text_varies(ShapeContext& context) {
  static std::atomic<int> calls{0};
  MYOPS_EXPECT(context, context.dims(0).size() == 2, "x", str("call ", calls++), "rank 2");
  shape(context);
}

// Reads as many weights as there are: this much is left of safety without the check below.
void shorter(KernelContext& context) {
  const int64_t weights = context.input(1).shape[0];
  with_rows(context, [&](auto rows) {
    for (int64_t n = 0; n < rows.count; ++n) {
      rows.write(n, rows.sum(n, 0, std::min(rows.width, weights)));
    }
  });
}

// Does not compare the lengths.
void unchecked(ShapeContext& context) {
  const Dims &x = context.dims(0), &w = context.dims(1);
  MYOPS_EXPECT(context, x.size() == 2, "x", str("rank ", x.size()), "rank 2");
  MYOPS_EXPECT(context, w.size() == 1, "w", str("rank ", w.size()), "rank 1");
  context.set_output(0, {x[0]});
}

// How many rows count is left to the kernels below, each of which says it in a wrong way.
void decided_shape(ShapeContext& context) {
  shape(context);
  context.set_output(0, {Dim::at_most(context.dims(0)[0], "rows")});
}

// The result as it would be without a length to say.
void write_all(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    for (int64_t n = 0; n < rows.count; ++n) rows.write(n, rows.sum(n, 0, rows.width));
  });
}

void say(KernelContext& context, int64_t more = 0) {
  context.set_length("rows", context.input(0).shape[0] + more);
}

// With this beta the call is right: the suite looks at no op that refuses every call.
template <void (*wrong)(KernelContext&), bool decides = true>
void if_not_right(KernelContext& context) {
  if (context.attributes().real("beta") != 7) return wrong(context);
  if (decides) say(context);
  write_all(context);
}

void writes_first(KernelContext& context) {
  write_all(context);
  say(context);
}

void keeps_a_pointer(KernelContext& context) {
  with_rows(context, [&](const auto& rows) {
    say(context);
    for (int64_t n = 0; n < rows.count; ++n) rows.write(n, rows.sum(n, 0, rows.width));
  });
}

void says_too_much(KernelContext& context) { say(context, 1); }
void says_too_little(KernelContext& context) { context.set_length("rows", -1); }

void says_two(KernelContext& context) {
  say(context);
  write_all(context);
  say(context, -1);
}

void says_another(KernelContext& context) { context.set_length("columns", 1); }

void says_in_pieces(KernelContext& context) {
  context.parallel_for(context.input(0).shape[0], 1, [&](int64_t, int64_t) { say(context); });
}

void says_in_a_thread(KernelContext& context) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      say(context);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

void makes_two(KernelContext& context) {
  context.allocate_output(0, {context.input(0).shape[0]});
  write_all(context);
  context.allocate_output(0, {context.input(0).shape[0]});
}

void makes_a_matrix(KernelContext& context) { context.allocate_output(0, {1, 1}); }

Op describe(const char* name, const char* type, void (*rule)(ShapeContext&),
            void (*kernel)(KernelContext&)) {
  // One lets its results lie where the weights are, all of which each row reads.
  std::vector<std::string> overwritten;
  if (name == std::string("overwrites")) overwritten = {"w"};
  return Op(name)
      .onnx(type, 1)
      .doc("alpha * x @ w + beta.")
      .type("T", {DType::Float32, DType::Float64})
      .input(Input{"x", "T", "Rows."}.access(Access::Strided))
      .input({"w", "T", "Weights."})
      .output(Output{"y", "T", "One number for each row."}.may_overwrite(overwritten))
      .attribute({"alpha", 1.0, "Factor."})
      .attribute({"beta", 0.0, "Added."})
      .shape(rule)
      .kernel(kernel);
}

#define FAULT(name, Type, rule, kernel) \
  MYOPS_OP(name) { return describe(#name, #Type, rule, kernel); }

FAULT(sound, Sound, shape, sound)
FAULT(tail_twice, TailTwice, shape, tail_twice)
FAULT(thread_sums, ThreadSums, shape, thread_sums)
FAULT(thread_variable, ThreadVariable, shape, thread_variable)
FAULT(narrow_offsets, NarrowOffsets, shape, narrow_offsets)
FAULT(same_address, SameAddress, shape, same_address)
FAULT(static_scratch, StaticScratch, shape, static_scratch)
FAULT(remembers, Remembers, shape, remembers)
FAULT(in_place, InPlace, shape, in_place)
FAULT(overwrites, Overwrites, shape, sound)
FAULT(noisy, Noisy, shape, noisy)
FAULT(swallows_nan, SwallowsNan, shape, swallows_nan)
FAULT(ignores_strides, IgnoresStrides, shape, ignores_strides)
FAULT(unwritten, Unwritten, shape, unwritten)
FAULT(reads_past, ReadsPast, shape, reads_past)
FAULT(writes_past, WritesPast, shape, writes_past)
FAULT(length_one, LengthOne, shape, length_one)
FAULT(narrow, Narrow, shape, narrow)
FAULT(shape_of_names, ShapeOfNames, shape_of_names, sound)
FAULT(text_varies, TextVaries, text_varies, sound)
FAULT(unchecked, Unchecked, unchecked, shorter)

FAULT(says_none, SaysNone, decided_shape, if_not_right<write_all>)
FAULT(writes_first, WritesFirst, decided_shape, if_not_right<writes_first>)
FAULT(keeps_a_pointer, KeepsAPointer, decided_shape, if_not_right<keeps_a_pointer>)
FAULT(says_too_much, SaysTooMuch, decided_shape, if_not_right<says_too_much>)
FAULT(says_too_little, SaysTooLittle, decided_shape, if_not_right<says_too_little>)
FAULT(says_two, SaysTwo, decided_shape, if_not_right<says_two>)
FAULT(says_another, SaysAnother, decided_shape, if_not_right<says_another>)
// A macro takes the comma for its own.
constexpr auto says_what_is_known_kernel = if_not_right<says_too_little, false>;
FAULT(says_what_is_known, SaysWhatIsKnown, shape, says_what_is_known_kernel)
FAULT(says_in_pieces, SaysInPieces, decided_shape, if_not_right<says_in_pieces>)
FAULT(says_in_a_thread, SaysInAThread, decided_shape, if_not_right<says_in_a_thread>)
FAULT(makes_two, MakesTwo, decided_shape, if_not_right<makes_two>)
FAULT(makes_a_matrix, MakesAMatrix, decided_shape, if_not_right<makes_a_matrix>)

// Right in C++; their faults are in Python (faults.py).
FAULT(fake_swapped, FakeSwapped, shape, sound)
FAULT(fake_dtype, FakeDtype, shape, sound)
FAULT(fake_silent, FakeSilent, shape, sound)
FAULT(fake_constant, FakeConstant, shape, sound)
FAULT(no_gradient, NoGradient, shape, sound)
FAULT(half_gradient, HalfGradient, shape, sound)
FAULT(wrong_gradient, WrongGradient, shape, sound)
FAULT(detached, Detached, shape, sound)
FAULT(unwritten_gradient, UnwrittenGradient, shape, sound)
FAULT(odd_gradient, OddGradient, shape, sound)
FAULT(no_backward_fake, NoBackwardFake, shape, sound)
FAULT(swapped_symbolic, SwappedSymbolic, shape, sound)
FAULT(taken_apart, TakenApart, shape, sound)
FAULT(other_body, OtherBody, shape, sound)
FAULT(no_body, NoBody, shape, sound)
FAULT(one_buffer, OneBuffer, shape, sound)
FAULT(foreign_text, ForeignText, shape, sound)

}  // namespace
}  // namespace myops
