// Searching, identifying and opening shared libraries.
#include "base/dylib.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <vector>

#include "base/file.h"

namespace tl {
namespace {

std::mutex added_lock;
std::vector<std::string>& added_dirs() {
  static auto* dirs = new std::vector<std::string>;
  return *dirs;
}

std::vector<std::string> expand(const std::string& pattern) {
  if (pattern.find('*') == std::string::npos) return {pattern};
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::sort(paths.rbegin(), paths.rend());  // the newest version first
  return paths;
}

// What ld.so would search: LD_LIBRARY_PATH, the folders of ld.so.conf, and the built-in ones.
std::vector<std::string> loader_dirs() {
  std::vector<std::string> dirs;
  std::istringstream path(environment("LD_LIBRARY_PATH"));
  for (std::string dir; std::getline(path, dir, ':');)
    if (!dir.empty()) dirs.push_back(dir);
  for (const std::string& conf : expand("/etc/ld.so.conf.d/*.conf")) {
    std::istringstream lines(read_file(conf).value_or(""));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty() && line[0] == '/') dirs.push_back(line.substr(0, line.find_last_not_of(" \t\r") + 1));
  }
  for (const char* dir : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/lib",
                          "/usr/lib64", "/usr/lib", "/lib64", "/lib"})
    dirs.push_back(dir);
  return dirs;
}

}  // namespace

void add_library_dir(const std::string& folder) {
  std::lock_guard guard(added_lock);
  auto& dirs = added_dirs();
  if (std::ranges::find(dirs, folder) == dirs.end()) dirs.push_back(folder);
}

std::optional<std::string> find_library(std::span<const char* const> names,
                                        std::span<const std::string> hints) {
  std::vector<std::string> dirs;
  {
    std::lock_guard guard(added_lock);
    dirs = added_dirs();
  }
  for (const std::string& hint : hints)
    for (std::string& dir : expand(hint)) dirs.push_back(std::move(dir));
  for (std::string& dir : loader_dirs()) dirs.push_back(std::move(dir));
  for (const char* name : names)
    for (const std::string& dir : dirs)
      if (std::string path = dir + "/" + name; access(path.c_str(), R_OK) == 0) return path;
  return std::nullopt;
}

std::string file_identity(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return path;
  return fmt::format("{} {} {}.{:09}", path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

void* Library::find(const char* symbol) const { return handle ? dlsym(handle, symbol) : nullptr; }

Library open_library(const std::string& path, std::string* error) {
  Library library{dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL), path};
  if (!library && error) *error = dlerror();
  return library;
}

}  // namespace tl
