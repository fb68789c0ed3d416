// The instructions that reach other blocks of a cluster, in a block that is one by itself: what they do is
// then known without the other blocks.  test/python/test_random_clusters.py has larger clusters.
#pragma once
#include "fuzz/async_text.h"

namespace tl::fuzz {

struct ClusterText : AsyncText {
  // In a loop that all threads of the block run alike, the cluster's barrier does what the block's does.
  void meet_in_cluster() {
    line("cluster_arrive{}()", chance(70) ? "" : "_relaxed");
    maybe_aside();
    line("cluster_wait()");
    sync_all();
  }
  void arrive_at_rank(const std::string& barrier) {
    line("mbarrier_arrive_remote{}(address_of({}), 0)", chance(50) ? "_release" : "", barrier);
  }
  // Each thread stores for another one, 1 to 16 bytes; all meet in between.
  void stores() {
    int64_t bytes = pick<int64_t>({1, 2, 4, 8, 16}), words = std::max<int64_t>(1, bytes / 4);
    std::string type = bytes == 1 ? "u8" : bytes == 2 ? "i16" : "i32";
    std::string s = shared("S", type, words * threads), d = shared("D", type, words * threads);
    std::string acc = begin_sum(type), i = fresh_name("i");
    under(fmt::format("for {} in serial({})", i, words), [&] {
      line("{}[t*{} + {}] = {} + cast<{}>({})", s, words, i, mix(type, acc + "[0]", "3"), type, i);
    });
    sync_all();
    std::string from = fmt::format("(t + {}) % {}", below(threads), threads);
    line("cluster_store_{0}(address_of({1}[t*{2}]), address_of({3}[({4})*{2}]), 0)", bytes, d, words, s,
         from);
    sync_all();
    take(acc, type, fmt::format("{}[{}]", d, somewhere(std::to_string(words * threads))));
    end_sum(acc, type);
  }
  // One thread sends what all have stored; the threads wait for its bytes, and have arrived where it is free.
  void sends() {
    std::string s = shared("S", "f32", threads), d = shared("D", "f32", threads), acc = begin_sum("f32");
    std::string m = barriers({{1, 1}, {1, threads}}, true), k = fresh_name("k");
    under(fmt::format("for {} in serial({})", k, 2 + below(3)), [&] {  // so that each wait is needed
      line("{}[t] = {}", s, mix("f32", acc + "[0]", fmt::format("cast<f32>({} % 9)", k)));
      line("fence_proxy_async_shared()");
      sync_all();
      under(fmt::format("if t == {}", below(threads)), [&] {
        line("mbarrier_arrive_expect_tx(address_of({}[0]), {})", m, threads * 4);
        line("cp_async_bulk_cluster(address_of({}[0]), address_of({}[0]), {}, 0, address_of({}[0]))", d, s,
             threads * 4, m);
      });
      wait(m + "[0]", fmt::format("{} % 2", k));
      take(acc, "f32", fmt::format("{}[(t + {}) % {}]", d, below(threads), threads));
      arrive_at_rank(m + "[1]");
      wait(m + "[1]", fmt::format("{} % 2", k));
    });
    end_barriers(m, 2);
    end_sum(acc, "f32");
  }
  // One thread of each warp, whichever it is, stores for all of them.
  void elects() {
    std::string s = shared("S", "i32", warps), acc = begin_sum("i32");
    under("if elect_sync()", [&] { line("{}[t // 32] = cast<i32>(t // 32) + 5", s); });
    sync_all();
    take(acc, "i32", fmt::format("{}[t % {}]", s, warps));
    end_sum(acc, "i32");
  }
  void cluster_step() {
    switch (below(threads == block_threads ? 4 : 3)) {
      case 0:
        return stores();
      case 1:
        return sends();
      case 2:
        return elects();
      default:
        return meet_in_cluster();
    }
  }
};

}  // namespace tl::fuzz
