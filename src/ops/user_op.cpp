// The list of the user's operators, and what all of them share.
#include "ops/user_op.h"

#include <algorithm>
#include <list>
#include <mutex>

#include "base/error.h"
#include "ir/names.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

struct UserOp {
  std::string name;
  std::vector<UserOperand> operands;
  UserEval eval;
  TileOp op;
};
struct Registry {
  std::mutex lock;
  std::list<UserOp> ops;  // in the order of definition; addresses stay
};
// Not destroyed: an eval may belong to an interpreter that ends before this process does.
Registry& registry() {
  static auto& made = *new Registry;
  return made;
}

// ── the body keeps to the operands ────────────────────────────────────────────────────────────────────
struct BodyCheck {
  const Tile& tile;
  const Function& f;
  std::set<BufferId> own = {};  // allocated in the body
  Span span = {};

  bool may(BufferId b, bool write) const {
    if (own.contains(b)) return true;
    for (size_t i = 0; i < tile.operands.size(); i++) {
      auto* r = std::get_if<Region>(&tile.operands[i]);
      Access access = tile.op->operands[i].access;
      if (r && r->buffer == b && (!write || access == Access::write || access == Access::update)) return true;
    }
    return false;
  }
  void touch(BufferId b, bool write) const {
    if (may(b, write)) return;
    const std::string& name = f[b].name;
    if (may(b, false))
      fail(span, "{} writes to {}, a read-only operand: declare it as T.update or T.write", tile.op->name,
           name);
    fail(span, "{} {} {}, which is not among its operands: make it a parameter, as T.{}", tile.op->name,
         write ? "writes to" : "reads", name, write ? "write" : "read");
  }
  void run() {
    visit(tile.body, [&](const Alloc& n) { own.insert(n.buffer); });
    visit_nodes(tile.body, [&](const Node& n) {
      if (n.kind >= Kind::Store && n.span) span = n.span;
      if (n.kind == Kind::Load) touch(static_cast<const Load&>(n).buffer, false);
      if (n.kind == Kind::Store) touch(static_cast<const Store&>(n).buffer, true);
      if (n.kind != Kind::Tile) return;
      auto& inner = static_cast<const Tile&>(n);
      for (size_t i = 0; i < inner.operands.size(); i++)
        if (auto* r = std::get_if<Region>(&inner.operands[i]))
          touch(r->buffer, inner.op->operands[i].access != Access::read);
    });
  }
};

void check_user(const Tile& t, const Function& f) {
  if (!t.body) fail(t.span, "{} has no body that says what it becomes", t.op->name);
  BodyCheck{.tile = t, .f = f, .span = t.span}.run();
}

// ── what it means ─────────────────────────────────────────────────────────────────────────────────────
std::string extents_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const UserOp& made_of(const OpInfo* info) {
  Registry& r = registry();
  std::lock_guard guard(r.lock);
  for (auto& op : r.ops)
    if (&op.op.info == info) return op;
  internal_error("an operator without a definition");
}

void evaluate(const Tile& t, const Function& f, const EvalContext& ctx) {
  std::vector<UserArgument> read;
  std::vector<Array> written;
  std::vector<const Region*> targets;
  for (size_t i = 0; i < t.operands.size(); i++) {
    Access access = t.op->operands[i].access;
    auto* r = std::get_if<Region>(&t.operands[i]);
    if (!r) {
      read.push_back({ctx.value(std::get<Expr>(t.operands[i])), true});
      continue;
    }
    if (access != Access::write) read.push_back({ctx.read(*r)});
    if (access == Access::read) continue;
    Array shape = ctx.read(*r);
    written.push_back(make_array(f[r->buffer].dtype, shape.shape));
    targets.push_back(r);
  }
  std::vector<Array> results = made_of(t.op).eval(read, written, t.attrs);
  if (results.size() != targets.size())
    fail(t.span, "the eval of {} gave {} arrays, but it writes to {} operands", t.op->name, results.size(),
         targets.size());
  for (size_t i = 0; i < results.size(); i++) {
    if (results[i].shape != written[i].shape)
      fail(t.span, "the eval of {} gave {} for {}, which is {}", t.op->name, extents_text(results[i].shape),
           f[targets[i]->buffer].name, extents_text(written[i].shape));
    if (results[i].dtype.is_float() != written[i].dtype.is_float())
      fail(t.span, "the eval of {} gave {} for {}, which is {}", t.op->name,
           results[i].dtype.is_float() ? "floats" : "integers", f[targets[i]->buffer].name,
           to_string(written[i].dtype));
    ctx.write(*targets[i], results[i]);
  }
}

bool has_accesses(const UserOp& op, const std::vector<Access>& accesses) {
  return std::equal(op.operands.begin(), op.operands.end(), accesses.begin(), accesses.end(),
                    [](auto& o, Access a) { return o.access == a; });
}

UserOp& add(Registry& r, std::string_view name, std::vector<UserOperand> operands, UserEval eval) {
  UserOp& made = r.ops.emplace_back(UserOp{std::string(name), std::move(operands), std::move(eval), {}});
  made.op.info = {.name = made.name, .doc = "an operator of the user's"};
  for (auto& o : made.operands) made.op.info.operands.push_back({o.name, o.access});
  made.op.check = check_user;
  made.op.eval = made.eval ? evaluate : nullptr;
  return made;
}

}  // namespace

const TileOp& add_user_op(const std::string& name, std::vector<UserOperand> operands, UserEval eval) {
  if (find_op(name)) fail({}, "`{}` is a tile operator of the language: give yours another name", name);
  if (!is_identifier(name) || is_reserved(name) || find_intrinsic(name) || find_instr(name))
    fail({}, "`{}` has a meaning in text IR: give the operator another name", name);
  Registry& r = registry();
  std::lock_guard guard(r.lock);
  return add(r, name, std::move(operands), std::move(eval)).op;
}

const OpInfo* user_op_info(std::string_view name, const std::vector<Access>& operands) {
  if (find_op(name)) return nullptr;
  Registry& r = registry();
  std::lock_guard guard(r.lock);
  for (auto it = r.ops.rbegin(); it != r.ops.rend(); ++it)
    if (it->name == name && has_accesses(*it, operands)) return &it->op.info;
  std::vector<UserOperand> named;
  for (Access a : operands) named.push_back({fmt::format("operand {}", named.size() + 1), a});
  return &add(r, name, std::move(named), nullptr).op.info;
}

const TileOp* find_user_op(const OpInfo* info) {
  Registry& r = registry();
  std::lock_guard guard(r.lock);
  for (auto& op : r.ops)
    if (&op.op.info == info) return &op.op;
  return nullptr;
}

Stmt as_evaluated(const Stmt& s) {
  return rewrite(s, [&](const Tile& n, Rewriter& self) -> Stmt {
    if (!n.body || !row_of(n).eval) return self.children(n);
    return tile(*n.op, n.operands, n.attrs, n.span);
  });
}

}  // namespace tl
