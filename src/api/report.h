// Why everything is as it is: what explain() prints.  Facts gathered while compiling, kept in the cache
// with the binary, so that a kernel from the cache explains itself as well.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"
#include "runtime/device.h"

namespace tl {

struct Report {
  struct Item {
    std::string subject, text;  // "A_shared", "f16[128, 32], layout (i, j) -> …"
    std::string pass, place;    // who decided, and the user's line; may be empty
    bool operator==(const Item&) const = default;
  };
  std::string function, target;
  std::vector<Item> items;
  std::vector<Phase> phases;  // of this process; a kernel from the cache has the phases of its loading
  bool from_cache = false;

  std::string text() const;
};

// What the passes noted, and what the device compiler said.
std::vector<Report::Item> report_items(const Function& machine, const Program& program,
                                       const DeviceBinary& binary);

// For CacheEntry::report; reading anything else gives an empty list.
std::string serialize(const std::vector<Report::Item>& items);
std::vector<Report::Item> deserialize_items(std::string_view bytes);

}  // namespace tl
