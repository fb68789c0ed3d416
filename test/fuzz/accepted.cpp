// NVRTC takes the CUDA text of random programs: what no test without a GPU runs is compiled at least.
#include <doctest/doctest.h>

#include "base/error.h"
#include "compile/compile.h"
#include "fuzz/integer_text.h"
#include "fuzz/seeds.h"
#include "fuzz/thread_program.h"
#include "runtime/find.h"
#include "trial.h"

using namespace tl;

TEST_CASE("NVRTC takes the CUDA text of random programs") {
  if (!find_nvrtc()) {
    MESSAGE("NVRTC is not installed: no CUDA text was compiled");
    return;
  }
  // Whether a chip has an instruction only the assembler knows, which makes a binary: for the oldest chip,
  // that lacks the most, some are assembled too.
  auto takes = [](const std::string& text, const Target& chip, auto build_it) {
    Program program;
    try {
      program = compile(parse_text(text, "fuzz.ir"), chip).program;
    } catch (const CompileError&) {
      return;  // a program may ask for more than there is
    }
    CAPTURE(program.text);
    CHECK_NOTHROW(build_it(program));
  };
  const Target &newer = *find_target("sm_90"), &oldest = *find_target("sm_75");
  fuzz::each_seed({.fixed = 60, .fresh = 20, .share = 0.05}, [&](uint64_t seed) {
    fuzz::Program source = seed % 3 == 0   ? fuzz::random_integers(seed)
                           : seed % 3 == 1 ? fuzz::random_thread_program(seed)
                           : seed % 6 == 5 ? fuzz::random_boxes(seed)
                                           : fuzz::random_program(seed, newer.shared_bytes, 200);
    CAPTURE(seed);
    CAPTURE(source.text);
    takes(source.text, newer, ptx_of);
    if (seed % 3 != 1 && seed % 4 < 2) takes(source.text, oldest, build);
    return true;
  });
}
