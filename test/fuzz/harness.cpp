// The loop around the generators, and the kept failures.  Which seeds it takes: seeds.h.
//
//   TL_FUZZ_SECONDS=600   for so long
//   TL_FUZZ_TARGETS=cuda  instead of the simulator and the CPU; several are separated by commas
//   TL_FUZZ_REPORT=file   a line for each kind, for tools/fuzz.py
// With any of them each program runs in a process of its own: one that hangs on a GPU does not end
// otherwise.
#include "fuzz/harness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "fuzz/evaluate.h"
#include "fuzz/lockstep.h"
#include "fuzz/seeds.h"
#include "shrink.h"
#include "unit/codegen/llvm_run.h"

namespace tl::fuzz {

const char* const no_meaning =
    "no meaning: an index overflows, a division by zero, a wild shift, or a float beyond the integer that it "
    "becomes";

static bool ask(const Function& f, Trial& trial, bool wraps) {
  try {
    test::run_lockstep(f, trial, wraps);
    return true;
  } catch (const test::NoMeaning&) {  // the generator's fault
    throw std::logic_error(no_meaning);
  }
}
bool ask_lockstep(const Function& f, Trial& trial) { return ask(f, trial, false); }
bool ask_wrapping(const Function& f, Trial& trial) { return ask(f, trial, true); }

namespace {

constexpr int patience = 120;  // seconds that one program may take
const char* folder = "build/fuzz";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

// Why nothing runs there; asked in another process, as a device that this one has opened is lost to its
// children.
std::string refusal_of(const std::string& target) {
  const char* program = "func main(A: f32[1]):\n  kernel main grid(b: 1) threads(32):\n    fill(A, 1.0)\n";
  Verdict v = judge_apart(program, {.target = target});
  return v.kind == Verdict::Kind::right ? "" : to_string(v);
}

// Those of TL_FUZZ_TARGETS that there are.
std::vector<std::string> asked_for(const char* given) {
  std::vector<std::string> out = split(given, ',');
  std::erase_if(out, [](const std::string& target) {
    std::string why = refusal_of(target);
    if (!why.empty()) MESSAGE("skipped: " << target << " (" << why << ")");
    return !why.empty();
  });
  return out;
}

// Has it instructions that the oldest chip of the simulator lacks?
bool is_newer(const Function& f) {
  const Target& oldest = *find_target("sm_80");
  bool found = false;
  for (auto& k : f.kernels) visit(k.body, [&](const Call& c) { found |= oldest.lacks(*c.intrinsic); });
  return found;
}
bool runs_newer(const std::string& target) {
  const char* program =
      "func main():\n  kernel main grid(b: 1) threads(32):\n    cp_async_bulk_commit_group()\n";
  static std::map<std::string, bool> known;
  auto [it, is_new] = known.emplace(target, false);
  if (is_new) it->second = judge_apart(program, {.target = target}).kind == Verdict::Kind::right;
  return it->second;
}

// The simulator for every program, of a chip that has its instructions, and one level of the CPU in turn.
std::vector<std::string> targets_of(const Campaign& c, const Program& p, int64_t seed) {
  bool newer = is_newer(parse(p.text, "program.ir", text_vocabulary()));
  if (const char* given = std::getenv("TL_FUZZ_TARGETS")) {
    static const std::vector<std::string> asked = asked_for(given);
    std::vector<std::string> out = asked;
    if (c.oracle) std::erase_if(out, [](auto& t) { return t.starts_with("cpu"); });  // thread-level programs
    if (newer) std::erase_if(out, [](auto& t) { return !runs_newer(t); });
    return out;
  }
  std::vector<std::string> out = c.targets;
  static const std::vector<const Target*> cpus = cpu_targets();
  constexpr const char* chips[] = {"sim:sm_80", "sim:sm_90", "sim:sm_90a"};
  for (auto& t : out)
    if (t == "sim")
      t = newer && seed % 3 == 0 ? "sim:sm_90" : chips[seed % 3];
    else if (t == "cpu")
      t = cpus.empty() ? "" : fmt::format("cpu -mcpu={}", cpus[size_t(seed) % cpus.size()]->name);
  std::erase(out, "");
  return out;
}

// Why the program has no meaning, if so: it reads what nobody has written, say.  A smaller one must keep it.
std::string lacks_meaning(const std::string& text, const Test& test) {
  try {
    Function f = complete_tiles(parse(text, "program.ir", text_vocabulary()));
    const char* anyone = test::is_thread_level(f) ? "sim:sm_90" : "reference";
    Trial trial = random_trial(compile_kernel(f, anyone)->program, test.given, test.seed, test.inputs);
    test::run_lockstep(f, trial, test.inputs == Inputs::extreme);
    return "";
  } catch (const test::NoMeaning&) {
    return no_meaning;
  } catch (const std::exception& e) {
    return e.what();
  }
}

struct Run {
  const Campaign& campaign;
  double begin = now(), told = now();
  bool apart = seconds_asked() > 0 || std::getenv("TL_FUZZ_TARGETS") || std::getenv("TL_FUZZ_REPORT");
  int64_t programs = 0, runs = 0, refused = 0, failures = 0, meaningless = 0;
  std::map<std::string, int64_t> refusals = {};

  Test test_of(const Program& p, int64_t seed, const std::string& target) {
    return {.target = target,
            .options = {.skip = p.skip, .stop_after = "", .flags = {}},
            .given = {p.given},
            .seed = uint64_t(seed),
            .inputs = campaign.inputs,
            .tolerance = p.tolerance,
            .first_schedule = uint64_t(seed % 24),
            .schedules = apart ? 3 : 1,
            .oracle = campaign.oracle ? campaign.oracle : std::function<bool(const Function&, Trial&)>()};
  }
  void one(int64_t seed) {
    Program p = campaign.make(uint64_t(seed));
    programs++;
    for (auto& target : targets_of(campaign, p, seed)) {
      Test test = test_of(p, seed, target);
      Verdict v = apart ? judge_apart(p.text, test, patience) : judge(p.text, test);
      if (v.kind == Verdict::Kind::refused) {
        refused++;
        if (refusals[v.text.substr(0, 40)]++ < 2)
          MESSAGE("seed " << seed << " on " << target << ": " << v.text);
      } else if (v.is_failure() && lacks_meaning(p.text, test) == no_meaning) {
        meaningless++;  // no two targets need agree
      } else if (v.is_failure()) {
        failures++, runs++;
        if (!apart) v.text += judge(p.text, test).is_failure() ? "; again so" : "; right the second time";
        keep(p, seed, test, v);
      } else {
        runs++;
      }
    }
  }
  void keep(const Program& p, int64_t seed, const Test& test, const Verdict& v) {
    std::string language = test.target.substr(0, test.target.find_first_of(": "));
    std::string file = fmt::format("{}/{}-{}-{}.ir", folder, campaign.name, seed, language);
    fmt::print(stderr, "{}: program {} on {}: {}; it is being reduced\n", campaign.name, seed, test.target,
               to_string(v));
    std::filesystem::create_directories(folder);
    std::ofstream(file) << kept_text(p.text, test, to_string(v));  // should the reduction not end
    std::string lacks = lacks_meaning(p.text, test);
    if (!lacks.empty()) fmt::print(stderr, "not checked for what smaller programs mean: {}\n", lacks);
    std::string small = shrink(p.text, [&](const std::string& t) {
      return fails_alike(t, test, v, patience) && (!lacks.empty() || lacks_meaning(t, test).empty());
    });
    std::string kept = kept_text(small, test, to_string(judge_apart(small, test, patience)));
    std::ofstream(file) << kept;
    FAIL_CHECK("program " << seed << " on " << test.target << ": " << to_string(v) << "\nreduced, in " << file
                          << ":\n"
                          << kept);
  }
  void run() {
    each_seed({.fixed = campaign.programs, .fresh = campaign.fresh, .share = campaign.share},
              [&](uint64_t seed) {
                one(int64_t(seed));
                if (apart && now() - told > 10) {
                  told = now();
                  fmt::print(stderr, "{}: {} programs, {} refused, {} failures, {:.0f} s\n", campaign.name,
                             programs, refused, failures, told - begin);
                }
                return true;
              });
    for (auto& [text, count] : refusals) MESSAGE(count << " refusals: " << text << " …");
    MESSAGE(campaign.name << ": " << programs << " programs, " << refused << " refused, " << meaningless
                          << " without meaning");
    report({campaign.name, programs, runs, refused, meaningless, failures});
    CHECK(refused + meaningless <= 3 + programs / 100);
  }
};

}  // namespace

void run_programs(const Campaign& campaign) {
  if (!is_only_named(campaign.name)) Run{.campaign = campaign}.run();
}

// ── what tools/fuzz.py asks and adds up ───────────────────────────────────────────────────────────────
bool is_only_named(const std::string& kind) {
  REQUIRE_MESSAGE(std::string_view(doctest::getContextOptions()->currentTest->m_test_suite) == "programs",
                  "the test of a kind of programs is of the suite that tools/fuzz.py runs");
  bool named = std::getenv("TL_FUZZ_KINDS") != nullptr;
  if (named) fmt::print("kind: {}\n", kind);
  return named;
}

void report(const Tally& t) {
  if (const char* file = std::getenv("TL_FUZZ_REPORT"))
    std::ofstream(file, std::ios::app) << fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", t.kind, t.programs, t.runs,
                                                      t.refused, t.meaningless, t.failures);
}

// ── kept failures ─────────────────────────────────────────────────────────────────────────────────────
std::string kept_text(const std::string& text, const Test& test, const std::string& verdict) {
  std::string settings;
  for (auto& pass : test.options.skip) settings += " --skip " + pass;
  for (auto& [name, value] : test.given.values) settings += fmt::format(" --set {}={}", name, value);
  if (test.tolerance > 0) settings += fmt::format(" --tolerance {}", test.tolerance);
  return fmt::format("# {}\n# run: --target \"{}\" --seed {} --inputs {}{}\n{}", verdict, test.target,
                     test.seed, name_of(test.inputs), settings, text);
}

Test kept_test(const std::string& text) {
  Test test{.inputs = Inputs::whole};
  for (auto& line : split(text, '\n')) {
    if (!line.starts_with("# run:")) continue;
    std::vector<std::string> words = split(line, ' ');
    for (size_t i = 0; i + 1 < words.size(); i++) {
      std::string& value = words[i + 1];
      if (words[i] == "--inputs") test.inputs = find_inputs(value).value();
      if (words[i] == "--seed") test.seed = uint64_t(std::stoll(value));
      if (words[i] == "--skip") test.options.skip.push_back(value);
      if (words[i] == "--tolerance") test.tolerance = std::stod(value);
      if (words[i] == "--set")
        test.given.values[value.substr(0, value.find('='))] = std::stod(value.substr(value.find('=') + 1));
    }
  }
  return test;
}

// Where a kept failure is run: all simulators and CPUs with TL_FULL; else where it failed, and in turn one of
// each.
static std::vector<std::string> targets_of_kept(const std::string& text, size_t turn) {
  std::vector<std::string> sims = {"sim:sm_80", "sim:sm_90", "sim:sm_90a"}, cpus;
  for (auto* t : cpu_targets()) cpus.push_back(fmt::format("cpu -mcpu={}", t->name));
  std::string before = "--target ", behind = " --seed";
  size_t begin = text.find(before) + before.size(), end = text.find(behind, begin);
  std::string own = text.substr(begin, end - begin);
  std::erase(own, '"');
  std::vector<std::string> out;
  for (auto& all : {sims, cpus})
    for (size_t i = 0; i < all.size(); i++)
      if (is_full() || all[i] == own || turn % all.size() == i) out.push_back(all[i]);
  return out;
}

void check_features(std::string_view features, std::map<std::string, int64_t> counts, int64_t programs) {
  std::string table, feature;
  for (std::istringstream list{std::string(features)}; std::getline(list >> std::ws, feature);) {
    double share = 100.0 * double(counts[feature]) / double(programs);
    table += fmt::format("  {:5.1f} %  {}\n", share, feature);
    CHECK_MESSAGE(share >= 1, feature);
    counts.erase(feature);
  }
  for (auto& [other, count] : counts) CHECK_MESSAGE(false, "not in the list: " << other << " " << count);
  MESSAGE("of the programs have:\n" << table);
}

}  // namespace tl::fuzz

using namespace tl;

TEST_CASE("reduced former failures do not fail any more") {
  bool has_gpu = fuzz::refusal_of("cuda").empty();
  int64_t files = 0;
  for (auto& entry : std::filesystem::directory_iterator("test/fuzz/kept")) {
    if (entry.path().extension() != ".ir") continue;
    std::ifstream in(entry.path());
    std::string text(std::istreambuf_iterator<char>(in), {});
    CAPTURE(entry.path().string());
    std::vector<std::string> targets = fuzz::targets_of_kept(text, size_t(files++));
    if (has_gpu) targets.push_back("cuda");
    Test test = fuzz::kept_test(text);
    test.schedules = 3;
    Function f = complete_tiles(parse(text, entry.path().string(), text_vocabulary()));
    bool threads = test::is_thread_level(f);
    if (threads) test.oracle = fuzz::ask_lockstep;
    for (auto& target : targets) {
      test.target = target;
      if (threads && target.starts_with("cpu")) continue;
      if (fuzz::is_newer(f) && !fuzz::runs_newer(target)) continue;
      CHECK_EQ(to_string(target == "cuda" ? judge_apart(text, test) : judge(text, test)), "right");
    }
  }
  CHECK(files > 0);
}
