// Libraries opened at run time: found by name in the folders a loader would search and in those that were
// added, opened once, never closed.
#pragma once
#include <optional>
#include <span>
#include <string>

namespace tl {

// Folders to search first: Python adds site-packages/nvidia/*/lib here.
void add_library_dir(const std::string& folder);

// The path of the first of `names` found in the added folders, in `hints` (folders; `*` stands for any name
// within one level), or where the loader looks.  Names come first: an earlier name in a later folder wins.
std::optional<std::string> find_library(std::span<const char* const> names,
                                        std::span<const std::string> hints = {});

// The file behind a path, told without opening it: path, size and time of change.
std::string file_identity(const std::string& path);

struct Library {
  void* handle = nullptr;
  std::string path;
  explicit operator bool() const { return handle != nullptr; }
  void* find(const char* symbol) const;
  template <class F>
  bool bind(F*& function, const char* symbol) const {
    function = reinterpret_cast<F*>(find(symbol));
    return function != nullptr;
  }
};

// dlopen of a path or plain name; without a handle, `error` says why.
Library open_library(const std::string& path, std::string* error = nullptr);

}  // namespace tl
