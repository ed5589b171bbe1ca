// The thread pool of the NumPy adapter: every task once, from many callers, in a forked child.
#include <sys/wait.h>
#include <unistd.h>

#include "../../csrc/adapters/numpy/thread_pool.h"
#include "checking.h"

namespace {

using myops::numpy::ThreadPool;

struct Job {
  std::vector<std::atomic<int>> counts;
  explicit Job(size_t size) : counts(size) {}
  static void task(void* self, int64_t index) {
    ++static_cast<Job*>(self)->counts[static_cast<size_t>(index)];
  }
  bool each_once() const {
    for (const std::atomic<int>& count : counts) {
      if (count != 1) return false;
    }
    return true;
  }
};

bool run_job(int64_t count, int threads) {
  Job job(static_cast<size_t>(count));
  ThreadPool::instance().run(count, threads, Job::task, &job);
  return job.each_once();
}

void test_every_task_runs_once() {
  for (const int threads : {1, 2, 7, 3}) {  // more, then fewer, than the pool has
    for (const int64_t count : {0, 1, 2, 5, 100, 1000}) {
      expect(run_job(count, threads), "every task once");
    }
  }
}

void test_many_callers() {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([] {
      for (int round = 0; round < 50; ++round) expect(run_job(40, 4), "many callers");
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// A task that calls run() again does the job on its own thread; it must not wait for itself.
void test_a_task_may_call_run() {
  std::atomic<int> good{0};
  ThreadPool::instance().run(
      8, 4,
      [](void* argument, int64_t) {
        if (run_job(10, 4)) ++*static_cast<std::atomic<int>*>(argument);
      },
      &good);
  expect(good == 8, "a task asks again");
}

// The child has none of the parent's worker threads.
void test_a_forked_child_has_its_own_threads() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(run_job(100, 4) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child");
  expect(run_job(100, 4), "the parent after a fork");
}

}  // namespace

int main() {
  test_every_task_runs_once();
  test_many_callers();
  test_a_task_may_call_run();
#if !MYOPS_TEST_THREAD_SANITIZER  // ThreadSanitizer has no threads in a child of many threads
  test_a_forked_child_has_its_own_threads();
#endif
  return finish("thread pool tests");
}
