// What infer_layouts lays out, in the order of the text: every tile operator, every parallel nest, and every
// statement that loads or stores single elements of fragments.
#pragma once
#include <optional>
#include <set>

#include "ops/parallel.h"

namespace tl {

// A tile operator, a parallel nest, or a statement that loads or stores single elements of fragments; and the
// mapping found for its iterations.
struct LayoutItem {
  Stmt stmt;
  Team team;                              // whose threads run it
  std::optional<ParallelNest> nest = {};  // of a parallel loop, or of an operator that is sugar for one
  struct Element {
    BufferId buffer;
    std::vector<Expr> index;
    bool is_store;
  };
  std::vector<Element> places = {};  // of the third kind
  std::set<BufferId> elements = {};  // their fragments
  std::set<BufferId> touched = {};   // all fragments
  std::optional<Fragment> loop = {};
  int64_t lanes = 0;
  std::set<BufferId> relayout = {};
  Attrs record = {};
  bool settled = false;
};

std::vector<LayoutItem> layout_items(const Function& f, const Kernel& kernel, const Target& target);
// A fragment that the user made, as a mapping of iterations or of elements to threads: kept, or refused.
Fragment checked_fragment(const IndexMap& map, std::string_view what, Span span, const Team& team);
// The team that each fragment belongs to: that of the statements which touch it.
std::map<BufferId, Team> owners_of(const Function& f, const std::vector<LayoutItem>& items);

}  // namespace tl
