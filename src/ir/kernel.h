// A Function: parameters, facts, buffers, and the Kernels that one call launches in order.
#pragma once
#include <algorithm>
#include <optional>

#include "ir/node.h"
#include "ir/tensor_map.h"

namespace tl {

enum class Scope : uint8_t { global, shared, fragment, local };
std::string_view to_string(Scope scope);

// Everything a pass may learn of a buffer.  Nodes hold only the id.
struct BufferInfo {
  std::string name;                // a hint; the printer makes it unique
  DType dtype;                     // of one element
  std::vector<Expr> shape = {};    // i64; constant unless the scope is global
  std::vector<Expr> strides = {};  // global: in elements; empty means row-major
  Scope scope = Scope::global;
  Span span;
  std::optional<IndexMap> layout = {};  // of a shared, local or fragment buffer, after infer_layouts
  int64_t slots = 1;  // shared, between plan_schedule and pipeline_loops: how many iterations use it at once
  int64_t alignment = 0;  // shared: bytes that divide its address, a power of two; 0: the default
  int64_t address = -1;   // shared: byte offset in the block's memory, after plan_memory
  int64_t elements = -1;  // physical size (per thread for fragment and local), after infer_layouts
  BufferId alias_of =
      {};  // another shape or dtype of that buffer's storage, element by element in row-major order
  std::string reducer =
      {};  // local: every thread holds a part of the value; how the parts are combined ("sum", …)
  std::string pipeline = {};  // shared: of the kernel's schedule of warps (pass/warp_schedule.h), whose it is
  Expr safe_value = {};       // global: the constant that a read outside gives; null is 0
  Span layout_span = {};      // where the user gave it its layout, if not where it is made
  BufferId stands_for = {};   // the user's tile that this one of the compiler's holds the elements of
  DType holds = {};           // of a tensor: the storage type that its elements, bytes by now, stand for
};

struct Param {  // a tensor (buffer set) or a scalar (var set)
  std::string name;
  BufferId buffer = {};
  Expr var = {};
};

struct Kernel {
  std::string name;
  std::vector<Expr> grid_vars, grid;  // 1 to 3, x first; i64
  std::vector<int64_t> threads;       // as the user gave them: 1 to 3, x first; empty: the target's default
  Expr thread;                        // the linear thread index within the block, from level thread on
  std::vector<int64_t> cluster = {};  // blocks along each dimension that run together; empty: one
  Attrs attrs;
  Stmt body;
  Span span;
  Span schedule_span = {};  // where the user gave its schedule of warps
};

// Threads that run one program: those of the innermost Group, else of the block.  Its barrier: 0, the block's
// sync_threads(), else bar_sync(barrier, count).
struct Team {
  static constexpr int64_t group = 128;  // threads: a warpgroup
  int64_t first = 0, count = 0;
  int barrier = 0;
  int groups = 0;  // each group of its threads may meet apart: bar_sync_groups(groups, 128); 0: none does
  auto operator<=>(const Team&) const = default;
};

// Something a pass decided that a user may ask about: a line of explain().
struct Note {
  std::string pass, subject, text;
  Span span;
  bool refusal = false;  // something was not done, or done less well than asked
  BufferId buffer = {};  // that it is about, if about one
  std::string by = {},
              strictness = {};  // of a layout: the statement that decided it, and how strongly ("strict", …)
  bool asked = false;           // the program asks for what was not done: an error with Options::strict
  bool warns = false;           // it costs so much that whoever compiles the program is told
};

// What every call checks before it launches anything: a condition over integer parameters, which is a fact as
// well.
struct Check {
  Expr cond;
  std::string message, place;  // "the number is even", "kernel.py:12"
  Span span;
};

struct Function {
  std::string name;
  std::vector<Param> params;
  std::vector<Expr> facts;  // conditions over parameters that hold
  std::vector<Check> checks = {};
  std::vector<BufferInfo> buffers;   // by id
  std::vector<BufferId> workspaces;  // global buffers that the runtime allocates
  std::vector<TensorMap> maps = {};  // of tensors, for instructions that move boxes
  std::vector<Kernel> kernels;
  std::vector<Note> notes;
  Span span;

  const BufferInfo& operator[](BufferId id) const { return buffers[size_t(id.value)]; }
  BufferInfo& operator[](BufferId id) { return buffers[size_t(id.value)]; }
  BufferId storage(BufferId id) const {
    return (*this)[id].alias_of ? (*this)[id].alias_of : id;
  }  // whose it has
  BufferId add(BufferInfo info) {
    buffers.push_back(std::move(info));
    return BufferId{int(buffers.size()) - 1};
  }
};

// The bytes that divide a shared buffer's address: at least a row of all banks of shared memory.
inline int64_t alignment_of(const BufferInfo& b) { return b.alignment ? b.alignment : 128; }
bool may_alias(const Kernel& kernel, BufferId tensor);  // other tensors of a call may overlap it
int64_t thread_count(const Kernel& kernel);             // the product; 0 where the user gave none
int64_t cluster_size(const Kernel& kernel);             // blocks; 1 where there is no cluster
Expr rank_in_cluster(const Kernel& kernel);             // of the block, x first
Team whole_block(const Kernel& kernel);
Team team_of(const Group& group);

}  // namespace tl
