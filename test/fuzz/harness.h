// Random programs, run on every target that there is and compared with what they mean; one that fails is
// reduced and written to a file.
#pragma once
#include "fuzz/tile_program.h"
#include "trial.h"

namespace tl::fuzz {

// By threads in step (lockstep.h).
bool ask_lockstep(const Function& f, Trial& trial);
bool ask_wrapping(const Function& f, Trial& trial);  // 64-bit integers are data, and wrap

struct Campaign {
  std::string name;                 // of the files that failures are written to
  int64_t programs = 0, fresh = 0;  // at least: of fixed seeds, of fresh ones (seeds.h)
  double share = 0.3;               // of TL_FUZZ_SECONDS
  Program (*make)(uint64_t seed) = nullptr;
  bool (*oracle)(const Function&, Trial&) = nullptr;  // null: the reference; else they are of level thread
  std::vector<std::string> targets = {};
  Inputs inputs = Inputs::whole;
};
void run_programs(const Campaign& campaign);

// What became of the programs of one kind.  Tests of such kinds are of the suite "programs": tools/fuzz.py
// asks it for the names of the kinds (TL_FUZZ_KINDS), and adds up the lines of the file TL_FUZZ_REPORT.
struct Tally {
  std::string kind;
  int64_t programs = 0, runs = 0, refused = 0, meaningless = 0, failures = 0;
};
void report(const Tally& tally);
bool is_only_named(const std::string& kind);

// Each of the features, a line each, is that of one program in a hundred; and there are no others.
void check_features(std::string_view features, std::map<std::string, int64_t> counts, int64_t programs);

// A failure that is kept: a line says with which arguments it is run, as `tl_opt reduce` takes them.
std::string kept_text(const std::string& text, const Test& test, const std::string& verdict);
Test kept_test(const std::string& text);

}  // namespace tl::fuzz
