// A kernel's statement tree becomes flat code.  What depends on variables alone is computed once, where the
// innermost of them is set (a loop's head, or the kernel's), and only once for equal expressions; what
// loads or may fault is computed in place, under the mask that holds there.
#pragma once
#include <map>

#include "arith/prove.h"
#include "sim/machine.h"

namespace tl::sim {

// Where an expression's value is once computed.
struct Value {
  int32_t slot = -1;
  int depth = 0;        // of the scope in which it is known
  bool uniform = true;  // one slot for all threads; else one per lane for each element
  int width = 1;        // elements of a vector
  bool pure = true;     // made of variables alone: stands for its whole scope; else until the statement ends
  int place = -1;       // of a handle: the buffer
};

// The extent of a variable: the kernel, a loop's body, the statements after a Let.
struct CodeScope {
  std::vector<Operation> head, code;  // head: what its variables determine
  std::vector<std::pair<Operation, Value>> known = {};
};

struct Translator {
  const Function& f;
  const Target& target;
  Code code = {};
  std::vector<CodeScope> scopes = {};
  std::map<const ExprNode*, Value> vars = {};
  Facts facts = {};  // that hold at this statement
  std::map<BufferId, int> places = {};
  std::vector<Expr> kept = {};
  Span span = {};
  Team team = {};                 // of the statement that is translated
  Stmt statement = {};            // the innermost one
  bool quiet = false;             // what is written now serves a check
  int32_t labels = 0, exit = -1;  // exit: the label at the end of the body around this statement
  int32_t last_slot = 0, next_temporary = 0, most_temporaries = 0;

  // translate_expr.cpp
  Value value(const Expr& e);  // a scalar, or all of a vector
  Value single(const Expr& e);
  Value vector(const Expr& e);
  Value by_elements(const Expr& e);
  Expr element(const Expr& e, int k);
  Claim element(Claim c, int k);
  Value binary_value(const Binary& n);
  const ExprNode* written_back = nullptr;  // of the store at hand: the half of a byte that stays as it was
  // `decides`: its condition alone may say what a condition is.
  Value select_value(const Select& n, bool decides = false);
  Value call_value(const Call& n);
  Value effect(const Call& n);
  Value argument(CallSite& site, const Call& n, size_t i);
  void check_offered(const Intrinsic& row) const;  // CompileError where the chip lacks it
  void prepare_async(const AsyncInstr& row);
  void prepare_product(const WarpgroupInstr& row);
  void async_operand(const AsyncInstr& row, size_t arg, int place);
  Expr contiguous_base(BufferId buffer, const std::vector<Expr>& index) const;  // of one access; else null
  bool is_wide(const Load& n) const;  // one run of elements for each lane, all masked alike
  Value load_value(const Load& n, DType as);
  void store_statement(const Store& n);
  void store_elements(const Store& n);
  int place_of(BufferId id);
  void touch(Place& p, int64_t bytes, bool writes);

  // translate_index.cpp: how an operation's result is followed, and whether it may leave its type
  void follow_binary(Operation& o, const Binary& n) const;
  void follow_unary(Operation& o, const Unary& n) const;
  void follow_cast(Operation& o, const Cast& n) const;
  bool may_leave(const Expr& exact, DType type) const;

  // translate_claim.cpp: beside an access of so many elements at once, by a call or (null) by itself.
  void claim_of_call(const Call& n, size_t i, const Load& at, int32_t happens);
  void claim(const Claim& c, int32_t happens, int place, int elements, const Intrinsic* intrinsic,
             bool writes);

  int32_t lasting(int32_t count);  // slots for good
  int32_t temporary_slot(int32_t count);
  int32_t here();
  std::vector<Operation>& now() { return scopes.back().code; }
  Operation& emit(Operation o);
  // An operation on registers, placed where its operands are known.
  Value compute(Operation o, Value result, std::initializer_list<const Value*> operands);
  Value constant_of(Scalar v);
  Value in_place(int width = 1) const;
  Value spread(const Value& v);  // to a slot for each lane

  // translate.cpp
  void stmt(const Stmt& s);
  void body(const Stmt& s);  // a scope of its own
  void block_statement(const tl::Block& n);
  void alloc_statement(const Alloc& n);
  void let_statement(const Let& n);
  void keep(const Expr& var, Value v);
  void for_statement(const For& n);
  void if_statement(const If& n);
  void while_statement(const While& n);
  void group_statement(const Group& n);
  void control(const Intrinsic& row);
  void put_label(int32_t label);
  void end_jumping();                                // after a loop that threads may leave or return from
  size_t begin_narrow(int32_t slot, int32_t count);  // where it stands in now()
  size_t begin_else(size_t narrowed);
  void end_narrow(size_t narrowed, bool may_be_empty = false);  // empty: all threads inside took a jump
  void open();
  std::vector<Operation> close();  // the innermost scope's code, its head first
  void close_into();               // … moved to the end of the scope around it
};

constexpr int32_t first_temporary = 1 << 28;  // in a slot's number, until the lasting ones are counted
bool is_safe(const Expr& e);
std::string name_of(const Function& f, BufferId id);
Expr shared_scalar(const Expr& e);  // that all elements of a vector share; null if there is none
bool is_logical_unsafe(const Binary& n);

}  // namespace tl::sim
