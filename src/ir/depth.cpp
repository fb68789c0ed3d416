// How deep a tree may be, and how it is freed: walks are recursive, but a tree may be freed on any thread,
// whose stack may be small.
#include "ir/depth.h"

#include <vector>

#include "ir/build.h"

namespace tl {
namespace {

constexpr int shallow = 150;  // a walk of so many steps fits the smallest stack of a thread

void destroy_one(const Node* node) {
  switch (node->kind) {
#define X(N) \
  case Kind::N: \
    delete static_cast<const N*>(node); \
    break;
    TL_EXPRS(X) TL_STMTS(X)
#undef X
  }
}

// The deep ones wait for each other in a list.
void release(const Node* node) {
  if (node->depth <= shallow) return destroy_one(node);
  thread_local std::vector<const Node*> waiting;
  thread_local bool running = false;
  waiting.push_back(node);
  if (running) return;
  running = true;
  while (!waiting.empty()) {
    const Node* next = waiting.back();
    waiting.pop_back();
    destroy_one(next);
  }
  running = false;
}

}  // namespace

void destroy(const ExprNode* node) { release(node); }
void destroy(const StmtNode* node) { release(node); }

void refuse_depth(const Node& node, Span span) {
  if (!span) span = node.span;
  if (node.kind < Kind::Store)
    fail(span,
         "an expression of more than {} operations, each on the result of the one before: let a loop compute "
         "it (T.serial), or keep a part of it in a variable (T.alloc_var)",
         deepest_written);
  fail(span,
       "statements and expressions nested more than {} deep: move a part of them into a loop, or keep parts "
       "of an expression in a variable (T.alloc_var)",
       deepest_written);
}

void refuse_size(uint32_t most, Span span) {
  fail(
      span,
      "an expression of more than {} operations as it is written out: a part that is used several times "
      "counts "
      "each time, and so does an index that is read from memory, which is compared with an extent as well; "
      "give the parts names in the kernel (x = …), or make the function that returns them a T.macro, so that "
      "each is computed once",
      most);
}

// The first expression of a statement, or of one below it, that is too large.
static void check_size(const Stmt& s) {
  if (s->size <= largest_written) return;
  visit_below(
      s, [](const Stmt& below) { check_size(below); },
      [&](const Expr& e) { check_size(e, e->span ? e->span : s->span); });
}

void check_written(const Function& f) {
  for (auto& k : f.kernels) {
    if (!k.body || k.body->depth <= deepest_written) continue;
    const Node* innermost = k.body.get();
    Span span = k.span;
    on_stack_for(f, [&] {
      visit_nodes(k.body, [&](const Node& n) {
        if (n.depth <= deepest_written) return;
        innermost = &n;
        if (n.span) span = n.span;
      });
    });
    refuse_depth(*innermost, span);
  }
  for (auto& k : f.kernels)
    if (k.body) on_stack_for(f, [&] { check_size(k.body); });
}

void on_stack_for(const Function& f, const std::function<void()>& work) {
  int depth = 0;
  for (auto& k : f.kernels) depth = std::max<int>(depth, k.body ? k.body->depth : 0);
  depth > shallow ? on_large_stack(work) : work();
}

int64_t written_out(const Expr& e, const std::map<const ExprNode*, int64_t>& of_names, int64_t most) {
  auto name = of_names.find(e.get());
  int64_t count = name == of_names.end() ? 1 : name->second;
  visit_below(e, [&](const Expr& inner) {
    if (count < most) count = std::min(most, count + written_out(inner, of_names, most - count));
  });
  return count;
}

VarMap names_written_out(const Stmt& body, const std::function<bool(const Let&)>& counts) {
  constexpr int64_t most = 256;
  VarMap names;
  std::map<const ExprNode*, int64_t> sizes;
  visit(body, [&](const Let& n) {
    int64_t size = counts(n) ? written_out(n.value, sizes, most) : most;
    if (size >= most) return;
    sizes.emplace(n.var.get(), size);
    names.emplace(n.var.get(), substitute(n.value, names));
  });
  return names;
}

}  // namespace tl
