#include "pass/box_uses.h"

#include "target/effects.h"

namespace tl {
namespace {

// Why the statement's use of it wants another layout; "": it does not.
std::string why_by_threads(const Function& f, const Stmt& s, BufferId tile) {
  auto* t = s.as<Tile>();
  if (s.as<Alloc>()) return "";
  std::string_view op = t ? t->op->name : "";
  if (op == "gemm") {
    DType type = f[tile].dtype;
    if (type.bits <= 16 || type == tf32) return "";
    return fmt::format("the gemm on line {} multiplies elements of {} one by one", s->span.line,
                       to_string(type));
  }
  if (op == "copy" && t->attrs.find("engine")) return "other copies to it run ahead in a loop";
  for (auto known : {"copy", "fill", "clear", "tma_load", "tma_store"})
    if (op == known) return "";
  return fmt::format("{} on line {} works on it element by element", t ? t->op->said() : "a loop",
                     s->span.line);
}

}  // namespace

std::map<BufferId, std::string> tiles_for_threads(const Function& f, const Kernel& k) {
  std::map<BufferId, std::string> found;
  visit_effects(k.body, [&](const Stmt& s, const Effect& e) {
    if (f[e.buffer].scope != Scope::shared) return;
    BufferId storage = f.storage(e.buffer);
    std::string why = storage == e.buffer ? why_by_threads(f, s, e.buffer) : "it has another view";
    if (!why.empty()) found.emplace(storage, why);
  });
  return found;
}

}  // namespace tl
