// Asynchronous instructions: copies, barriers in memory and the waits for them.
//
// cp.async (sm_80): each thread copies 4, 8 or 16 bytes from global to shared memory, commits its copies in
// groups and waits until at most n of them are pending; other threads see the data after a barrier that
// follows that wait. It writes through the generic proxy, as threads do.
//
// mbarrier: a word of shared memory that counts arrivals, and from sm_90 on bytes.  A phase ends when all
// have arrived; a wait names the phase by its parity, and phase 0 is the first, or by the state that an
// arrival in it gave: a value of 64 bits that means nothing else.
//
// Bulk copies (sm_90) are started by one thread for many bytes and go through the asynchronous proxy, which
// sees what threads have written only after their fences. Loads count their bytes at an mbarrier, stores
// complete by groups. They move a run of bytes or a box of a tensor: a tensor map describes the tensor in
// memory, and the instruction names the box's first element; elements outside the tensor are read as 0 and
// never written.
//
// Clusters (sm_90): blocks of a cluster run at the same time. They meet at the cluster's barrier, arrive at
// each other's mbarriers, and write to each other's shared memory: to the same place in the block of that
// rank.  A multicast load fills the same place in several blocks, and counts its bytes at the barrier of
// each.
//
// Products of warpgroups (sm_90a, target/hopper.cpp) are ordered by a fence, closed in groups, and waited
// for.
#include <fmt/format.h>

#include <algorithm>

#include "target/nvidia.h"

namespace tl {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;
using Result = Intrinsic::Result;

constexpr auto none = Token::none, copies = Token::copies, bulk = Token::bulk, gemms = Token::gemms,
               phase = Token::phase;
constexpr auto generic = Proxy::generic, async = Proxy::async;

// `access`: per argument, as in Intrinsic.
AsyncInstr async_row(int since, std::string_view name, AsyncKind does, Token token, Proxy proxy, int bytes,
                     std::string_view access, std::string_view operands, std::string_view ptx) {
  return {.intrinsic = {.name = name,
                        .arity = int(access.size()),
                        .result = does == AsyncKind::test || does == AsyncKind::elect ? Result::boolean
                                                                                      : Result::none,
                        .effect = Intrinsic::Effect::memory,
                        .access = access},
          .does = does,
          .token = token,
          .proxy = proxy,
          .since = since,
          .bytes = bytes,
          .operands = operands,
          .ptx = ptx};
}

AsyncInstr tensor_load(std::string_view name, std::string_view access, std::string_view operands,
                       std::string_view ptx) {
  return async_row(90, name, AsyncKind::tensor_load, phase, async, 0, access, operands, ptx);
}
AsyncInstr tensor_store(std::string_view name, std::string_view access, std::string_view operands,
                        std::string_view ptx) {
  return async_row(90, name, AsyncKind::tensor_store, bulk, async, 0, access, operands, ptx);
}
AsyncInstr tensor_multicast(std::string_view name, std::string_view access, std::string_view operands,
                            std::string_view ptx) {
  AsyncInstr row = async_row(90, name, AsyncKind::tensor_multicast, phase, async, 0, access, operands, ptx);
  row.scope = ExecutionScope::cluster;
  return row;
}
AsyncInstr tensor_reduce(std::string_view name, std::string_view access, std::string_view operands,
                         std::string_view ptx) {
  AsyncInstr row = async_row(90, name, AsyncKind::tensor_reduce, bulk, async, 0, access, operands, ptx);
  row.types = name.ends_with("add") ? "f16 bf16 f32 i32 u32 u64" : "f16 bf16 i32 u32 i64 u64";
  return row;
}
AsyncInstr cluster_row(std::string_view name, AsyncKind does, Token token, Proxy proxy, int bytes,
                       std::string_view access, std::string_view operands, std::string_view ptx) {
  AsyncInstr row = async_row(90, name, does, token, proxy, bytes, access, operands, ptx);
  row.scope = ExecutionScope::cluster;
  return row;
}

// An arrival that gives the state of its phase.
AsyncInstr state_row(int since, std::string_view name, AsyncKind does, std::string_view access,
                     std::string_view operands, std::string_view ptx) {
  AsyncInstr row = async_row(since, name, does, phase, generic, 8, access, operands, ptx);
  row.intrinsic.result = Result::u64;
  return row;
}

AsyncInstr clock_row(int since, std::string_view name, std::string_view ptx) {
  AsyncInstr row = async_row(since, name, AsyncKind::clock, none, generic, 0, "", "", ptx);
  row.intrinsic.result = Result::u64;
  return row;
}

AsyncInstr gemm_row(std::string_view name, AsyncKind does, Token token, std::string_view access,
                    std::string_view operands, std::string_view ptx) {
  AsyncInstr row = async_row(sm_90a_only, name, does, token, generic, 0, access, operands, ptx);
  row.scope = ExecutionScope::warpgroup;
  return row;
}

}  // namespace

bool AsyncInstr::combines(DType type) const {
  std::string list = fmt::format(" {} ", types);
  return list.find(fmt::format(" {} ", to_string(type))) != list.npos;
}

std::string_view name_of(AsyncKind kind) {
  using enum AsyncKind;
  static constexpr std::pair<AsyncKind, std::string_view> names[] = {
      {copy, "copy"},
      {commit, "commit"},
      {wait_groups, "wait_groups"},
      {wait_all, "wait_all"},
      {signal, "signal"},
      {signal_counted, "signal_counted"},
      {init, "init"},
      {inval, "inval"},
      {arrive, "arrive"},
      {expect, "expect"},
      {arrive_expect, "arrive_expect"},
      {test, "test"},
      {bulk_load, "bulk_load"},
      {bulk_store, "bulk_store"},
      {tensor_load, "tensor_load"},
      {tensor_store, "tensor_store"},
      {tensor_multicast, "tensor_multicast"},
      {tensor_reduce, "tensor_reduce"},
      {bulk_push, "bulk_push"},
      {remote_store, "remote_store"},
      {remote_arrive, "remote_arrive"},
      {cluster_arrive, "cluster_arrive"},
      {cluster_wait, "cluster_wait"},
      {elect, "elect"},
      {clock, "clock"},
      {bulk_commit, "bulk_commit"},
      {bulk_wait, "bulk_wait"},
      {bulk_wait_read, "bulk_wait_read"},
      {fence, "fence"},
      {fence_shared, "fence_shared"},
      {fence_init, "fence_init"},
      {gemm_fence, "gemm_fence"},
      {gemm_commit, "gemm_commit"},
      {gemm_wait, "gemm_wait"},
      {gemm_results, "gemm_results"},
      {more_registers, "more_registers"},
      {fewer_registers, "fewer_registers"},
  };
  auto named = std::ranges::find(names, kind, &std::pair<AsyncKind, std::string_view>::first);
  return named == std::end(names) ? "" : named->second;
}

std::span<const AsyncInstr> nvidia_async(int chip) {
  // clang-format off
  static const AsyncInstr rows[] = {
      async_row(80, "cp_async_4",                      AsyncKind::copy,           copies, generic, 4,   "wr",   "sg",
                "cp.async.ca.shared.global [{0}], [{1}], 4;"),
      async_row(80, "cp_async_8",                      AsyncKind::copy,           copies, generic, 8,   "wr",   "sg",
                "cp.async.ca.shared.global [{0}], [{1}], 8;"),
      async_row(80, "cp_async_16",                     AsyncKind::copy,           copies, generic, 16,  "wr",   "sg",
                "cp.async.cg.shared.global [{0}], [{1}], 16;"),
      async_row(80, "cp_async_4_zfill",                AsyncKind::copy,           copies, generic, 4,   "wr-",  "sgr",
                "cp.async.ca.shared.global [{0}], [{1}], 4, {2};"),
      async_row(80, "cp_async_8_zfill",                AsyncKind::copy,           copies, generic, 8,   "wr-",  "sgr",
                "cp.async.ca.shared.global [{0}], [{1}], 8, {2};"),
      async_row(80, "cp_async_16_zfill",               AsyncKind::copy,           copies, generic, 16,  "wr-",  "sgr",
                "cp.async.cg.shared.global [{0}], [{1}], 16, {2};"),
      async_row(80, "cp_async_commit_group",           AsyncKind::commit,         copies, generic, 0,   "",     "",
                "cp.async.commit_group;"),
      async_row(80, "cp_async_wait_group",             AsyncKind::wait_groups,    copies, generic, 0,   "n",    "n",
                "cp.async.wait_group {0};"),
      async_row(80, "cp_async_wait_all",               AsyncKind::wait_all,       copies, generic, 0,   "",     "",
                "cp.async.wait_all;"),
      async_row(80, "mbarrier_init",                   AsyncKind::init,           none,   generic, 8,   "w-",   "sr",
                "mbarrier.init.shared::cta.b64 [{0}], {1};"),
      async_row(80, "mbarrier_inval",                  AsyncKind::inval,          none,   generic, 8,   "w",    "s",
                "mbarrier.inval.shared::cta.b64 [{0}];"),
      async_row(80, "mbarrier_arrive",                 AsyncKind::arrive,         phase,  generic, 8,   "x",    "s",
                "{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [{0}]; }"),
      async_row(80, "mbarrier_test_wait",              AsyncKind::test,           phase,  generic, 8,   "r-",   "sr",
                "mbarrier.test_wait.parity.shared::cta.b64 p, [{0}], {1};"),
      state_row(80, "mbarrier_arrive_state",           AsyncKind::arrive, "x", "s",
                "mbarrier.arrive.shared::cta.b64 state, [{0}];"),
      async_row(80, "mbarrier_test_wait_state",        AsyncKind::test,           phase,  generic, 8,   "r-",   "sq",
                "mbarrier.test_wait.shared::cta.b64 p, [{0}], {1};"),
      async_row(80, "cp_async_mbarrier_arrive",        AsyncKind::signal,         phase,  generic, 8,   "x",    "s",
                "cp.async.mbarrier.arrive.shared::cta.b64 [{0}];"),
      async_row(80, "cp_async_mbarrier_arrive_noinc",  AsyncKind::signal_counted, phase,  generic, 8,   "x",    "s",
                "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{0}];"),
      async_row(90, "mbarrier_expect_tx",              AsyncKind::expect,         phase,  generic, 8,   "x-",   "sr",
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{0}], {1};"),
      async_row(90, "mbarrier_arrive_expect_tx",       AsyncKind::arrive_expect,  phase,  generic, 8,   "x-",   "sr",
                "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [{0}], {1};"),
      async_row(90, "mbarrier_try_wait",               AsyncKind::test,           phase,  generic, 8,   "r-",   "sr",
                "mbarrier.try_wait.parity.shared::cta.b64 p, [{0}], {1};"),
      state_row(90, "mbarrier_arrive_expect_tx_state", AsyncKind::arrive_expect, "x-", "sr",
                "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 state, [{0}], {1};"),
      async_row(90, "mbarrier_try_wait_state",         AsyncKind::test,           phase,  generic, 8,   "r-",   "sq",
                "mbarrier.try_wait.shared::cta.b64 p, [{0}], {1};"),
      async_row(90, "fence_mbarrier_init",             AsyncKind::fence_init,     none,   generic, 0,   "",     "",
                "fence.mbarrier_init.release.cluster;"),
      async_row(90, "fence_proxy_async",               AsyncKind::fence,          none,   generic, 0,   "",     "",
                "fence.proxy.async;"),
      async_row(90, "fence_proxy_async_shared",        AsyncKind::fence_shared,   none,   generic, 0,   "",     "",
                "fence.proxy.async.shared::cta;"),
      async_row(90, "cp_async_bulk_load",              AsyncKind::bulk_load,      phase,  async,   0,   "wr-x", "sgrs",
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];"),
      async_row(90, "cp_async_bulk_store",             AsyncKind::bulk_store,     bulk,   async,   0,   "wr-",  "gsr",
                "cp.async.bulk.global.shared::cta.bulk_group [{0}], [{1}], {2};"),
      tensor_load("cp_async_bulk_tensor_1d_load",  "wmr-x",     "smtrs",
                  "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                  "[{0}], [{1}, {{3}}], [{4}];"),
      tensor_load("cp_async_bulk_tensor_2d_load",  "wmr--x",    "smtrrs",
                  "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                  "[{0}], [{1}, {{4}, {3}}], [{5}];"),
      tensor_load("cp_async_bulk_tensor_3d_load",  "wmr---x",   "smtrrrs",
                  "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                  "[{0}], [{1}, {{5}, {4}, {3}}], [{6}];"),
      tensor_load("cp_async_bulk_tensor_4d_load",  "wmr----x",  "smtrrrrs",
                  "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                  "[{0}], [{1}, {{6}, {5}, {4}, {3}}], [{7}];"),
      tensor_load("cp_async_bulk_tensor_5d_load",  "wmr-----x", "smtrrrrrs",
                  "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                  "[{0}], [{1}, {{7}, {6}, {5}, {4}, {3}}], [{8}];"),
      tensor_store("cp_async_bulk_tensor_1d_store", "mw-r",     "mtrs",
                   "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [{0}, {{2}}], [{3}];"),
      tensor_store("cp_async_bulk_tensor_2d_store", "mw--r",    "mtrrs",
                   "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [{0}, {{3}, {2}}], [{4}];"),
      tensor_store("cp_async_bulk_tensor_3d_store", "mw---r",   "mtrrrs",
                   "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [{0}, {{4}, {3}, {2}}], [{5}];"),
      tensor_store("cp_async_bulk_tensor_4d_store", "mw----r",  "mtrrrrs",
                   "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [{0}, {{5}, {4}, {3}, {2}}], [{6}];"),
      tensor_store("cp_async_bulk_tensor_5d_store", "mw-----r", "mtrrrrrs",
                   "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [{0}, {{6}, {5}, {4}, {3}, {2}}], [{7}];"),
      tensor_multicast("cp_async_bulk_tensor_1d_multicast", "wmr--x", "smtrrs",
                       "{ .reg .b16 mask; cvt.u16.u32 mask, {4}; cp.async.bulk.tensor.1d.shared::cluster.global.tile"
                       ".mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{3}}], [{5}], mask; }"),
      tensor_multicast("cp_async_bulk_tensor_2d_multicast", "wmr---x", "smtrrrs",
                       "{ .reg .b16 mask; cvt.u16.u32 mask, {5}; cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                       ".mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{4}, {3}}], [{6}], mask; }"),
      tensor_multicast("cp_async_bulk_tensor_3d_multicast", "wmr----x", "smtrrrrs",
                       "{ .reg .b16 mask; cvt.u16.u32 mask, {6}; cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                       ".mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{5}, {4}, {3}}], [{7}], mask; }"),
      tensor_multicast("cp_async_bulk_tensor_4d_multicast", "wmr-----x", "smtrrrrrs",
                       "{ .reg .b16 mask; cvt.u16.u32 mask, {7}; cp.async.bulk.tensor.4d.shared::cluster.global.tile"
                       ".mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{6}, {5}, {4}, {3}}], [{8}], mask; }"),
      tensor_multicast("cp_async_bulk_tensor_5d_multicast", "wmr------x", "smtrrrrrrs",
                       "{ .reg .b16 mask; cvt.u16.u32 mask, {8}; cp.async.bulk.tensor.5d.shared::cluster.global.tile"
                       ".mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{7}, {6}, {5}, {4}, {3}}], [{9}], mask; }"),
      tensor_reduce("cp_reduce_async_bulk_tensor_1d_add", "mx-r", "mtrs",
                    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [{0}, {{2}}], [{3}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_2d_add", "mx--r", "mtrrs",
                    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [{0}, {{3}, {2}}], [{4}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_3d_add", "mx---r", "mtrrrs",
                    "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [{0}, {{4}, {3}, {2}}], [{5}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_4d_add", "mx----r", "mtrrrrs",
                    "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [{0}, {{5}, {4}, {3}, {2}}], [{6}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_5d_add", "mx-----r", "mtrrrrrs",
                    "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [{0}, {{6}, {5}, {4}, {3}, {2}}], [{7}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_1d_min", "mx-r", "mtrs",
                    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.min.tile.bulk_group [{0}, {{2}}], [{3}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_2d_min", "mx--r", "mtrrs",
                    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.tile.bulk_group [{0}, {{3}, {2}}], [{4}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_3d_min", "mx---r", "mtrrrs",
                    "cp.reduce.async.bulk.tensor.3d.global.shared::cta.min.tile.bulk_group [{0}, {{4}, {3}, {2}}], [{5}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_4d_min", "mx----r", "mtrrrrs",
                    "cp.reduce.async.bulk.tensor.4d.global.shared::cta.min.tile.bulk_group [{0}, {{5}, {4}, {3}, {2}}], [{6}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_5d_min", "mx-----r", "mtrrrrrs",
                    "cp.reduce.async.bulk.tensor.5d.global.shared::cta.min.tile.bulk_group [{0}, {{6}, {5}, {4}, {3}, {2}}], [{7}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_1d_max", "mx-r", "mtrs",
                    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.max.tile.bulk_group [{0}, {{2}}], [{3}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_2d_max", "mx--r", "mtrrs",
                    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group [{0}, {{3}, {2}}], [{4}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_3d_max", "mx---r", "mtrrrs",
                    "cp.reduce.async.bulk.tensor.3d.global.shared::cta.max.tile.bulk_group [{0}, {{4}, {3}, {2}}], [{5}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_4d_max", "mx----r", "mtrrrrs",
                    "cp.reduce.async.bulk.tensor.4d.global.shared::cta.max.tile.bulk_group [{0}, {{5}, {4}, {3}, {2}}], [{6}];"),
      tensor_reduce("cp_reduce_async_bulk_tensor_5d_max", "mx-----r", "mtrrrrrs",
                    "cp.reduce.async.bulk.tensor.5d.global.shared::cta.max.tile.bulk_group [{0}, {{6}, {5}, {4}, {3}, {2}}], [{7}];"),
      cluster_row("cp_async_bulk_cluster",    AsyncKind::bulk_push,     phase, async,   0,  "wr--x", "ssrrs",
                  "{ .reg .b32 to, word; mapa.shared::cluster.u32 to, {0}, {3}; mapa.shared::cluster.u32 word, {4}, {3}; "
                  "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [{1}], {2}, [word]; }"),
      cluster_row("cluster_store_1",          AsyncKind::remote_store,  none,  generic, 1,  "wr-",   "ssr",
                  "{ .reg .b32 to; .reg .b16 v; mapa.shared::cluster.u32 to, {0}, {2}; ld.shared.b8 v, [{1}]; "
                  "st.shared::cluster.b8 [to], v; }"),
      cluster_row("cluster_store_2",          AsyncKind::remote_store,  none,  generic, 2,  "wr-",   "ssr",
                  "{ .reg .b32 to; .reg .b16 v; mapa.shared::cluster.u32 to, {0}, {2}; ld.shared.b16 v, [{1}]; "
                  "st.shared::cluster.b16 [to], v; }"),
      cluster_row("cluster_store_4",          AsyncKind::remote_store,  none,  generic, 4,  "wr-",   "ssr",
                  "{ .reg .b32 to, v; mapa.shared::cluster.u32 to, {0}, {2}; ld.shared.b32 v, [{1}]; "
                  "st.shared::cluster.b32 [to], v; }"),
      cluster_row("cluster_store_8",          AsyncKind::remote_store,  none,  generic, 8,  "wr-",   "ssr",
                  "{ .reg .b32 to; .reg .b64 v; mapa.shared::cluster.u32 to, {0}, {2}; ld.shared.b64 v, [{1}]; "
                  "st.shared::cluster.b64 [to], v; }"),
      cluster_row("cluster_store_16",         AsyncKind::remote_store,  none,  generic, 16, "wr-",   "ssr",
                  "{ .reg .b32 to, v0, v1, v2, v3; mapa.shared::cluster.u32 to, {0}, {2}; "
                  "ld.shared.v4.b32 {v0, v1, v2, v3}, [{1}]; st.shared::cluster.v4.b32 [to], {v0, v1, v2, v3}; }"),
      cluster_row("mbarrier_arrive_remote",   AsyncKind::remote_arrive, phase, generic, 8,  "x-",    "sr",
                  "{ .reg .b32 word; mapa.shared::cluster.u32 word, {0}, {1}; "
                  "mbarrier.arrive.shared::cluster.b64 _, [word]; }"),
      cluster_row("mbarrier_arrive_remote_release", AsyncKind::remote_arrive, phase, generic, 8, "x-", "sr",
                  "{ .reg .b32 word; mapa.shared::cluster.u32 word, {0}, {1}; "
                  "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [word]; }"),
      cluster_row("cluster_arrive",           AsyncKind::cluster_arrive, none, generic, 0,  "",      "",
                  "barrier.cluster.arrive.release.aligned;"),
      cluster_row("cluster_arrive_relaxed",   AsyncKind::cluster_arrive, none, generic, 0,  "",      "",
                  "barrier.cluster.arrive.relaxed.aligned;"),
      cluster_row("cluster_wait",             AsyncKind::cluster_wait,  none,  generic, 0,  "",      "",
                  "barrier.cluster.wait.acquire.aligned;"),
      clock_row(90, "clock64", "mov.u64 state, %clock64;"),
      async_row(90, "elect_sync",                      AsyncKind::elect,          none,   generic, 0,   "",     "",
                "elect.sync _|p, 0xffffffff;"),
      async_row(90, "cp_async_bulk_commit_group",      AsyncKind::bulk_commit,    bulk,   generic, 0,   "",     "",
                "cp.async.bulk.commit_group;"),
      async_row(90, "cp_async_bulk_wait_group",        AsyncKind::bulk_wait,      bulk,   generic, 0,   "n",    "n",
                "cp.async.bulk.wait_group {0};"),
      async_row(90, "cp_async_bulk_wait_group_read",   AsyncKind::bulk_wait_read, bulk,   generic, 0,   "n",    "n",
                "cp.async.bulk.wait_group.read {0};"),
      gemm_row("wgmma_fence",        AsyncKind::gemm_fence,   none,  "",   "",   "wgmma.fence.sync.aligned;"),
      gemm_row("wgmma_commit_group", AsyncKind::gemm_commit,  gemms, "",   "",   "wgmma.commit_group.sync.aligned;"),
      gemm_row("wgmma_wait_group",   AsyncKind::gemm_wait,    gemms, "n",  "n",  "wgmma.wait_group.sync.aligned {0};"),
      gemm_row("wgmma_results",      AsyncKind::gemm_results, none,  "xn", "vn", ""),
      gemm_row("wgmma_results_behind_fence", AsyncKind::gemm_results, none, "xn", "vn", ""),
      gemm_row("wgmma_results_of_paths", AsyncKind::gemm_results, none, "xn", "vn", ""),
      gemm_row("setmaxnreg_inc", AsyncKind::more_registers, none, "n", "n", "setmaxnreg.inc.sync.aligned.u32 {0};"),
      gemm_row("setmaxnreg_dec", AsyncKind::fewer_registers, none, "n", "n", "setmaxnreg.dec.sync.aligned.u32 {0};"),
  };
  // clang-format on
  return until<AsyncInstr>(rows, chip);
}

}  // namespace tl
