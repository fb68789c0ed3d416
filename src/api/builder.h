// The common interface of the fronts: every kernel that Python or C++ describes is made and checked here, so
// that the same mistake gets the same message.  Frames (kernel, loop, branch) are opened and closed by pairs
// of calls; a statement lands in the innermost one.
#pragma once
#include <memory>
#include <string>

#include "api/values.h"
#include "arith/facts.h"
#include "ir/rewrite.h"
#include "ops/op.h"

namespace tl {

// What a Builder and its buffers share.
struct Draft {
  Function function;
  Span here;    // where what is being built was written
  VarMap lets;  // the values of names, where they read no memory
  std::map<BufferId, std::vector<Expr>> extents =
      {};  // of tiles whose shape is the most that a call may bring
};

struct Buffer {
  std::shared_ptr<Draft> draft;
  BufferId id;
  const BufferInfo& info() const { return draft->function[id]; }
  // As the program sees it.
  const std::vector<Expr>& shape() const {
    auto it = draft->extents.find(id);
    return it == draft->extents.end() ? info().shape : it->second;
  }
};

// A part of a buffer.  `extent` null in a range: a base element, whose extents the other operand gives.
struct BufferRegion {
  Buffer buffer;
  std::vector<Range> ranges = {};
};
// One start per dimension; an extent that is absent, or a point (extent 1, the dimension is dropped).
BufferRegion make_region(const Buffer& buffer, const std::vector<Value>& starts,
                         const std::vector<std::optional<Value>>& extents, const std::vector<bool>& points);

using TileOperand = std::variant<Buffer, BufferRegion, Value>;

class Builder {
 public:
  explicit Builder(std::string name);

  // Everything built from here on was written there.
  void at(const Span& span) { draft->here = span; }
  const Span& here() const { return draft->here; }

  // ── signature ───────────────────────────────────────────────────────────────────────────────────────
  Buffer tensor(const std::string& name, const std::vector<Value>& shape, DType type,
                const std::optional<std::vector<Value>>& strides = {});
  Expr scalar(const std::string& name, DType type);
  // An extent known when the kernel is called: the tensors in whose shapes it stands give its value.
  Expr dynamic(const std::string& name);

  // ── structure ───────────────────────────────────────────────────────────────────────────────────────
  std::vector<Expr> begin_kernel(const std::vector<Value>& grid, const std::vector<int64_t>& threads,
                                 Attrs attrs, const std::vector<std::string>& names = {});
  // The kernel's blocks run in clusters of so many along each dimension, which can reach each other's shared
  // memory.
  void form_clusters(const std::vector<int64_t>& dims);
  Expr rank_in_cluster() const;  // of the block, x first
  void end_kernel();
  // serial parallel pipelined unrolled vectorized; several names make a nest.  The user's variables.
  std::vector<Expr> begin_for(std::string_view kind, const std::vector<std::string>& names,
                              const std::vector<Value>& starts, const std::vector<Value>& stops,
                              const std::vector<Value>& steps, Attrs attrs);
  void end_for();
  // A loop that runs as long as its condition holds.  What is built between begin_while and while_condition
  // belongs to the condition: it runs before each iteration.
  void begin_while();
  void while_condition(const Value& cond);
  void end_while();
  void drop_while();  // instead of while_condition: it is no loop of the kernel after all
  void begin_if(const Value& cond);
  void begin_else();
  void end_if();
  // What only the threads [first, first + count) of the block run: a team of their own.
  void begin_group(int64_t first, int64_t count);
  void end_group();
  // Statements that a schedule of warps knows by this name; end_group ends them.
  void begin_op(const std::string& id);

  // ── memory ──────────────────────────────────────────────────────────────────────────────────────────
  // shared fragment local, var: a single value, or global: a workspace, which the runtime allocates for a
  // call and which may be made outside of a kernel.
  Buffer alloc(const std::string& name, std::string_view scope, const std::vector<Value>& shape, DType type,
               Attrs attrs);
  // Another shape or type of a buffer's storage, its elements in row-major order; `what` asks for it.
  Buffer alias(const std::string& name, const Buffer& of, const std::vector<Value>& shape, DType type,
               std::string_view what);
  // What a read outside a tensor gives, instead of 0.
  void annotate_safe_value(const Buffer& buffer, const Value& value);
  // The dtype of a tile that was allocated before it was known; so far only tile operators have used it.
  void set_dtype(const Buffer& tile, DType type);
  Expr load(const Buffer& buffer, const std::vector<Value>& index);
  // Of an index of a dimension of `extent` elements that is certainly below 0: what it is counted from the
  // end.
  Expr from_end(const std::string& name, const Value& index, const Value& extent) const;
  void store(const Buffer& buffer, const std::vector<Value>& index, const Value& value);
  // Binds a value to a name.  Constants, variables, and whatever stands outside of a kernel stay as they are.
  // A choice of two values, each computed in an arm: `begin_choice`, the one, `begin_else`, the other; then
  // either `drop_choice`, if the arms do nothing besides (else false), or `end_choice`.
  bool begin_choice(const Value& cond);  // false: nothing is done here, there are no arms
  bool drop_choice();
  Expr end_choice(const Value& yes, const Value& no);
  Expr let(const std::string& name, const Value& value);
  // A name for what the value reads from memory now; none if it reads nothing.
  std::optional<Expr> held(const std::string& name, const Expr& value);

  // ── memory, thread by thread ────────────────────────────────────────────────────────────────────────
  // The address of an element; access "r", "w", or "": both.
  // `count`: how many elements are touched from there on, where that is known.
  Expr address(const Buffer& buffer, const std::vector<Value>& index, std::string_view access,
               const std::optional<Value>& count = std::nullopt);
  Expr pointer(const std::string& name);  // a parameter
  // The parameters of these names come first, in this order.
  void order_params(const std::vector<std::string>& names);
  // A tensor at an address, a pointer or an integer; made outside of the kernels it is one of each.
  Buffer tensor_at(const std::string& name, const Value& base, const std::vector<Value>& shape, DType type,
                   const std::optional<std::vector<Value>>& strides = {});
  // op: atomic_add atomic_max atomic_min atomic_or atomic_load atomic_store; returns: what the element held.
  Expr atomic(const std::string& op, const Buffer& buffer, const std::vector<Value>& index,
              const std::optional<Value>& value, const std::string& order, bool returns);
  // Neighbouring elements from one on, as 32-bit words; `what` is the name by which the user asks.
  Expr load_wide(std::string_view what, const Buffer& buffer, const std::vector<Value>& index, int64_t bytes,
                 const std::optional<Value>& predicate);
  void store_wide(std::string_view what, const Buffer& buffer, const std::vector<Value>& index,
                  const Value& value, int64_t bytes, const std::optional<Value>& predicate);
  // kind: call_extern, call_pure_extern, or ptx, which writes the `outputs`, addresses of local variables.
  // key: of what it means (target/foreign.h), or empty.
  Expr foreign(const std::string& kind, const std::string& text, const std::string& key,
               const std::vector<Expr>& outputs, const std::vector<Value>& args, std::optional<DType> type);

  // An instruction of a GPU's, by the name of its row, on addresses and values as its row says
  // (target/instr.h).
  void instruct(std::string_view row, const std::vector<Expr>& operands);

  // ── barriers in memory ──────────────────────────────────────────────────────────────────────────────
  // Barriers whose phases end after so many arrivals each; `what` asks for it.  One thread initialises all of
  // a kernel where it begins.
  Buffer barriers(const std::string& what, const std::string& name, const std::vector<int64_t>& counts);
  void count_arrivals(const std::string& what, const Buffer& words, int64_t number, int64_t count);
  // An instruction on a barrier; no index: on the only one of its buffer.
  // At the barrier of the block of that rank in the cluster.
  void arrive_remote(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                     const Value& rank);
  Expr rank(const std::string& what, const Value& block) const;         // checked, of 32 bits
  Expr cluster_mask(const std::string& what, const Value& mask) const;  // the same
  void cluster_barrier(const std::string& what, std::string_view row);
  void signal_barrier(const std::string& what, std::string_view row, const Buffer& words,
                      const std::vector<Value>& index, const std::optional<Value>& bytes);
  // An arrival, with that row, that gives the state of its phase.
  Expr arrive_for_state(const std::string& what, std::string_view row, const Buffer& words,
                        const std::vector<Value>& index, const std::optional<Value>& bytes);
  // Until the phase of that state has ended; whether it has.
  void wait_for_state(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                      const Value& state);
  Expr test_state(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                  const Value& state);
  // Until the phase of that parity has ended.
  void wait_barrier(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                    const Value& parity);

  // ── values, tile operators ──────────────────────────────────────────────────────────────────────────
  // A call that gives no value is a statement.
  Expr call(std::string_view name, const std::vector<Value>& args, std::optional<DType> type = {});
  // As apply_binary, and "ceildiv", by what is known of the variables here.
  Expr binary(std::string_view op, const Value& a, const Value& b) const;
  // A value for its effect, as a statement.
  void evaluate(const Value& value);
  void tile(std::string_view op, const std::vector<TileOperand>& operands, Attrs attrs);
  // A function of values, as an option of an operator: variables for its arguments, and its results, all of a
  // type. Between the two calls nothing may become a statement; `said` is what the user calls it.
  std::vector<Expr> begin_function(const std::string& said, const std::vector<std::string>& names,
                                   DType type);
  IndexMap end_function(const std::vector<Expr>& vars, const std::vector<Value>& results, DType type);
  // A user's operator: the statements until end_tile are its body.
  void begin_tile(const TileOp& op, const std::vector<TileOperand>& operands, Attrs attrs);
  void end_tile();
  // Where the elements of a shared tile, a tensor (Layout) or a fragment (Fragment) live: instead of what
  // infer_layouts would choose.
  void annotate_layout(const Buffer& buffer, const Layout& layout,
                       const std::string& by = "T.annotate_layout");
  void annotate_layout(const Buffer& buffer, const Fragment& fragment,
                       const std::string& by = "T.annotate_layout");
  // Blocks visit the grid in panels of that many columns (order "row") or rows ("col").
  void use_swizzle(const Value& panel_size, std::string_view order = "row");
  // A condition that holds from here on; over parameters alone, outside of loops and branches, everywhere.
  void assume(const Value& cond);
  void require(const Value& cond, const std::string& message);  // by every call, before it launches anything
  // A line of the report.
  void note(const std::string& pass, const std::string& subject, const std::string& text);
  // The schedule of the kernel's warps, as pass/warp_schedule.h writes it, and the tiles of its pipelines.
  void annotate_schedule(const std::string& text, const std::vector<std::pair<std::string, Buffer>>& tiles);
  // An attribute of the enclosing kernel.
  void annotate(const std::string& key, AttrValue value);

  Function finish();

 private:
  struct LoopHead {
    Expr var, min, extent = {};
    bool begins_below = false;  // does the user's variable begin at a number below 0?
  };
  struct Frame {
    enum class Kind { kernel, loop, while_loop, then_branch, else_branch, group, tile, function } kind;
    Span span;
    Loop loop = Loop::serial;
    std::vector<LoopHead> heads = {};
    Attrs attrs = {};
    Expr cond = {};
    Team team = {};
    Stmt then_body = {};
    const TileOp* op = nullptr;
    std::vector<Operand> operands = {};
    std::vector<Stmt> stmts = {};
    std::string said = {};  // of a function: what the user calls it
  };
  std::shared_ptr<Draft> draft;
  std::vector<Frame> frames;
  std::vector<Expr> dynamics;
  std::vector<Stmt> made_tensors;             // Allocs of those that every kernel has
  std::map<BufferId, std::string> layout_by;  // which call annotated a buffer's layout
  std::vector<std::pair<BufferId, std::vector<int64_t>>> barrier_counts;  // of the kernel that is open
  bool finished = false;

  void require_kernel(std::string_view what) const;
  void check_param_name(const std::string& name) const;
  void check_owner(const Buffer& buffer) const;
  void check_control(const Intrinsic& intrinsic) const;
  Frame close(Frame::Kind kind, std::string_view call);
  void emit(Stmt stmt);
  void leave_names(std::vector<Stmt>& stmts);
  void refuse_in_function() const;
  LoopHead make_head(Loop loop, const std::string& name, const Value& start, const Value& stop,
                     const Value& step, Expr& user_var);
  std::vector<Expr> index_of(const Buffer& buffer, const std::vector<Value>& index,
                             std::string_view verb) const;
  Facts facts_here() const;
  bool is_of_arguments(const Expr& e) const;
  Expr room_for(const std::string& name, size_t dimension, const Expr& extent, int64_t slice);
  int64_t memory_left() const;
  bool does_nothing(const TileOp& op, std::vector<Operand> operands);
  bool emit_as_loops(const TileOp& op, std::vector<Operand> operands, const Attrs& attrs);
  bool is_below_zero(const Expr& index) const;
  Operand tile_operand(const OpInfo& op, size_t i, const TileOperand& operand, std::optional<DType> element);
  // Values become `element`, or keep their types.
  std::vector<Operand> tile_operands(const OpInfo& op, const std::vector<TileOperand>& operands,
                                     std::optional<DType> element);
  void read_first(const OpInfo& op, std::vector<Operand>& operands);
  AttrValue condition_attr(const AttrValue& value);
  AttrValue index_attr(const AttrValue& value);
  Expr named(const Expr& e, const char* name);
  void check_attrs(const OpInfo& op, Attrs& attrs);
  void keep_rows(const Buffer& buffer, const std::string& by);
  void align_tiles(const Intrinsic& row, const std::vector<Expr>& operands);
  Expr wide_place(std::string_view what, const Buffer& buffer, const std::vector<Value>& index, int64_t bytes,
                  const std::optional<Value>& predicate);
  void set_layout(BufferId buffer, const Layout& layout, const std::string& by);
  bool is_barrier(BufferId b) const;
  void refuse_barrier(const Buffer& buffer, std::string_view verb) const;
  Expr word_of(const std::string& what, const Buffer& words, const std::vector<Value>& index) const;
  Expr word_value(const std::string& what, const Value& value, int64_t most) const;
  std::vector<Expr> signal_operands(const std::string& what, const Buffer& words,
                                    const std::vector<Value>& index, const std::optional<Value>& bytes) const;
  Expr has_ended(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                 const Value& state) const;
  std::vector<Stmt> begin_barriers(Span span);
  void check_rank(const std::string& what, const Expr& rank) const;
  void enclose_in_cluster(std::vector<Stmt>& stmts, size_t begin, Span span) const;
  void check_dynamics() const;
  void check_tensor_layout(const Buffer& buffer, const Layout& flat) const;
  void check_loop_layout(const std::vector<LoopHead>& heads, Loop loop, const Attrs& attrs) const;
};

// "A: f32[128, 32]"
std::string describe(const Buffer& buffer);

}  // namespace tl
