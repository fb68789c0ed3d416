// What a kernel without calls writes of an assertion that fails, read on the host.
#include "runtime/failure.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using namespace tl;

namespace {

std::string read(int there, std::string_view text) {
  std::string record(4096, '\0');
  int words[] = {there, 1, 2, 3, 40, 50, 60};
  std::memcpy(record.data(), words, sizeof words);
  std::memcpy(record.data() + sizeof words, text.data(), text.size());
  return failure_text(record.data());
}

}  // namespace

TEST_CASE("the record of a failed assertion") {
  std::string_view format =
      "a.py:3: assertion failed: 5%% of %%d, in block (%d, %d, %d), thread (%d, %d, %d)\n";
  CHECK_EQ(read(1, format), "a.py:3: assertion failed: 5% of %d, in block (1, 2, 3), thread (40, 50, 60)");
  CHECK_EQ(read(0, format), "");
  CHECK_EQ(read(1, std::string(4096 - 28, 'x')).size(), 4096 - 28);
}
