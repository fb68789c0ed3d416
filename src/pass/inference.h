// The state of infer_layouts for a kernel, and its two steps: a statement is asked which layouts it wants
// given what is known, and its answer is added to that.
#pragma once
#include "pass/layout_items.h"
#include "pass/thread_local_accesses.h"

namespace tl {

struct Inference {
  const Function& f;
  const Kernel& kernel;
  const Target& target;
  const ThreadLocalAccesses& own;
  std::vector<LayoutItem> items = {};
  std::map<BufferId, Team> owners = {};  // of fragments that something touches
  LayoutDecisions known = {};
  std::vector<Note> notes = {};

  Team owner(BufferId fragment) const {
    auto it = owners.find(fragment);
    return it == owners.end() ? whole_block(kernel) : it->second;
  }
  LayoutContext context(const Team& team) const {
    return {.function = f, .kernel = kernel, .target = target, .team = team, .known = known};
  }
};

LayoutDecisions ask(Inference& in, const LayoutItem& item, Strictness level);
// Adds what an item wants; true if that was new.
bool learn(Inference& in, LayoutItem& item, LayoutDecisions wanted, Strictness level);
// What was learnt of a buffer holds for all that share its storage.
void share(Inference& in, BufferId learnt);
// Asks all that are not settled, strictly and then for what they commonly want, until nothing new is learnt.
void settle(Inference& in);

// "gemm", "parallel loop i": the subject of a note.
std::string subject_of(const Stmt& s);
// Which statement laid a buffer out, and how strongly: "strict", "common", "free", "required".
void note_layout(Inference& in, BufferId buffer, const std::string& by, Span span, std::string_view strength,
                 const std::string& layout);

// The choice of one statement that shares undecided fragments with others, the one whose choice makes
// everything cheapest; false where nothing is left to choose.
bool take_free_choice(Inference& in);
// Before anything else: requirements on shared tiles are granted, other wishes compared by cost.
void lay_out_shared(Inference& in);

}  // namespace tl
