// The checks of `verify` for each kind of expression: the types of its operands, and what its call takes.
#include "ir/build.h"
#include "ir/lookup.h"
#include "ir/names.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ir/verify_scope.h"

namespace tl {
namespace {

// A jump leaves or continues the innermost loop, whose iterations must follow one another.
void check_control(const VerifyScope& s, const Call& n) {
  if (&n != s.statement) s.bad("{} is a statement, not a value", n.intrinsic->name);
  auto parallel = [](Loop l) { return l == Loop::parallel || l == Loop::vectorized; };
  if (n.intrinsic == &thread_return) {
    bool inside = std::ranges::any_of(s.loops, parallel);
    s.require(!inside, "thread_return in a parallel loop, whose iterations share a thread");
    return;
  }
  if (s.loops.empty()) s.bad("{} outside of a loop", n.intrinsic->name);
  if (parallel(s.loops.back()) || s.loops.back() == Loop::pipelined)
    s.bad("{} in a {} loop, whose iterations do not follow one another", n.intrinsic->name,
          to_string(s.loops.back()));
}

void check_memory_call(const VerifyScope& s, const Call& n) {
  auto* at = place_of(n.args[0]);
  if (!at) s.bad("{} takes the address of an element first", n.intrinsic->name);
  if (n.intrinsic == &load_wide || n.intrinsic == &store_wide) {
    DType t = n.intrinsic == &load_wide ? n.dtype : n.args[1]->dtype;
    if (t.scalar() != u32) s.bad("{} moves u32, not {}", n.intrinsic->name, to_string(t));
    return;
  }
  auto* order = n.args.back().as<StringImm>();
  auto names = memory_orders();
  if (!order || std::ranges::find(names, order->value) == names.end())
    s.bad("the last argument of {} is a memory order: relaxed, acquire, release, acq_rel or seq_cst",
          n.intrinsic->name);
  bool has_value = n.args.size() == 3;
  if (has_value && n.args[1]->dtype != at->dtype)
    s.bad("{} of a value of type {} at an element of type {}", n.intrinsic->name, to_string(n.args[1]->dtype),
          to_string(at->dtype));
  if (n.dtype != at->dtype && (n.dtype != none_type || n.intrinsic->atomic == Intrinsic::Atomic::load))
    s.bad("{} gives what the element holds, {}, not {}", n.intrinsic->name, to_string(at->dtype),
          to_string(n.dtype));
}
// (…, "map", the tensor, a coordinate for each dimension, …)
void check_map_call(const VerifyScope& s, const Call& n, size_t at) {
  auto* name = n.args[at].as<StringImm>();
  auto* map = name ? find_tensor_map(s.f, name->value) : nullptr;
  if (!map)
    s.bad("argument {} of {} is the name of a tensor map{}", at + 1, n.intrinsic->name,
          name ? ", and there is no " + name->value : "");
  auto* tensor = place_of(n.args[at + 1]);
  if (!tensor || tensor->buffer != map->tensor)
    s.bad("argument {} of {} is the tensor of the map {}, &{}[…]", at + 2, n.intrinsic->name, map->name,
          s.f[map->tensor].name);
  bool has_mask = n.intrinsic->name.ends_with("_multicast");  // of blocks, behind the coordinates
  auto coordinates = std::ranges::count(n.intrinsic->access, '-') - has_mask;
  if (size_t(coordinates) != map->box.size())
    s.bad("{} takes {} coordinates, but the map {} has {} dimensions", n.intrinsic->name, coordinates,
          map->name, map->box.size());
}

void check_foreign_call(const VerifyScope& s, const Call& n) {
  size_t texts = n.intrinsic == &inline_ptx ? 3 : 2;
  bool ok = n.args.size() >= texts && n.args[0].as<StringImm>() && n.args[1].as<StringImm>();
  if (n.intrinsic == &inline_ptx && ok) {
    auto outputs = as_int(n.args[2]);
    ok = outputs && *outputs >= 0 && size_t(*outputs) + 3 <= n.args.size();
    for (size_t i = 0; ok && i < size_t(*outputs); i++) ok = place_of(n.args[3 + i]) != nullptr;
  }
  if (!ok)
    s.bad("{} takes a text and a key first{}", n.intrinsic->name,
          texts == 3 ? ", then how many places it writes" : "");
  for (auto& a : n.args)
    if (is_by_value(a) && (n.intrinsic == &inline_ptx || as_int(count_of(a)).value_or(0) < 1))
      s.bad("a vector is an argument of call_extern, with a constant number of elements");
}

struct ExprChecker {
  VerifyScope& s;

  void node(const IntImm& n) {
    s.require(n.dtype.lanes == 1 && (n.dtype.is_int() || n.dtype.is_bool()),
              "an integer constant of another type");
    if (wrap_int(n.value, n.dtype) != n.value) s.bad("{} does not fit into {}", n.value, to_string(n.dtype));
  }
  void node(const FloatImm& n) {
    s.require(n.dtype.lanes == 1 && n.dtype.is_float(), "a float constant of another type");
  }
  void node(const StringImm& n) { s.require(n.dtype == handle, "a text of another type than handle"); }
  void node(const Var& n) {
    if (!s.visible.contains(&n)) s.bad("the variable {} is used where it is not defined", n.hint);
  }
  void node(const Unary& n) {
    verify_value(s, n.a);
    DType t = n.a->dtype;
    bool ok = n.op == UnaryOp::logical_not ? t.is_bool()
              : n.op == UnaryOp::bit_not   ? t.is_int()
                                           : t.is_int() || t.is_float();
    s.require(ok && n.dtype == t, "a unary operator on a type it does not take");
  }
  void node(const Binary& n) {
    verify_value(s, n.a);
    verify_value(s, n.b);
    DType t = n.a->dtype;
    if (t != n.b->dtype)
      s.bad("`{}` has operands of two types, {} and {}", symbol(n.op), to_string(t), to_string(n.b->dtype));
    DType result = is_comparison(n.op) || is_logical(n.op) ? boolean.with_lanes(t.lanes) : t;
    if (n.dtype != result)
      s.bad("`{}` gives {}, not {}", symbol(n.op), to_string(result), to_string(n.dtype));
    if (t.is_storage()) s.bad("`{}` on {}, which is not a type of arithmetic", symbol(n.op), to_string(t));
    if (is_logical(n.op) && !t.is_bool())
      s.bad("`{}` takes bool operands, not {}", symbol(n.op), to_string(t));
  }
  void node(const Cast& n) {
    bool is_number = n.a->dtype.is_handle() && n.dtype == u64;  // of an address
    is_number ? verify_expr(s, n.a) : verify_value(s, n.a);
    s.require(n.dtype.lanes == n.a->dtype.lanes, "a cast keeps the number of lanes");
    s.require(!n.dtype.is_handle() && n.dtype != none_type, "a cast to a type that is no value");
  }
  void node(const Select& n) {
    verify_boolean(s, n.cond, n.dtype.lanes, "the condition of a select");
    verify_value(s, n.a);
    verify_value(s, n.b);
    s.require(n.a->dtype == n.dtype && n.b->dtype == n.dtype, "the two values of a select have two types");
  }
  void node(const Load& n) {
    int lanes = verify_access(s, n.buffer, n.index);
    DType element = s.info(n.buffer).dtype;
    DType type = lanes > 1 ? element.with_lanes(lanes) : element;
    if (n.dtype != type)
      s.bad("an element of {} is {}, not {}", s.f[n.buffer].name, to_string(type), to_string(n.dtype));
    if (n.mask) verify_boolean(s, n.mask, type.lanes, "the mask");
  }
  void node(const Ramp& n) {
    verify_integer(s, n.base, "the base of a ramp");
    verify_integer(s, n.stride, "the stride of a ramp");
    s.require(n.dtype.lanes > 1 && n.base->dtype == n.dtype.scalar() && n.stride->dtype == n.dtype.scalar(),
              "a ramp of another type than its base and stride");
  }
  void node(const Broadcast& n) {
    verify_value(s, n.value);
    s.require(n.dtype.lanes > 1 && n.value->dtype == n.dtype.scalar(),
              "a broadcast of another type than its value");
  }
  void node(const Call& n) {
    s.require(n.intrinsic != nullptr, "a call of nothing");
    if (n.intrinsic->arity >= 0 && size_t(n.intrinsic->arity) != n.args.size())
      s.bad("{} takes {} arguments, not {}", n.intrinsic->name, n.intrinsic->arity, n.args.size());
    for (size_t i = 0; i < n.args.size(); i++) {
      verify_expr(s, n.args[i]);
      if (n.args[i]->dtype == none_type) s.bad("an argument of {} has no value", n.intrinsic->name);
      if (takes_constant(*n.intrinsic, i) && as_int(n.args[i]).value_or(-1) < 0)
        s.bad("argument {} of {} is part of the instruction: it must be a constant, at least 0", i + 1,
              n.intrinsic->name);
    }
    if (n.intrinsic->effect == Intrinsic::Effect::control) check_control(s, n);
    if (n.intrinsic == &address_of) {
      s.require(!n.args.empty() && n.args.size() <= 3 && n.args[0].as<Load>(),
                "address_of takes an element of a buffer");
      s.require(n.args.size() == 1 || n.args[1].as<StringImm>(), "the access of an address is a text");
      s.require(n.args.size() < 3 || (n.args[2]->dtype.is_int() && n.args[2]->dtype.lanes == 1),
                "the elements of an address are counted by an integer");
    }
    if (n.intrinsic == &lookup) {
      verify_integer(s, n.args[0], "the index of a lookup");
      s.require(!values_of(n).empty(), "the values of a lookup are a text of integers, a space between two");
    }
    if (obeys_mask(*n.intrinsic)) check_memory_call(s, n);
    if (size_t at = n.intrinsic->access.find('m'); at != std::string_view::npos) check_map_call(s, n, at);
    if (is_foreign(*n.intrinsic)) check_foreign_call(s, n);
  }
};

}  // namespace

void verify_value(VerifyScope& s, const Expr& e) {
  verify_expr(s, e);
  if (e->dtype.is_handle() || e->dtype == none_type)
    s.bad("a value is expected, not {}", to_string(e->dtype));
}
void verify_integer(VerifyScope& s, const Expr& e, std::string_view what) {
  verify_expr(s, e);
  VerifyScope::Here here(s, e->span);
  if (!e->dtype.is_int() || e->dtype.lanes > 1) s.bad("{} is {}, not an integer", what, to_string(e->dtype));
}
void verify_boolean(VerifyScope& s, const Expr& e, int lanes, std::string_view what) {
  verify_expr(s, e);
  VerifyScope::Here here(s, e->span);
  if (!e->dtype.is_bool()) s.bad("{} is {}, not bool", what, to_string(e->dtype));
  if (e->dtype.lanes != 1 && e->dtype.lanes != lanes)
    s.bad("{} has {} lanes where 1 or {} are expected", what, int(e->dtype.lanes), lanes);
}
void verify_expr(VerifyScope& s, const Expr& e) {
  s.require(bool(e), "an expression is missing");
  VerifyScope::Here here(s, e->span);
  s.legal(e->kind);
  dispatch(e, [&](const auto& n) { ExprChecker{s}.node(n); });
}
void verify_width(const VerifyScope& s, const Expr& index, const std::string& buffer) {
  if (s.level == Level::tile && index->dtype != i64)
    s.bad(
        "an index of {} is {}, but what it is added to at level tile is i64: write cast<i64>({}), or let its "
        "loop run over i64",
        buffer, to_string(index->dtype), print(index, &s.f));
}
int verify_access(VerifyScope& s, BufferId id, const std::vector<Expr>& index) {
  s.touch(id);
  const BufferInfo& b = s.f[id];
  int lanes = 1;
  for (auto& i : index) {
    verify_expr(s, i);
    if (i->dtype.is_int() && index.size() > 1) verify_width(s, i, b.name);
    VerifyScope::Here here(s, i->span);
    if (!i->dtype.is_int()) s.bad("an index is {}, not an integer", to_string(i->dtype));
    if (i->dtype.lanes > 1) lanes = i->dtype.lanes;
  }
  const RankRow& row = rank_rows[size_t(s.level)];
  Rank rank = b.scope == Scope::global ? row.global : row.tile;
  bool logical = index.size() == b.shape.size(), physical = index.size() == 1;
  bool ok = (rank != Rank::physical && logical) || (rank != Rank::logical && physical);
  if (!ok)
    s.bad("{} has {} dimensions; at level {} an access takes {}, not {} indices", b.name, b.shape.size(),
          to_string(s.level), rank == Rank::logical ? "one index per dimension" : "one index in elements",
          index.size());
  return lanes;
}

}  // namespace tl
