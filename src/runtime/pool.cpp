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
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "base/file.h"
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

void run_blocks(const GridJob& job, int64_t first, int64_t count, void* memory) {
  auto [nx, ny, nz] = job.grid;
  int64_t x = first % nx, y = first / nx % ny, z = first / nx / ny;
  for (int64_t i = 0; i < count; i++) {
    job.entry(job.slots, x, y, z, memory);
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
      job.entry(job.slots, 0, 0, 0, memory);
    } else {
      auto start = Clock::now();
      run_blocks(job, 0, blocks, memory);
      remember_time(job, start, blocks);
    }
  }
  if (nest.depth > 0) return;  // generated code is around us, through which nothing is thrown
  if (const char* message = take_failure()) raise_failure(message);
}

struct Pool {
  std::mutex callers;          // one job at a time
  std::deque<Worker> workers;  // grows; a worker never moves
  Arena caller_arena;
  GridJob job;
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
    if (!memory && job.arena_bytes > 0) return 0;  // the others do it; the caller made sure of its own
    int64_t first = next.load(std::memory_order_relaxed), done = 0;
    while (first < total) {
      int64_t count = std::max<int64_t>(1, (total - first) / share);
      if (!next.compare_exchange_weak(first, first + count, std::memory_order_relaxed)) continue;
      run_blocks(job, first, count, memory);
      done += count;
      first = next.load(std::memory_order_relaxed);
    }
    if (const char* message = take_failure()) failure.store(message, std::memory_order_release);
    return done;
  }

  void work(Worker& self) {
    uint32_t seen = 0;
    Inside inside;
    for (;;) {
      auto until = Clock::now() + std::chrono::microseconds(50);
      uint32_t ticket;
      for (int i = 1; (ticket = self.ticket.load(std::memory_order_acquire)) == seen; i++) {
        pause_cpu();
        if (i % 64 == 0 && Clock::now() > until) self.ticket.wait(seen);
      }
      seen = ticket;
      if (!join()) continue;
      draw(self.arena);
      state.fetch_sub(1, std::memory_order_release);
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
    int core = sched_getcpu();
    cpu_set_t allowed;
    if (core < 0 || core == worker.avoids || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    worker.avoids = core;
    CPU_CLR(size_t(core), &allowed);
    if (CPU_COUNT(&allowed) > 0) pthread_setaffinity_np(worker.thread, sizeof allowed, &allowed);
  }

  void run(const GridJob& new_job, int64_t blocks, int threads) {
    std::lock_guard guard(callers);
    if (!caller_arena.at_least(new_job.arena_bytes) && new_job.arena_bytes > 0)
      throw RuntimeError("no memory for the private tiles of a block");
    job = new_job;
    total = blocks;
    share = 4 * threads;
    next.store(0, std::memory_order_relaxed);
    while (int(workers.size()) < threads - 1) add_worker();
    state.store(open_bit, std::memory_order_release);
    for (int i = 0; i < threads - 1; i++) {
      keep_off_caller(workers[size_t(i)]);
      workers[size_t(i)].ticket.fetch_add(1, std::memory_order_release);
      workers[size_t(i)].ticket.notify_one();
    }
    auto start = Clock::now();
    {
      Inside inside;
      remember_time(job, start, draw(caller_arena));
    }
    state.fetch_and(~open_bit, std::memory_order_relaxed);
    for (int i = 0; state.load(std::memory_order_acquire) != 0; i++) {
      pause_cpu();
      if (i > 10000) std::this_thread::yield();
    }
    if (failure.load(std::memory_order_acquire)) raise_failure(failure.exchange(nullptr));
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
  if (threads == 1 || nest.depth > 0) return run_alone(job, blocks);
  int64_t block_ns = job.block_ns ? job.block_ns->load(std::memory_order_relaxed) : 0;
  if (block_ns > 0 && blocks <= wake_ns / block_ns) return run_alone(job, blocks);
  pool().run(job, blocks, threads);
}

}  // namespace tl
