//   copy(Cl, C[i, j])   ->   for p in unrolled(4):
//                              cp_async_bulk_wait_group_read(1)
//                              copy(Cl[0 : +128, p*64 : +64], stage[p % 2])
//                              tma_store(stage[p % 2], C[i, j + p*64])
#include "pass/store_parts.h"

#include "arith/simplify.h"
#include "ir/rewrite.h"
#include "ops/regions.h"
#include "ops/tma_boxes.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace {

// How often the kernel's statements touch the tensor.
int64_t accesses_of(const Function& f, const Kernel& k, BufferId tensor) {
  int64_t count = 0;
  visit_effects(k.body,
                [&](const Stmt&, const Effect& e) { count += f.storage(e.buffer) == f.storage(tensor); });
  return count;
}

Stmt store_of(const Function& f, const Kernel& k, const Target& target, const StoreParts& plan,
              const Expr& part, std::string& why_not) {
  auto& t = *plan.copy.as<Tile>();
  Region to = region_of(t, 1);
  std::vector<int64_t> shape = region_shape(whole(f, plan.stage));
  Region from{plan.stage,
              {{.min = floormod(part, plan.slots), .extent = imm(1), .point = true},
               {.min = imm(0), .extent = imm(shape[1])},
               {.min = imm(0), .extent = imm(plan.width)}}};
  Range& columns = to.ranges.back();
  columns.min = columns.min + part * plan.width;
  columns.extent = imm(plan.width);
  return tma_copy_of(f, k, target, {from, to}, t.span, why_not);
}

static_assert(Team::group == WarpgroupInstr::threads);
// Each warpgroup stores the rows that it has written, whether the others have come so far or not.
Stmt store_in_groups(const Stmt& stored, int64_t threads) {
  auto& t = *stored.as<Tile>();
  Attrs attrs = t.attrs;
  if (threads > Team::group) attrs.entries["in_groups"] = int64_t(1);
  return tile(*t.op, t.operands, std::move(attrs), t.span, t.body);
}

}  // namespace

std::optional<StoreParts> plan_parts(Function& f, const Kernel& k, const Target& target, const Stmt& copy,
                                     int64_t free_bytes, bool once) {
  auto* t = copy.as<Tile>();
  if (!t || t->op->name != "copy" || !t->attrs.entries.empty()) return std::nullopt;
  const Region &from = region_of(*t, 0), &to = region_of(*t, 1);
  const BufferInfo tensor = f[to.buffer], sums = f[from.buffer];
  if (sums.scope != Scope::fragment || tensor.scope != Scope::global || !is_whole(from, f))
    return std::nullopt;
  if (sums.shape.size() != 2 || accesses_of(f, k, to.buffer) > 1 || may_alias(k, to.buffer))
    return std::nullopt;
  // Each warpgroup has rows of its own, so that it has a share of each part.
  std::vector<int64_t> shape = region_shape(from);
  if (shape[0] % (WarpgroupInstr::m * (thread_count(k) / WarpgroupInstr::threads))) return std::nullopt;
  Moving moves = moving(*t, f, to);
  if (moves.size() != 2 || moves.back().first + 1 != to.ranges.size()) return std::nullopt;
  auto with_stage = [&](int64_t width, int64_t slots) -> std::optional<StoreParts> {
    if (slots * shape[0] * width * tensor.dtype.bits / 8 > free_bytes) return std::nullopt;
    BufferId stage = f.add({.name = tensor.name + "_part",
                            .dtype = tensor.dtype,
                            .shape = {imm(slots), imm(shape[0]), imm(width)},
                            .scope = Scope::shared,
                            .span = t->span});
    StoreParts plan{copy, stage, width, shape[1] / width, slots};
    std::string why_not;
    store_of(f, k, target, plan, imm(0), why_not);
    if (why_not.empty()) return plan;
    f.buffers.pop_back();
    return std::nullopt;
  };
  constexpr int64_t least_panel =
      64;  // bytes of a row: shorter ones meet in banks, and TMA moves them slowly
  if (once && shape[1] * tensor.dtype.bits / 8 % least_panel == 0)
    if (auto plan = with_stage(shape[1], 1)) return plan;
  for (int64_t row_bytes : {128, 64}) {
    int64_t width = row_bytes * 8 / tensor.dtype.bits;
    if (shape[1] % (2 * width)) continue;  // an even number, for two tiles in turn
    if (auto plan = with_stage(width, 2)) return plan;
  }
  return std::nullopt;
}

Stmt store_in_parts(Function& f, const Kernel& k, const Target& target, const StoreParts& plan) {
  auto& t = *plan.copy.as<Tile>();
  Expr part = var("p");
  std::string why_not;
  Stmt stored = store_of(f, k, target, plan, part, why_not);
  const Region& to_stage = region_of(*stored.as<Tile>(), 0);
  Region from = region_of(t, 0);
  from.ranges[1] = {.min = part * plan.width, .extent = imm(plan.width)};
  std::vector<Stmt> body{make_tile(f, row_of(t), {from, to_stage}, {}, t.span),
                         store_in_groups(stored, thread_count(k))};
  if (plan.parts == 1) return substitute(block(std::move(body), t.span), {{part.as<Var>(), imm(0)}});
  auto wait = [&](const char* row, int64_t left) {
    return eval(call(*find_instr(row), {imm(left, i32)}, t.span), t.span);
  };
  bool fresh = plan.again && plan.parts <= plan.slots;  // each part finds a slot that has been waited for
  if (!fresh) body.insert(body.begin(), wait("cp_async_bulk_wait_group_read", 1));  // all but the last one
  Stmt all = for_loop(part, imm(0), imm(plan.parts), Loop::unrolled, block(std::move(body), t.span), t.span);
  return plan.again ? block({wait("cp_async_bulk_wait_group", 0), all}, t.span) : all;
}

}  // namespace tl
