// What plan_schedule finds out of one pipelined loop: which of its statements may run ahead, which tiles can
// have slots, by which engine each copy goes (early_statements.cpp), and what of it is done when
// (plan_loop.cpp), also of an operator that runs in steps (plan_steps.cpp).
#pragma once
#include "ops/parallel.h"
#include "pass/check_schedules.h"
#include "pass/walk.h"

namespace tl {

// A statement that may run ahead, and the tile that it fills.
struct Early {
  Stmt stmt;
  ParallelNest nest;
  std::vector<std::pair<Expr, bool>> conditions = {};
  BufferId tile = {};
  BufferId tensor = {};  // that it reads; none: it fills the tile with what it computes
  std::string engine = "";
  bool splits = false;  // a load into a fragment, and a store
  int64_t place = 0;    // behind how many statements of an iteration that do not run ahead it is begun
  std::string why_not = "";
};

// A nest of parallel loops that computes a fragment of the iteration's own, from nothing but what runs ahead.
struct Filler {
  Stmt stmt;
  ParallelNest nest;
  BufferId tile;
};

// An operator of which the operands of one step are made ready while the step before runs, also across
// iterations.
struct Stepped {
  struct Computed {
    Filler filler;
    size_t loop;  // of the nest, that runs along the steps
  };
  const Tile* op;
  Steps steps;
  int64_t before;                            // statements that do not run ahead
  std::map<size_t, Computed> computed = {};  // by operand; the others are tiles that copies fill
  std::vector<Filler> fillers = {};          // all, whose place the steps take

  int64_t place_of_last() const;  // where its last step stands
};

// A product that runs beside what threads do for the next iteration (product_in_flight.cpp).
struct ProductInFlight {
  Stmt product;
  std::vector<Stmt> ahead = {};  // what they do; none: the next product begins before this one has ended
};

// Why cp.async cannot move what this nest moves; "": it can.
std::string why_not_async(const ParallelNest& nest, const LayoutContext& at);

// One pipelined loop, whose inner loops have been planned.
struct LoopPlanner {
  Function& f;
  const Kernel& kernel;
  const Target& target;
  Stmt loop_stmt;
  Team team;
  const For& loop = *loop_stmt.as<For>();
  std::vector<Stmt> body = statements_of(loop.body);
  std::set<BufferId> written = {};  // in the loop
  bool writes_tensors = false;
  std::map<const ExprNode*, Expr> lets = {};  // of the body
  std::vector<Early> early = {};
  std::optional<Stepped> stepped = {};
  void note(std::string text, bool refusal, Span span = {}, BufferId buffer = {});
  void read_body();
  bool is_constant(BufferId tensor) const;
  // Is it known iterations before? Else the reason.
  std::string why_late(const Expr& e) const;
  void collect(const Stmt& s, std::vector<std::pair<Expr, bool>>& conditions);
  void consider(const Stmt& s, const ParallelNest& nest,
                const std::vector<std::pair<Expr, bool>>& conditions);
  bool is_early(const Stmt& s, BufferId tile) const;
  // Walks the body in order: nothing may fill the tile once it has been used, or filled twice.
  struct Order {
    bool filled = false, used = false, broken = false;
  };
  void follow(const Stmt& s, BufferId tile, Order& order) const;
  // Why it is not the iteration's own: what one iteration leaves in it is of use elsewhere.
  std::string why_not_own(BufferId tile) const;
  std::string why_one_slot(BufferId tile) const;
  // May its loads go first, into fragments?  Each happens in every iteration of the nest.
  std::string why_not_split(const Early& e) const;
  // The distinct loads of tensors of a nest's value.
  std::vector<Expr> loads_of(const Early& e) const;
  void choose_engine(Early& e) const;
  // How many statements that do not run ahead stand up to the last use of a fragment; nullopt: nothing that
  // takes time comes after it.
  std::optional<int64_t> free_after(BufferId fragment) const;
  void drop(BufferId tile, const std::string& why);
  void choose_tiles();
  bool is_used(BufferId tile) const;
  bool early_at_top(BufferId tile) const;
  // The statements of the body that do not run ahead: what `order` counts.
  std::vector<Stmt> rest_of_body() const;
  bool is_planned(const Early& e) const { return e.why_not.empty(); }
  Stmt marked(const Stmt& s, std::string engine, int64_t stage, int64_t order, int64_t rank = 0) const;
  // Where asynchronous copies are begun: in front of the iteration, where one wait is for all of them.  Where
  // different matrix products read their tiles, each copy has a wait of its own, in front of the product that
  // reads it, and is begun behind that product for a later iteration; one that no other wait follows is begun
  // behind its own wait.
  void choose_places();
  // The loads of a nest into fragments, and the nest that reads those instead.
  std::vector<Stmt> split(const Early& e, int64_t stages, std::vector<Stmt>& allocs);
  // The operator that all else of the loop is for: copies that run ahead, and loops that compute its operands
  // from what they bring.  nullopt where it cannot run in steps.
  std::optional<Stepped> find_stepped() const;
  std::optional<Filler> filler_of(const Stmt& s) const;
  bool is_known_ahead(const ParallelNest& nest) const;
  bool find_operands(Stepped& op, std::vector<Filler> fillers) const;
  // Which loop of a nest runs along the steps of the operand that it computes; nullopt: none does.
  std::optional<size_t> loop_along(const Filler& filler, const Stepped& op, size_t operand) const;
  // What makes a step's part of an operand ready, in `fragment`.
  Stmt load_of(const Stepped& op, size_t operand, BufferId fragment, int64_t step) const;
  // That of a step stands before the step before; that of the first one runs one iteration ahead, and the
  // copies take the slot that it leaves.
  std::vector<Stmt> in_steps(const Stepped& op, int64_t stages, std::vector<Stmt>& allocs);
  // Stages are counted so that the rest of the body has the last one.
  Stmt planned(int64_t slots);
  std::string why_in_order() const;
  std::optional<ProductInFlight> find_in_flight(int64_t slots) const;
  // Says what takes the place of the statements that change; `ended`: behind the loop it has ended.
  void keep_in_flight(const ProductInFlight& flight, int64_t stages,
                      std::map<const StmtNode*, std::vector<Stmt>>& instead);
  Stmt ended(const Stmt& planned_loop) const;
  // The order and stages that the user gives (given_schedule.cpp).
  void check_given();
  Stmt as_given(int64_t slots);
  Stmt run();
  // Waits of the program's own, which wait for what runs ahead as well.
  void report_own_waits(int64_t slots);
  void report_fewer(int64_t asked, int64_t slots);
  void report(int64_t asked, int64_t slots, bool pipelined);
};

}  // namespace tl
