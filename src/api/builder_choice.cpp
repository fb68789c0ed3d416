// `a and b`, `a or b`, `a if c else b`: what an arm does besides giving a value is done only where it is
// taken.
//
//   x = atomic(…) if c else 0   ->   chosen = local i32[]
//                                    if c: chosen[] = atomic(…)
//                                    else: chosen[] = 0
#include "api/builder.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

// Of statements that an arm has made: what they write that was there before counts, and what calls do.
bool has_effect(const Stmt& s, int64_t buffers) {
  return contains(
      s, [&](const Store& n) { return n.buffer.value < buffers; }, [](const Tile&) { return true; },
      [](const Call& n) { return n.intrinsic->effect == Intrinsic::Effect::memory; });
}

}  // namespace

bool Builder::begin_choice(const Value& cond) {
  if (frames.empty() || frames.back().kind == Frame::Kind::function) return false;
  begin_if(cond);
  frames.back().attrs.entries["buffers"] = int64_t(draft->function.buffers.size());
  return true;
}

bool Builder::drop_choice() {
  const Frame& open = frames.back();
  int64_t buffers = open.attrs.get_int("buffers");
  Stmt last = block(open.stmts, open.span);
  if (has_effect(open.then_body, buffers) || has_effect(last, buffers)) return false;
  Frame frame = close(Frame::Kind::else_branch, "drop_choice");
  for (auto& s : statements_of(frame.then_body)) emit(s);
  for (auto& s : frame.stmts) emit(std::move(s));
  return true;
}

Expr Builder::end_choice(const Value& yes, const Value& no) {
  Frame frame = close(Frame::Kind::else_branch, "end_choice");
  DType type = apply_select(frame.cond, yes, no, frame.span)->dtype;
  BufferId chosen =
      draft->function.add({.name = "chosen", .dtype = type, .scope = Scope::local, .span = frame.span});
  auto arm = [&](std::vector<Stmt> stmts, const Value& value) {
    stmts.push_back(tl::store(chosen, {}, to_type(value, type, "a choice:", frame.span), frame.span));
    return block(std::move(stmts), frame.span);
  };
  emit(tl::alloc(chosen, frame.span));
  emit(if_then(frame.cond, arm(statements_of(frame.then_body), yes), arm(std::move(frame.stmts), no),
               frame.span));
  return let("chosen", tl::load(type, chosen, {}, frame.span));
}

}  // namespace tl
