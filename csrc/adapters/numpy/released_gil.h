// Releases the GIL, so that other Python threads run while a kernel computes.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace myops::numpy {

// As py::gil_scoped_release, and safe in a daemon thread. Such a thread may ask for the GIL when
// the interpreter has ended. Python until 3.13 then unwinds its stack, and the first destructor
// that uses the interpreter ends the process with std::terminate. Here the thread sleeps until the
// process ends, as it does in Python 3.14.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    if (ended()) wait();
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // Python's unwinding: the interpreter ended while this thread waited for it
      wait();
    }
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  static bool ended() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }
  [[noreturn]] static void wait() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  PyThreadState* state_;
};

}  // namespace myops::numpy
