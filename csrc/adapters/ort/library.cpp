// The symbols that the ONNX Runtime custom-op library exports: its entry point, and the recording
// of calls.
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "../../core/report.h"
#include "status.h"
#include "typed_op.h"
#include "wrong_kinds.h"

#define MYOPS_EXPORT __attribute__((visibility("default")))

namespace myops::ort {
namespace {

// The API version to request. Release 1.N has version N, and prints a message when asked for one
// that it does not have.
uint32_t api_version(const char* release) {
  char* end = nullptr;
  const long major = std::strtol(release, &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : -1;
  for (const uint32_t version : {kNewestApiVersion, kNewerApiVersion}) {
    if (minor >= 0 && (major > 1 || minor >= static_cast<long>(version))) return version;
  }
  return kApiVersion;
}

// The domain with all its ops, for one ONNX Runtime. Sessions have pointers into it.
class Domain {
 public:
  Domain(const Table* table, uint32_t version) : host_{Api(table, version), version} {
    for (const Op& op : all_ops()) {
      const std::vector<const Op*> versions = versions_of(op);
      if (op.onnx_type.empty() || versions.back() != &op) continue;
      ops_.push_back(typed_ops(versions, host_));
    }
    CustomOpDomain* domain = nullptr;
    check(api_, api_.CreateCustomOpDomain(library_domain(), &domain));
    domain_.reset(domain);
    for (const std::vector<TypedOp>& choices : ops_) {
      for (const TypedOp& typed : choices) check(api_, api_.CustomOpDomain_Add(domain, &typed));
    }
  }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  void add_to(SessionOptions* options) {
    check(api_, api_.AddCustomOpDomain(options, domain_.get()));
  }

 private:
  const Host host_;
  const Api& api_ = host_.api;
  std::vector<std::vector<TypedOp>> ops_;
  std::unique_ptr<CustomOpDomain, decltype(Api::ReleaseCustomOpDomain)> domain_{
      nullptr, api_.ReleaseCustomOpDomain};
};

// One domain for each ONNX Runtime in the process (there may be two, of different versions, each
// with objects of its own). They exist until the library is unloaded, which ONNX Runtime does after
// the last session that uses it has ended.
Domain& domain_for(const Table* table, uint32_t version) {
  static std::mutex mutex;
  static std::map<const Table*, std::unique_ptr<Domain>> domains;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Domain>& domain = domains[table];
  if (!domain) domain = std::make_unique<Domain>(table, version);
  return *domain;
}

// The function that makes a status has been the first of the table since version 1, so it can
// report an error even to an ONNX Runtime that is too old.
Status* too_old(const ApiBase* base) noexcept {
  const Table* table = base->get_api(1);
  if (table == nullptr) return nullptr;
  using CreateStatus = decltype(Api::CreateStatus);
  const CreateStatus create_status = *reinterpret_cast<const CreateStatus*>(table);
  try {
    return create_status(ErrorCode::Fail,
                         str(library_domain(), ": got ONNX Runtime ", base->get_version_string(),
                             ", expected 1.17 or later")
                             .c_str());
  } catch (...) {
    return create_status(ErrorCode::Fail, "myops: needs ONNX Runtime 1.17 or later");
  }
}

}  // namespace
}  // namespace myops::ort

// For myops.explain(): with 1, records the calls of this library from now on; with 0, ends that and
// returns what was recorded, which stays until the next call.
extern "C" MYOPS_EXPORT const char* myops_record_calls(int begin) {
  static std::string lines;
  if (begin != 0) {
    myops::record_calls();
  } else {
    lines = myops::recorded_calls();
  }
  return lines.c_str();
}

// Adds the domain to the options of a session. The result is null or a status that the caller
// releases.
extern "C" MYOPS_EXPORT myops::ort::Status* RegisterCustomOps(myops::ort::SessionOptions* options,
                                                              const myops::ort::ApiBase* base) {
  using namespace myops::ort;
  const uint32_t version = api_version(base->get_version_string());
  const Table* table = base->get_api(version);
  if (table == nullptr) return too_old(base);
  return guard(Api(table, version), [&] {
    myops::refuse_faults();
    forget_wrong_kinds();  // options are mostly created for one session each
    domain_for(table, version).add_to(options);
  });
}
