#include "pass/bulk_updates.h"

#include <numeric>
#include <set>

#include "arith/prove.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/tma_boxes.h"
#include "pass/own_work.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

struct BulkUpdates {
  Function& f;
  const Kernel& k;
  const Target& target;
  Facts facts;
  Varying varying{.f = f};
  std::set<BufferId> used_otherwise = {};  // than by atomic updates

  // What only a call could tell must be known here: the other way is open.
  void check_tensor(const Tile& t, const Region& to) const {
    const BufferInfo& tensor = f[to.buffer];
    constexpr int64_t row_unit = 16;  // bytes
    int64_t unit = row_unit / std::gcd(row_unit, tensor.dtype.bytes());
    std::vector<Expr> strides = strides_of(f, TensorMap{.name = tensor.name, .tensor = to.buffer});
    for (size_t d = 0; d + 1 < strides.size(); d++)
      if (!is_multiple(strides[d], unit, facts))
        fail(t.span,
             "the stride {} of dimension {} of {} is not known to be a multiple of {} elements (16 bytes)",
             print(strides[d], &f), d, tensor.name, unit);
    if (!is_multiple(to.ranges.back().min, unit, facts))
      fail(t.span,
           "the tile begins at {} of the last dimension of {}, not known to be a multiple of {} elements",
           print(to.ranges.back().min, &f), tensor.name, unit);
  }

  // Throws what the accelerator cannot do.
  Stmt by_accelerator(const Tile& t) {
    const Region &to = region_of(t, 0), &value = region_of(t, 1);
    const BufferInfo tensor = f[to.buffer], from = f[value.buffer];
    std::string op(t.op->name.substr(7, 3));  // of atomic_add_tile
    const Intrinsic* row = find_instr(fmt::format("cp_reduce_async_bulk_tensor_1d_{}", op));
    if (target.lacks(*row)) fail(t.span, "{} has no tensor memory accelerator", said(target));
    if (t.attrs.find("memory_order")) fail(t.span, "it has no memory order");
    if (is_own_work(Stmt(&t), f, varying))
      fail(t.span,
           "the number of a thread names the place, and the accelerator's work is begun by one for all");
    if (used_otherwise.contains(f.storage(to.buffer)))
      fail(t.span, "the kernel uses {} elsewhere, and nothing would wait for the accelerator there",
           tensor.name);
    check_tensor(t, to);
    std::vector<Stmt> stmts;
    Region source = value;
    if (from.scope != Scope::shared || from.dtype != tensor.dtype || from.layout) {
      BufferInfo info{
          .name = from.name + "_staged", .dtype = tensor.dtype, .scope = Scope::shared, .span = t.span};
      for (int64_t e : region_shape(value)) info.shape.push_back(imm(e));
      BufferId staged = f.add(std::move(info));
      source = whole(f, staged);
      stmts.push_back(alloc(staged, t.span));
      stmts.push_back(make_tile(f, *find_op("copy"), {value, source}, {}, t.span));
    }
    std::string why_not;
    tma_copy_of(f, k, target, {source, to}, t.span, why_not);
    if (!why_not.empty() && region_shape(source) != region_shape(whole(f, source.buffer)))
      fail(t.span, "{}", why_not);
    Attrs attrs;
    attrs.entries["reduce"] = op;
    stmts.push_back(make_tile(f, *find_op("tma_store"), {source, to}, std::move(attrs), t.span));
    const Intrinsic& wait = *find_instr("cp_async_bulk_wait_group_read");
    stmts.push_back(eval(call(wait, {imm(0, i32)}, t.span), t.span));
    return block(std::move(stmts), t.span);
  }

  Stmt tile(const Tile& t) {
    Attrs plain = t.attrs;
    plain.entries.erase("use_tma");
    size_t buffers = f.buffers.size();
    try {
      return by_accelerator(t);
    } catch (const CompileError& e) {
      f.buffers.resize(buffers);
      f.notes.push_back({"canonicalize", std::string(t.op->said()),
                         fmt::format("use_tma: it is done element by element: {}", e.text), t.span, true});
    }
    return make_tile(f, row_of(t), t.operands, std::move(plain), t.span);
  }
};

}  // namespace

Stmt with_bulk_updates(Function& f, const Kernel& k, const Target& target) {
  if (!contains(k.body, [](const Tile& t) { return t.attrs.get_int("use_tma") != 0; })) return k.body;
  BulkUpdates updates{f, k, target, facts_of(f, k)};
  updates.varying.find(k.body);
  visit_effects(k.body, [&](const Stmt& s, const Effect& e) {
    auto* tile = s.as<Tile>();
    bool adds = e.is_atomic || (tile && tile->op->name.starts_with("atomic_"));
    if (!adds && (e.reads() || e.writes())) updates.used_otherwise.insert(f.storage(e.buffer));
  });
  return rewrite(k.body, [&](const Tile& t, Rewriter& self) -> Stmt {
    return t.attrs.get_int("use_tma") ? updates.tile(t) : self.children(t);
  });
}

}  // namespace tl
