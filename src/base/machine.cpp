#include "base/machine.h"

#include <unistd.h>

namespace tl {

int64_t machine_memory() {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : INT64_MAX;
}

}  // namespace tl
