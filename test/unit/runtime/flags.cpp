// What flags for nvcc become for NVRTC.
#include <doctest/doctest.h>

#include "runtime/flags.h"

using namespace tl;

namespace {

// The words, each flag's in brackets; an idle one is empty, a refused one is marked.
std::string taken(const std::vector<std::string>& flags) {
  std::string s;
  for (auto& flag : read_flags(flags, "sm_90")) {
    s += "[";
    for (auto& word : flag.words) s += (s.ends_with('[') ? "" : " ") + word;
    s += flag.refusal.empty() ? "]" : "!]";
  }
  return s;
}

}  // namespace

TEST_CASE("flags: those for the host's code change nothing for the device's") {
  for (auto* flag :
       {"-O3", "-O0", "--optimize=2", "-Xcompiler=-fPIC", "-m64", "-t4", "--threads=0", "-g", "--verbose",
        "--expt-relaxed-constexpr", "-expt-extended-lambda", "--resource-usage", "-rdc=false"}) {
    CAPTURE(flag);
    auto flags = read_flags(std::vector<std::string>{flag}, "sm_90");
    CHECK_EQ(flags.size(), 1);
    CHECK(flags[0].words.empty());
    CHECK(!flags[0].idle.empty());
    CHECK(flags[0].refusal.empty());
  }
  CHECK_EQ(taken({"-Xcompiler", "-fPIC,-Wall", "-O", "3", "-ccbin", "g++", "-lineinfo"}),
           "[][][][-lineinfo]");
  CHECK_EQ(read_flags(std::vector<std::string>{"-O", "3"}, "sm_90")[0].said, "-O 3");
}

TEST_CASE("flags: those that NVRTC spells in one way only are written so") {
  CHECK_EQ(taken({"-Xptxas", "-v,-O2"}), "[--ptxas-options=-v --ptxas-options=-O2]");
  CHECK_EQ(taken({"--ptxas-options=-v", "-Xptxas=-dlcm=cg"}),
           "[--ptxas-options=-v][--ptxas-options=-dlcm=cg]");
  CHECK_EQ(taken({"-maxrregcount", "32", "--maxrregcount=64"}), "[-maxrregcount=32][--maxrregcount=64]");
  CHECK_EQ(taken({"--std", "c++20", "-std=c++17"}), "[--std=c++20][-std=c++17]");
}

TEST_CASE("flags: all others are NVRTC's to judge") {
  CHECK_EQ(taken({"-DX=1", "-D", "Y", "-I/a", "-use_fast_math", "--no-such", "-G", "-time=/tmp/x"}),
           "[-DX=1][-D Y][-I/a][-use_fast_math][--no-such][-G][-time=/tmp/x]");
  CHECK_EQ(taken({"-Xptxas"}), "[-Xptxas]");  // without its value
}

TEST_CASE("flags: the chip is the target's, and a kernel is linked to nothing") {
  CHECK_EQ(taken({"-arch=sm_90", "-gencode", "arch=compute_90,code=sm_90", "-arch", "compute_90"}), "[][][]");
  CHECK_EQ(taken({"-arch=sm_80"}), "[!]");
  CHECK_EQ(taken({"-arch=sm_90a"}), "[!]");
  CHECK_EQ(taken({"-gencode=arch=compute_90,code=[sm_90,sm_80]"}), "[!]");
  CHECK_EQ(taken({"-gencode=arch=compute_90,code=[compute_90,sm_90]"}), "[]");
  CHECK_EQ(taken({"-dlto", "-rdc=true", "-rdc", "true", "-dc"}), "[!][!][!][!]");
}
