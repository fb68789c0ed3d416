// The pass table and its runner.  A name here is also the command-line word, the dump file and the row of the
// timing report.
#include "compile/compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "arith/simplify.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "ir/rewrite.h"
#include "pass/passes.h"
#include "pass/too_large.h"

namespace tl {
namespace {

struct Pass {
  std::string_view name;
  Function (*run)(Function f, const Target& target);
  Level level;  // what its result must satisfy
  std::string_view needed_by =
      "";                 // the first pass that cannot run without it, where verify would come too late
  bool optional = false;  // users may leave it out (tl.disable_…): what fails then is the compiler's fault
};

constexpr Pass passes[] = {
    // ── tile level: one block, whole tiles ─────────────────────────────────────────────────────────────
    {"canonicalize", canonicalize, Level::tile, "infer_layouts"},
    {"rasterize", rasterize, Level::tile},
    {"clear_in_products", clear_in_products, Level::tile},
    {"assign_roles", assign_roles, Level::tile, "", true},
    {"launch_early", launch_early, Level::tile, "", true},
    {"plan_schedule", plan_schedule, Level::tile},
    {"pipeline_loops", pipeline_loops, Level::tile},
    {"move_boxes", move_boxes, Level::tile, "", true},
    // Beyond this point the order of tile operators is fixed.
    {"infer_layouts", infer_layouts, Level::tile, "lower_tile_ops"},
    // Beyond this point every shared and fragment buffer has a layout.
    {"lower_tile_ops", lower_tile_ops, Level::thread},
    // ── thread level: one thread, explicit tx ──────────────────────────────────────────────────────────
    {"peel_blocks", peel_blocks, Level::thread},
    {"peel_loops", peel_loops, Level::thread},
    {"guard_bounds", guard_bounds, Level::thread},
    {"flatten_buffers", flatten_buffers, Level::thread, "vectorize"},
    {"vectorize", vectorize, Level::thread},
    {"legalize_dtypes", legalize_dtypes, Level::thread},
    {"begin_copies", begin_copies, Level::thread},
    {"narrow_index", narrow_index, Level::thread},
    {"fuse_loops", fuse_loops, Level::thread},
    {"hoist_invariants", hoist_invariants, Level::thread},
    // ── machine level: memory placed, barriers in ──────────────────────────────────────────────────────
    {"plan_memory", plan_memory, Level::machine},
    // Beyond this point addresses in shared memory are numbers.
    {"insert_sync", insert_sync, Level::machine},
    {"keep_results", keep_results, Level::machine},
    {"gather_warps", gather_warps, Level::machine},
    {"unroll", unroll, Level::machine},
};

struct Printer {
  const char* phase;
  const Language* language;
  Program (*print)(const Function& f, const Target& target);
};
constexpr Printer printers[] = {{"print_cuda", &cuda_language, print_cuda},
                                {"print_hip", &hip_language, print_hip},
                                {"print_llvm", &llvm_language, print_llvm}};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void check_names(const Options& o) {
  auto names = pass_names();
  auto known = [&](std::string_view n) { return std::ranges::find(names, n) != names.end(); };
  std::vector<std::string> asked = o.skip;
  if (!o.stop_after.empty()) asked.push_back(o.stop_after);
  for (auto& n : asked)
    if (!known(n)) fail({}, "there is no pass '{}'; the passes are {}", n, fmt::join(names, ", "));
}

// A pass may need what another was to do.  If that one was left out on demand, this is no fault of the
// compiler.
template <class F>
void blaming_skips(const Options& options, std::string_view pass, F work) {
  auto may_be_needed = [&](const Pass& p) { return !p.optional && contains(options.skip, p.name); };
  if (std::ranges::none_of(passes, may_be_needed)) return work();
  auto blame = [&](std::string_view why) {
    fail({}, "{} needs a pass that was skipped ({}): run that one too, or stop before with --stop-after{}{}",
         pass, fmt::join(options.skip, ", "), why.empty() ? "" : "; what is missing: ", why);
  };
  for (auto& p : passes)
    if (p.needed_by == pass && contains(options.skip, p.name)) blame("");
  try {
    work();
  } catch (const InternalError& e) {
    blame(e.what());
  }
}

// Runs `work`, which returns a T, and adds its time to the phases.
template <class F>
auto timed(std::vector<PhaseTime>& phases, const char* name, F work) {
  look();
  now_at(name);
  auto begin = std::chrono::steady_clock::now();
  auto result = work();
  phases.push_back(
      {name, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count()});
  return result;
}

Compiled run_passes(Function f, const Target& target, const Options& options, const Dump& dump) {
  Compiled c{.function = std::move(f)};
  int number = 0;
  for (auto& pass : passes) {
    number++;
    if (!contains(options.skip, pass.name))
      blaming_skips(options, pass.name, [&] {
        c.function = timed(c.phases, pass.name.data(),
                           [&] { return simplify(pass.run(std::move(c.function), target)); });
        verify(c.function, pass.level, pass.name);
      });
    if (dump) dump(number, pass.name, c.function);
    if (options.stop_after == pass.name) return c;
  }
  return c;
}

// Takes a slot from the tiles of a kernel's pipelined loops; false where they have one only.
bool take_slot(Kernel& kernel) {
  int64_t most = 1;
  visit(kernel.body, [&](const For& n) {
    if (n.loop == Loop::pipelined) most = std::max(most, n.attrs.get_int("num_stages"));
  });
  most = std::min(most, kernel.attrs.get_int("most_stages", most));
  if (most > 1) kernel.attrs.entries.insert_or_assign("most_stages", most - 1);
  return most > 1;
}

// Padding of the compiler's own, tiles for sums that change hands, and second slots of tiles that roles load
// beside loops are left out where tiles do not fit into shared memory, which is known after all layouts are.
// Then num_stages is a wish: the largest number that fits is taken.
Compiled run_fitting(Function f, const Target& target, const Options& options, const Dump& dump) {
  for (;;) {
    try {
      return run_passes(f, target, options, dump);
    } catch (const TilesTooLarge& e) {
      const Shortage& s = e.shortage;
      Kernel& k = f.kernels[s.kernel];
      bool was_padded = k.attrs.entries.emplace("unpadded", s.needed).second && s.is_padded();
      if (was_padded && s.padding) continue;
      k.attrs.entries.erase("unpadded");
      auto is_own = [&](auto& tile) { return tile.buffer.value >= int(f.buffers.size()); };
      bool has_own = std::ranges::any_of(s.tiles, is_own);
      if (has_own && k.attrs.entries.emplace("sums_stay", int64_t(1)).second) continue;
      if (s.second_slots)
        k.attrs.entries.emplace("one_slot_beside", int64_t(1));
      else if (contains(options.skip, "plan_schedule") || !take_slot(k)) {
        if (!was_padded) throw too_large(s, &f);
        k.attrs.entries.emplace("unpadded", s.needed);  // so that the message speaks of the program's sizes
      }
    }
  }
}

// What the program asks for in so many words is done, or is an error.
void check_strict(const Function& f) {
  for (const Note& n : f.notes)
    if (n.asked)
      fail(n.span,
           "{}: {}; strict=True makes an error of what is asked for and not done: ask for what can be "
           "done, or compile without strict",
           n.subject, n.text);
}

}  // namespace

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (auto& p : passes) names.push_back(p.name);
  return names;
}

std::string fingerprint(const Options& o) {
  std::string text = fmt::format(
      "stop {}\nfast_math {}\ndeterministic {}\nstrict {}\nown_barriers {}\nlines {}\n"
      "timeline {}\n",
      o.stop_after, o.fast_math, o.deterministic, o.strict, o.own_barriers, o.line_directives, o.timeline);
  for (auto& s : o.skip) text += fmt::format("skip {} {}\n", s.size(), s);
  for (auto& f : o.flags) text += fmt::format("flag {} {}\n", f.size(), f);
  return text;
}

Compiled compile(Function f, const Target& target, const Options& options, const Dump& dump) {
  check_names(options);
  if (options.line_directives)
    for (Kernel& k : f.kernels) k.attrs.entries["line_directives"] = int64_t(1);
  if (options.own_barriers)
    for (Kernel& k : f.kernels) k.attrs.entries["own_barriers"] = int64_t(f.buffers.size());
  verify(f, Level::tile, "the front end");
  Compiled c = run_fitting(std::move(f), target, options, dump);
  if (options.strict) check_strict(c.function);
  if (!options.stop_after.empty()) return c;
  Target chip = target;
  chip.fast_math = options.fast_math;
  std::string language(target.language->name);
  for (auto& printer : printers)
    if (printer.language == target.language)
      blaming_skips(options, "the printer of " + language, [&] {
        c.program = timed(c.phases, printer.phase, [&] { return printer.print(c.function, chip); });
      });
  internal_check(!c.program.text.empty(), "a printer for " + language);
  for (const Note& n : c.function.notes)
    if (n.warns && !contains(c.program.warnings, n.text)) c.program.warnings.push_back(n.text);
  c.program.flags.insert(c.program.flags.end(), options.flags.begin(), options.flags.end());
  if (options.fast_math) c.program.flags.push_back("--use_fast_math");
  return c;
}

}  // namespace tl
