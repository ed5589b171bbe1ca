// KernelContext::parallel_for for every runtime.
#include <exception>
#include <mutex>

#include "decided_outputs.h"
#include "myops/context.h"
#include "report.h"

namespace myops {
namespace {

struct Pieces {
  int64_t count;
  int64_t grain;
  void (*call)(const void*, int64_t, int64_t);
  const void* body;
  Report* report;
  std::mutex mutex;
  int64_t failed_piece = -1;
  std::exception_ptr failure;
};

// Exceptions must not cross the runtime's thread pool, which is C or another library's C++.
void run_piece(void* argument, int64_t index) {
  Pieces& pieces = *static_cast<Pieces*>(argument);
  const int64_t begin = index * pieces.grain;
  const int64_t end = std::min(begin + pieces.grain, pieces.count);
  if (pieces.report != nullptr) pieces.report->runs_piece();
  try {
    pieces.call(pieces.body, begin, end);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(pieces.mutex);
    if (pieces.failed_piece < 0 || index < pieces.failed_piece) {
      pieces.failed_piece = index;
      pieces.failure = std::current_exception();
    }
  }
}

// In a parallel_for no length of an output can be set, because which piece runs first depends on
// the threads.
class InPieces {
 public:
  explicit InPieces(DecidedOutputs* decided) : decided_(decided) {
    if (decided_ != nullptr) decided_->count_pieces(1);
  }
  InPieces(const InPieces&) = delete;
  InPieces& operator=(const InPieces&) = delete;
  ~InPieces() {
    if (decided_ != nullptr) decided_->count_pieces(-1);
  }

 private:
  DecidedOutputs* const decided_;
};

}  // namespace

void KernelContext::run_pieces(int64_t count, int64_t grain,
                               void (*call)(const void*, int64_t, int64_t),
                               const void* body) const {
  if (count <= 0) return;
  if (report_ != nullptr) report_->starts_pieces((count + grain - 1) / grain);
  const InPieces here(decided_);
  if (count <= grain) {
    call(body, 0, count);
    return;
  }
  Pieces pieces{count, grain, call, body, report_, {}, -1, nullptr};
  runtime_.run((count + grain - 1) / grain, run_piece, &pieces);
  if (pieces.failure) std::rethrow_exception(pieces.failure);
}

void KernelContext::add_step(std::string_view kernel, std::string_view axis,
                             std::string_view reason) const {
  report_->add(kernel, axis, reason);
}

}  // namespace myops
