// Schedules of warps: the operations that they name, and the schedule (pass/warp_schedule.h).
#include "api/builder.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/warp_schedule.h"

namespace tl {

void Builder::begin_op(const std::string& id) {
  require_kernel("ws_op");
  begin_group(0, std::max<int64_t>(1, thread_count(draft->function.kernels.back())));
  frames.back().attrs.entries["op"] = id;
}

// An operation of a schedule is no scope in a program's text: what it makes, others may use.
void Builder::leave_names(std::vector<Stmt>& stmts) {
  std::erase_if(stmts, [&](const Stmt& s) {
    auto* n = s.as<Let>();
    bool reads = n && contains(n->value, [](const Load&) { return true; }, [](const Call&) { return true; });
    bool leaves = s.as<Alloc>() || (n && !reads);
    if (leaves) emit(s);
    return leaves;
  });
}

void Builder::annotate_schedule(const std::string& text,
                                const std::vector<std::pair<std::string, Buffer>>& tiles) {
  require_kernel("annotate_ws_schedule");
  Kernel& k = draft->function.kernels.back();
  if (k.attrs.find(schedule_attr)) fail(here(), "annotate_ws_schedule: this kernel has a schedule already");
  for (auto& [pipeline, tile] : tiles) {
    check_owner(tile);
    BufferInfo& info = draft->function[tile.id];
    if (!info.pipeline.empty())
      fail(here(), "annotate_ws_schedule: {} is a tile of two pipelines, {} and {}: each has its own slots",
           info.name, info.pipeline, pipeline);
    info.pipeline = pipeline;
  }
  k.attrs.entries[std::string(schedule_attr)] = text;
  k.schedule_span = here();
}

}  // namespace tl
