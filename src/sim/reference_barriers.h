// Barriers in memory at level tile, and teams that wait for one another by them.  A statement is executed by
// its team at once, so that all of its threads arrive together; a copy has landed when its statement ends.
#pragma once
#include "base/turns.h"
#include "sim/host.h"

namespace tl {

struct ReferenceBarriers {
  using Step = std::function<void(Frame&)>;
  struct Word {
    int64_t count = 0, pending = 0, bytes = 0, phase = 0;  // bytes that are expected in the phase
    void end_phase();
    std::string missing() const;
  };
  Host& host;
  std::map<const std::byte*, Word> words = {};
  Turns* turns = nullptr;  // of the teams that are running
  struct Waiting {
    std::string what;  // "the threads [0, 128) wait for phase 1 of full[0] (parity 1)"
    const Word* word;
    Span span;
  };
  std::map<size_t, Waiting> waiting = {};  // the teams that do, by their numbers in the section

  // Of an instruction on a barrier, or of a fence in front of other proxies; null where the statement is
  // none.
  Step instruction(const Stmt& s, const Team& team, Span span);
  // Of a loop that waits for a phase; null where the loop is none.
  Step wait(const While& loop, const Team& team, Span span);
  // Runs what teams do beside each other: in turns, where one waits for another.
  Step beside(std::vector<Step> teams);

 private:
  // Whose word an address is: in the text, and as it runs.
  struct Place {
    std::string name;
    std::function<int64_t(Frame&)> offset;
    size_t buffer;
    Span span;
    std::string said(Frame& x) const { return fmt::format("{}[{}]", name, offset(x)); }
  };
  Place place_at(const Expr& address, Span span);
  Word& word_at(const Place& p, Frame& x);
  void arrive(const Place& p, Frame& x, int64_t times);
  void wait_for(const Place& p, Frame& x, int64_t parity, const std::string& who);
};

// Does the reference know what the instruction does?  Of the others it says that they are thread-level code.
bool is_for_reference(const Intrinsic& intrinsic);
// Does a statement wait for a phase?
bool waits_for_phase(const Stmt& s);

}  // namespace tl
