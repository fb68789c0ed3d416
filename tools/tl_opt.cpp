// tl_opt: text IR in; parsed, checked, taken through the passes, printed, executed.
//
//   tl_opt FILE                                            parse, check, print
//   tl_opt FILE --target "cuda -arch=sm_80" --stop-after infer_layouts
//   tl_opt FILE --target cpu --emit source                 the generated program
//   tl_opt run FILE --target cpu --check                   random inputs; compared with the reference
//   tl_opt reduce FILE --target sim:sm_80                  a smaller program that fails in the same way
//
// Wrong input answers file:line:column: error: … and exit status 1; a fault of our own has status 2.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>

#include "api/kernel.h"
#include "base/error.h"
#include "ir/text.h"
#include "shrink.h"
#include "trial.h"

namespace tl {
namespace {

struct Arguments {
  std::string file = "-", target, stop_after, emit = "ir", level = "tile";
  std::string inputs = "eighths";
  std::vector<std::string> skip, set;
  bool print_after_all = false, list_passes = false, run = false, check = false, reduce = false;
  uint64_t seed = 1;
  int64_t schedules = 1;
  int timeout = 60;
  double tolerance = 0;
};

std::string read_text(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(file, std::ios::binary);
  if (!in) fail({}, "cannot read {}", file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Function read_function(const Arguments& a, bool complete = true) {
  std::string name = a.file == "-" ? "<stdin>" : a.file;
  Function f = parse(read_text(a.file), name, text_vocabulary());
  Level level = a.level == "tile" ? Level::tile : a.level == "thread" ? Level::thread : Level::machine;
  if (!complete) return f;
  if (level == Level::tile) f = complete_tiles(std::move(f));
  if (auto finding = check(f, level)) fail(finding->span, "{}", finding->text);
  return f;
}

// ── passes ────────────────────────────────────────────────────────────────────────────────────────────
void print_notes(const Function& f, const Target& target) {
  for (auto& n : f.notes) fmt::print("{} {}: {}\n", n.pass, n.subject, n.text);
  for (auto& access : measure_access(f, target)) {
    const BufferInfo& info = f[access.buffer];
    fmt::print("measure_access {}: {}\n", info.name, to_string(access, info.scope));
  }
}

void compile_and_print(const Arguments& a, Function f) {
  ResolvedTarget target = resolve_target(a.target.empty() ? "cuda -arch=sm_80" : a.target);
  if (!target.chip) fail({}, "the reference runs no passes: give another --target, or `tl_opt run`");
  Options options{.skip = a.skip, .stop_after = a.stop_after, .flags = {}};
  auto dump = [&](int number, std::string_view pass, const Function& g) {
    if (a.print_after_all) fmt::print("# {:02}.{}\n{}\n", number, pass, print(g));
  };
  Compiled c = compile(std::move(f), *target.chip, options, dump);
  if (a.emit == "source")
    fmt::print("{}", c.program.text);
  else if (a.emit == "notes")
    print_notes(c.function, *target.chip);
  else if (!a.print_after_all)
    fmt::print("{}", print(c.function));
}

// ── running ───────────────────────────────────────────────────────────────────────────────────────────
// Extents and scalars that the text leaves open, from --set NAME=VALUE.
Given read_settings(const std::vector<std::string>& settings) {
  Given given;
  for (auto& s : settings) {
    size_t equals = s.find('='), read = 0;
    if (equals != s.npos) try {
        given.values[s.substr(0, equals)] = std::stod(s.substr(equals + 1), &read);
      } catch (std::exception&) {
      }
    if (equals == s.npos || read != s.size() - equals - 1) fail({}, "--set {}: expected NAME=NUMBER", s);
  }
  return given;
}

void print_results(const Program& program, Trial& trial) {
  for (size_t i = 0; i < program.params.size(); i++) {
    if (!program.params[i].is_written) continue;
    Tensor& t = trial.tensors[i];
    double sum = 0;
    std::string first;
    for (int64_t n = 0; n < t.size(); n++) {
      sum += t.number(n);
      if (n < 6) first += fmt::format(" {:g}", t.number(n));
    }
    fmt::print("{}: {} elements of {}, sum {:.9g}, first{}\n", program.params[i].name, t.size(),
               to_string(t.type), sum, first);
  }
}

bool agrees(const Program& program, Trial& trial, Trial& wanted) {
  bool good = true;
  for (size_t i = 0; i < program.params.size(); i++) {
    if (!program.params[i].is_written) continue;
    double error = error_of(trial.tensors[i], wanted.tensors[i]);
    bool ok = error <= tolerance(trial.tensors[i].type);
    fmt::print("{}: relative error against the reference {:.2g}{}\n", program.params[i].name, error,
               ok ? "" : ": WRONG");
    good &= ok;
  }
  return good;
}

Inputs inputs_of(const Arguments& a) { return *find_inputs(a.inputs); }

void simulate(CompiledKernel& kernel, Trial& trial, const SimulationOptions& options) {
  SimulationReport report = kernel.simulate(arguments_of(kernel.program, trial), options);
  if (!report.findings.empty()) throw SimulationError(report);
}

int run(const Arguments& a, const Function& f) {
  if (a.level == "thread")
    fail({}, "a program of level thread cannot be run: run it at level tile or machine");
  bool at_machine = a.level == "machine";
  if (at_machine && a.check) fail({}, "--check: the reference runs programs of level tile");
  Settings settings{.options = {.skip = a.skip, .stop_after = "", .flags = {}},
                    .cache = std::nullopt,
                    .dump_dir = "",
                    .at_machine = at_machine};
  auto kernel = compile_kernel(f, a.target.empty() ? "reference" : a.target, settings);
  Trial trial = random_trial(kernel->program, read_settings(a.set), a.seed, inputs_of(a));
  Trial wanted = trial;
  if (kernel->target.kind == "sim")
    simulate(*kernel, trial, {.seed = a.seed, .schedules = a.schedules});
  else
    launch(*kernel, trial);
  print_results(kernel->program, trial);
  if (!a.check) return 0;
  auto reference = compile_kernel(f, "reference", settings);
  launch(*reference, wanted);
  return agrees(reference->program, trial, wanted) ? 0 : 1;
}

// ── reducing ──────────────────────────────────────────────────────────────────────────────────────────
int reduce(const Arguments& a) {
  if (a.level == "thread")
    fail({}, "a program of level thread cannot be run: reduce it at level tile or machine");
  Test test{.target = a.target.empty() ? "sim:sm_80" : a.target,
            .options = {.skip = a.skip, .stop_after = "", .flags = {}},
            .given = read_settings(a.set),
            .seed = a.seed,
            .inputs = inputs_of(a),
            .tolerance = a.tolerance,
            .first_schedule = a.seed,
            .schedules = a.schedules,
            .at_machine = a.level == "machine"};
  std::string text = print(read_function(a, false));
  Verdict verdict = judge_apart(text, test, a.timeout);
  fmt::print(stderr, "{}\n", to_string(verdict));
  if (!verdict.is_failure())
    fail({}, "{}: there is nothing to reduce: it does not fail on {}", a.file, test.target);
  int64_t tried = 0;
  auto lines = [](const std::string& t) { return std::count(t.begin(), t.end(), '\n'); };
  auto fails = [&](const std::string& candidate) {
    tried++;
    return fails_alike(candidate, test, verdict, a.timeout);
  };
  text = shrink(text, fails, [&](const std::string& smaller) {
    fmt::print(stderr, "{} programs tried: {} lines\n", tried, lines(smaller));
  });
  fmt::print("# {}\n{}", to_string(judge_apart(text, test, a.timeout)), text);
  return 0;
}

// ── the command line ──────────────────────────────────────────────────────────────────────────────────
void declare_options(CLI::App& app, Arguments& a) {
  app.add_option("FILE", a.file, "text IR; - is standard input");
  app.add_option("--target", a.target,
                 "cuda -arch=CHIP, sim:CHIP, cpu, cpu -mcpu=CHIP; for `run` also reference");
  app.add_option("--stop-after", a.stop_after, "the last pass to run");
  app.add_option("--skip", a.skip, "a pass to leave out; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--print-after-all", a.print_after_all, "print the IR after every pass");
  app.add_option("--emit", a.emit,
                 "what to print: ir, source, or notes: what the passes decided, and what accesses cost")
      ->check(CLI::IsMember({"ir", "source", "notes"}));
  app.add_option("--level", a.level, "the level of the input")
      ->check(CLI::IsMember({"tile", "thread", "machine"}));
  app.add_flag("--list-passes", a.list_passes, "print the names of the passes, in order");
  auto* run = app.add_subcommand("run", "execute on random inputs")->fallthrough();
  auto* reduce = app.add_subcommand("reduce",
                                    "shrink a program that fails on --target (sim:sm_80), for as long as it "
                                    "fails alike: with a finding of the same kind, with a result that is not "
                                    "the reference's, or by a crash; the smaller program is printed")
                     ->fallthrough();
  for (auto* sub : {run, reduce}) {
    sub->add_option("--seed", a.seed, "of the random inputs, and of the simulator's first order of warps");
    sub->add_option("--schedules", a.schedules, "of the simulator: how many orders of warps are tried");
    sub->add_option("--set", a.set, "NAME=NUMBER: an extent or a scalar; may be repeated")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    sub->add_option("--inputs", a.inputs,
                    "eighths from -1 to 1, whole numbers from -3 to 3, integers at the ends of their types, "
                    "or any bits")
        ->check(CLI::IsMember({"eighths", "whole", "extreme", "bits"}));
  }
  run->add_flag("--check", a.check, "compare with the reference");
  run->callback([&a] { a.run = true; });
  reduce->add_option("--tolerance", a.tolerance,
                     "a result is wrong if it differs by more than so much of its largest number; else by "
                     "more than its type explains");
  reduce->add_option("--timeout", a.timeout, "seconds; a program that takes longer is one that does not end");
  reduce->callback([&a] { a.reduce = true; });
}

int work(const Arguments& a) {
  if (a.list_passes) {
    for (auto name : pass_names()) fmt::print("{}\n", name);
    return 0;
  }
  if (a.reduce) return reduce(a);
  Function f = read_function(a);
  if (a.run) return run(a, f);
  bool passes =
      !a.target.empty() || !a.stop_after.empty() || !a.skip.empty() || a.print_after_all || a.emit != "ir";
  if (passes)
    compile_and_print(a, std::move(f));
  else
    fmt::print("{}", print(f));
  return 0;
}

}  // namespace
}  // namespace tl

int main(int argc, char** argv) {
  tl::Arguments arguments;
  CLI::App app("Reads, checks, compiles and runs text IR.", "tl_opt");
  tl::declare_options(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return tl::work(arguments);
  } catch (const tl::CompileError& e) {
    std::cerr << e.what() << "\n";
    return 1;
  } catch (const std::exception& e) {
    std::cerr << "tl_opt: " << e.what() << "\n";
    return 2;
  }
}
