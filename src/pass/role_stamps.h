// Clock stamps of roles, on request (Options::timeline): one thread of each role writes down when a turn of a
// loop begins and ends, and when the role begins and ends to wait, for a barrier or for products.
//
// The record is the function's last parameter, i64[kernels, blocks, roles, words], of zeros before the call.
// The first blocks of the grid have a row for each role, the one that loads first:
//
//   word 0         how many stamps the role made; those beyond the row are counted, and not kept
//   word 1         the blocks of the grid
//   words 2 and 3  when the role began and ended
//   the others     the stamps in order: cycles << stamp_bits | 2 * interval + (it ends here)
//
// Which intervals there are is an attribute of the kernel: "turn k;wait A_shared_full;products".
#pragma once
#include "pass/walk.h"

namespace tl {

namespace role_record {
constexpr int64_t blocks = 8, roles = 2, words = 1024, head = 4, stamp_bits = 10;
constexpr std::string_view called = "timeline";  // of the parameter, and of the kernels' attribute
}  // namespace role_record

// The function with a record, and its kernels asked to write to it.
Function with_timeline(Function f);
bool wants_timeline(const Kernel& k);

class RoleStamps {
 public:
  // Behind it the kernel's grid stays as it is.  `out`: what the stamps use, in front of all roles.
  RoleStamps(Function& f, size_t kernel, std::vector<Stmt>& out);

  enum class Edge : uint8_t { begin, end };
  // Of an interval with this description, by the role at hand.
  Stmt stamp(const std::string& interval, Edge edge, Span span);
  Stmt around(const std::string& interval, const Stmt& s);
  // What follows is of this role, by this thread of it.
  void begin_role(int64_t number, int64_t thread) { role = number, writer = eq(k.thread, imm(thread)); }
  // A role's statements with what begins and ends its row.
  Stmt whole_role(const Stmt& s) const;
  void describe() const;  // the intervals, as the kernel's attribute

 private:
  Function& f;
  Kernel& k;
  const int64_t number;  // of the kernel
  BufferId record, next;
  Expr block, writer;
  int64_t role = 0;
  std::vector<std::string> intervals = {};

  Expr next_word(Span span) const { return load(u32, next, {}, span); }
  Stmt write(const Expr& word, const Expr& value) const;
  Stmt if_written(const Expr& fits, std::vector<Stmt> stmts, Span span) const;
};

}  // namespace tl
