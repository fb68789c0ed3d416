// A folder of its own for a test, removed at the end.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tl {

struct TempFolder {
  std::string path;
  TempFolder() {
    std::string made = (std::filesystem::temp_directory_path() / "tl_test_XXXXXX").string();
    path = mkdtemp(made.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  int count() const {
    int n = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(path)) n++;
    return n;
  }
};

}  // namespace tl
