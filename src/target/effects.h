// What a statement does to memory: the one source of it.  Every analysis that asks which buffers a statement
// reads and writes, by which proxy, and when that is over, asks here.
#pragma once
#include <functional>
#include <set>

#include "target/target.h"

namespace tl {

// What one access of a statement does to one buffer.
struct Effect {
  BufferId buffer;
  Access access = Access::read;      // value: its address is taken, and its use is unknown
  std::span<const Expr> index = {};  // of an element, or of a vector of them; empty: see `region`, `argument`
  const Region* region = nullptr;    // of a tile operator
  std::vector<Expr> masks = {};      // it happens only where these hold
  const ExprNode* by = nullptr;  // the Load, or the Call that takes an address; null: a Store, an operator
  size_t argument = 0;           // … of the Call: from the place that it names on, as far as the row reaches
  int64_t bytes = 0;             // that it reaches; 0: unknown
  bool by_warp = false;          // … on behalf of any thread of the warp
  Proxy proxy = Proxy::generic;
  Token begins = Token::none;                          // none: done at the end of the statement
  BufferId word = {};                                  // of a phase: the barrier that counts it
  int64_t word_at = -1;                                // … the element that it is, where that is a constant
  bool is_phase = false;                               // an atomic operation on the word of a barrier
  Intrinsic::Atomic update = Intrinsic::Atomic::none;  // of an element, or of several in one access
  bool is_told = false;                                // … whose previous value is used

  bool reads() const { return access == Access::read || access == Access::update; }
  bool writes() const { return access == Access::write || access == Access::update; }
  bool is_atomic() const { return update != Intrinsic::Atomic::none; }
  bool is_through_address() const { return by && by->kind == Kind::Call && access != Access::value; }
};

// What a statement waits for: until at most `left` groups of its threads are pending; or a phase of the
// barrier in this buffer.
struct Completion {
  Token token;
  int64_t left = 0;
  BufferId word = {};
  int64_t word_at = -1;  // as of an Effect
};

struct Effects {
  std::vector<Effect> list = {};  // an element before those that its index reads
  std::vector<Completion> completes = {};
  std::vector<Token> closes = {};  // what was begun since the last time is one group
  bool meets = false;              // all threads of the block wait for each other
  bool signals = false;            // threads of teams do: by a named barrier, or a barrier in memory
  bool fences = false;             // the asynchronous proxy sees what came before
};
// The element that is accessed, or the first one that an instruction accesses.
std::vector<Expr> place_of(const Effect& e);

// Of the statement itself: for a loop or an if its head without its body. The pointers are valid as long as
// the statement.
Effects effects_of(const Stmt& s);
Effects effects_of(const Expr& e);
// Of the statement and all below it.
void visit_effects(const Stmt& body, const std::function<void(const Stmt&, const Effect&)>& f);
// The buffers that a body may write, as it names them; an address that gets a name counts as written.
std::set<BufferId> written_buffers(const Stmt& body);

// What a tile operator does to each element, where that is an atomic update; null: it is none.
const Intrinsic* update_of_elements(const Tile& t);
// The row that a call is of; null: it is none.
const CopyInstr* copy_row_of(const Intrinsic& intrinsic);
const AsyncInstr* async_row_of(const Intrinsic& intrinsic);
}  // namespace tl
