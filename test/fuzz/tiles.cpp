// Random tile programs through the whole line of passes: each that fits must get its layouts and code.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "api/kernel.h"
#include "base/error.h"
#include "fuzz/tile_program.h"

using namespace tl;

TEST_CASE("tile programs that fit get a layout and code") {
  const Target& target = *find_target("sm_80");
  int programs = std::getenv("TL_TILE_PROGRAMS") ? std::atoi(std::getenv("TL_TILE_PROGRAMS")) : 300;
  int first = std::getenv("TL_TILE_SEED") ? std::atoi(std::getenv("TL_TILE_SEED")) : 0;
  std::map<std::string, int> refusals;
  int refused = 0;
  for (int seed = first; seed < first + programs; seed++) {
    fuzz::Program p = fuzz::random_program(uint64_t(seed), target.shared_bytes, 200);
    try {
      compile(parse_text(p.text, "fuzz.ir"), target);
    } catch (const std::exception& e) {
      refused++;
      auto* user = dynamic_cast<const CompileError*>(&e);
      std::string text = user ? user->text : std::string("INTERNAL ") + e.what();
      if (refusals[text.substr(0, 60)]++ < 2) MESSAGE("seed " << seed << ": " << text << "\n" << p.text);
    }
  }
  for (auto& [text, count] : refusals) MESSAGE(count << " x " << text);
  MESSAGE(programs << " programs, " << refused << " refused");
  CHECK(refused * 200 <= programs);
  CHECK(refusals.size() <= 6);
}
