#include "pass/barrier_words.h"

#include "layout/layout.h"
#include "layout/swizzle.h"
#include "target/target.h"

namespace tl {

BufferId add_barrier_words(Function& f, const std::string& name, size_t count, Span span) {
  int64_t words = int64_t(count);
  return f.add({.name = name,
                .dtype = u64,
                .shape = {imm(words)},
                .scope = Scope::shared,
                .span = span,
                .layout = row_major({words}).map(),
                .alignment = 8,
                .layout_span = span});
}

std::vector<Stmt> initialised(const Function& f, const std::vector<BarrierWords>& all, Span span,
                              Expr first) {
  std::vector<Stmt> out, inits;
  for (auto& [words, counts] : all) {
    Span made = f[words].span;
    out.push_back(alloc(words, made));
    for (size_t i = 0; i < counts.size(); i++) {
      Expr word = address(load(u64, words, {imm(int64_t(i))}, made), "", made);
      inits.push_back(eval(call(*find_instr("mbarrier_init"), {word, imm(counts[i], i32)}, made), made));
    }
  }
  inits.push_back(eval(call(*find_instr("fence_mbarrier_init"), {}, span), span));
  if (!first) first = call(elected, {imm(0)}, span);
  out.push_back(if_then(first, block(std::move(inits), span), {}, span));
  out.push_back(eval(call(sync_threads, {}, span), span));
  return out;
}

}  // namespace tl
