#include "pass/bulk_updates.h"

#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/tma_boxes.h"
#include "pass/own_work.h"
#include "pass/walk.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

struct BulkUpdates : ScopedRewriter {
  Function& f;
  const Kernel& k;
  const Target& target;
  Varying varying{.f = f};
  // Atomic updates that tell nothing, by kinds; none: any other use.  By storage.
  std::map<BufferId, std::set<Intrinsic::Atomic>> uses = {};

  BulkUpdates(Function& f, const Kernel& k, const Target& target) : f(f), k(k), target(target) {
    facts = facts_of(f, k);
  }

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
    if (uses.at(f.storage(to.buffer)).size() > 1)
      fail(t.span,
           "the kernel uses {} elsewhere by more than {}, and nothing would wait for the accelerator there",
           tensor.name, t.op->said());
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

  Stmt update(const Tile& t) {
    Attrs attrs = t.attrs;
    attrs.entries.erase("use_tma");
    Stmt plain = make_tile(f, row_of(t), t.operands, std::move(attrs), t.span);
    size_t buffers = f.buffers.size();
    try {
      Stmt by_boxes = by_accelerator(t);
      Expr inside = begins_inside(region_of(t, 0), facts);
      if (!inside) return by_boxes;
      std::string text = fmt::format(
          "use_tma: where {}; else element by element, as the tensor memory "
          "accelerator stores no box that begins below 0",
          print(inside, &f));
      f.notes.push_back({"canonicalize", std::string(t.op->said()), std::move(text), t.span});
      return where_inside(inside, by_boxes, plain);
    } catch (const CompileError& e) {
      f.buffers.resize(buffers);
      f.notes.push_back({"canonicalize", std::string(t.op->said()),
                         fmt::format("use_tma: it is done element by element: {}", e.text), t.span, true});
    }
    return plain;
  }

  Stmt at(const Stmt& s) override {
    auto* t = s.as<Tile>();
    return t && t->attrs.get_int("use_tma") ? update(*t) : children(s);
  }
};

}  // namespace

Stmt with_bulk_updates(Function& f, const Kernel& k, const Target& target) {
  if (!contains(k.body, [](const Tile& t) { return t.attrs.get_int("use_tma") != 0; })) return k.body;
  BulkUpdates updates(f, k, target);
  updates.varying.find(k.body);
  visit_effects(k.body, [&](const Stmt&, const Effect& e) {
    if (e.reads() || e.writes())
      updates.uses[f.storage(e.buffer)].insert(e.is_told ? Intrinsic::Atomic::none : e.update);
  });
  return updates(k.body);
}

}  // namespace tl
