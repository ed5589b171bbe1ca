#include "driver.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "myops/error.h"

namespace myops::cuda {
namespace {

constexpr int kOldest = 11000;

std::string version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

std::string error_text(const Driver& driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.cuGetErrorName != nullptr) (void)driver.cuGetErrorName(result, &name);
  if (driver.cuGetErrorString != nullptr) (void)driver.cuGetErrorString(result, &text);
  return str(name != nullptr ? name : "error", " (", result,
             "): ", text != nullptr ? text : "no description");
}

// A possible cause of an error that the call itself did not cause.
std::string advice_for(Result result) {
  constexpr Result kNotInitialized = 3, kIllegalAddress = 700, kTimeout = 702, kAssert = 710,
                   kFirstFault = 714, kLastFault = 719;
  if (result == kNotInitialized) {
    return ". A process that was forked from one that uses a GPU cannot use it: start processes "
           "with the method \"spawn\"";
  }
  if (result == kIllegalAddress || result == kTimeout || result == kAssert ||
      (result >= kFirstFault && result <= kLastFault)) {
    return ". Work that was queued earlier, by this op or another, may have failed, and the device "
           "cannot be used any more in this process: CUDA_LAUNCH_BLOCKING=1 shows which";
  }
  return {};
}

// Retained once, and never released: the runtime that owns the tensors has retained it too.
Context primary_context(const Driver& driver, const std::string& op, int device) {
  static std::mutex mutex;
  static auto* known = new std::map<int, Context>;
  const std::lock_guard<std::mutex> lock(mutex);
  Context& context = (*known)[device];
  if (context == nullptr) {
    check(driver, op, "cuDevicePrimaryCtxRetain",
          driver.cuDevicePrimaryCtxRetain(&context, device));
  }
  return context;
}

// The context of the device that a call has found last: programs have one for each device, and do
// not replace it. Null for a device behind the first ones.
std::atomic<Context>* last_seen(int index) {
  static std::array<std::atomic<Context>, 16> all = {};
  const auto place = static_cast<size_t>(index);
  return place < all.size() ? &all[place] : nullptr;
}

Driver load() {
  Driver found;
  const char* wanted = std::getenv("MYOPS_CUDA_DRIVER");
  const std::string file = wanted != nullptr && *wanted != '\0' ? wanted : "libcuda.so.1";
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    found.failure = str("no driver (", dlerror(),
                        "), expected an NVIDIA driver whose libcuda.so.1 the linker finds");
    return found;
  }
#define MYOPS_CUDA_LOAD(name, ...)                                                         \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name));              \
  if (found.name == nullptr && found.failure.empty()) {                                    \
    found.failure = str("a driver without " #name " (", file, "), expected that of CUDA ", \
                        version_text(kOldest), " or later");                               \
  }
  MYOPS_CUDA_DRIVER_CALLS(MYOPS_CUDA_LOAD)
#undef MYOPS_CUDA_LOAD
  if (!found.failure.empty()) return found;
  if (const Result result = found.cuInit(0)) {
    found.failure = str("a driver that does not start, ", error_text(found, result),
                        ", expected a GPU that it can use");
    return found;
  }
  (void)found.cuDriverGetVersion(&found.version);
  if (found.version < kOldest) {
    found.failure = str("a driver for CUDA ", version_text(found.version), ", expected one for ",
                        version_text(kOldest), " or later; install a newer driver");
  }
  return found;
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

const Driver& driver_for(const std::string& op) {
  const Driver& loaded = driver();
  if (!loaded.failure.empty()) throw Error(str(op, ": CUDA: got ", loaded.failure));
  return loaded;
}

void refuse(const Driver& driver, const std::string& op, const char* tried, const char* name,
            Result result) {
  throw Error(str(op, ": CUDA: got ", error_text(driver, result), " from ", tried, name,
                  ", expected success", advice_for(result)));
}

CurrentContext::CurrentContext(const Driver& driver, const std::string& op, int index)
    : driver_(driver) {
  check(driver, op, "cuCtxGetCurrent", driver.cuCtxGetCurrent(&previous_));
  current_ = previous_;
  std::atomic<Context>* seen = last_seen(index);
  if (previous_ != nullptr && seen != nullptr && seen->load() == previous_) return;
  int device = 0, present = 0;
  check(driver, op, "cuDeviceGet", driver.cuDeviceGet(&device, index));
  if (previous_ != nullptr) {
    check(driver, op, "cuCtxGetDevice", driver.cuCtxGetDevice(&present));
    if (present == device) {
      if (seen != nullptr) seen->store(previous_);
      return;
    }
  }
  current_ = primary_context(driver, op, device);
  check(driver, op, "cuCtxSetCurrent", driver.cuCtxSetCurrent(current_));
}

CurrentContext::~CurrentContext() {
  if (current_ != previous_) (void)driver_.cuCtxSetCurrent(previous_);
}

OutsideCaptures::OutsideCaptures(const Driver& driver, const std::string& op) : driver_(driver) {
  check(driver, op, "cuThreadExchangeStreamCaptureMode",
        driver.cuThreadExchangeStreamCaptureMode(&mode_));
}

OutsideCaptures::~OutsideCaptures() { (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

bool is_captured(const Driver& driver, const std::string& op, Stream stream) {
  int status = 0;  // 0: no; 1: yes; 2: a capture that has failed
  check(driver, op, "cuStreamIsCapturing", driver.cuStreamIsCapturing(stream, &status));
  return status != 0;
}

const Properties& properties(const Driver& driver, const std::string& op, int index) {
  static std::mutex mutex;
  static auto* known = new std::map<int, Properties>;  // never destroyed, as threads may call late
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known->find(index);
  if (found != known->end()) return found->second;
  int device = 0, major = 0, minor = 0, multiprocessors = 0;
  check(driver, op, "cuDeviceGet", driver.cuDeviceGet(&device, index));
  const auto ask = [&](DeviceAttribute attribute, int* value) {
    check(driver, op, "cuDeviceGetAttribute",
          driver.cuDeviceGetAttribute(value, attribute, device));
  };
  ask(DeviceAttribute::ComputeMajor, &major);
  ask(DeviceAttribute::ComputeMinor, &minor);
  ask(DeviceAttribute::Multiprocessors, &multiprocessors);
  return known->emplace(index, Properties{10 * major + minor, multiprocessors}).first->second;
}

}  // namespace myops::cuda
