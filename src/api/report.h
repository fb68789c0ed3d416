// Why a kernel is compiled as it is: what explain() prints.  A Report is rows, each with the user's place;
// what the passes decided is gathered by explain() (explain.cpp) on request, what the device compiler
// said is kept with the binary, so that a kernel from the cache explains itself as well.
#pragma once
#include <string>
#include <vector>

#include "compile/compile.h"
#include "layout/fragment.h"
#include "pass/measure_access.h"
#include "pass/role_stamps.h"
#include "runtime/device.h"

namespace tl {

struct Report {
  struct KernelRow {  // one launch
    std::string name = {};
    int64_t threads = 1, shared_bytes = 0, private_bytes = 0;  // of a block
    Resources resources = {};
    std::string serialized = {};             // of the refusals, as ptxas says it; empty: none is of this kind
    std::vector<std::string> refusals = {};  // the resources' ones, with what they mean and would mend them
  };
  struct BufferRow {
    std::string kernel = {}, name = {}, scope = {}, dtype = {};  // kernel: empty for tensors
    std::vector<std::string> shape = {};
    std::string map = {};                   // the formula; empty where there is none
    std::optional<Layout> layout = {};      // of a tile in memory: index -> element
    std::optional<Fragment> fragment = {};  // of a tile in registers
    int64_t logical = -1,
            elements = -1;  // of the shape; that it takes (of a fragment: per thread).  -1: unknown
    int64_t bytes = -1, address = -1;              // bytes: of a fragment, per thread
    std::string decided_by = {}, strictness = {};  // "gemm", "strict"; "the user", "annotated"
    Span place = {}, decided_at = {};
    std::vector<std::string> why = {};  // why it exists, or goes where it goes
  };
  struct LoopRow {  // a parallel nest, or an operator that is one
    std::string kernel = {}, name = {};
    std::vector<int64_t> extents = {};
    int64_t threads = 1, registers = 1, lanes = 1, copies = 1;
    bool guarded = false;  // threads and registers make more iterations than there are
    Fragment mapping = {};
    std::string text = {};
    Span place = {};
    std::vector<std::string> refusals = {};
  };
  struct OperatorRow {
    std::string kernel = {}, name = {}, operands = {};
    std::string how = {};                   // the instruction or strategy, or the mapping of its loop
    std::vector<std::string> details = {};  // more that was decided
    std::vector<std::string> refusals = {};
    Span place = {};
  };
  // A pipelined loop: what one turn of it does, in order, and for which iteration.
  struct PipelineRow {
    struct Slots {
      std::string name = {};         // of the tile
      int64_t slots = 1, bytes = 0;  // of one slot
    };
    struct Step {
      std::string text = {};
      std::optional<int64_t> ahead = 0;  // iterations after the one at hand, -1: the one before; none: a wait
      std::string how = {};              // of what is begun, or runs ahead
      int64_t times = 1;                 // one after the other
      Span place = {};
    };
    std::string kernel = {}, name = {};  // of the loop's variable
    std::string role = {};               // whose turn it is, of a loop that roles divide: "load", "compute"
    std::pair<int64_t, int64_t> threads = {};  // of the role: from the first on, to in front of the second
    int64_t registers = 0;                     // of each of them; 0: as many as at the launch
    int64_t num_stages = 0;                    // that were asked for
    std::vector<Slots> tiles = {};
    int64_t bytes_in_flight = 0;   // of a block, at most
    std::vector<Step> steps = {};  // none: it runs in order
    std::vector<std::string> refusals = {};
    Span place = {};
  };
  struct AccessRow {
    std::string kernel = {}, buffer = {}, scope = {};
    AccessCost cost = {};
  };
  struct NoteRow {
    std::string subject = {}, text = {}, pass = {};
    bool refusal = false;
    bool attached = false;  // stands in another row as well
    Span place = {};
  };

  std::string function, target, toolchain;
  int64_t shared_limit = 0;  // bytes of shared memory that the chip lets a block have
  bool from_cache = false;
  std::vector<Phase> phases;  // of this process; a kernel from the cache has the phases of its loading
  std::vector<KernelRow> kernels;
  std::vector<BufferRow> buffers;
  std::vector<LoopRow> loops;
  std::vector<OperatorRow> operators;
  std::vector<PipelineRow> pipelines;
  std::vector<AccessRow> accesses;
  std::vector<NoteRow> notes;
  std::vector<std::string>
      intervals;  // kernel by kernel, what the stamps of its roles are of; see role_stamps.h

  std::string text() const;
};

// The kernels of a program, with what the device compiler said of them.
std::vector<Report::KernelRow> kernel_rows(const Program& program, const DeviceBinary& binary);
std::string place_text(const Span& span);  // "matmul.py:12"; empty where unknown

// Gathers what was decided for `tile`: from the function after infer_layouts, where operators and loops are
// still whole and have their mappings, and from the one at machine level.
void explain(Report& report, const Function& tile, const Function& laid_out, const Function& machine,
             const Target& target);

// The pipelined loops of the program `user`: from the functions after assign_roles, plan_schedule and
// pipeline_loops, and the notes of all passes.
void explain_pipelines(Report& report, const Function& user, const Function& divided, const Function& planned,
                       const Function& made, const std::vector<Note>& notes);

}  // namespace tl
