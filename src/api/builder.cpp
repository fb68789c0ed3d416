// Frames, statements and signature.  Values are made in values.cpp, tile operators in builder_tile.cpp.
#include "api/builder.h"

#include <algorithm>

#include "api/bounds.h"
#include "api/infinite_constants.h"
#include "api/loops_of_operators.h"
#include "base/error.h"
#include "base/product.h"
#include "ir/affine_form.h"
#include "ir/buffer_size.h"
#include "ir/names.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "pass/warp_schedule.h"

namespace tl {
namespace {

Loop find_loop(std::string_view kind, Span span) {
  std::vector<std::string_view> names;
  for (int i = 0; i <= int(Loop::vectorized); i++) {
    names.push_back(to_string(Loop(i)));
    if (names.back() == kind) return Loop(i);
  }
  fail(span, "there is no loop of kind `{}`{}", kind, did_you_mean(kind, names));
}

std::string text_of(const Expr& e, const Function& f) { return print(e, &f); }

std::string shape_text(const BufferInfo& info, const Function& f) {
  std::string text = to_string(info.dtype) + "[";
  for (size_t i = 0; i < info.shape.size(); i++) text += (i ? ", " : "") + text_of(info.shape[i], f);
  return text + "]";
}

void check_element_type(const std::string& name, DType type, Span span) {
  bool ok = type.lanes == 1 && (type.is_int() || type.is_bool() || type.is_float());
  if (!ok) fail(span, "{}: an element cannot be {}", name, to_string(type));
}

std::string plural(size_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

// How often a loop from start to stop runs; never negative for a loop that the user meant.
Expr trip_count(const Expr& start, const Expr& stop, const Expr& step) {
  auto s = as_int(step);
  if (s && *s > 0) return ceildiv(stop - start, imm(*s));
  if (s) return ceildiv(start - stop, imm(-*s));
  return imm(0) - floordiv(start - stop, step);  // ceil(x / y) is -floor(-x / y), whatever the signs
}

}  // namespace

std::string describe(const Buffer& buffer) {
  return buffer.info().name + ": " + shape_text(buffer.info(), buffer.draft->function);
}

Builder::Builder(std::string name) : draft(std::make_shared<Draft>()) {
  draft->function.name = std::move(name);
}

// ── checks that many calls share ──────────────────────────────────────────────────────────────────────
void Builder::require_kernel(std::string_view what) const {
  if (finished) fail(here(), "{}: the function {} is finished", what, draft->function.name);
  if (frames.empty()) fail(here(), "{} must stand inside a kernel (with T.Kernel(…))", what);
}

void Builder::check_owner(const Buffer& buffer) const {
  internal_check(buffer.draft != nullptr, "a buffer without a draft");
  if (buffer.draft != draft)
    fail(here(), "{} belongs to the function {}, not to {}", buffer.info().name, buffer.draft->function.name,
         draft->function.name);
}

Builder::Frame Builder::close(Frame::Kind kind, std::string_view call) {
  if (frames.empty() || frames.back().kind != kind) fail(here(), "{} without its begin", call);
  Frame frame = std::move(frames.back());
  frames.pop_back();
  return frame;
}

// A function of values is an expression: it has no place for a statement.
void Builder::refuse_in_function() const {
  if (!frames.empty() && frames.back().kind == Frame::Kind::function)
    fail(here(),
         "{} must compute a value from its arguments alone, without variables (T.alloc_var), stores, loops, "
         "branches or barriers; T.if_then_else(condition, a, b) chooses between two values",
         frames.back().said);
}

void Builder::emit(Stmt stmt) {
  refuse_in_function();
  frames.back().stmts.push_back(std::move(stmt));
}

// ── signature ─────────────────────────────────────────────────────────────────────────────────────────
void Builder::check_param_name(const std::string& name) const {
  auto& f = draft->function;
  if (finished) fail(here(), "the function {} is finished", f.name);
  if (!frames.empty()) fail(here(), "the parameter {} is declared inside a kernel: declare it before", name);
  for (auto& p : f.params)
    if (p.name == name) fail(here(), "two parameters are called {}", name);
}

Buffer Builder::tensor(const std::string& name, const std::vector<Value>& shape, DType type,
                       const std::optional<std::vector<Value>>& strides) {
  check_param_name(name);
  check_element_type(name, type, here());
  BufferInfo info{.name = name, .dtype = type, .span = here()};
  for (auto& extent : shape) {
    info.shape.push_back(to_index(extent, "an extent of " + name, here()));
    if (auto n = as_int(info.shape.back()); n && *n < 0) fail(here(), "{}: an extent is {}", name, *n);
  }
  if (strides) {
    if (strides->size() != shape.size())
      fail(here(), "{} has {} but {}", name, plural(shape.size(), "extent", "extents"),
           plural(strides->size(), "stride", "strides"));
    for (auto& s : *strides) info.strides.push_back(to_index(s, "a stride of " + name, here()));
  }
  if (std::string why = why_uncountable(info); !why.empty()) fail(here(), "{}", why);
  BufferId id = draft->function.add(std::move(info));
  draft->function.params.push_back({.name = name, .buffer = id});
  return {draft, id};
}

Expr Builder::scalar(const std::string& name, DType type) {
  check_param_name(name);
  check_element_type(name, type, here());
  if (type.is_storage())
    fail(here(),
         "{}: a number that is given at the call cannot be {}, a type of elements in memory: declare it {}, "
         "and convert it, T.cast({}, \"{}\")",
         name, to_string(type), type.is_float() ? "float32" : "int32", name, to_string(type));
  Expr v = var(name, type, here());
  draft->function.params.push_back({.name = name, .var = v});
  return v;
}

void Builder::order_params(const std::vector<std::string>& names) {
  auto place = [&](const Param& p) { return std::ranges::find(names, p.name); };
  std::ranges::sort(draft->function.params,
                    [&](const Param& a, const Param& b) { return place(a) < place(b); });
}

Expr Builder::dynamic(const std::string& name) {
  if (finished) fail(here(), "the function {} is finished", draft->function.name);
  dynamics.push_back(var(name, i64, here()));
  return dynamics.back();
}

// ── kernels ───────────────────────────────────────────────────────────────────────────────────────────
std::vector<Expr> Builder::begin_kernel(const std::vector<Value>& grid, const std::vector<int64_t>& threads,
                                        Attrs attrs, const std::vector<std::string>& names) {
  auto& f = draft->function;
  if (finished) fail(here(), "the function {} is finished", f.name);
  if (!frames.empty()) fail(here(), "a kernel cannot stand inside another: close the first one");
  if (grid.empty() || grid.size() > 3)
    fail(here(), "a kernel has 1 to 3 grid dimensions, not {}", grid.size());
  if (threads.size() > 3) fail(here(), "a block has 1 to 3 thread dimensions, not {}", threads.size());
  for (int64_t n : threads)
    if (n < 1) fail(here(), "a block cannot have {} threads", n);
  if (!names.empty() && names.size() != grid.size())
    fail(here(), "the grid has {}, but {} given", plural(grid.size(), "dimension", "dimensions"),
         plural(names.size(), "name was", "names were"));
  Kernel k;
  k.name = f.name;
  k.threads = threads;
  k.attrs = std::move(attrs);
  k.span = here();
  constexpr const char* usual[] = {"bx", "by", "bz"};
  for (size_t i = 0; i < grid.size(); i++) {
    k.grid.push_back(to_index(grid[i], "an extent of the grid", here()));
    if (auto n = as_int(k.grid.back()); n && *n < 0) fail(here(), "an extent of the grid is {}", *n);
    k.grid_vars.push_back(var(names.empty() ? usual[i] : names[i], i64, here()));
  }
  std::vector<Expr> vars = k.grid_vars;
  f.kernels.push_back(std::move(k));
  frames.push_back({.kind = Frame::Kind::kernel, .span = here()});
  for (auto& made : made_tensors) emit(made);
  return vars;
}

void Builder::end_kernel() {
  Frame frame = close(Frame::Kind::kernel, "end_kernel");
  std::vector<Stmt> stmts = begin_barriers(frame.span);
  size_t begun = stmts.size();
  stmts.insert(stmts.end(), frame.stmts.begin(), frame.stmts.end());
  enclose_in_cluster(stmts, begun, frame.span);
  draft->function.kernels.back().body = block(std::move(stmts), frame.span);
}

// ── loops ─────────────────────────────────────────────────────────────────────────────────────────────
Builder::LoopHead Builder::make_head(Loop loop, const std::string& name, const Value& start,
                                     const Value& stop, const Value& step, Expr& user_var) {
  Expr first = to_index(start, "the start of a loop", here()),
       last = to_index(stop, "the end of a loop", here());
  Expr by = to_index(step, "the step of a loop", here());
  if (is_int(by, 0)) fail(here(), "the step of the loop over {} is 0", name);
  LoopHead head{.var = var(name, i64, here()), .min = imm(0)};
  head.begins_below = as_int(first).value_or(0) < 0;
  if (is_int(by, 1)) {
    head.min = first;
    head.extent = last - first;
    user_var = head.var;
  } else {  // the loop counts, and the user's variable is start + count * step, as they were before it
    first = named(first, "start");
    by = named(by, "step");
    head.extent = trip_count(first, last, by);
    user_var = first + head.var * by;
  }
  auto extent = as_int(head.extent);
  if (extent && *extent < 0) head.extent = imm(0);
  if (!extent && loop == Loop::vectorized)
    fail(here(), "the extent of a {} loop must be a constant, but it is {}", to_string(loop),
         text_of(head.extent, draft->function));
  if (loop == Loop::parallel && extent && *extent < 1)
    fail(here(), "the extent of a parallel loop must be positive, but it is {}", *extent);
  return head;
}

std::vector<Expr> Builder::begin_for(std::string_view kind, const std::vector<std::string>& names,
                                     const std::vector<Value>& starts, const std::vector<Value>& stops,
                                     const std::vector<Value>& steps, Attrs attrs) {
  refuse_in_function();
  require_kernel("a loop");
  Loop loop = find_loop(kind, here());
  size_t n = names.size();
  if (n == 0) fail(here(), "a loop needs a variable");
  if (starts.size() != n || stops.size() != n || steps.size() != n)
    fail(here(), "a loop over {} has {}, {} and {}", plural(n, "variable", "variables"),
         plural(starts.size(), "start", "starts"), plural(stops.size(), "end", "ends"),
         plural(steps.size(), "step", "steps"));
  if (loop == Loop::pipelined && attrs.get_int("num_stages") < 0)
    fail(here(), "num_stages is {}; it must be 0 (no pipeline) or more", attrs.get_int("num_stages"));
  Frame frame{.kind = Frame::Kind::loop, .span = here(), .loop = loop, .attrs = std::move(attrs)};
  std::vector<Expr> user_vars(n);
  for (size_t i = 0; i < n; i++)
    frame.heads.push_back(make_head(loop, names[i], starts[i], stops[i], steps[i], user_vars[i]));
  std::vector<int64_t> extents;
  for (auto& h : frame.heads) extents.push_back(as_int(h.extent).value_or(1));
  if (loop == Loop::parallel && !product_in_64_bits(extents))
    fail(here(), "a parallel loop over {} has more iterations than 64-bit arithmetic counts",
         tuple_text(extents));
  check_loop_layout(frame.heads, loop, frame.attrs);
  frames.push_back(std::move(frame));
  return user_vars;
}

void Builder::end_for() {
  Frame frame = close(Frame::Kind::loop, "end_for");
  Stmt body = block(std::move(frame.stmts), frame.span);
  for (size_t i = frame.heads.size(); i-- > 0;) {
    auto& h = frame.heads[i];
    body = for_loop(h.var, h.min, h.extent, frame.loop, body, frame.span,
                    i == 0 ? std::move(frame.attrs) : Attrs{});
  }
  emit(std::move(body));
}

void Builder::begin_while() {
  require_kernel("a while loop");
  refuse_in_function();
  frames.push_back({.kind = Frame::Kind::while_loop, .span = here()});
}

void Builder::while_condition(const Value& cond) {
  internal_check(!frames.empty() && frames.back().kind == Frame::Kind::while_loop,
                 "a while loop that is open");
  Frame& frame = frames.back();
  frame.cond = to_bool(cond, here());
  if (frame.stmts.empty()) return;
  emit(if_then(unary(UnaryOp::logical_not, frame.cond), eval(tl::call(break_loop, {}), here()), {}, here()));
  frame.cond = imm(1, boolean);
}

void Builder::drop_while() {
  Frame frame = close(Frame::Kind::while_loop, "drop_while");
  for (auto& s : frame.stmts) emit(std::move(s));
}

void Builder::end_while() {
  Frame frame = close(Frame::Kind::while_loop, "end_while");
  internal_check(bool(frame.cond), "a while loop with a condition");
  emit(while_loop(frame.cond, block(std::move(frame.stmts), frame.span), frame.span));
}

void Builder::begin_group(int64_t first, int64_t count) {
  require_kernel("a team of threads");
  refuse_in_function();
  int64_t threads = thread_count(draft->function.kernels.back());
  if (first < 0 || count < 1 || (threads && first + count > threads))
    fail(here(), "the threads [{}, {}) are not in this kernel's block of {}: use T.Kernel(…, threads={})",
         first, first + count, threads, first + count);
  frames.push_back({.kind = Frame::Kind::group, .span = here(), .team = {.first = first, .count = count}});
}

void Builder::end_group() {
  Frame frame = close(Frame::Kind::group, "end_group");
  if (frame.attrs.find("op")) leave_names(frame.stmts);
  emit(group(frame.team.first, frame.team.count, block(std::move(frame.stmts), frame.span), frame.span, 0,
             std::move(frame.attrs)));
}

// A jump belongs to the innermost loop that the device runs; a thread may end anywhere but in a parallel
// loop.
void Builder::check_control(const Intrinsic& intrinsic) const {
  std::string_view what = intrinsic.name == "thread_return" ? "return" : intrinsic.name;
  for (size_t i = frames.size(); i-- > 0;) {
    const Frame& f = frames[i];
    bool is_loop = f.kind == Frame::Kind::loop;
    if (f.kind == Frame::Kind::tile) fail(here(), "`{}` in the body of a tile operator: use `if`", what);
    if (is_loop && (f.loop == Loop::parallel || f.loop == Loop::vectorized))
      fail(here(),
           "`{}` in a {} loop (line {}): its iterations are independent and run together; guard the rest of "
           "the body with `if`, or use T.serial",
           what, to_string(f.loop), f.span.line);
    if (&intrinsic == &thread_return) continue;
    if (is_loop && f.loop == Loop::pipelined)
      fail(here(),
           "`{}` in a T.Pipelined loop (line {}): copies of later iterations may be on their way; use "
           "T.serial, or guard the body with `if`",
           what, f.span.line);
    if (is_loop || f.kind == Frame::Kind::while_loop) return;
  }
  if (&intrinsic != &thread_return) fail(here(), "`{}` outside of a loop that the device runs", what);
}

// ── branches ──────────────────────────────────────────────────────────────────────────────────────────
void Builder::begin_if(const Value& cond) {
  require_kernel("an if");
  refuse_in_function();
  frames.push_back({.kind = Frame::Kind::then_branch, .span = here(), .cond = to_bool(cond, here())});
}

void Builder::begin_else() {
  Frame frame = close(Frame::Kind::then_branch, "begin_else");
  frame.then_body = block(std::move(frame.stmts), frame.span);
  frame.stmts.clear();
  frame.kind = Frame::Kind::else_branch;
  frames.push_back(std::move(frame));
}

void Builder::end_if() {
  bool has_else = !frames.empty() && frames.back().kind == Frame::Kind::else_branch;
  Frame frame = close(has_else ? Frame::Kind::else_branch : Frame::Kind::then_branch, "end_if");
  Stmt last = block(std::move(frame.stmts), frame.span);
  Stmt then_body = has_else ? frame.then_body : last, else_body = has_else ? last : Stmt{};
  if (is_empty(else_body)) else_body = {};
  if (auto known = as_int(frame.cond)) {
    if (*known)
      emit(std::move(then_body));
    else if (else_body)
      emit(std::move(else_body));
    return;
  }
  emit(if_then(frame.cond, std::move(then_body), std::move(else_body), frame.span));
}

// ── memory ────────────────────────────────────────────────────────────────────────────────────────────
Buffer Builder::alloc(const std::string& name, std::string_view scope, const std::vector<Value>& shape,
                      DType type, Attrs attrs) {
  if (scope != "global") require_kernel("an allocation");
  if (finished) fail(here(), "the function {} is finished", draft->function.name);
  check_element_type(name, type, here());
  Scope place;
  if (scope == "shared")
    place = Scope::shared;
  else if (scope == "fragment")
    place = Scope::fragment;
  else if (scope == "local" || scope == "var")
    place = Scope::local;
  else if (scope == "global")
    place = Scope::global;
  else
    fail(here(), "{}: there is no scope `{}`{}", name, scope,
         did_you_mean(scope, {"shared", "fragment", "local", "var", "global"}));
  if (scope == "var" && !shape.empty())
    fail(here(), "{}: a var has no dimensions, but {} were given", name, shape.size());
  if (scope != "var" && shape.empty())
    fail(here(), "{}: a {} buffer has at least one dimension", name, scope);
  BufferInfo info{.name = name, .dtype = type, .scope = place, .span = here()};
  info.reducer = attrs.get_string("reducer");
  attrs.entries.erase("reducer");
  for (auto& extent : shape) {
    Expr e = to_index(extent, "an extent of " + name, here());
    if (!as_int(e) && place == Scope::shared && is_of_arguments(e)) {
      int64_t slice = type.bits;  // of one index of this dimension; 0: not known
      for (auto& other : shape)
        if (&other != &extent) slice *= as_int(to_index(other, name, here())).value_or(0);
      e = room_for(name, info.shape.size(), e, slice);
    }
    auto n = as_int(e);
    if (!n && place != Scope::global)
      fail(here(), "{}: the shape of a {} buffer must be constant, but it has {}", name, scope,
           text_of(e, draft->function));
    if (n && *n < 1) fail(here(), "{}: an extent is {}; it must be positive", name, *n);
    info.shape.push_back(e);
  }
  if (std::string why = why_uncountable(info); !why.empty()) fail(here(), "{}", why);
  bool varies = std::ranges::any_of(shape, [&](auto& n) { return !as_int(to_index(n, name, here())); });
  BufferId id = draft->function.add(std::move(info));
  if (varies && place == Scope::shared)
    for (auto& n : shape) draft->extents[id].push_back(to_index(n, name, here()));
  if (place == Scope::global)
    draft->function.workspaces.push_back(id);
  else
    emit(tl::alloc(id, here(), std::move(attrs)));
  return {draft, id};
}

void Builder::set_dtype(const Buffer& tile, DType type) {
  check_owner(tile);
  check_element_type(tile.info().name, type, here());
  draft->function[tile.id].dtype = type;
}

Expr Builder::load(const Buffer& buffer, const std::vector<Value>& index) {
  refuse_barrier(buffer, "reading");
  return tl::load(draft->function, buffer.id, index_of(buffer, index, "reading"), here());
}

void Builder::store(const Buffer& buffer, const std::vector<Value>& index, const Value& value) {
  refuse_barrier(buffer, "storing to");
  auto place = index_of(buffer, index, "storing to");
  auto& info = buffer.info();
  auto* e = std::get_if<Expr>(&value);
  if (e && !(*e)->dtype.is_int() && !(*e)->dtype.is_float() && !(*e)->dtype.is_bool())
    fail(here(), "{} cannot hold a value of type {}", describe(buffer), to_string((*e)->dtype));
  Expr converted = to_type(value, info.dtype, "storing to " + info.name + ":", here());
  emit(tl::store(buffer.id, std::move(place), std::move(converted), here()));
}

Expr Builder::let(const std::string& name, const Value& value) {
  Expr e = strong(value, here());
  if (frames.empty() || is_const(e) || e.as<Var>()) return e;
  if (frames.back().kind == Frame::Kind::function) return e;  // a part of the one expression
  if (e->dtype == none_type || e->dtype.is_handle()) return e;
  if (auto* c = e.as<Call>(); c && (c->intrinsic == &thread_index || c->intrinsic == &thread_number))
    return e;  // as good as a variable
  Expr v = var(name, e->dtype, here());
  bool reads = contains(e, [](const Load&) { return true; }, [](const Call&) { return true; });
  if (e->dtype.is_int() && !reads) draft->lets[v.get()] = e;
  emit(tl::let(v, std::move(e), here()));
  return v;
}

// ── the end ───────────────────────────────────────────────────────────────────────────────────────────
namespace {

Expr determined_by(const Expr& extent) {
  auto form = affine_form_of(extent);
  return form ? form->var : Expr{};
}

}  // namespace

void Builder::check_dynamics() const {
  auto& f = draft->function;
  for (auto& d : dynamics) {
    bool bound = false;
    for (auto& p : f.params) {
      if (!p.buffer) continue;
      for (auto* list : {&f[p.buffer].shape, &f[p.buffer].strides})
        for (auto& e : *list) bound = bound || e.same(d);
      for (auto& e : f[p.buffer].shape) bound = bound || determined_by(e).same(d);
    }
    if (!bound)
      fail(d->span, "{} is known when the function is called only if it is an extent or a stride of a tensor",
           d.as<Var>()->hint);
  }
}

Function Builder::finish() {
  auto& f = draft->function;
  if (finished) fail(here(), "the function {} is finished", f.name);
  if (!frames.empty()) {
    constexpr const char* what[] = {"kernel", "loop",          "while loop", "if",
                                    "else",   "tile operator", "function"};
    fail(frames.back().span, "this {} is not closed", what[int(frames.back().kind)]);
  }
  if (f.kernels.empty()) fail(here(), "the function {} has no kernel: it would do nothing", f.name);
  check_dynamics();
  for (size_t i = 0; f.kernels.size() > 1 && i < f.kernels.size(); i++)
    f.kernels[i].name = fmt::format("{}_{}", f.name, i);
  f.span = f.kernels[0].span;
  finished = true;
  for (Note& n : take_infinite_constants()) f.notes.push_back(std::move(n));
  f = order_loops_of_operators(std::move(f));
  guard_conditions(f);
  check_bounds_of_tiles(f);
  if (auto finding = check(f, Level::tile)) throw CompileError(finding->span, finding->text);
  check_tiles(f);
  check_warp_schedules(f);
  return f;
}

}  // namespace tl
