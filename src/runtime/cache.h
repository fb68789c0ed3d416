// Compiled functions on disk.  An entry is one file, written under a temporary name and renamed, with a
// checksum and its own key: any number of processes may read and write at once, and an entry that is damaged,
// or was made for another key, counts as missing. Nothing is read from a folder or file that another user
// could have written.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "codegen/program.h"
#include "runtime/device.h"

namespace tl {

struct CacheEntry {
  Program program;
  DeviceBinary binary;
};

struct Cache {
  std::string folder;  // empty: the cache is off
  std::optional<CacheEntry> load(const std::string& key) const;
  bool store(const std::string& key,
             const CacheEntry& entry) const;  // false, after a warning, if it could not
  int clear() const;                          // removes every entry; how many
};

// The folder of TILELANG_CACHE_DIR, else $XDG_CACHE_HOME/tilelang, else ~/.cache/tilelang; off if
// TILELANG_DISABLE_CACHE is set to anything but 0.
Cache disk_cache();

// Receives the warning that the cache cannot be used; standard error by default. Each message is given once.
void set_cache_warning(std::function<void(const std::string&)> hear);

}  // namespace tl
