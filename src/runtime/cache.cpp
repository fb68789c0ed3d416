// A cache entry is "tilelang 2\n", the SHA-256 of the rest, and the rest: its key, the program, the binary.
// The key stands inside as well as in the name of the file, so that a file under the name of another entry is
// not taken for it.
#include "runtime/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace tl {

template <class Io>
void fields(Io& io, Resources& v) {
  io(v.entry, v.registers, v.static_shared, v.stack_bytes, v.spill_stores, v.spill_loads, v.refusals);
}
template <class Io>
void fields(Io& io, DeviceBinary& v) {
  io(v.bytes, v.log, v.toolchain, v.resources);
}

namespace {

constexpr std::string_view magic = "tilelang 2\n";
constexpr std::string_view suffix = ".tlc";

std::mutex warning_lock;
std::function<void(const std::string&)>& warning_hook() {
  static auto* hook = new std::function<void(const std::string&)>;
  return *hook;
}

void warn(const std::string& text) {
  static auto* told = new std::set<std::string>;
  std::function<void(const std::string&)> hear;
  {
    std::lock_guard guard(warning_lock);
    if (!told->insert(text).second) return;
    hear = warning_hook();
  }
  if (hear)
    hear(text);
  else
    std::fprintf(stderr, "tilelang: warning: %s\n", text.c_str());
}

// Could anyone but us (or root) have written it?
bool is_ours(const struct stat& info, const std::string& path) {
  if (info.st_uid != geteuid())
    warn(fmt::format("the cache is not used: {} belongs to another user (number {})", path, info.st_uid));
  else if (info.st_mode & (S_IWGRP | S_IWOTH))
    warn(fmt::format("the cache is not used: others may write to {}; `chmod go-w` it", path));
  else
    return true;
  return false;
}

bool folder_is_ours(const std::string& folder) {
  struct stat info;
  return stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && is_ours(info, folder);
}

bool is_key(const std::string& key) {
  return !key.empty() && key.size() <= 128 && key.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::optional<std::string> read_own_file(const std::string& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat info;
  std::optional<std::string> bytes;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && is_ours(info, path)) {
    bytes.emplace(size_t(info.st_size), '\0');
    size_t have = 0;
    while (have < bytes->size()) {
      ssize_t n = ::read(file, bytes->data() + have, bytes->size() - have);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      have += size_t(n);
    }
    bytes->resize(have);
  }
  ::close(file);
  return bytes;
}

std::string encode(const std::string& key, const CacheEntry& entry) {
  ByteWriter writer;
  writer(key, serialize(entry.program), entry.binary);
  auto digest = sha256(writer.bytes);
  return fmt::format("{}{}{}", magic,
                     std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()),
                     writer.bytes);
}

std::optional<CacheEntry> decode(const std::string& key, std::string_view bytes) {
  if (bytes.size() < magic.size() + 32 || !bytes.starts_with(magic)) return std::nullopt;
  std::string_view digest = bytes.substr(magic.size(), 32), rest = bytes.substr(magic.size() + 32);
  if (std::memcmp(sha256(rest).data(), digest.data(), 32) != 0) return std::nullopt;
  CacheEntry entry;
  std::string own_key, program;
  ByteReader reader{rest};
  reader(own_key, program, entry.binary);
  bool whole = reader.ok && reader.bytes.empty() && own_key == key;
  std::optional<Program> read = whole ? deserialize_program(program) : std::nullopt;
  if (!read) return std::nullopt;
  entry.program = std::move(*read);
  return entry;
}

}  // namespace

std::optional<CacheEntry> Cache::load(const std::string& key) const {
  if (folder.empty() || !is_key(key) || !folder_is_ours(folder)) return std::nullopt;
  std::optional<std::string> bytes = read_own_file(fmt::format("{}/{}{}", folder, key, suffix));
  return bytes ? decode(key, *bytes) : std::nullopt;
}

bool Cache::store(const std::string& key, const CacheEntry& entry) const {
  if (folder.empty() || !is_key(key)) return false;
  if (!make_folders(folder, 0700)) {
    warn(fmt::format("the cache is not used: cannot make {}: {}", folder, std::strerror(errno)));
    return false;
  }
  if (!folder_is_ours(folder)) return false;
  if (write_file_atomic(fmt::format("{}/{}{}", folder, key, suffix), encode(key, entry), 0600)) return true;
  warn(fmt::format("the cache is not used: cannot write to {}: {}", folder, std::strerror(errno)));
  return false;
}

int Cache::clear() const {
  DIR* list = folder.empty() ? nullptr : opendir(folder.c_str());
  if (!list) return 0;
  int count = 0;
  while (const dirent* file = readdir(list)) {
    std::string name = file->d_name;
    size_t dot = name.find(suffix);
    bool is_entry = dot != std::string::npos && is_key(name.substr(0, dot));
    if (!is_entry || ::unlinkat(dirfd(list), file->d_name, 0) != 0) continue;
    if (dot + suffix.size() == name.size()) count++;  // and not a temporary that someone left
  }
  closedir(list);
  return count;
}

Cache disk_cache() {
  std::string disabled = environment("TILELANG_DISABLE_CACHE"), folder = environment("TILELANG_CACHE_DIR");
  if (!disabled.empty() && disabled != "0") return {};
  if (!folder.empty()) return {folder};
  std::string home = cache_home();
  return {home.empty() ? "" : home + "/tilelang"};
}

void set_cache_warning(std::function<void(const std::string&)> hear) {
  std::lock_guard guard(warning_lock);
  warning_hook() = std::move(hear);
}

}  // namespace tl
