// Copies of operands that may lie where their operator writes.
//
//   copy(S[k : +8], S[j : +8])    ->    S_read = fragment f32[8]
//                                       copy(S[k : +8], S_read)
//                                       copy(S_read, S[j : +8])
#include "pass/read_first.h"

#include "ops/overlap.h"
#include "pass/walk.h"

namespace tl {
namespace {

struct ReadFirst : ScopedRewriter {
  Function& f;
  explicit ReadFirst(Function& f, const Kernel& k) : f(f) { enter(f, k); }

  Stmt at(const Stmt& s) override {
    auto* t = s.as<Tile>();
    if (!t) return children(s);
    std::set<size_t> unknown;
    for_each_exchange(*t, [&](size_t read, size_t written) {
      if (meeting_of(f, region_of(*t, read), region_of(*t, written), facts) == Meeting::unknown)
        unknown.insert(read);
    });
    if (unknown.empty()) return children(s);
    std::vector<Stmt> stmts;
    std::vector<Operand> operands = t->operands;
    for (size_t i : unknown) {
      const Region read = region_of(*t, i);
      const BufferInfo& from = f[read.buffer];
      BufferInfo info{.name = from.name + "_read",
                      .dtype = from.dtype,
                      .scope = from.scope == Scope::local ? Scope::local : Scope::fragment,
                      .span = s->span};
      for (int64_t e : region_shape(read)) info.shape.push_back(imm(e));
      if (info.shape.empty()) info.shape.push_back(imm(1));
      BufferId copy = f.add(std::move(info));
      stmts.push_back(alloc(copy, s->span));
      stmts.push_back(make_tile(f, *find_op("copy"), {read, whole(f, copy)}, {}, s->span));
      operands[i] = whole(f, copy);
    }
    stmts.push_back(make_tile(f, row_of(*t), std::move(operands), t->attrs, s->span));
    return block(std::move(stmts), s->span);
  }
};

}  // namespace

Stmt read_first(Function& f, const Kernel& k) { return ReadFirst(f, k)(k.body); }

}  // namespace tl
