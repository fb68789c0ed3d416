// Clusters: blocks that run at the same time on neighbouring multiprocessors, meet at a barrier of their own
// and reach each other's shared memory and barriers.  Before the first statement that does, all blocks of the
// cluster have begun and initialised their barriers; none ends before the others have reached it for the last
// time: both are barriers of the cluster that stand at the two ends of the kernel.
#include "api/builder.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "target/effects.h"

namespace tl {
namespace {

constexpr std::string_view axes[] = {"x", "y", "z"};

Stmt step(std::string_view name, Span span) { return eval(tl::call(*find_instr(name), {}, span), span); }

bool leaves_block(const Stmt& s) {
  return contains(
      s, [](const Tile& t) { return t.attrs.find("cluster_mask") || t.attrs.find("dst_block"); },
      [](const Call& c) {
        const AsyncInstr* row = async_row_of(*c.intrinsic);
        return row && row->leaves_block();
      });
}

// By threads: what they have written there, an arrival at that block's barrier makes known.
bool stores_remotely(const Stmt& s) {
  return contains(
      s, [](const Tile& t) { return t.attrs.find("dst_block") && t.operands.size() == 2; },
      [](const Call& c) {
        const AsyncInstr* row = async_row_of(*c.intrinsic);
        return row && row->does == AsyncInstr::AsyncKind::remote_store;
      });
}
// Arrivals that release to the cluster, which takes the longer the more of the memory is under way.
Stmt with_release(const Stmt& s) {
  return rewrite(s, [](const Call& n, Rewriter& self) -> Expr {
    if (n.intrinsic->name != "mbarrier_arrive_remote") return self.children(n);
    return tl::call(*find_instr("mbarrier_arrive_remote_release"), n.args, n.span);
  });
}

bool is_step(const Stmt& s, std::string_view name) {
  auto* e = s.as<Eval>();
  auto* c = e ? e->value.as<Call>() : nullptr;
  return c && c->intrinsic->name == name;
}

}  // namespace

void Builder::form_clusters(const std::vector<int64_t>& dims) {
  require_kernel("cluster_dims");
  Function& f = draft->function;
  Kernel& k = f.kernels.back();
  constexpr int64_t most = 16;  // blocks, on any chip
  if (dims.size() > 3)
    fail(here(), "cluster_dims has {} extents; a grid has up to 3 dimensions", dims.size());
  int64_t blocks_together = 1;
  for (int64_t n : dims)
    if (n > most || (blocks_together *= n) > most)
      fail(here(), "cluster_dims asks for clusters of more than {} blocks, which no chip has", most);
  std::vector<int64_t> used = dims;
  while (!used.empty() && used.back() == 1) used.pop_back();
  if (used.size() > k.grid.size())
    fail(here(), "cluster_dims has an extent of {} along {}, but the grid has {} dimension{}", used.back(),
         axes[used.size() - 1], k.grid.size(), k.grid.size() > 1 ? "s" : "");
  used.resize(k.grid.size(), 1);
  k.cluster = used;
  for (size_t d = 0; d < used.size(); d++) {
    if (used[d] == 1) continue;
    Expr whole = eq(floormod(k.grid[d], used[d]), imm(0));
    auto blocks = as_int(k.grid[d]);
    if (blocks && *blocks % used[d])
      fail(here(),
           "a grid of {} blocks along {} is not made of whole clusters of {} along it; round it up, and let "
           "the "
           "blocks beyond the end do nothing",
           *blocks, axes[d], used[d]);
    if (blocks) continue;
    std::string place = here().file ? fmt::format("{}:{}", *here().file, here().line) : "";
    f.facts.push_back(whole);
    f.checks.push_back(
        {.cond = whole,
         .message = fmt::format("the grid along {} is made of whole clusters of {} blocks", axes[d], used[d]),
         .place = place,
         .span = here()});
  }
}

Expr Builder::rank_in_cluster() const {
  require_kernel("block_rank_in_cluster");
  return tl::rank_in_cluster(draft->function.kernels.back());
}

void Builder::check_rank(const std::string& what, const Expr& rank) const {
  const Kernel& k = draft->function.kernels.back();
  int64_t blocks = cluster_size(k);
  if (k.cluster.empty())
    fail(here(),
         "{} reaches another block of the cluster, but the blocks of this kernel are alone: "
         "T.Kernel(…, cluster_dims=2) makes clusters of two along x",
         what);
  if (auto n = as_int(rank); n && (*n < 0 || *n >= blocks))
    fail(here(), "{}: a cluster of {} blocks has the ranks 0 to {}, not {}", what, blocks, blocks - 1, *n);
}

Expr Builder::rank(const std::string& what, const Value& block) const {
  Expr e = word_value(what + ": the rank of a block", block, INT32_MAX);
  check_rank(what, e);
  return e;
}

Expr Builder::cluster_mask(const std::string& what, const Value& mask) const {
  Expr e = word_value(what + ": cluster_mask", mask, INT32_MAX);
  check_rank(what + ": cluster_mask", imm(0));
  int64_t blocks = cluster_size(draft->function.kernels.back());
  if (auto n = as_int(e); n && (*n < 1 || *n >= int64_t(1) << blocks))
    fail(here(), "{}: cluster_mask has a bit for each of {} blocks, 1 to {}, not {}", what, blocks,
         (int64_t(1) << blocks) - 1, *n);
  return e;
}

void Builder::arrive_remote(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                            const Value& rank) {
  refuse_in_function();
  instruct("mbarrier_arrive_remote", {word_of(what, words, index), this->rank(what, rank)});
}

void Builder::cluster_barrier(const std::string& what, std::string_view row) {
  refuse_in_function();
  require_kernel(what);
  if (cluster_size(draft->function.kernels.back()) > 1) return instruct(row, {});
  if (row == "cluster_wait")
    emit(eval(tl::call(sync_threads, {}, here()), here()));  // the block is all of it
}

// What stands in front of the body and behind it, where blocks reach each other.
void Builder::enclose_in_cluster(std::vector<Stmt>& stmts, size_t begin, Span span) const {
  bool reaches = std::ranges::any_of(stmts, leaves_block);
  if (cluster_size(draft->function.kernels.back()) == 1 || !reaches) return;
  if (std::ranges::any_of(stmts, stores_remotely))
    for (Stmt& s : stmts) s = with_release(s);
  auto is_alloc = [](const Stmt& s) { return s.as<Alloc>() != nullptr; };
  auto last = std::find_if_not(stmts.rbegin(), stmts.rend(), is_alloc);
  bool ends =
      is_step(*last, "cluster_wait") && last + 1 != stmts.rend() && is_step(last[1], "cluster_arrive");
  if (!ends) {
    stmts.push_back(step("cluster_arrive", span));
    stmts.push_back(step("cluster_wait", span));
  }
  stmts.insert(stmts.begin() + int64_t(begin), {step("cluster_arrive", span), step("cluster_wait", span)});
}

}  // namespace tl
