// A small thread pool for calls from NumPy. One job runs at a time; a second caller, or a task that
// calls run() again, does its job on its own thread instead of waiting.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace myops::numpy {

class ThreadPool {
 public:
  using Task = void (*)(void* argument, int64_t index);

  // Never destroyed, because worker threads may still wait for its mutex at interpreter exit. A
  // forked child has no worker threads, so it makes a pool of its own.
  static ThreadPool& instance() {
    static std::atomic<ThreadPool*> pool{new ThreadPool};
    ThreadPool* current = pool.load();
    if (current->owner_ != getpid()) {
      auto* fresh = new ThreadPool;
      if (pool.compare_exchange_strong(current, fresh)) return *fresh;
      delete fresh;
    }
    return *pool.load();
  }

  // Calls task(argument, i) for each i in [0, count) on at most `threads` threads, this one
  // included.
  void run(int64_t count, int threads, Task task, void* argument) {
    const std::unique_lock<std::mutex> job(job_mutex_, std::try_to_lock);
    if (threads <= 1 || count <= 1 || !job.owns_lock()) {
      for (int64_t i = 0; i < count; ++i) task(argument, i);
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (static_cast<int>(workers_.size()) < threads - 1) {
        const size_t number = workers_.size();
        workers_.emplace_back([this, number] { work(number); });
        workers_.back().detach();
      }
      task_ = task;
      argument_ = argument;
      count_ = count;
      next_.store(0);
      helpers_ = static_cast<size_t>(threads - 1);
      busy_ = helpers_;
      ++generation_;
    }
    wake_.notify_all();
    drain(task, argument, count);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  ThreadPool() = default;

  void drain(Task task, void* argument, int64_t count) {
    for (int64_t i = next_.fetch_add(1); i < count; i = next_.fetch_add(1)) task(argument, i);
  }

  void work(size_t number) {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return generation_ != seen && number < helpers_; });
      seen = generation_;
      const Task task = task_;
      void* const argument = argument_;
      const int64_t count = count_;
      lock.unlock();
      drain(task, argument, count);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  const pid_t owner_ = getpid();
  std::mutex job_mutex_;  // held by the caller whose job runs
  std::mutex mutex_;      // guards everything below but next_
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  uint64_t generation_ = 0;
  size_t helpers_ = 0, busy_ = 0;
  Task task_ = nullptr;
  void* argument_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_{0};
};

}  // namespace myops::numpy
