// Conversion between C++ exceptions and ONNX Runtime's statuses.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "abi.h"
#include "myops/error.h"

namespace myops::ort {

// Thrown when a call of ONNX Runtime returns a status.
class CallFailed : public std::runtime_error {
 public:
  CallFailed(ErrorCode code_, const std::string& text) : std::runtime_error(text), code(code_) {}
  const ErrorCode code;
};

inline void check(const Api& api, Status* status) {
  if (status == nullptr) return;
  const CallFailed failure(api.GetErrorCode(status), api.GetErrorMessage(status));
  api.ReleaseStatus(status);
  throw failure;
}

// For calls that may fail: whether the call succeeded.
inline bool succeeded(const Api& api, Status* status) {
  if (status == nullptr) return true;
  api.ReleaseStatus(status);
  return false;
}

// Runs the body of a callback; an exception becomes the status that ONNX Runtime shows.
template <class Body>
Status* guard(const Api& api, const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return api.CreateStatus(ErrorCode::InvalidArgument, error.what());
  } catch (const CallFailed& error) {
    return api.CreateStatus(error.code, error.what());
  } catch (const std::bad_alloc&) {
    return api.CreateStatus(ErrorCode::RuntimeException, "out of memory");
  } catch (const std::exception& error) {
    return api.CreateStatus(ErrorCode::RuntimeException, error.what());
  } catch (...) {
    return api.CreateStatus(ErrorCode::RuntimeException, "unknown exception");
  }
}

}  // namespace myops::ort
