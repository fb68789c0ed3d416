// The list of meanings that were given for foreign code.
#include "target/foreign.h"

#include <list>
#include <mutex>

#include "base/error.h"
#include "ir/intrinsic.h"

namespace tl {
namespace {

struct Entry {
  std::string name, key;
  const void* identity;
  std::shared_ptr<const ForeignEval> eval;
};
struct ForeignEntries {
  std::mutex lock;
  std::list<Entry> entries;
};
// Not destroyed: an eval may belong to an interpreter that ends before this process does.
ForeignEntries& foreign_entries() {
  static auto& made = *new ForeignEntries;
  return made;
}

}  // namespace

std::string add_foreign_eval(const std::string& name, const void* identity, ForeignEval eval) {
  ForeignEntries& r = foreign_entries();
  std::lock_guard guard(r.lock);
  int same_name = 0;
  for (auto& e : r.entries) {
    if (e.name == name && e.identity == identity) return e.key;
    same_name += e.name == name;
  }
  std::string key = same_name ? fmt::format("{}#{}", name, same_name + 1) : name;
  r.entries.push_back({name, key, identity, std::make_shared<const ForeignEval>(std::move(eval))});
  return key;
}

std::shared_ptr<const ForeignEval> find_foreign_eval(const std::string& key) {
  ForeignEntries& r = foreign_entries();
  std::lock_guard guard(r.lock);
  for (auto& e : r.entries)
    if (e.key == key) return e.eval;
  return nullptr;
}

std::string describe_foreign(const Call& n) {
  const std::string& text = n.args[0].as<StringImm>()->value;
  std::string start = text.size() > 40 ? text.substr(0, 40) + "…" : text;
  return n.intrinsic == &inline_ptx ? fmt::format("the PTX `{}`", start)
                                    : fmt::format("the external function `{}`", start);
}

void require_foreign_eval(const Call& n, std::string_view who, Span span) {
  if (find_foreign_eval(n.args[1].as<StringImm>()->value)) return;
  fail(span,
       "{} is text for a GPU, which {} cannot run: give eval=, a Python function that does the same, or "
       "compile for CUDA",
       describe_foreign(n), who);
}

}  // namespace tl
