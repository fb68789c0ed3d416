// The disk cache: kept entries, damaged entries, other people's folders.
#include "runtime/cache.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "unit/runtime/folder.h"

using namespace tl;

namespace {

CacheEntry entry_of(const std::string& name) {
  CacheEntry entry;
  entry.program.name = name;
  entry.program.text = std::string(1000, 't');
  entry.binary.bytes = std::string("\0\1\2", 3) + name;
  entry.binary.toolchain = "LLVM 19.1.7";
  entry.binary.resources = {{.entry = name, .registers = 40, .spill_stores = 8}};
  return entry;
}

struct Warnings {
  std::vector<std::string> heard;
  Warnings() {
    set_cache_warning([this](const std::string& text) { heard.push_back(text); });
  }
  ~Warnings() { set_cache_warning(nullptr); }
};

}  // namespace

TEST_CASE("cache: what is stored is found again") {
  TempFolder folder;
  Cache cache{folder.path + "/made/on/demand"};
  std::string key = sha256_hex("one");
  CHECK(!cache.load(key));
  CHECK(cache.store(key, entry_of("one")));
  auto found = cache.load(key);
  REQUIRE(found);
  CHECK_EQ(found->program.name, "one");
  CHECK_EQ(found->binary.bytes, entry_of("one").binary.bytes);
  CHECK(found->binary.resources == entry_of("one").binary.resources);
  CHECK(!cache.load(sha256_hex("two")));
  CHECK(!cache.load("../../etc/passwd"));
  struct stat info;
  REQUIRE(stat(cache.folder.c_str(), &info) == 0);
  CHECK_EQ(info.st_mode & 0777u, 0700u);
  CHECK_EQ(cache.clear(), 1);
  CHECK(!cache.load(key));
  CHECK(!Cache{}.load(key));
  CHECK(!Cache{}.store(key, entry_of("one")));
}

TEST_CASE("cache: a damaged entry is as good as none") {
  TempFolder folder;
  Cache cache{folder.path};
  std::string key = sha256_hex("x"), path = folder.path + "/" + key + ".tlc";
  REQUIRE(cache.store(key, entry_of("x")));
  std::string good = read_file(path).value();
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = char(bad[at] ^ 0x10);
    write_file_atomic(path, bad, 0600);
    CHECK(!cache.load(key));
  }
  for (size_t size : {size_t(0), size_t(5), size_t(42), size_t(43), good.size() / 2, good.size() - 1}) {
    write_file_atomic(path, good.substr(0, size), 0600);
    CHECK(!cache.load(key));
  }
  write_file_atomic(path, good + "x", 0600);
  CHECK(!cache.load(key));
  CHECK(cache.store(key, entry_of("x")));
  CHECK(cache.load(key));
}

TEST_CASE("cache: an entry under the name of another one is as good as none") {
  TempFolder folder;
  Cache cache{folder.path};
  std::string one = sha256_hex("one"), two = sha256_hex("two");
  auto path = [&](const std::string& key) { return folder.path + "/" + key + ".tlc"; };
  REQUIRE(cache.store(one, entry_of("one")));
  REQUIRE(cache.store(two, entry_of("two")));
  write_file_atomic(path(two), read_file(path(one)).value(), 0600);
  CHECK(cache.load(one));
  CHECK(!cache.load(two));
  CHECK(cache.store(two, entry_of("two")));
  REQUIRE(cache.load(two));
  CHECK_EQ(cache.load(two)->program.name, "two");
}

TEST_CASE("cache: nothing that others could have written is used") {
  TempFolder folder;
  Warnings warnings;
  Cache cache{folder.path};
  std::string key = sha256_hex("y"), path = folder.path + "/" + key + ".tlc";
  REQUIRE(cache.store(key, entry_of("y")));
  chmod(path.c_str(), 0620);
  CHECK(!cache.load(key));
  chmod(path.c_str(), 0600);
  CHECK(cache.load(key));
  chmod(folder.path.c_str(), 0777);
  CHECK(!cache.load(key));
  CHECK(!cache.store(key, entry_of("y")));
  REQUIRE_EQ(warnings.heard.size(), 2);  // each told once
  CHECK(warnings.heard[0].find("others may write to") != std::string::npos);
  chmod(folder.path.c_str(), 0700);
  rename(path.c_str(), (folder.path + "/elsewhere").c_str());
  CHECK_EQ(symlink((folder.path + "/elsewhere").c_str(), path.c_str()), 0);
  CHECK(!cache.load(key));
  if (geteuid() == 0) {
    CHECK_EQ(chown(folder.path.c_str(), 12345, 12345), 0);
    CHECK(!cache.load(key));
    CHECK(warnings.heard.back().find("belongs to another user (number 12345)") != std::string::npos);
  }
}

TEST_CASE("cache: several writers of one key, several readers") {
  TempFolder folder;
  Cache cache{folder.path};
  std::string key = sha256_hex("z");
  REQUIRE(cache.store(key, entry_of("z")));
  std::atomic<int> missed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; i++) {
        cache.store(key, entry_of("z"));
        if (!cache.load(key)) missed++;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK_EQ(missed, 0);
  CHECK_EQ(folder.count(), 1);
}

TEST_CASE("cache: the environment says where") {
  setenv("TILELANG_CACHE_DIR", "/somewhere", 1);
  CHECK_EQ(disk_cache().folder, "/somewhere");
  setenv("TILELANG_DISABLE_CACHE", "1", 1);
  CHECK_EQ(disk_cache().folder, "");
  unsetenv("TILELANG_DISABLE_CACHE");
  unsetenv("TILELANG_CACHE_DIR");
  std::string before = environment("XDG_CACHE_HOME");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK_EQ(disk_cache().folder, "/xdg/tilelang");
  if (before.empty())
    unsetenv("XDG_CACHE_HOME");
  else
    setenv("XDG_CACHE_HOME", before.c_str(), 1);
}
