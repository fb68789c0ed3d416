// For deterministic=True: no result may depend on the order in which the atomic accesses of threads and
// blocks happen. Results that may: sums of floats, each of which is rounded; the previous value of an
// element; two kinds of updates of one buffer, which do not commute; reads of what others update meanwhile;
// stores, of which the last one wins; and foreign text that names an atomic operation.  Integer sums, minima,
// maxima and bitwise or are the same in every order.
#include "pass/check_order.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/build.h"
#include "ir/intrinsic.h"
#include "ir/rewrite.h"
#include "target/effects.h"
#include "target/foreign.h"

namespace tl {
namespace {

using Atomic = Intrinsic::Atomic;

struct Update {
  Atomic kind = Atomic::none;
  Span span;
};

// "atomic_add_tile" is T.atomic_add in a program.
std::string spoken(std::string_view name) {
  if (name.ends_with("_tile")) name.remove_suffix(5);
  return "T." + std::string(name);
}

bool names_atomics(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  for (std::string_view ptx : {"atom.", "red."})  // no part of another word: "ld.shared."
    for (size_t at = text.find(ptx); at != text.npos; at = text.find(ptx, at + 1))
      if (at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]))) return true;
  return text.find("atomic") != text.npos;
}

struct OrderCheck {
  const Function& f;
  const Kernel& kernel;
  std::map<BufferId, Update> updates = {};  // by storage
  std::set<BufferId> written = {};          // in any way

  template <class... A>
  [[noreturn]] static void refuse(Span span, fmt::format_string<A...> format, A&&... args) {
    fail(span, "deterministic=True: {}", fmt::format(format, std::forward<A>(args)...));
  }

  void update(std::string_view name, Atomic kind, BufferId b, Span span) {
    const BufferInfo& info = f[b];
    std::string op = spoken(name);
    if (kind == Atomic::add && info.dtype.is_float())
      refuse(span,
             "{} adds {} to {} in the order in which threads and blocks arrive, and each sum is rounded. "
             "Reduce within the block (T.reduce_sum, T.alloc_reducer), give each block its own part of a "
             "workspace and sum the parts in a second kernel, or add integers",
             op, to_string(info.dtype), info.name);
    auto [it, is_new] = updates.emplace(f.storage(b), Update{kind, span});
    if (!is_new && it->second.kind != kind)
      refuse(
          span,
          "{} updates {}, which the kernel also updates in another way on line {}: which comes first decides "
          "the result. Let one kernel do the one and a second kernel the other, or use two buffers",
          op, info.name, it->second.span.line);
  }

  void call(const Call& n) {
    if (is_foreign(*n.intrinsic)) {
      if (names_atomics(n.args[0].as<StringImm>()->value))
        refuse(n.span, "{} names an atomic operation, whose order is not fixed", describe_foreign(n));
      return;
    }
    Atomic kind = n.intrinsic->atomic;
    if (kind == Atomic::none) return;
    BufferId b = place_of(n.args[0])->buffer;
    if (kind == Atomic::load) return;
    if (kind == Atomic::store)
      refuse(n.span,
             "the last of several atomic_store to an element of {} stays, and which one is last is not "
             "fixed. If each element has one writer, use a plain store",
             f[b].name);
    if (n.dtype != none_type)
      refuse(n.span,
             "{} with return_prev=True gives the previous value of {}, which depends on the order of the "
             "updates. Compute the number that you need from the thread and block indices, or by a scan "
             "(T.cumsum)",
             spoken(n.intrinsic->name), f[b].name);
    update(n.intrinsic->name, kind, b, n.span);
  }

  void tile(const Tile& n) {
    if (const Intrinsic* row = update_of_elements(n))
      update(n.op->name, row->atomic, std::get<Region>(n.operands[0]).buffer, n.span);
  }

  // Others may update it at the same time: those of other blocks, which no barrier of the block holds up.
  bool is_changing(BufferId b) const {
    bool alone = std::ranges::all_of(kernel.grid, [](auto& n) { return is_int(n, 1); });
    return f[b].scope == Scope::global && updates.contains(f.storage(b)) && !alone;
  }
  void read(BufferId b, Span span) const {
    if (is_changing(b))
      refuse(span ? span : updates.at(f.storage(b)).span,
             "{} is read while other blocks update it atomically (line {}): how many have done so by then is "
             "not fixed. Read it in a second kernel",
             f[b].name, updates.at(f.storage(b)).span.line);
  }

  void run() {
    if (names_atomics(kernel.attrs.get_string("source")))
      refuse(kernel.span,
             "the text of T.import_source or prelude= names an atomic operation, whose order is not fixed");
    for (BufferId b : written_buffers(kernel.body)) written.insert(f.storage(b));
    std::set<const Node*> places;  // loads that only name a place
    visit(
        kernel.body,
        [&](const Call& n) {
          if (n.intrinsic == &address_of) places.insert(n.args[0].get());
          call(n);
        },
        [&](const Tile& n) { tile(n); });
    visit(kernel.body, [&](const Call& n) {
      if (n.intrinsic->atomic != Atomic::load) return;
      BufferId b = place_of(n.args[0])->buffer;
      if (written.contains(f.storage(b)))
        refuse(n.span,
               "T.atomic_load reads {}, which this kernel writes: its result depends on which access comes "
               "first. Read it in a second kernel",
               f[b].name);
    });
    if (contains(kernel.body, [](const Call& n) { return n.intrinsic == &sync_grid; })) return;
    visit(
        kernel.body,
        [&](const Load& n) {
          if (!places.contains(&n)) read(n.buffer, n.span);
        },
        [&](const Tile& n) {
          for (size_t i = 0; i < n.operands.size(); i++)
            if (auto* r = std::get_if<Region>(&n.operands[i]); r && n.op->operands[i].access == Access::read)
              read(r->buffer, n.span);
        });
  }
};

}  // namespace

void check_order(const Function& f) {
  for (auto& k : f.kernels) OrderCheck{.f = f, .kernel = k}.run();
}

}  // namespace tl
