// Tile operators, scalar calls and regions: operands and attributes are brought into the form of the
// operator's row.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "api/builder.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (auto* op : all_ops()) names.push_back(op->info.name);
  return names;
}

std::string_view type_name(OpInfo::Attr::Type type) {
  switch (type) {
    case OpInfo::Attr::Type::flag:
      return "true or false";
    case OpInfo::Attr::Type::condition:
      return "true, false or a condition";
    case OpInfo::Attr::Type::integer:
      return "an integer";
    case OpInfo::Attr::Type::index:
      return "an integer, of the kernel or not";
    case OpInfo::Attr::Type::number:
      return "a number";
    case OpInfo::Attr::Type::choice:
      return "a word";
    case OpInfo::Attr::Type::map:
      return "a layout";
    case OpInfo::Attr::Type::function:
      return "a function of values";
  }
  return "?";
}

bool is_zero(const TileOperand& operand) {
  auto* v = std::get_if<Value>(&operand);
  if (!v) return false;
  if (auto* d = std::get_if<double>(v)) return *d == 0 && !std::signbit(*d);
  if (auto* n = std::get_if<int64_t>(v)) return *n == 0;
  auto* e = std::get_if<Expr>(v);
  return e && is_int(*e, 0);
}

bool is_never(const AttrValue& condition) {
  auto* n = std::get_if<int64_t>(&condition);
  return n && *n == 0;
}

bool has_type(AttrValue& value, OpInfo::Attr::Type type) {
  auto* n = std::get_if<int64_t>(&value);
  switch (type) {
    case OpInfo::Attr::Type::flag:
      return n && (*n == 0 || *n == 1);
    case OpInfo::Attr::Type::condition:
      return std::holds_alternative<Expr>(value) || (n && (*n == 0 || *n == 1));
    case OpInfo::Attr::Type::index:
      return n || (std::holds_alternative<Expr>(value) && std::get<Expr>(value)->dtype.is_int());
    case OpInfo::Attr::Type::integer:
      return n;
    case OpInfo::Attr::Type::number:
      if (n) value = double(*n);
      return std::holds_alternative<double>(value);
    case OpInfo::Attr::Type::choice:
      return std::holds_alternative<std::string>(value);
    case OpInfo::Attr::Type::map:
    case OpInfo::Attr::Type::function:
      return std::holds_alternative<IndexMap>(value) &&
             std::get<IndexMap>(value).extents.empty() == (type == OpInfo::Attr::Type::function);
  }
  return false;
}

}  // namespace

namespace {
// (i + 1) * n - i * n is n, also where the two ends have got names: these are looked through, a step at a
// time.
Expr constant_if_it_is(const Expr& extent, const VarMap& lets) {
  constexpr int steps = 8;
  Expr found = simplify(extent), e = found;
  for (int i = 0; i < steps && !is_const(e); i++) {
    Expr next = simplify(substitute(e, lets));
    if (equal(next, e)) break;
    e = std::move(next);
  }
  return is_const(e) ? e : found;
}
}  // namespace

BufferRegion make_region(const Buffer& buffer, const std::vector<Value>& starts,
                         const std::vector<std::optional<Value>>& extents, const std::vector<bool>& points) {
  const Span& here = buffer.draft->here;
  auto& info = buffer.info();
  if (starts.size() != extents.size() || starts.size() != points.size())
    fail(here, "a region of {} has {} starts, {} extents and {} point marks", info.name, starts.size(),
         extents.size(), points.size());
  if (starts.size() > info.shape.size())
    fail(here, "{} has {} dimension{}, but {} indices were given", describe(buffer), info.shape.size(),
         info.shape.size() == 1 ? "" : "s", starts.size());
  BufferRegion region{.buffer = buffer};
  for (size_t d = 0; d < starts.size(); d++) {
    Range range{.min = to_index(starts[d], "an index of " + info.name, here), .point = points[d]};
    if (points[d])
      range.extent = imm(1);
    else if (extents[d])
      range.extent = constant_if_it_is(to_index(*extents[d], "the extent of a slice of " + info.name, here),
                                       buffer.draft->lets);
    region.ranges.push_back(std::move(range));
  }
  return region;
}

Expr Builder::call(std::string_view name, const std::vector<Value>& args, std::optional<DType> type) {
  Expr e = apply_call(name, args, type, here());
  auto* c = e.as<Call>();
  if (!c || c->intrinsic->effect == Intrinsic::Effect::pure) return e;
  require_kernel(fmt::format("{}()", name));
  if (c->intrinsic->effect == Intrinsic::Effect::control) check_control(*c->intrinsic);
  if (e->dtype == none_type) emit(eval(e, here()));
  return e;
}

void Builder::evaluate(const Value& value) {
  require_kernel("evaluate()");
  Expr e = strong(value, here());
  if (e->dtype == none_type) return;  // it is a statement already
  if (contains(e, [](const Call& c) { return c.intrinsic->effect != Intrinsic::Effect::pure; }))
    emit(eval(std::move(e), here()));
}

Operand Builder::tile_operand(const OpInfo& op, size_t i, const TileOperand& operand,
                              std::optional<DType> element) {
  bool wants_value = op.operands[i].access == Access::value;
  std::string_view name = op.operands[i].name;
  if (auto* value = std::get_if<Value>(&operand)) {
    if (!wants_value) {
      DType type = strong(*value, here())->dtype;
      fail(here(), "{}: {} must be a buffer or a part of one, not a value of type {}", op.said(), name,
           to_string(type));
    }
    if (!element) return strong(*value, here());
    return to_type(*value, *element, fmt::format("{}: {}", op.said(), name), here());
  }
  auto* part = std::get_if<BufferRegion>(&operand);
  const Buffer& buffer = part ? part->buffer : std::get<Buffer>(operand);
  check_owner(buffer);
  if (name != "barrier") refuse_barrier(buffer, fmt::format("{}: {} is", op.said(), name));
  if (wants_value) {
    if (!part && buffer.info().shape.empty()) {
      Expr loaded = load(buffer, {});
      return element ? cast(*element, loaded, here()) : loaded;
    }
    fail(here(), "{}: {} must be a value, not the buffer {}", op.said(), name, describe(buffer));
  }
  Region region{.buffer = buffer.id, .ranges = part ? part->ranges : std::vector<Range>{}};
  for (size_t d = 0; d < region.ranges.size(); d++)
    region.ranges[d].min = from_end(buffer.info().name, region.ranges[d].min, buffer.shape()[d]);
  if (!part && draft->extents.contains(buffer.id))
    for (auto& extent : buffer.shape()) region.ranges.push_back({.min = imm(0), .extent = extent});
  return region;
}

// A condition that is known becomes a flag; one that reads memory is read in front of the operator.
AttrValue Builder::condition_attr(const AttrValue& value) {
  auto* given = std::get_if<Expr>(&value);
  if (!given) return value;
  Expr e = to_bool(*given, here());
  if (auto known = as_int(e)) return int64_t(*known != 0);
  return named(e, "condition");
}
AttrValue Builder::index_attr(const AttrValue& value) {
  auto* e = std::get_if<Expr>(&value);
  if (!e) return value;
  if (auto known = as_int(*e)) return *known;
  return named(*e, "index");
}
std::optional<Expr> Builder::held(const std::string& name, const Expr& value) {
  bool reads = contains(value, [](const Load&) { return true; }, [](const Call&) { return true; });
  return reads ? std::optional(let(name, value)) : std::nullopt;
}
// What reads memory is read here.
Expr Builder::named(const Expr& e, const char* name) { return held(name, e).value_or(e); }

void Builder::check_attrs(const OpInfo& op, Attrs& attrs) {
  std::vector<std::string_view> known;
  for (auto& a : op.attrs) known.push_back(a.name);
  for (auto& [key, value] : attrs.entries) {
    auto row = std::ranges::find_if(op.attrs, [&](auto& a) { return a.name == key; });
    if (row == op.attrs.end())
      fail(here(), "{} has no option `{}`{}", op.said(), key,
           known.empty()                      ? "; it has none"
           : did_you_mean(key, known).empty() ? "; it has " + listed(known)
                                              : did_you_mean(key, known));
    if (!has_type(value, row->type)) fail(here(), "{}: {} must be {}", op.said(), key, type_name(row->type));
    if (row->type == OpInfo::Attr::Type::condition) value = condition_attr(value);
    if (row->type == OpInfo::Attr::Type::index) value = index_attr(value);
    if (row->type != OpInfo::Attr::Type::choice || row->choices.empty()) continue;
    auto& word = std::get<std::string>(value);
    if (std::ranges::find(row->choices, word) == row->choices.end())
      fail(here(), "{}: {} cannot be `{}`; it is one of {}", op.said(), key, word, listed(row->choices));
  }
  // What a front left out and what it said in so many words are one program.
  for (auto& a : op.attrs) {
    auto it = attrs.entries.find(a.name);
    if (it == attrs.entries.end()) continue;
    bool off = a.type == OpInfo::Attr::Type::flag && std::get<int64_t>(it->second) == 0;
    if (a.type == OpInfo::Attr::Type::condition) off = is_never(it->second);
    bool first = a.type == OpInfo::Attr::Type::choice && !a.choices.empty() &&
                 std::get<std::string>(it->second) == a.choices[0];
    if (off || first) attrs.entries.erase(it);
  }
}

std::vector<Operand> Builder::tile_operands(const OpInfo& op, const std::vector<TileOperand>& operands,
                                            std::optional<DType> element) {
  if (operands.size() != op.operands.size()) {
    std::vector<std::string_view> names;
    for (auto& o : op.operands) names.push_back(o.name);
    fail(here(), "{} takes {} operands ({}), not {}", op.said(), names.size(), listed(names),
         operands.size());
  }
  std::vector<Operand> made;
  for (size_t i = 0; i < operands.size(); i++) made.push_back(tile_operand(op, i, operands[i], element));
  return made;
}

// A value is computed once, before the operator writes anything; so are the bounds of parts that what it
// writes would change.
void Builder::read_first(const OpInfo& op, std::vector<Operand>& operands) {
  const Function& f = draft->function;
  std::set<BufferId> written;
  for (size_t i = 0; i < operands.size(); i++)
    if (auto* r = std::get_if<Region>(&operands[i]);
        r && (op.operands[i].access == Access::write || op.operands[i].access == Access::update))
      written.insert(f.storage(r->buffer));
  std::vector<std::pair<Expr, Expr>> known;
  auto once = [&](Expr& e, const char* name) {
    if (!e) return;
    auto it = std::ranges::find_if(known, [&](auto& k) { return equal(k.first, e); });
    if (it == known.end()) it = known.insert(it, {e, named(e, name)});
    e = it->second;
  };
  auto changes = [&](const Expr& e) {
    return e && contains(e, [&](const Load& n) { return written.contains(f.storage(n.buffer)); });
  };
  for (auto& operand : operands) {
    if (auto* value = std::get_if<Expr>(&operand)) once(*value, "value");
    if (auto* r = std::get_if<Region>(&operand))
      for (auto& range : r->ranges)
        for (Expr* e : {&range.min, &range.extent})
          if (changes(*e)) once(*e, "i");
  }
}

std::vector<Expr> Builder::begin_function(const std::string& said, const std::vector<std::string>& names,
                                          DType type) {
  require_kernel(said);
  refuse_in_function();
  frames.push_back({.kind = Frame::Kind::function, .span = here(), .said = said});
  std::vector<Expr> vars;
  for (auto& n : names) vars.push_back(var(n, type, here()));
  return vars;
}

namespace {
// How many operations an expression has, where those that share a part write it out; up to `most`.
int64_t operations_of(const Expr& e, int64_t most, std::unordered_map<const Node*, int64_t>& known) {
  auto [it, fresh] = known.try_emplace(e.get(), 1);
  if (!fresh) return it->second;
  int64_t count = 1;
  visit_below(e, [&](const Expr& part) { count = std::min(most, count + operations_of(part, most, known)); });
  return known[e.get()] = count;
}
}  // namespace

IndexMap Builder::end_function(const std::vector<Expr>& vars, const std::vector<Value>& results, DType type) {
  Frame frame = close(Frame::Kind::function, "end_function");
  constexpr int64_t most = 4096;
  IndexMap m{.vars = vars};
  for (auto& r : results) {
    m.outputs.push_back(to_type(r, type, "a result of the function", here()));
    std::unordered_map<const Node*, int64_t> known;
    if (operations_of(m.outputs.back(), most, known) == most)
      fail(here(),
           "{} has {} operations or more once its names are expanded, because it becomes one expression: use "
           "a name fewer times, or split it into simpler functions",
           frame.said, most);
  }
  return m;
}

void Builder::tile(std::string_view name, const std::vector<TileOperand>& operands, Attrs attrs) {
  if (name == "fill" && operands.size() == 2 && is_zero(operands[1]))
    return tile("clear", {operands[0]}, std::move(attrs));
  const TileOp* op = find_op(name);
  if (!op) fail(here(), "there is no tile operator `{}`{}", name, did_you_mean(name, op_names()));
  require_kernel(name);
  check_attrs(op->info, attrs);
  DType element = f32;  // values take the type of the first buffer
  for (size_t i = operands.size(); i-- > 0;) {
    if (auto* b = std::get_if<Buffer>(&operands[i])) element = b->info().dtype;
    if (auto* r = std::get_if<BufferRegion>(&operands[i])) element = r->buffer.info().dtype;
  }
  std::vector<Operand> made = tile_operands(op->info, operands, element);
  read_first(op->info, made);
  if (does_nothing(*op, made) || emit_as_loops(*op, made, attrs)) return;
  emit(make_tile(draft->function, *op, std::move(made), std::move(attrs), here()));
}

void Builder::use_swizzle(const Value& panel_size, std::string_view order) {
  require_kernel("use_swizzle");
  auto size = as_int(to_index(panel_size, "the panel_size of use_swizzle", here()));
  if (!size || *size < 1)
    fail(here(), "use_swizzle: panel_size must be a positive constant; {}",
         size ? fmt::format("it is {}", *size) : "it is known only when the kernel runs");
  if (order != "row" && order != "col")
    fail(here(), "use_swizzle: order cannot be `{}`; it is one of row, col{}", order,
         did_you_mean(order, {"row", "col"}));
  auto& attrs = draft->function.kernels.back().attrs.entries;
  if (attrs.contains("use_swizzle")) fail(here(), "use_swizzle: this kernel's blocks have an order already");
  attrs["use_swizzle"] = *size;
  if (order == "col") attrs["use_swizzle_order"] = std::string(order);
}

void Builder::begin_tile(const TileOp& op, const std::vector<TileOperand>& operands, Attrs attrs) {
  require_kernel(op.info.said());
  std::vector<Operand> made = tile_operands(op.info, operands, {});
  frames.push_back({.kind = Frame::Kind::tile,
                    .span = here(),
                    .attrs = std::move(attrs),
                    .op = &op,
                    .operands = std::move(made)});
}

void Builder::end_tile() {
  Frame frame = close(Frame::Kind::tile, "end_tile");
  Stmt body = block(std::move(frame.stmts), frame.span);
  emit(make_tile(draft->function, *frame.op, std::move(frame.operands), std::move(frame.attrs), frame.span,
                 std::move(body)));
}

// Over parameters alone?
bool Builder::is_of_arguments(const Expr& e) const {
  auto is_other = [&](const Var& n) {
    auto is = [&](const Expr& v) { return v.get() == &n; };
    return std::ranges::none_of(dynamics, is) &&
           std::ranges::none_of(draft->function.params, [&](auto& p) { return p.var && is(p.var); });
  };
  return !contains(e, is_other, [](const Load&) { return true; }, [](const Call&) { return true; });
}

void Builder::assume(const Value& cond) {
  Expr e = to_bool(cond, here());
  if (auto known = as_int(e)) {
    if (!*known) fail(here(), "assume: this is never true");
    return;
  }
  bool always = frames.empty() || (frames.size() == 1 && frames[0].kind == Frame::Kind::kernel);
  if (always && is_of_arguments(e)) {
    if (!e->span) {
      auto* n = e.as<Binary>();
      if (n) e = tl::binary(n->op, n->a, n->b, here());
    }
    draft->function.facts.push_back(std::move(e));
    return;
  }
  require_kernel("assume");
  emit(eval(tl::call(assume_function, {std::move(e)}, here()), here()));
}

void Builder::require(const Value& cond, const std::string& message) {
  Expr e = to_bool(cond, here());
  if (auto known = as_int(e)) {
    if (!*known) fail(here(), "assertion failed{}{}", message.empty() ? "" : ": ", message);
    return;
  }
  if (!frames.empty()) fail(here(), "a check of the call stands outside of T.Kernel");
  if (!is_of_arguments(e))
    fail(here(),
         "assert outside of T.Kernel is checked before the launch, so it may use parameters and extents "
         "only; inside of T.Kernel each thread checks it");
  visit_nodes(e, [&](const Node& n) {
    if (n.kind == Kind::Var && !static_cast<const ExprNode&>(n).dtype.is_int())
      fail(here(),
           "assert outside of T.Kernel is checked before the launch, from integer parameters and extents; "
           "`{}` is {}: check it before the call, or inside of T.Kernel, where each thread does",
           static_cast<const Var&>(n).hint, to_string(static_cast<const ExprNode&>(n).dtype));
  });
  draft->function.facts.push_back(e);
  std::string place = here().file ? fmt::format("{}:{}", *here().file, here().line) : "";
  draft->function.checks.push_back(
      {.cond = std::move(e), .message = message, .place = place, .span = here()});
}

void Builder::note(const std::string& pass, const std::string& subject, const std::string& text) {
  draft->function.notes.push_back(
      {.pass = pass, .subject = subject, .text = text, .span = here(), .refusal = true});
}

void Builder::annotate(const std::string& key, AttrValue value) {
  require_kernel("annotate");
  draft->function.kernels.back().attrs.entries[key] = std::move(value);
}

}  // namespace tl
