// What ptxas says, as it says it: lines of CUDA 13.0 and 13.5.
#include "runtime/ptxas_words.h"

#include <doctest/doctest.h>

using namespace tl;

namespace {

Program of_entries(std::vector<std::string> names) {
  Program p;
  for (auto& name : names) {
    EntrySpec entry;
    entry.name = name;
    p.entries.push_back(entry);
  }
  return p;
}

// What is kept of one message, in a program of the one kernel `k`.
std::string kept(const std::string& message) {
  std::vector<Resources> all = parse_resources("ptxas info    : " + message + "\n", of_entries({"k"}));
  REQUIRE_EQ(all.size(), 1);
  return all[0].refusals.size() == 1 ? all[0].refusals[0] : "";
}

constexpr std::string_view loss = "Potential Performance Loss: ",
                           serial = "wgmma.mma_async instructions are ";

}  // namespace

TEST_CASE("ptxas: registers and spills of each entry") {
  auto all = parse_resources(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
      "ptxas info    : Function properties for b\n"
      "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 4 barriers, 512 bytes smem\n",
      of_entries({"a", "b"}));
  CHECK(all[0] == Resources{.entry = "a"});
  CHECK(all[1] == Resources{.entry = "b",
                            .registers = 168,
                            .static_shared = 512,
                            .stack_bytes = 16,
                            .spill_stores = 8,
                            .spill_loads = 12});
}

TEST_CASE("ptxas: what it refuses is kept with the entry that it names") {
  std::string message = std::string("(C7518) ") + std::string(loss) + std::string(serial) +
                        "serialized due to program dependence on compiler-inserted WG.DP in divergent path "
                        "in the function 'b' in line 796\n";
  auto all =
      parse_resources("ptxas info    : " + message + "ptxas info    : " + message, of_entries({"a", "b"}));
  CHECK(all[0].refusals.empty());
  REQUIRE_EQ(all[1].refusals.size(), 1);  // lines of PTX tell nothing: the two are one
  CHECK_EQ(
      all[1].refusals[0],
      "wgmma.mma_async instructions are serialized due to program dependence on compiler-inserted WG.DP in "
      "divergent path (C7518)");
  CHECK_EQ(serialized_by(all[1]), all[1].refusals[0]);
  CHECK_EQ(serialized_by(all[0]), "");
}

TEST_CASE("ptxas: a refusal without a name is every entry's") {
  std::string line =
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine "
      "register "
      "count at entry.\n";
  for (auto& r : parse_resources(line, of_entries({"a", "b"}))) {
    REQUIRE_EQ(r.refusals.size(), 1);
    CHECK_EQ(r.refusals[0], "'setmaxnreg' ignored; unable to determine register count at entry (C7508)");
    CHECK_EQ(serialized_by(r), "");
    CHECK_EQ(brief_refusal(r.refusals[0]), "T.set_max_nreg ignored");
  }
}

TEST_CASE("ptxas: the words count, not the number, which differs between versions") {
  std::string old = kept(
      "(C7519) warpgroup.arrive is injected in around line 170 by compiler to allow use of registers in GMMA "
      "in function 'k'");
  CHECK_EQ(old, "warpgroup.arrive is injected to allow use of registers in GMMA (C7519)");
  CHECK_EQ(brief_refusal(old), "fence added");
  std::string late = kept(
      "(C7519) Potential Performance Loss: wgmma.mma_async instructions are serialized due to program "
      "dependence on compiler-inserted WG.AR in divergent path in the function 'k' in line 1197");
  CHECK_EQ(brief_refusal(late), "products serialized");
  for (auto wait : {"warpgroup.wait", "wgmma.wait_group"})
    CHECK_EQ(brief_refusal(kept(std::string("(C7517) ") + wait +
                                " is injected in around line 178 by compiler to allow use of registers "
                                "defined by GMMA in function 'k'")),
             "wait added");
}

TEST_CASE("ptxas: each refusal that is known says what it means and what mends it") {
  const char* ignored[] = {"(C7504) to maintain compatibility across compilation units.",
                           "(C7505) to allow debugging.",
                           "(C7506) to maintain compatibility into 'extern' call.",
                           "(C7507) to maintain minimum register requirements."};
  for (std::string words : ignored) {
    std::string refusal =
        kept(words.substr(0, 8) + std::string(loss) + "'setmaxnreg' ignored " + words.substr(8));
    CHECK_EQ(brief_refusal(refusal), "T.set_max_nreg ignored");
    CHECK(explain_refusal(refusal).starts_with(refusal + ": every thread keeps the registers of the launch"));
  }
  const char* serialized[] = {
      "the presence of Extern calls in the function 'k'",
      "wgmma pipeline crossing function boundary at a function call in the function 'k'",
      "insufficient register resources for the wgmma pipeline in the function 'k'",
      "insufficient register resources for the function 'k'",
      "non wgmma instructions defining input registers of a wgmma between start and end of the pipeline "
      "stage "
      "in the function 'k'",
      "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the "
      "pipeline "
      "stage in the function 'k'",
      "non wgmma instructions defining accumulator registers of a wgmma between start and end of the "
      "pipeline "
      "stage in the function 'k' in line 426",
      "ill formed pipeline stage in the function 'k'"};
  for (std::string words : serialized) {
    std::string refusal =
        kept("(C7510) " + std::string(loss) + std::string(serial) + "serialized due to " + words);
    CHECK_EQ(brief_refusal(refusal), "products serialized");
    CHECK(explain_refusal(refusal).find(": each product ends before the next begins; ") != std::string::npos);
  }
}

TEST_CASE("ptxas: a refusal that is not known is kept in its own words") {
  std::string refusal = kept("(C7599) Potential Performance Loss: something new in the function 'k'");
  CHECK_EQ(refusal, "something new (C7599)");
  CHECK(explain_refusal(refusal).starts_with(refusal + ": ptxas did not do"));
  CHECK_EQ(kept("(C8001) of another family in the function 'k'"), "");
  CHECK_EQ(kept("(C7599 without an end"), "");
}
