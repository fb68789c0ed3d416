// Workers live as long as the process.  A job is one shared record: workers join it while it is open and draw
// blocks from a counter in shrinking chunks; the caller draws too, then closes the job and waits for those
// inside. So the caller never waits for a worker that was still asleep.  Workers spin for a moment between
// jobs, then sleep.
#include "runtime/pool.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/interrupt.h"
#include "runtime/device.h"
#include "runtime/messages.h"

namespace tl {
namespace {

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Private memory of one thread, grown on demand.  Page-aligned, so rows of a tile do not straddle needlessly.
struct Arena {
  void* memory = nullptr;
  size_t size = 0;

  void* at_least(int64_t bytes) {  // null if there is no memory for it
    if (size_t(bytes) <= size) return memory;
    constexpr size_t page = 4096, huge = 2u << 20;
    size_t align = size_t(bytes) >= huge / 32 ? huge : page;  // fewer TLB misses from 64 KB on
    size = (size_t(bytes) + align - 1) / align * align;
    std::free(memory);
    memory = std::aligned_alloc(align, size);
    if (!memory) size = 0;
    if (memory && align == huge) madvise(memory, size, MADV_HUGEPAGE);
    return memory;
  }
};

struct alignas(64) Worker {
  std::atomic<uint32_t> ticket{0};  // raised to call it to a job
  pthread_t thread{};
  int avoids = -1;  // the core it was kept off
  Arena arena;
};

constexpr uint32_t open_bit = 1u << 31;

using Clock = std::chrono::steady_clock;

// What ends blocks before they have run: on a worker that the call has ended, on the caller's thread what was
// thrown when it looked up.
thread_local const std::atomic<bool>* is_over = nullptr;
thread_local std::exception_ptr interruption;

constexpr uint32_t long_ns = 20'000'000;  // a block, for a caller that is to hear what is said

bool is_long(const GridJob& job) {
  if (!attention.task || !job.block_ns) return false;
  uint32_t ns = job.block_ns->load(std::memory_order_relaxed);
  return ns == 0 || ns >= long_ns;
}

void rethrow_interruption() {
  if (interruption) std::rethrow_exception(std::exchange(interruption, nullptr));
}

void run_blocks(const GridJob& job, int64_t first, int64_t count, void* memory) {
  constexpr uint32_t slow_ns = 100'000;
  bool is_slow = job.block_ns && job.block_ns->load(std::memory_order_relaxed) > slow_ns;
  auto [nx, ny, nz] = job.grid;
  int64_t x = first % nx, y = first / nx % ny, z = first / nx / ny;
  for (int64_t i = 0; i < count; i++) {
    if (is_slow) attention.left = 0;
    if (poll_block()) return;
    job.entry(job.slots.data(), x, y, z, memory);
    if (++x == nx) {
      x = 0;
      if (++y == ny) y = 0, z++;
    }
  }
}

void remember_time(const GridJob& job, Clock::time_point start, int64_t blocks) {
  if (!job.block_ns || blocks <= 0) return;
  int64_t ns = (Clock::now() - start) / std::chrono::nanoseconds(1) / blocks;
  job.block_ns->store(uint32_t(std::clamp<int64_t>(ns, 1, UINT32_MAX)), std::memory_order_relaxed);
}

// A thread's own arenas, one for each grid that it is inside of: a block may call a function that runs
// another.
struct Nest {
  size_t depth = 0;
  std::vector<Arena> arenas;
  ~Nest() {
    for (Arena& arena : arenas) std::free(arena.memory);
  }
};
thread_local Nest nest;

struct Inside {
  Inside() { nest.depth++; }
  Inside(const Inside&) = delete;
  ~Inside() { nest.depth--; }
};

void run_alone(const GridJob& job, int64_t blocks) {
  void* memory = nullptr;
  if (job.arena_bytes > 0) {
    if (nest.arenas.size() <= nest.depth) nest.arenas.resize(nest.depth + 1);
    memory = nest.arenas[nest.depth].at_least(job.arena_bytes);
    if (!memory) throw RuntimeError("no memory for the private tiles of a block");
  }
  {
    Inside inside;
    if (blocks == 1) {
      job.entry(job.slots.data(), 0, 0, 0, memory);
    } else {
      auto start = Clock::now();
      run_blocks(job, 0, blocks, memory);
      remember_time(job, start, blocks);
    }
  }
  if (nest.depth > 0) return;  // generated code is around us, through which nothing is thrown
  rethrow_interruption();
  if (const char* message = take_failure()) raise_failure(message);
}

struct Pool {
  std::timed_mutex callers;    // one job at a time
  std::deque<Worker> workers;  // grows; a worker never moves
  Arena caller_arena;
  GridJob job;
  std::vector<uint64_t> slots;       // of the job, which its caller may leave
  bool apart = false;                // the caller waits, and workers do it alone
  std::atomic<bool> over{false};     // the call has ended, and so does the job
  std::atomic<bool> is_lost{false};  // its caller has left, with workers inside
  std::mutex sleep;                  // of the caller, while `is_asleep`
  std::condition_variable done;
  std::atomic<bool> is_asleep{false};
  int64_t total = 0, share = 1;
  std::atomic<const char*> failure{nullptr};  // of an assertion in one of the blocks
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<uint32_t> state{0};  // open_bit, and how many workers are inside

  bool join() {
    uint32_t seen = state.load(std::memory_order_relaxed);
    while (seen & open_bit)
      if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    return false;
  }

  // Draws chunks until none is left: large ones first, single blocks at the end.  How many blocks it ran.
  int64_t draw(Arena& arena) {
    void* memory = arena.at_least(job.arena_bytes);
    if (!memory && job.arena_bytes > 0) {  // the others do it; a caller that draws made sure of its own
      if (apart) failure.store("no memory for the private tiles of a block", std::memory_order_release);
      if (apart) next.store(total, std::memory_order_relaxed);
      return 0;
    }
    auto start = Clock::now();
    int64_t first = next.load(std::memory_order_relaxed), done = 0;
    while (first < total) {
      int64_t count = std::max<int64_t>(1, (total - first) / share);
      if (!next.compare_exchange_weak(first, first + count, std::memory_order_relaxed)) continue;
      run_blocks(job, first, count, memory);
      done += count;
      first = next.load(std::memory_order_relaxed);
    }
    if (const char* message = take_failure()) failure.store(message, std::memory_order_release);
    if (apart || &arena == &caller_arena) remember_time(job, start, done);
    return done;
  }

  void work(Worker& self) {
    uint32_t seen = 0;
    Inside inside;
    is_over = &over;
    while (!is_lost) {
      auto until = Clock::now() + std::chrono::microseconds(50);
      uint32_t ticket;
      for (int i = 1; (ticket = self.ticket.load(std::memory_order_acquire)) == seen; i++) {
        pause_cpu();
        if (i % 64 == 0 && Clock::now() > until) self.ticket.wait(seen);
      }
      seen = ticket;
      if (!join()) continue;
      draw(self.arena);
      state.fetch_sub(1);
      if (!is_asleep) continue;
      std::lock_guard guard(sleep);
      done.notify_all();
    }
  }

  void add_worker() {
    Worker& worker = workers.emplace_back();
    std::thread thread([this, &worker] { work(worker); });
    worker.thread = thread.native_handle();
    pthread_setname_np(worker.thread, "tilelang");
    thread.detach();
  }

  // A scheduler may wake a worker on its caller's core, expecting the caller to sleep, and leave it there for
  // milliseconds.
  void keep_off_caller(Worker& worker) const {
    int core = apart ? -1 : sched_getcpu();
    cpu_set_t allowed;
    if (core == worker.avoids || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    worker.avoids = core;
    if (core >= 0) CPU_CLR(size_t(core), &allowed);
    if (CPU_COUNT(&allowed) > 0) pthread_setaffinity_np(worker.thread, sizeof allowed, &allowed);
  }

  // All workers are out, and there is nothing to draw for those that were to do it alone.
  bool is_done() const { return (state & ~open_bit) == 0 && (!apart || next >= total); }

  void wait_for_workers() {
    for (int i = 0; i < 20000 && !apart; i++) {
      if (is_done()) return;
      i < 10000 ? pause_cpu() : std::this_thread::yield();
    }
    std::unique_lock lock(sleep);
    is_asleep = true;
    wait_looking(lock, done, [&] { return is_done(); });
    is_asleep = false;
  }

  // The call has ended: workers leave between blocks, or are left behind.
  void leave() {
    over = true;
    state.fetch_and(~open_bit);
    std::unique_lock lock(sleep);
    is_asleep = true;
    auto all_out = [&] { return state == 0; };
    is_lost = !done.wait_for(lock, std::chrono::milliseconds(100), all_out);
    is_asleep = false;
    if (is_lost && attention.task) attention.task->left_behind = true;
  }

  void begin(const GridJob& new_job, int64_t blocks, int threads, bool by_workers) {
    job = new_job;
    slots.assign(new_job.slots.begin(), new_job.slots.end());
    job.slots = slots;
    total = blocks;
    apart = by_workers;
    share = 4 * threads;
    over = false;
    next.store(0, std::memory_order_relaxed);
    int wanted = apart ? threads : threads - 1;
    while (int(workers.size()) < wanted) add_worker();
    state.store(open_bit, std::memory_order_release);
    for (int i = 0; i < wanted; i++) {
      keep_off_caller(workers[size_t(i)]);
      workers[size_t(i)].ticket.fetch_add(1, std::memory_order_release);
      workers[size_t(i)].ticket.notify_one();
    }
  }

  // False: the pool is lost, and did nothing.
  bool run(const GridJob& new_job, int64_t blocks, int threads, bool by_workers) {
    std::unique_lock guard(callers, std::try_to_lock);
    while (!guard && !guard.try_lock_for(Task::interval)) look();
    if (is_lost) return false;
    if (!by_workers && !caller_arena.at_least(new_job.arena_bytes) && new_job.arena_bytes > 0)
      throw RuntimeError("no memory for the private tiles of a block");
    begin(new_job, blocks, threads, by_workers);
    try {
      if (!apart) {
        Inside inside;
        draw(caller_arena);
        state.fetch_and(~open_bit, std::memory_order_relaxed);
        rethrow_interruption();
      }
      wait_for_workers();
    } catch (...) {
      leave();
      throw;
    }
    state.fetch_and(~open_bit);
    while (state != 0) pause_cpu();  // those that came when nothing was left
    if (failure.load(std::memory_order_acquire)) raise_failure(failure.exchange(nullptr));
    return true;
  }
};

// A forked child has no workers: it starts over with a new pool (the old one may be locked for good).
std::atomic<Pool*> the_pool{nullptr};
Pool& pool() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); }); });
  Pool* made = the_pool.load(std::memory_order_acquire);
  if (made) return *made;
  auto fresh = new Pool;
  if (the_pool.compare_exchange_strong(made, fresh)) return *fresh;
  delete fresh;
  return *made;
}

// The next call makes another one.
void forget_pool() {
  Pool* lost = &pool();
  if (lost->is_lost) the_pool.compare_exchange_strong(lost, nullptr);
}

int default_threads() {
  if (int wanted = std::atoi(environment("TILELANG_NUM_THREADS").c_str()); wanted > 0)
    return std::min(wanted, 1024);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

std::atomic<int> wanted_threads{0};

}  // namespace

void set_num_threads(int count) { wanted_threads = std::clamp(count, 0, 1024); }

int num_threads() {
  int count = wanted_threads.load(std::memory_order_relaxed);
  if (count > 0) return count;
  static const int by_default = default_threads();
  return by_default;
}

void run_grid(const GridJob& job) {
  int64_t blocks = job.grid[0] * job.grid[1] * job.grid[2];
  if (blocks <= 0) return;
  constexpr int64_t wake_ns = 4000;  // a sleeping worker takes longer than this to begin
  auto threads = int(std::min<int64_t>(num_threads(), blocks));
  bool apart = nest.depth == 0 && is_long(job);
  if (!apart && (threads == 1 || nest.depth > 0)) return run_alone(job, blocks);
  int64_t block_ns = job.block_ns ? job.block_ns->load(std::memory_order_relaxed) : 0;
  if (block_ns > 0 && blocks <= wake_ns / block_ns) return run_alone(job, blocks);
  while (!pool().run(job, blocks, threads, apart)) forget_pool();
}

bool poll_block() {
  if (is_over) return is_over->load(std::memory_order_relaxed);
  if (interruption) return true;
  try {
    poll();
  } catch (...) {
    interruption = std::current_exception();
  }
  return bool(interruption);
}

}  // namespace tl
