// The tensor maps that a thread's latest calls were given: a call of the same function with the same tensors,
// of the same extents, takes them as they are.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device.h"

namespace tl {

class RecentMaps {
 public:
  // All that the maps of a call are made of: the addresses of the tensors, the integers of the call.
  struct Key {
    static constexpr size_t most = 48;
    uint64_t function = 0;  // that is called; no two have one number
    size_t count = 0;
    std::array<uint64_t, most> words;

    void add(uint64_t word) {
      if (count < most) words[count] = word;
      count++;
    }
    bool fits() const { return count <= most; }
  };
  static RecentMaps& of_this_thread();

  const std::vector<EncodedTensorMap>* find(const Key& key) const;
  // They stay until so many other calls have come.
  const std::vector<EncodedTensorMap>& keep(const Key& key, std::vector<EncodedTensorMap> maps);

 private:
  struct Entry {
    Key key = {};
    std::vector<EncodedTensorMap> maps = {};
  };
  std::array<Entry, 8> entries = {};
  size_t next = 0;
};

}  // namespace tl
