// What became of the loops that roles divide: one turn of each role as a table, from the function after
// assign_roles, where both are written out with their barriers.
#include <algorithm>

#include "api/explain_turns.h"
#include "ir/rewrite.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace {

using Step = Report::PipelineRow::Step;

// The barrier's words that a statement names first; null: none.
const Load* words_of(const Stmt& s) {
  const Load* found = nullptr;
  visit_nodes(s, [&](const Node& n) {
    if (n.kind != Kind::Call || found) return;
    auto& c = static_cast<const Call&>(n);
    bool of_barrier = c.intrinsic->name.starts_with("mbarrier_");
    auto* address = of_barrier && !c.args.empty() ? c.args[0].as<Call>() : nullptr;
    if (address && !address->args.empty()) found = address->args[0].as<Load>();
  });
  return found;
}
bool calls(const Stmt& s, std::string_view name) {
  return contains(s, [&](const Call& c) { return c.intrinsic->name == name; });
}

struct RoleTurn {
  const Function &user, &divided;
  const For& in_user;
  const std::map<BufferId, int64_t>& arrivals;
  std::vector<Step> steps = {};
  std::vector<std::pair<size_t, size_t>> products = {};  // step, and its place in the user's loop
  size_t latest = 0;

  void read(const Stmt& s) {
    if (!s || s.as<Let>() || s.as<Alloc>()) return;
    if (auto* n = s.as<Block>()) {
      for (auto& inner : n->stmts) read(inner);
    } else if (const Load* words = words_of(s)) {
      barrier(s, *words);
    } else if (auto* n = s.as<If>()) {
      read(n->then_body);
      read(n->else_body);
    } else if (calls(s, "wgmma_wait_group")) {
      int64_t left = as_int(s.as<Eval>()->value.as<Call>()->args[0]).value_or(0);
      add({.text = left ? fmt::format("wait until {} product{} may be in flight", left, left == 1 ? "" : "s")
                        : "wait for all products",
           .ahead = {}});
    } else if (s.as<Tile>() || s.as<For>()) {
      leaf(s);
    }
  }
  void add(Step step) { steps.push_back(std::move(step)); }

  void barrier(const Stmt& s, const Load& words) {
    const std::string& name = divided[words.buffer].name;
    if (s.as<While>()) return add({.text = fmt::format("wait for {}", name), .ahead = {}});
    auto count = arrivals.find(words.buffer);
    std::string of = count == arrivals.end() ? "" : fmt::format("1 of {} arrivals", count->second);
    if (calls(s, "mbarrier_arrive"))
      add({.text = fmt::format("each warp arrives at {}", name), .ahead = {}, .how = of});
  }

  void leaf(const Stmt& s) {
    auto* t = s.as<Tile>();
    Step step{.text = turn_text(as_written(s), as_written(s).same(s) ? divided : user), .place = s->span};
    if (t && t->op->name == "tma_load") step.how = "begun by TMA";
    bool begun = t && t->attrs.get_int("in_flight") != 0;
    if (begun) step.how = "begun by wgmma";
    size_t place = place_in_user(s->span);
    // A product that stands in front of what comes before it in the program is that of the turn before.
    for (auto& [product, of_product] : products)
      if (place < of_product) steps[product].ahead = -1;
    if (begun && place) products.emplace_back(steps.size(), place);
    add(std::move(step));
  }
  // The user's statement where that one became another operator.
  Stmt as_written(const Stmt& s) const {
    Stmt written = s;
    auto* t = s.as<Tile>();
    visit(in_user.body, [&](const Tile& n) {
      if (t && t->op != n.op && n.span && n.span == s->span) written = Stmt(&n);
    });
    return written;
  }
  // Counted from 1; 0: it is none of the user's.
  size_t place_in_user(const Span& span) const {
    size_t place = 0, found = 0;
    visit_nodes(in_user.body, [&](const Node& n) {
      if (n.kind != Kind::Tile && n.kind != Kind::For) return;
      place++;
      if (!found && span && static_cast<const StmtNode&>(n).span == span) found = place;
    });
    return found;
  }
};

std::map<BufferId, int64_t> arrivals_of(const Kernel& k) {
  std::map<BufferId, int64_t> counts;
  visit(k.body, [&](const Call& c) {
    if (c.intrinsic->name != "mbarrier_init") return;
    auto* address = c.args[0].as<Call>();
    auto* word = address && !address->args.empty() ? address->args[0].as<Load>() : nullptr;
    if (word) counts[word->buffer] = as_int(c.args[1]).value_or(0);
  });
  return counts;
}

}  // namespace

void explain_roles(Report& report, const Function& user, const Function& divided) {
  for (auto& k : divided.kernels) report.intervals.push_back(k.attrs.get_string(role_record::called));
  for (size_t k = 0; k < user.kernels.size() && k < divided.kernels.size(); k++) {
    const Kernel& kernel = divided.kernels[k];
    std::map<BufferId, int64_t> arrivals = arrivals_of(kernel);
    visit(user.kernels[k].body, [&](const For& n) {
      if (n.loop != Loop::pipelined) return;
      visit(kernel.body, [&](const Group& g) {
        std::string role = g.attrs.get_string("role");
        if (role == "first loads")
          return;  // turns like those of the role that loads, with nothing to wait for
        const For* loop = role.empty() ? nullptr : loop_of(g.body, n);
        if (!loop) return;
        Report::PipelineRow row{.kernel = user.kernels[k].name,
                                .name = n.var.as<Var>()->hint,
                                .role = role,
                                .threads = {g.first, g.first + g.count},
                                .num_stages = n.attrs.get_int("num_stages"),
                                .place = n.span};
        RoleTurn turn{.user = user, .divided = divided, .in_user = n, .arrivals = arrivals};
        turn.read(loop->body);
        row.steps = std::move(turn.steps);
        visit(g.body, [&](const Call& c) {
          if (c.intrinsic->name.starts_with("setmaxnreg")) row.registers = as_int(c.args[0]).value_or(0);
        });
        visit(loop->body, [&](const Tile& t) {
          if (t.op->name != "tma_load") return;
          const BufferInfo& tile = divided[region_of(t, 1).buffer];
          int64_t slots = as_int(tile.shape[0]).value_or(1);
          row.tiles.push_back({.name = tile.name,
                               .slots = slots,
                               .bytes = element_count(tile) * tile.dtype.bits / 8 / slots});
        });
        report.pipelines.push_back(std::move(row));
      });
    });
  }
}

}  // namespace tl
