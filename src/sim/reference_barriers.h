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
    int64_t life = 0;                                      // which of all initialisations made it, from 1
    int64_t asked = 0;  // how often in a row, in vain, by those that do not wait
    // By team: the first phase that it has not seen end. Those that have arrived, and where they did last.
    std::map<std::string, int64_t> unseen = {};
    std::map<std::string, std::pair<Team, Span>> arrived = {};
    int64_t state() const;  // of the phase under way, which an arrival gives
    void end_phase();
    std::string missing() const;
  };
  Host& host;
  std::map<const std::byte*, Word> words = {};
  int64_t lives = 0;       // how many have been initialised
  Turns* turns = nullptr;  // of the teams that are running
  struct Waiting {
    std::string what;  // "the threads [0, 128) wait for phase 1 of full[0] (parity 1)"
    const Word* word;
    Span span;
  };
  std::map<size_t, Waiting> waiting = {};  // the teams that do, by their numbers in the section

  // Of an instruction on a barrier, or of a fence in front of other proxies; null where it is none.
  Code instruction(const Call& c, const Team& team, Span span);
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
  // Which phase a test asks for, and who does.
  struct Test {
    Place place;
    Code given;  // its parity or its state
    bool by_state;
    std::string who;
  };
  Place place_at(const Expr& address, Span span);
  Word& word_at(const Place& p, Frame& x);
  Scalar arrive(const Place& p, Frame& x, const Team& team);  // gives the state of the phase
  Test test(const Call& c, const Team& team, Span span);
  std::string why_never(const Test& t, const Word& w, Frame& x) const;
  std::string asks(const Test& t, const Word& w, std::string_view verb, Frame& x) const;
  // Has the phase ended? Asked again and again it may change.
  std::function<bool()> question(const Test& t, Frame& x);
  void check_state(const Test& t, const Word& w, int64_t state, Frame& x);
  void wait_for(const Test& t, Frame& x);
  Scalar ask(const Test& t, Frame& x);
};

// Does the reference know what the instruction does?  Of the others it says that they are thread-level code.
bool is_for_reference(const Intrinsic& intrinsic);
// Does a statement wait for a phase, or ask for one?
bool waits_for_phase(const Stmt& s);

}  // namespace tl
