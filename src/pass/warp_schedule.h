// A schedule of warps that a program gives: which range of warps, a role, executes which of its operations,
// and how tiles go from one role to another through pipelines of slots.
//
// In IR an operation is a Group of the whole block with the attribute `op`; a tile of a pipeline names it;
// the schedule is a text, the kernel's attribute `ws_schedule`, of parts between semicolons:
//   role NAME FIRST LAST REGISTERS      warps [FIRST, LAST); registers of a thread, 0: those of the launch
//   pipeline NAME SLOTS
//   at SCOPE ROLE: STEP STEP …          SCOPE an operation around others (a loop), or `.`, the kernel; a STEP
//                                       an operation, or acquire(P) commit(P) wait(P) release(P) release(P,n)
//
//   kernel main grid(bx: 4) threads(384) {ws_schedule="role load 8 12 24; role math 0 8 240; pipeline ab 3;
//       at . load: loop; at . math: loop; at loop load: acquire(ab) copy commit(ab); …"}:
//     As = shared f16[128, 64] pipeline("ab")
//     group(0 : +384) {op="loop"}:
//       for k in serial(n):
//         group(0 : +384) {op="copy"}: …
#pragma once
#include <functional>
#include <set>

#include "ir/rewrite.h"

namespace tl {

constexpr std::string_view schedule_attr = "ws_schedule", kernel_scope = ".";

struct WarpStep {
  enum class Kind : uint8_t { op, acquire, commit, wait, release } kind = Kind::op;
  std::string name;  // of the operation or pipeline
  int64_t late = 0;  // release: by how many uses of the pipeline
  bool begins() const { return kind == Kind::acquire || kind == Kind::wait; }
  bool produces() const { return kind == Kind::acquire || kind == Kind::commit; }
};
struct WarpRole {
  std::string name;
  int64_t first = 0, last = 0;  // warps
  int64_t registers = 0;        // of a thread; 0: as many as at the launch
};
struct WarpPipeline {
  std::string name;
  int64_t slots = 1;
  std::vector<BufferId> tiles = {};
};
// An operation with others in it, or the kernel: what each role does there, in order.
struct OpScope {
  std::string id;
  Stmt loop = {};                // a For, While or If; null: the kernel
  std::vector<Stmt> names = {};  // in front of the loop
  std::vector<Stmt> body = {};
  size_t parent = 0;                                        // its place among the scopes
  std::map<std::string, std::vector<WarpStep>> steps = {};  // by role

  size_t place_of(const std::string& op) const;  // in the body; its size: not there
};
struct WarpSchedule {
  Span span;
  std::vector<WarpRole> roles = {};
  std::vector<WarpPipeline> pipelines = {};
  std::vector<OpScope> scopes = {};  // the kernel first, each behind the one around it

  size_t pipeline(const std::string& name) const;     // its place
  const OpScope* scope(const std::string& id) const;  // null: that operation is none
  std::vector<WarpStep> steps(const OpScope& scope, const WarpRole& role) const;
};

constexpr int64_t scheduled_warp = 32;  // threads; schedules are for chips with such warps

std::string op_of(const Stmt& s);    // the operation that the statement is; "": none
Stmt without_ops(const Stmt& body);  // as statements like others
// The kernel's schedule, checked; CompileError at the user's line.
WarpSchedule read_warp_schedule(const Function& f, const Kernel& k);
// What of it would change the program's results, or never end (check_warp_schedule.cpp).
void check_warp_schedule(const Function& f, const Kernel& k, const WarpSchedule& s);
// Of every kernel that has one.
void check_warp_schedules(const Function& f);

}  // namespace tl
