// Reducers: arrays of which every thread has a part of the value, added to by the iterations of parallel
// loops. reducer_init gives the value to one thread's part, the neutral element to the others';
// finalize_reducer combines the parts, so that all threads have the whole.  With one thread, and in the
// reference, the part is the value.

#include "ops/reducer.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/reduce.h"

namespace tl {

extern const TileOp reducer_init_op, finalize_reducer_op;

namespace {

void check_reducer(const Tile& t, const Function& f) {
  const Region& r = region_of(t, 0);
  const BufferInfo& info = f[r.buffer];
  if (info.reducer.empty())
    fail(t.span, "{}: {} is not a reducer: make it by T.alloc_reducer", t.op->name, describe(f, r));
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!r.ranges[d].extent || as_int(r.ranges[d].extent) != as_int(info.shape[d]))
      fail(t.span, "{}: a part of {} is given; a reducer begins and ends as a whole", t.op->name, info.name);
  Fold fold = find_fold(info.reducer);
  if (fold >= Fold::any || info.reducer.starts_with("abs"))
    fail(t.span, "{}: {} has no operation `{}`", t.op->name, info.name, info.reducer);
  bool bits = fold >= Fold::bit_and && fold <= Fold::bit_xor;
  if (info.dtype.is_packed() || (info.dtype.is_float() && bits) || (info.dtype.is_bool() && !bits))
    fail(t.span, "{}: {} is a reducer of {}, which `{}` does not combine: use {}", t.op->name, info.name,
         to_string(info.dtype), info.reducer, info.dtype.is_float() && bits ? "integers" : "i32 or f32");
}

Reduce reduce_of(const Tile& t, const Function& f) {
  const BufferInfo& info = f[region_of(t, 0).buffer];
  return {.tile = t,
          .src = region_of(t, 0),
          .dst = region_of(t, 0),
          .fold = find_fold(info.reducer),
          .clear = true,
          .shape = region_shape(region_of(t, 0)),
          .keeps_dim = true,
          .acc = info.dtype};
}

void eval_init(const Tile& t, const Function& f, const EvalContext& ctx) {
  Array out = make_array(f[region_of(t, 0).buffer].dtype, region_shape(region_of(t, 0)));
  fill(out, ctx.value(std::get<Expr>(t.operands[1])));
  ctx.write(region_of(t, 0), out);
}

void eval_finalize(const Tile&, const Function&, const EvalContext&) {}  // one part: the value

LayoutDecisions infer_layout_reducer(const Tile&, const LayoutContext&, Strictness) { return {}; }

Stmt lower_init(const Tile& t, LowerContext& ctx) {
  Reduce r = reduce_of(t, ctx.function);
  Expr value = cast(r.acc, std::get<Expr>(t.operands[1]), t.span), i = var("r");
  bool counts_once =
      r.fold != Fold::max && r.fold != Fold::min && r.fold != Fold::bit_and && r.fold != Fold::bit_or;
  if (ctx.team.count > 1 && counts_once) value = select(eq(ctx.thread, imm(0)), value, identity(r), t.span);
  int64_t n = product(r.shape);
  return for_loop(i, n, n <= 64 ? Loop::unrolled : Loop::serial, store(r.dst.buffer, {i}, value, t.span),
                  t.span);
}

Stmt lower_finalize(const Tile& t, LowerContext& ctx) {
  Reduce r = reduce_of(t, ctx.function);
  if (ctx.team.count == 1) return block({}, t.span);
  return reduce_parts(r, ctx, product(r.shape));
}

// ── what a store contributes ──────────────────────────────────────────────────────────────────────────
bool mentions(const Expr& e, BufferId b) {
  return contains(e, [&](const Load& l) { return l.buffer == b; });
}

bool joins(Fold fold, BinaryOp op, bool on_the_left) {
  switch (fold) {
    case Fold::sum:
      return op == BinaryOp::add || (op == BinaryOp::sub && on_the_left);
    case Fold::max:
      return op == BinaryOp::max;
    case Fold::min:
      return op == BinaryOp::min;
    case Fold::prod:
      return op == BinaryOp::mul;
    case Fold::bit_and:
      return op == BinaryOp::bit_and;
    case Fold::bit_or:
      return op == BinaryOp::bit_or;
    case Fold::bit_xor:
      return op == BinaryOp::bit_xor;
    default:
      return false;
  }
}

// A type of the element's kind that holds all of its values.
bool holds(DType type, DType element) {
  if (type == element) return true;
  bool kind = (type.is_float() && element.is_float()) || (type.is_int() && element.is_int());
  return kind && !type.is_storage() && type.bits >= element.bits;
}

// The way from the value that is stored down to the element's own; what joins it on the way goes to `given`.
bool gather(const Function& f, const Store& s, const Expr& e, std::vector<Expr>& given) {
  if (auto* l = e.as<Load>()) {
    if (l->buffer != s.buffer || l->mask) return false;
    for (size_t d = 0; d < l->index.size(); d++)
      if (!equal(l->index[d], s.index[d])) return false;
    return true;
  }
  if (auto* c = e.as<Cast>()) return holds(c->dtype, f[s.buffer].dtype) && gather(f, s, c->a, given);
  if (auto* c = e.as<Select>()) {
    given.push_back(c->cond);
    return gather(f, s, c->a, given) && gather(f, s, c->b, given);
  }
  auto* b = e.as<Binary>();
  bool left = b && mentions(b->a, s.buffer);
  if (!b || !joins(find_fold(f[s.buffer].reducer), b->op, left)) return false;
  given.push_back(left ? b->b : b->a);
  return gather(f, s, left ? b->a : b->b, given);
}

// ── wider parts ───────────────────────────────────────────────────────────────────────────────────────
DType part_type(DType element) {
  if (element.is_storage()) return arithmetic_type(element);
  return element.is_float() && element.bits < 32 ? f32 : element;
}

DType wider_of(DType a, DType b) { return b.bits > a.bits && !b.is_storage() ? b : a; }

// The stored value, computed from the part and nowhere rounded to less than its type.
Expr on_part(const Store& s, const Expr& e, BufferId part, DType type) {
  if (auto* l = e.as<Load>()) return load(type, part, l->index, e->span);
  if (auto* c = e.as<Cast>()) {
    Expr inner = on_part(s, c->a, part, type);
    return cast(wider_of(inner->dtype, c->dtype), inner, e->span);
  }
  if (auto* c = e.as<Select>()) {
    Expr a = on_part(s, c->a, part, type), b = on_part(s, c->b, part, type);
    DType both = wider_of(a->dtype, b->dtype);
    return select(c->cond, cast(both, a), cast(both, b), e->span);
  }
  auto& n = *e.as<Binary>();
  bool left = mentions(n.a, s.buffer);
  Expr own = on_part(s, left ? n.a : n.b, part, type), other = left ? n.b : n.a;
  DType common = wider_of(own->dtype, other->dtype);
  own = cast(common, own, e->span);
  other = cast(common, other, e->span);
  return left ? binary(n.op, own, other, e->span) : binary(n.op, other, own, e->span);
}

// Each thread rounds what it has got.
Stmt rounded_to(const Function& f, BufferId to, BufferId part, Span span) {
  std::vector<Expr> index;
  for (size_t d = 0; d < f[to].shape.size(); d++) index.push_back(var(loop_name(d)));
  Stmt s = store(to, index, cast(f[to].dtype, load(f, part, index, span), span), span);
  for (size_t d = index.size(); d-- > 0;)
    s = for_loop(index[d], imm(0), f[to].shape[d], Loop::serial, s, span);
  return s;
}

}  // namespace

std::optional<std::vector<Expr>> contributed(const Function& f, const Store& s) {
  std::vector<Expr> given;
  if (!gather(f, s, s.value, given)) return std::nullopt;
  return given;
}

Function widen_reducers(Function f) {
  std::map<BufferId, BufferId> parts;
  for (size_t i = 0, n = f.buffers.size(); i < n; i++) {
    BufferInfo info = f.buffers[i];
    if (info.reducer.empty() || part_type(info.dtype) == info.dtype) continue;
    info.dtype = part_type(info.dtype);
    info.name += "_parts";
    parts.emplace(BufferId{int(i)}, f.add(std::move(info)));
  }
  if (parts.empty()) return f;
  auto part_of = [&](const Tile& t) {
    auto* r = std::get_if<Region>(&t.operands[0]);
    auto it = r && !t.body ? parts.find(r->buffer) : parts.end();
    return it == parts.end() ? BufferId{} : it->second;
  };
  for (Kernel& k : f.kernels)
    k.body = rewrite(
        k.body,
        [&](const Block& n, Rewriter& self) -> Stmt {
          std::vector<Stmt> stmts;
          for (auto& s : n.stmts) {
            stmts.push_back(self(s));
            if (auto* a = s.as<Alloc>(); a && parts.contains(a->buffer))
              stmts.push_back(alloc(parts.at(a->buffer), s->span, a->attrs));
          }
          return block(std::move(stmts), n.span);
        },
        [&](const Tile& n, Rewriter& self) -> Stmt {
          BufferId part = part_of(n);
          bool opens = n.op == &reducer_init_op.info, ends = n.op == &finalize_reducer_op.info;
          if (!part || (!opens && !ends)) return self.children(n);
          std::vector<Operand> operands = {whole(f, part)};
          if (opens) operands.push_back(cast(f[part].dtype, std::get<Expr>(n.operands[1]), n.span));
          Stmt s = tile(*n.op, std::move(operands), n.attrs, n.span);
          return opens ? s : block({s, rounded_to(f, region_of(n, 0).buffer, part, n.span)}, n.span);
        },
        [&](const Store& n, Rewriter& self) -> Stmt {
          auto it = parts.find(n.buffer);
          if (it == parts.end()) return self.children(n);
          DType type = f[it->second].dtype;
          return store(it->second, n.index, cast(type, on_part(n, n.value, it->second, type), n.span), n.span,
                       n.mask);
        });
  return f;
}

const TileOp reducer_init_op = {
    .info = {.name = "reducer_init",
             .doc = "A reducer has this value, to which parallel loops may contribute.",
             .operands = {{"reducer", Access::write}, {"value", Access::value}}},
    .check = check_reducer,
    .eval = eval_init,
    .infer_layout = infer_layout_reducer,
    .lower = lower_init,
};
const TileOp finalize_reducer_op = {
    .info = {.name = "finalize_reducer",
             .doc = "All contributions to a reducer are combined; afterwards every thread has its value.",
             .operands = {{"reducer", Access::update}},
             .attrs = {{"batch", OpInfo::Attr::Type::integer}}},
    .check = check_reducer,
    .eval = eval_finalize,
    .infer_layout = infer_layout_reducer,
    .lower = lower_finalize,
};

}  // namespace tl
