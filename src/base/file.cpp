// Whole-file reading and atomic writing over POSIX calls.
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>

namespace tl {
namespace {

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(size_t(n));
  }
  return true;
}

bool is_folder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string bytes;
  struct stat info;
  if (fstat(file, &info) == 0 && info.st_size > 0) bytes.reserve(size_t(info.st_size));
  char buffer[1 << 16];
  ssize_t n;
  while ((n = ::read(file, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    bytes.append(buffer, size_t(n));
  }
  ::close(file);
  if (n < 0) return std::nullopt;
  return bytes;
}

bool write_file_atomic(const std::string& path, std::string_view bytes, unsigned mode) {
  static std::atomic<unsigned> counter{0};
  std::string temporary = fmt::format("{}.tmp.{}.{}", path, getpid(), counter++);
  int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0 && errno == EEXIST) {  // left by a dead process that had our number
    ::unlink(temporary.c_str());
    file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  }
  if (file < 0) return false;
  bool ok = write_all(file, bytes);
  int error = errno;
  ok = ::close(file) == 0 && ok;
  if (ok && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  if (ok) error = errno;
  ::unlink(temporary.c_str());
  errno = error;
  return false;
}

bool make_folders(const std::string& path, unsigned mode) {
  if (path.empty()) return false;
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    ::mkdir(path.substr(0, at).c_str(), 0755);
  ::mkdir(path.c_str(), mode);
  return is_folder(path);
}

std::string cache_home() {
  std::string xdg = environment("XDG_CACHE_HOME");
  if (!xdg.empty() && xdg[0] == '/') return xdg;
  std::string home = environment("HOME");
  if (home.empty())
    if (const passwd* user = getpwuid(getuid())) home = user->pw_dir;
  return home.empty() ? "" : home + "/.cache";
}

namespace {

struct Overrides {
  std::mutex lock = {};
  std::map<std::string, std::string> values = {};
};
Overrides& overrides() {
  static Overrides& all = *new Overrides;  // threads may ask to the end of the process
  return all;
}

}  // namespace

void set_environment(const std::string& name, std::optional<std::string> value) {
  std::lock_guard guard(overrides().lock);
  if (value)
    overrides().values[name] = *value;
  else
    overrides().values.erase(name);
}

std::string environment(const char* name) {
  {
    std::lock_guard guard(overrides().lock);
    if (auto it = overrides().values.find(name); it != overrides().values.end()) return it->second;
  }
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace tl
