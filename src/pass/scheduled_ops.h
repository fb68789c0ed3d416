// The operations of a schedule of warps, for those who check it.
#pragma once
#include "base/error.h"
#include "pass/warp_schedule.h"

namespace tl {

// What an operation does to memory, and whether its place among others matters in any case.
struct OpEffects {
  std::set<BufferId> touched = {}, written = {}, read = {};  // storage
  bool is_ordered = false;                                   // it begins, closes or waits for something
};

// A schedule with what its operations do.
struct ScheduledOps {
  const Function& f;
  const Kernel& k;
  const WarpSchedule& s;
  std::map<std::string, OpEffects> effects = {};
  std::map<BufferId, size_t> pipeline_of = {};  // by storage

  ScheduledOps(const Function& f, const Kernel& k, const WarpSchedule& s);
  const OpScope* inner(const Stmt& op) const { return s.scope(op_of(op)); }
  static const std::string& where(const OpScope& scope) {
    static const std::string kernel = "the kernel";
    return scope.loop ? scope.id : kernel;
  }
  template <class... A>
  [[noreturn]] void refuse(fmt::format_string<A...> format, A&&... args) const {
    fail(s.span, "the schedule of warps: {}", fmt::format(format, std::forward<A>(args)...));
  }
};

// Every slot is filled, read and released, in the program's order (check_pipeline_uses.cpp).
void check_pipeline_uses(const ScheduledOps& all);

}  // namespace tl
