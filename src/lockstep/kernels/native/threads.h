// Work shared among threads that sleep while there is none.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

// Looks a moment (some 40 µs) whether a number changes, before who waits for it goes to sleep: to be woken takes as long.
template <class Number>
static inline void look(const std::atomic<Number>& number, Number old) {
  for (int i = 0; i < 3000 && number.load(std::memory_order_acquire) == old; i++) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

class Pool {
 public:
  // Calls work(item) for each item below `count`, on `threads` threads, of which the caller is one. A pool that is busy
  // with another caller's work leaves this caller to do its own.
  template <class Work>
  void share(int64_t count, int threads, const Work& work) {
    threads = (int)std::min<int64_t>(threads, count);
    std::unique_lock<std::mutex> mine(busy, std::defer_lock);
    if (threads <= 1 || !mine.try_lock()) {
      for (int64_t item = 0; item < count; item++) work(item);
      return;
    }
    grow(threads - 1);
    next = 0;
    total = count;
    run = [](const void* w, int64_t item) { (*(const Work*)w)(item); };
    context = &work;
    finished = 0;
    tickets.store(threads - 1, std::memory_order_release);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
    take();
    const int helpers = threads - 1 - tickets.exchange(0, std::memory_order_acq_rel);  // who has not come by now need not come
    for (int done; (done = finished.load(std::memory_order_acquire)) < helpers;) {
      look(finished, done);
      finished.wait(done, std::memory_order_acquire);
    }
  }

 private:
  std::mutex busy;
  std::atomic<uint32_t> epoch{0};
  std::atomic<int64_t> next{0};
  std::atomic<int> tickets{0}, finished{0};
  int64_t total = 0;
  int started = 0;
  pid_t process = 0;
  const void* context = nullptr;
  void (*run)(const void*, int64_t) = nullptr;

  void take() {
    for (int64_t item; (item = next.fetch_add(1)) < total;) run(context, item);
  }
  void grow(int workers) {
    if (process != getpid()) started = 0, process = getpid();  // a fork has none of its parent's threads
    for (; started < workers; started++) std::thread(&Pool::serve, this, epoch.load()).detach();
  }
  bool ticket() {
    int left = tickets.load(std::memory_order_acquire);
    while (left > 0 && !tickets.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) {
    }
    return left > 0;
  }
  void serve(uint32_t seen) {
    for (;;) {
      look(epoch, seen);
      epoch.wait(seen, std::memory_order_acquire);
      seen = epoch.load(std::memory_order_acquire);
      if (!ticket()) continue;
      take();
      finished.fetch_add(1, std::memory_order_acq_rel);
      finished.notify_one();
    }
  }
};

static Pool& pool() {
  static Pool* one = new Pool;  // never destroyed: its threads may outlive the library's static objects
  return *one;
}
