// Whose fault it is that a device compiler refuses a program.
#include "api/refused.h"

#include <doctest/doctest.h>

#include "api/kernel.h"
#include "base/error.h"

using namespace tl;

namespace {

std::string blamed(const BuildError& refusal, const char* body, bool edited) {
  Function f = parse_text(
      std::string("func f(A: f32[64]):\n  kernel f grid(bx: 1) threads(32):\n    ") + body + "\n", "f.ir");
  try {
    blame_refusal(refusal, f, edited);
  } catch (const CompileError& e) {
    return std::string("user: ") + e.what();
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  }
}

}  // namespace

TEST_CASE("a refused program: text that we alone wrote is our fault, all else the user's") {
  Program program;
  program.name = "f";
  BuildError text(program, "NVRTC 13.0", "", "identifier \"twice\" is undefined");
  const char *ours = "A[0] = 1.0", *foreign = "call_extern(\"twice\", \"twice\", A[0])";
  CHECK(blamed(text, ours, false).starts_with("internal: "));
  CHECK(blamed(text, ours, false).find("\"twice\" is undefined") != std::string::npos);
  CHECK(blamed(text, ours, true).starts_with("user: "));
  std::string said = blamed(text, foreign, false);
  CHECK(said.starts_with("user: f.ir:3:5: error: NVRTC 13.0"));
  CHECK(said.find("the external function `twice`") != std::string::npos);
  CHECK(said.find("\"twice\" is undefined") != std::string::npos);
  BuildError flag(program, "LLVM 19.1.7", "--bad", "it knows none");
  CHECK(blamed(flag, ours, false).find("LLVM 19.1.7 refuses the flag '--bad': it knows none") !=
        std::string::npos);
}
