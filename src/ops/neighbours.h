// Accesses to several neighbours in one iteration: of the index c*v + r, with r from 0 to c - 1, the r-th of
// c. Where the neighbours lie in registers of one thread, such an access is, for all questions about threads,
// the access v to a fragment of groups of c.
#pragma once
#include "ops/mapping.h"

namespace tl {

// c*v + r; c is 1 where the index is the variable itself.
struct GroupIndex {
  size_t loop;
  int64_t group, place;
};
// Of an index that runs over all of a dimension; nullopt: it is anything else.
std::optional<GroupIndex> group_index(const ParallelNest& nest, const Expr& index, int64_t extent);

// Such an access, to a fragment of that shape, as one to groups; nullopt where it is none.
struct GroupAccess {
  NestAccess access;
  std::vector<int64_t> groups;  // of each dimension
};
std::optional<GroupAccess> group_access(const ParallelNest& nest, const NestAccess& a,
                                        const std::vector<int64_t>& shape);
// The fragment of groups; nullopt where the neighbours lie on different threads.
std::optional<Fragment> fragment_of_groups(const Fragment& fragment, const std::vector<int64_t>& groups);
// The other way: each group in neighbouring registers.
Fragment fragment_of_elements(const Fragment& of_groups, const std::vector<int64_t>& groups);

// A read that neighbouring iterations have in common, of the index v // c: as one in a nest of groups of c
// iterations each, which the index then names, and the mapping of these groups. Nullopt where it is none, or
// the iterations of a group run on different threads.
struct CommonRead {
  ParallelNest nest;
  NestAccess access;
  Fragment mapping;
};
std::optional<CommonRead> common_read(const ParallelNest& nest, const NestAccess& a, const Fragment& mapping,
                                      const std::vector<int64_t>& shape);

}  // namespace tl
