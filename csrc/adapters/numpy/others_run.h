// Lets other threads of Python run while a kernel computes.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace myops::numpy {

// As py::gil_scoped_release, for a daemon thread too. Such a thread may come back when the
// interpreter has ended, and Python (until 3.13) then unwinds its stack, on which the first
// destructor that asks for the interpreter ends the process with std::terminate. Here it waits
// until the process ends, as Python 3.14 lets it.
class OthersRun {
 public:
  OthersRun() : state_(PyEval_SaveThread()) {}
  ~OthersRun() {
    if (ended()) wait();
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // the unwinding: the interpreter ended while this thread asked for it
      wait();
    }
  }
  OthersRun(const OthersRun&) = delete;
  OthersRun& operator=(const OthersRun&) = delete;

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
