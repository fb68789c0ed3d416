// Hashes, files, libraries, bytes.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/dylib.h"
#include "base/file.h"
#include "base/hash.h"
#include "unit/runtime/folder.h"

using namespace tl;

TEST_CASE("sha256: the vectors of FIPS 180-4") {
  CHECK_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(sha256_hex(std::string(1000000, 'a')),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK_EQ(sha256_hex(std::string(55, 'x')), sha256_hex(std::string(55, 'x')));
  CHECK(sha256_hex(std::string(63, 'x')) != sha256_hex(std::string(64, 'x')));
}

TEST_CASE("files: whole or not at all, also for many writers at once") {
  TempFolder folder;
  std::string path = folder.path + "/file";
  CHECK(!read_file(path));
  CHECK(write_file_atomic(path, "one", 0600));
  CHECK_EQ(read_file(path).value(), "one");
  struct stat info;
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK_EQ(info.st_mode & 0777u, 0600u);

  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (!stop) {
      std::string seen = read_file(path).value_or("missing");
      if (seen != "one" && (seen.size() != 50000 || seen != std::string(50000, seen[0]))) torn++;
    }
  });
  std::vector<std::thread> writers;
  for (char c : {'a', 'b', 'c'})
    writers.emplace_back([&, c] {
      for (int i = 0; i < 40; i++) write_file_atomic(path, std::string(50000, c));
    });
  for (std::thread& t : writers) t.join();
  stop = true;
  reader.join();
  CHECK_EQ(torn, 0);
  CHECK_EQ(folder.count(), 1);  // no temporary is left

  CHECK(!write_file_atomic(folder.path + "/no/such", "x"));
  CHECK(make_folders(folder.path + "/a/b/c", 0700));
  CHECK(write_file_atomic(folder.path + "/a/b/c/d", ""));
  CHECK_EQ(read_file(folder.path + "/a/b/c/d").value(), "");
}

TEST_CASE("bytes: a short or odd record is noticed") {
  ByteWriter writer;
  writer(int32_t(7), std::string("seven"), std::vector<int64_t>{1, 2, 3});
  for (size_t size = 0; size <= writer.bytes.size(); size++) {
    ByteReader reader{std::string_view(writer.bytes).substr(0, size)};
    int32_t number = 0;
    std::string text;
    std::vector<int64_t> list;
    reader(number, text, list);
    CHECK_EQ(reader.ok, size == writer.bytes.size());
    if (reader.ok) CHECK((number == 7 && text == "seven" && list == std::vector<int64_t>{1, 2, 3}));
  }
  ByteReader huge{std::string_view("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)};
  std::string text;
  huge(text);
  CHECK(!huge.ok);
}

TEST_CASE("libraries: added folders come first, earlier names win") {
  TempFolder folder;
  REQUIRE(make_folders(folder.path + "/v-2/lib"));
  REQUIRE(write_file_atomic(folder.path + "/v-2/lib/libtlnone.so.2", "not a library"));
  const char* const names[] = {"libtlnone.so.3", "libtlnone.so.2"};
  CHECK(!find_library(names));
  const std::string hints[] = {folder.path + "/v-*/lib"};
  CHECK_EQ(find_library(names, hints).value(), folder.path + "/v-2/lib/libtlnone.so.2");
  REQUIRE(write_file_atomic(folder.path + "/libtlnone.so.3", ""));
  add_library_dir(folder.path);
  CHECK_EQ(find_library(names, hints).value(), folder.path + "/libtlnone.so.3");
  std::string error;
  CHECK(!open_library(folder.path + "/libtlnone.so.3", &error));
  CHECK(!error.empty());
  CHECK(file_identity(folder.path + "/libtlnone.so.3") !=
        file_identity(folder.path + "/v-2/lib/libtlnone.so.2"));
}
