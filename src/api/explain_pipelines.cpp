// What became of the pipelined loops: one turn of each as a table, from the plan (after plan_schedule) and
// from what was made of it (after pipeline_loops).  The two name one statement by its place in the user's
// text and by the tiles that it fills.
#include <fmt/ranges.h>

#include <algorithm>

#include "api/explain_turns.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "target/effects.h"

namespace tl {
namespace {

using Step = Report::PipelineRow::Step;

std::set<BufferId> filled_by(const Stmt& s) {
  std::set<BufferId> filled;
  visit_effects(s, [&](const Stmt&, const Effect& e) {
    if (e.writes()) filled.insert(e.buffer);
  });
  return filled;
}

// What the plan says of a statement that runs ahead.
struct Planned {
  Span span;
  std::set<BufferId> fills;
  int64_t ahead;  // iterations
  bool is_async;
};

struct TurnReader {
  const Function &user, &planned, &made;
  const For& plan;
  std::vector<Planned> ahead = {};
  std::vector<Step> steps = {};

  void read_plan() {
    int64_t stages = plan.attrs.get_int("stages");
    auto add = [&](const Stmt& s, const Attrs& attrs) {
      if (attrs.find("stage"))
        ahead.push_back({s->span, filled_by(s), stages - attrs.get_int("stage"),
                         attrs.get_string("engine") == "cp_async"});
    };
    visit(
        plan.body, [&](const Tile& n) { add(Stmt(&n), n.attrs); },
        [&](const For& n) { add(Stmt(&n), n.attrs); });
  }

  // Statements that run ahead stand under the condition that there is such an iteration.
  const Planned* plan_of(const Stmt& s) const {
    auto fills = filled_by(s);
    auto it = std::ranges::find_if(ahead, [&](auto& p) { return p.span == s->span && p.fills == fills; });
    return it == ahead.end() ? nullptr : &*it;
  }

  void add(Step step) {
    bool again = !steps.empty() && steps.back().place == step.place && steps.back().text == step.text &&
                 steps.back().ahead == step.ahead && steps.back().how == step.how;
    if (again)
      steps.back().times++;
    else
      steps.push_back(std::move(step));
  }

  std::string how(const Planned& p) const {
    if (p.is_async) return "begun by cp.async";
    bool shared = std::ranges::any_of(p.fills, [&](BufferId b) { return planned[b].scope == Scope::shared; });
    return shared ? "stored from registers" : "loaded into registers";
  }

  void leaf(const Stmt& s, bool guarded) {
    Stmt written = s;  // as the user wrote it, where it stands in the text
    visit_nodes(user_body(), [&](const Node& n) {
      bool is_it = (n.kind == Kind::Tile || n.kind == Kind::For) &&
                   static_cast<const StmtNode&>(n).span == s->span && s->span;
      if (is_it && written.same(s)) written = Stmt(static_cast<const StmtNode*>(&n));
    });
    Step step{.text = turn_text(written, written.same(s) ? made : user), .place = s->span};
    if (is_part(s, written)) {  // of an operator in steps: its operands come in fragments, step by step
      if (!guarded) return;
      step.text = "fragments of " + step.text;
    }
    if (const Planned* p = guarded ? plan_of(s) : nullptr) step.ahead = p->ahead, step.how = how(*p);
    bool again = !steps.empty() && steps.back().text == step.text && steps.back().ahead == step.ahead;
    if (again && step.text.starts_with("fragments")) return;
    add(std::move(step));
  }
  static bool is_part(const Stmt& s, const Stmt& written) {
    auto *part = s.as<Tile>(), *whole = written.as<Tile>();
    return part && whole && part->op != whole->op;
  }
  Stmt user_body() const {
    for (auto& k : user.kernels)
      if (auto* n = loop_of(k.body, plan)) return n->body;
    return plan.body;
  }

  void read(const Stmt& s, bool guarded) {
    if (!s || s.as<Let>() || s.as<Alloc>()) return;
    if (auto* n = s.as<Block>()) {
      for (auto& inner : n->stmts) read(inner, guarded);
    } else if (auto* n = s.as<If>()) {
      read(n->then_body, guarded || (!n->else_body && n->span == plan.span));
      read(n->else_body, guarded);
    } else if (const AsyncInstr* row = group_of(s)) {
      if (row->does == AsyncInstr::AsyncKind::wait_groups) {
        int64_t left = as_int(s.as<Eval>()->value.as<Call>()->args[0]).value_or(0);
        add({.text = left ? fmt::format("wait until {} group{} of copies may be in flight", left,
                                        left == 1 ? "" : "s")
                          : "wait for all copies",
             .ahead = {}});
      }
    } else {
      leaf(s, guarded);
    }
  }
  static const AsyncInstr* group_of(const Stmt& s) {
    auto* e = s.as<Eval>();
    auto* call = e ? e->value.as<Call>() : nullptr;
    const AsyncInstr* row = call ? async_row_of(*call->intrinsic) : nullptr;
    return row && row->token == Token::copies && !row->begins() ? row : nullptr;
  }
};

struct PipelineReader {
  const Function &user, &planned, &made;
  const std::vector<Note>& notes;
  std::vector<Report::PipelineRow> rows = {};

  // The tiles with slots, and how many of their bytes are on their way at most.
  void slots(Report::PipelineRow& row, const TurnReader& turn) const {
    std::map<BufferId, int64_t> ahead;
    for (auto& p : turn.ahead)
      for (BufferId b : p.fills)
        if (planned[b].slots > 1) ahead[b] = p.is_async ? std::min(p.ahead, planned[b].slots - 1) : 0;
    for (auto& [b, iterations] : ahead) {
      const BufferInfo& info = planned[b];
      bool constant = std::ranges::all_of(info.shape, [](auto& e) { return as_int(e).has_value(); });
      int64_t bytes = constant ? element_count(info) * info.dtype.bits / 8 : 0;
      row.tiles.push_back({.name = info.name, .slots = info.slots, .bytes = bytes});
      row.bytes_in_flight += iterations * bytes;
    }
  }

  void refusals(Report::PipelineRow& row, const For& loop) const {
    std::set<std::pair<int, int>> lines;
    visit_nodes(loop.body, [&](const Node& n) {
      if (is_statement(n.kind)) {
        const Span& at = static_cast<const StmtNode&>(n).span;
        lines.insert({at.line, at.column});
      }
    });
    for (const Note& n : notes) {
      bool of_plan = n.pass == "plan_schedule" && n.subject == "loop " + row.name && n.span == loop.span;
      bool of_copy = (n.pass == "plan_schedule" || n.pass == "begin_copies") &&
                     lines.contains({n.span.line, n.span.column});
      if (n.refusal && (of_plan || of_copy)) row.refusals.push_back(n.text);
    }
  }

  void run() {
    for (size_t k = 0; k < user.kernels.size() && k < planned.kernels.size() && k < made.kernels.size(); k++)
      visit(user.kernels[k].body, [&](const For& n) {
        if (n.loop != Loop::pipelined) return;
        Report::PipelineRow row{.kernel = user.kernels[k].name,
                                .name = n.var.as<Var>()->hint,
                                .num_stages = n.attrs.get_int("num_stages"),
                                .place = n.span};
        const For* plan = loop_of(planned.kernels[k].body, n);
        const For* loop = loop_of(made.kernels[k].body, n);
        if (plan && loop && plan->attrs.find("stages")) {
          TurnReader turn{.user = user, .planned = planned, .made = made, .plan = *plan};
          turn.read_plan();
          turn.read(loop->body, false);
          slots(row, turn);
          row.steps = std::move(turn.steps);
        }
        refusals(row, n);
        if (!row.steps.empty() || !row.refusals.empty()) rows.push_back(std::move(row));
      });
  }
};

}  // namespace

std::string turn_text(const Stmt& s, const Function& f) {
  std::vector<std::string> names;
  if (auto* t = s.as<Tile>()) {
    for (auto& o : t->operands) {
      auto* region = std::get_if<Region>(&o);
      names.push_back(region ? f[region->buffer].name : print(std::get<Expr>(o), &f));
    }
    return fmt::format("{}({})", t->op->said(), fmt::join(names, ", "));
  }
  if (auto* n = s.as<For>(); n && n->loop != Loop::parallel) return "loop " + n->var.as<Var>()->hint;
  Stmt at = s;
  for (; at.as<For>(); at = at.as<For>()->body) names.push_back(at.as<For>()->var.as<Var>()->hint);
  if (!names.empty()) return fmt::format("parallel {}", fmt::join(names, ", "));
  if (auto* n = s.as<Store>()) return fmt::format("{}[…] = …", f[n->buffer].name);
  return s.as<While>() ? "while" : "statement";
}

const For* loop_of(const Stmt& body, const For& loop) {
  const For* found = nullptr;
  const std::string& name = loop.var.as<Var>()->hint;
  visit(body, [&](const For& n) {
    bool is_it = n.span == loop.span && n.var.as<Var>()->hint == name && n.loop != Loop::unrolled;
    if (is_it && !found) found = &n;
  });
  return found;
}

void explain_pipelines(Report& report, const Function& user, const Function& divided, const Function& planned,
                       const Function& made, const std::vector<Note>& notes) {
  PipelineReader reader{.user = user, .planned = planned, .made = made, .notes = notes};
  reader.run();
  report.pipelines = std::move(reader.rows);
  explain_roles(report, user, divided);
  for (auto& note : report.notes)  // what a row says need not stand alone
    for (auto& p : report.pipelines) {
      bool says_so = std::ranges::find(p.refusals, note.text) != p.refusals.end();
      bool of_loop = note.pass == "plan_schedule" && note.place == p.place && !note.refusal;
      note.attached |= says_so || (of_loop && !p.steps.empty());
    }
}

}  // namespace tl
