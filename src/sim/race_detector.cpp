#include "sim/race_detector.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "sim/engine.h"
#include "sim/products.h"

namespace tl::sim {

// ── lists ─────────────────────────────────────────────────────────────────────────────────────────────
std::vector<Stamp>& StampPool::at(uint32_t& list) {
  if (list == 0 && !free.empty()) {
    list = free.back();
    free.pop_back();
  } else if (list == 0) {
    list = uint32_t(lists.size());
    lists.emplace_back();
  }
  return lists[list];
}
void StampPool::release(uint32_t& list) {
  if (list == 0) return;
  lists[list].clear();
  free.push_back(list);
  list = 0;
}

void Findings::add(Finding f, std::array<int64_t, 4> where) {
  astray |= f.kind == Finding::Kind::outside;
  if (again(where)) return;
  size_t at = list.size();  // `most`: not listed
  if (at < most && f.between_blocks) at = place_between_blocks(f);
  for (auto& [key, index] : known) index += index >= at && index != most;
  known.emplace(where, at);
  if (at < most) list.insert(list.begin() + int64_t(at), std::move(f));
}

// In front of races in that tensor within a block: what would order those does not order blocks.
size_t Findings::place_between_blocks(const Finding& f) const {
  auto it = std::ranges::find_if(list, [&](auto& other) {
    return other.kind == Finding::Kind::race && !other.between_blocks && other.buffer == f.buffer;
  });
  return size_t(it - list.begin());
}

bool Findings::again(const std::array<int64_t, 4>& where) {
  if (withdrawn.contains({where[0], where[1], where[3]})) return true;
  auto it = known.find(where);
  if (it == known.end()) return false;
  if (it->second < list.size()) list[it->second].times++;
  return true;
}

void Findings::withdraw(const std::array<int64_t, 4>& where) {
  std::array<int64_t, 3> wherever{where[0], where[1], where[3]};
  if (!withdrawn.insert(wherever).second) return;
  for (auto& [it, at] : known) {
    if (std::array{it[0], it[1], it[3]} != wherever || at >= list.size()) continue;
    list.erase(list.begin() + int64_t(at));
    for (auto& [other, index] : known)
      if (index != most && index > at) index--;
    at = most;
  }
}

// ── a launch ──────────────────────────────────────────────────────────────────────────────────────────
void GlobalShadow::begin(int64_t width, std::vector<Extent> unwritten) {
  unit = width;
  fresh = std::move(unwritten);
  for (auto& [number, page] : pages)
    for (ShadowCell& c : *page) c = {.written = c.written};
}

ShadowCell& GlobalShadow::at(uintptr_t number) {
  uintptr_t which = number / page_size;
  if (which != last.first) {
    auto& page = pages[which];
    if (!page) {
      page = std::make_unique<Page>();
      for (uintptr_t i = 0; i < page_size; i++) (*page)[i].written = !is_fresh(which * page_size + i);
    }
    last = {which, page.get()};
  }
  return (*last.second)[number % page_size];
}

bool GlobalShadow::is_fresh(uintptr_t number) const {
  auto* place = reinterpret_cast<const std::byte*>(number * uintptr_t(unit));
  return std::ranges::any_of(fresh, [&](auto& m) { return place >= m.begin && place < m.end; });
}

bool GlobalShadow::written(uintptr_t number) const {
  auto it = pages.find(number / page_size);
  return it == pages.end() ? !is_fresh(number) : (*it->second)[number % page_size].written;
}

std::string Grid::name(int64_t number) const {
  auto at = index(number);
  std::string text = "block (";
  for (size_t d = 0; d < dims; d++) text += fmt::format("{}{}", d ? ", " : "", at[d]);
  return text + ") of " + kernel;
}

RaceDetector::RaceDetector(const Code& code, Grid grid, Findings& findings, GlobalShadow& cells,
                           const std::vector<Tensor>& tensors, const std::vector<Extent>& written)
    : code(code),
      grid(std::move(grid)),
      findings(findings),
      cells(cells) {
  for (auto& p : code.places) {
    bool meets = p.made_at >= 0 && !written.empty();
    if (p.scope == Scope::global && p.made_at < 0) {
      const Tensor& t = tensors[p.id];
      std::byte *begin = t.data + t.low * p.type.bytes(), *end = t.data + t.high * p.type.bytes();
      for (auto& w : written) meets |= begin < w.end && w.begin < end;
    }
    watched.push_back(meets);
  }
}

std::unique_ptr<BlockWatch> RaceDetector::watch(int32_t block) const {
  return std::make_unique<BlockWatch>(BlockWatch{
      .clocks = Clocks(block, code.thread_count(), code.timelines, code.barriers,
                       code.has_products ? code.thread_count() / code.warp : 0),
      .shared =
          std::vector<ShadowCell>(size_t((code.shared_bytes + code.shared_unit - 1) / code.shared_unit))});
}

namespace {

// Do two accesses to the same place conflict, where nothing orders them?  `since`: not a write.
bool conflicts(const Stamp& since, Touch touch) {
  switch (touch) {
    case Touch::read:
      return Touch(since.how) == Touch::atomic_update;
    case Touch::write:
      return true;
    case Touch::atomic_read:
      return false;
    case Touch::atomic_update:
      return Touch(since.how) == Touch::read;
  }
  return true;
}

const char* verb(Touch t) {
  return t == Touch::read          ? "reads"
         : t == Touch::write       ? "writes"
         : t == Touch::atomic_read ? "atomically reads"
                                   : "atomically updates";
}
const char* past(Touch t) {
  return t == Touch::read          ? "read"
         : t == Touch::write       ? "wrote"
         : t == Touch::atomic_read ? "atomically read"
                                   : "atomically updated";
}

// In whose shared memory an address lies.
const Block& owner_of(const Block& block, const std::byte* at) {
  if (block.cluster)
    for (const Block* b : block.cluster->blocks)
      if (at >= b->shared && at < b->shared + b->code.shared_bytes) return *b;
  return block;
}

// Where a place's element lies in it.
int64_t index_of(const Warp& w, const Place& p, int lane, const std::byte* at) {
  const std::byte* base =
      p.made_at >= 0 ? reinterpret_cast<const std::byte*>(uintptr_t(w.registers[size_t(p.made_at + lane)].i))
      : p.scope == Scope::shared ? owner_of(*w.block, at).shared + p.address
                                 : w.block->tensors[p.id].data;
  return (at - base) / p.type.bytes();
}

// What was written to a place; the user has no name for one that a statement makes for itself.
std::string written_before(const Code& code, const Place& p) {
  Span made = (*code.function)[BufferId{int(p.id)}].span;
  bool own = made && std::ranges::any_of(code.sites, [&](const Site& s) {
               return s.span == made && s.stmt && !s.stmt.as<Alloc>();
             });
  return own ? fmt::format("line {} left behind", made.line) : "was written to " + p.name;
}

}  // namespace

void RaceDetector::access(Warp& w, const Place& p, int lane, const std::byte* at, int64_t bytes, Touch touch,
                          int32_t site, bool same, const Logical* begun, Holes* holes) {
  if (touch == Touch::write) memory_version += !same;
  if (!is_watched(p)) return;
  bool is_shared = p.scope == Scope::shared;
  const Block& owner = is_shared ? owner_of(*w.block, at) : *w.block;
  BlockWatch& watch = *owner.watch;
  Stamp me = w.block->watch->clocks.now(w.first + lane, site);
  me.how = uint8_t(touch);
  if (begun) me.thread = uint16_t(begun->slot), me.epoch = begun->epoch;
  if (begun && begun->block >= 0) me.block = begun->block;
  if (is_shared && me.block != watch.clocks.number()) watch.from_outside[{me.block, me.thread}] = me;
  bool by_proxy = begun && begun->by_proxy;
  StampPool& lists = is_shared ? watch.pool : pool;
  auto begin = is_shared ? uintptr_t(at - owner.shared) : reinterpret_cast<uintptr_t>(at);
  auto unit = uintptr_t(is_shared ? code.shared_unit : cells.unit);
  for (uintptr_t i = begin / unit; i * unit < begin + uintptr_t(bytes); i++) {
    ShadowCell& c = is_shared ? watch.shared[i] : cells.at(i);
    if (touch != Touch::write && (!c.written || c.place != p.storage))
      check_written(w, p, lane, c, at + (int64_t(i * unit) - int64_t(begin)), at, me, holes);
    touch_shadow(c, lists, w, p, lane, me, touch, same, at, by_proxy);
  }
}

void RaceDetector::check_written(Warp& w, const Place& p, int lane, const ShadowCell& c,
                                 const std::byte* unit, const std::byte* at, const Stamp& me, Holes* holes) {
  bool is_shared = p.scope == Scope::shared;
  const Block& owner = is_shared ? owner_of(*w.block, at) : *w.block;
  const BlockWatch& watch = *owner.watch;
  const Clocks& clocks = w.block->watch->clocks;
  bool stale = is_shared && c.written && c.place >= 0 && clocks.ordered(c.write, w.first + lane);
  if (c.written && !stale) return;
  const std::byte* first = std::max(unit, at);
  for (auto& e : forgiven)
    if (first >= e.begin && first < e.end) return;
  Origin origin{.place = p.number,
                .index = index_of(w, p, lane, first),
                .site = me.site,
                .thread = w.first + lane,
                .stale = stale ? c.place : -1};
  if (is_shared && !c.written)
    if (auto it = watch.forgotten.find((unit - owner.shared) / code.shared_unit); it != watch.forgotten.end())
      origin = it->second;
  if (holes)
    holes->push_back({lane_bit(lane), unit - at, is_shared ? code.shared_unit : cells.unit, origin});
  else
    undefined(w, lane, origin, me.site, "is used");
}

void RaceDetector::forgive(Extent memory) {
  for (auto& e : forgiven)
    if (memory.begin >= e.begin && memory.end <= e.end) return;
  std::erase_if(forgiven, [&](auto& e) { return e.begin >= memory.begin && e.end <= memory.end; });
  forgiven.push_back(memory);
}

void RaceDetector::touch_shadow(ShadowCell& c, StampPool& lists, Warp& w, const Place& p, int lane,
                                const Stamp& me, Touch touch, bool same, const std::byte* at, bool by_proxy) {
  const Clocks& clocks = w.block->watch->clocks;
  int64_t thread = w.first + lane;
  bool writes = touch == Touch::write || touch == Touch::atomic_update;
  if (c.write.epoch && !(same && touch == Touch::write) && !clocks.ordered(c.write, thread))
    race(w, p, lane, me, c.write, past(Touch::write), touch, at);
  else if (by_proxy && c.write.epoch)
    check_fence(w, p, lane, me, c.write, touch, at);
  auto check = [&](const Stamp& s) {
    if (s.epoch && conflicts(s, touch) && !clocks.ordered(s, thread))
      race(w, p, lane, me, s, past(Touch(s.how)), touch, at);
  };
  check(c.read);
  if (c.more)
    for (auto& s : lists.read(c.more)) check(s);
  if (writes) {
    c.written = true;
    c.place = p.storage;
  }
  if (touch == Touch::write) {
    c.write = me;
    c.read = {};
    lists.release(c.more);
    return;
  }
  auto covered = [&](const Stamp& s) {
    return !s.epoch ||
           (s.how == me.how && (clocks.ordered(s, thread) || (s.block == me.block && s.thread == me.thread)));
  };
  if (covered(c.read)) {
    c.read = me;
    return;
  }
  auto& more = lists.at(c.more);
  for (auto& s : more)
    if (covered(s)) {
      s = me;
      return;
    }
  constexpr size_t most = 1024;  // all threads of a block
  if (more.size() < most) more.push_back(me);
}

void RaceDetector::registers(Warp& w, const Place& p, int64_t offset, int64_t bytes, LaneMask lanes,
                             bool writes, int32_t site) {
  int64_t unit = code.register_unit;
  if (writes && w.products)
    touch_held(w, p, p.address + offset, p.address + offset + bytes, lanes, true, site);
  if (writes)
    for (int64_t i = (p.address + offset) / unit; i * unit < p.address + offset + bytes; i++)
      w.filled[size_t(i)] |= lanes;
  else
    for (auto& hole : unwritten_registers(w, p, offset, bytes, lanes, site))
      undefined(w, first_lane(hole.lanes), hole.origin, site, "is used");
}

Holes RaceDetector::unwritten_registers(Warp& w, const Place& p, int64_t offset, int64_t bytes,
                                        LaneMask lanes, int32_t site) {
  int64_t unit = code.register_unit, begin = p.address + offset;
  if (w.products) touch_held(w, p, begin, begin + bytes, lanes, false, site);
  Holes holes;
  for (int64_t i = begin / unit; i * unit < begin + bytes; i++)
    if (LaneMask missing = lanes & ~w.filled[size_t(i)])
      for_lanes(missing, [&](int lane) {
        auto it = w.forgotten.find({i, lane});
        int64_t index = std::max<int64_t>(0, i * unit - p.address) / p.type.bytes();
        Origin fresh{.place = p.number, .index = index, .site = site, .thread = w.first + lane};
        holes.push_back(
            {lane_bit(lane), i * unit - begin, unit, it != w.forgotten.end() ? it->second : fresh});
      });
  return holes;
}

void RaceDetector::forget_registers(Warp& w, const Place& p, int64_t offset, int64_t bytes, int lane,
                                    const Origin& origin) {
  int64_t unit = code.register_unit;
  for (int64_t i = (p.address + offset) / unit; i * unit < p.address + offset + bytes; i++) {
    w.filled[size_t(i)] &= ~(lane_bit(lane));
    w.forgotten[{i, lane}] = origin;
  }
}

void RaceDetector::forget_shared(Warp& w, const Place& p, int64_t offset, int64_t bytes,
                                 const Origin& origin) {
  int64_t unit = code.shared_unit, begin = p.address + offset;
  BlockWatch& watch = *w.block->watch;
  for (int64_t i = begin / unit; i * unit < begin + bytes && i < int64_t(watch.shared.size()); i++) {
    watch.shared[size_t(i)].written = false;
    watch.forgotten[i] = origin;
  }
}

void RaceDetector::undefined(Warp& w, int lane, const Origin& origin, int32_t site, const char* how) {
  if (origin.cast != DType()) return misfit(w, lane, origin, site, how);
  if (origin.place < 0) {
    Finding f{.kind = Finding::Kind::unwritten,
              .text = fmt::format(
                  "{} reads the value of lane {}, which does not take part, and a value computed from it {}; "
                  "let every lane that is read take part, or give the shuffle a smaller width",
                  describe_thread(w, lane), origin.index, how)};
    return report(w, lane, std::move(f), origin.site, site);
  }
  const Place& p = code.places[size_t(origin.place)];
  const Span& there = code.sites[size_t(site)].span;
  bool at_once = code.sites[size_t(origin.site)].stmt.get() == code.sites[size_t(site)].stmt.get();
  int32_t other_site = at_once ? -1 : site;
  if (findings.again(key(Finding::Kind::unwritten, origin.site, other_site, p.number))) return;
  std::string line = there ? fmt::format(" (line {})", there.line) : "";
  std::string made = at_once ? "" : fmt::format(", and a value computed from it {}{}", how, line);
  bool own = p.scope == Scope::fragment || p.scope == Scope::local;
  std::string why = own ? "it has not written it" : "no thread has written it";
  if (origin.stale >= 0)
    why = fmt::format("it holds what {}, which was in the same memory before",
                      written_before(code, code.places[size_t(origin.stale)]));
  int reader = origin.thread < 0 ? lane : int(origin.thread - w.first);
  Finding f{.kind = Finding::Kind::unwritten,
            .text = fmt::format("{}[{}] is read by {}, but {}{}; {}", p.name, origin.index,
                                describe_thread(w, reader), why, made, cure_of_unwritten(p))};
  f.buffer = p.name;
  f.index = origin.index;
  report(w, reader, std::move(f), origin.site, other_site, p.number);
}

void RaceDetector::begin_registers(Warp& w, const Place& p, LaneMask lanes) {
  int64_t unit = code.register_unit;
  for (int64_t i = p.address / unit; i * unit < p.address + p.elements * p.type.bytes(); i++)
    w.filled[size_t(i)] &= ~lanes;
}

// ── orders ────────────────────────────────────────────────────────────────────────────────────────────
void RaceDetector::synchronise(Warp& w, int lane, const std::byte* at, MemoryOrder order, bool reads,
                               bool writes) {
  Clocks& clocks = w.block->watch->clocks;
  int64_t thread = w.first + lane;
  bool acquires = reads && (order == MemoryOrder::acquire || order >= MemoryOrder::acq_rel);
  bool releases = writes && order >= MemoryOrder::release;
  tells |= acquires || releases;
  if (acquires)
    if (auto it = released.find(at); it != released.end()) clocks.acquire(thread, it->second);
  // An update without an order passes on what was released before it; a plain store would end that.
  if (releases) {
    KnownRef& carried = released[at];
    carried = merge(carried, clocks.release(thread));
  }
}

// ── findings ──────────────────────────────────────────────────────────────────────────────────────────
// Its first line; of a loop that asks within whether it goes on, all that it does until it is left, on one
// line.
std::string RaceDetector::statement(int32_t site) const {
  const Stmt& stmt = code.sites[size_t(site)].stmt;
  std::string text = stmt ? print(stmt, code.function) : "", line;
  auto* loop = stmt.as<While>();
  bool asks_within = loop && is_int(loop->cond, 1) && text.find("break()") != text.npos;
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    std::string part = text.substr(at, end - at);
    if (at > 0) line += line.ends_with(':') ? " " : "; ";
    line += part.substr(std::min(part.find_first_not_of(' '), part.size()));
    if (!asks_within || part.ends_with("break()")) break;
  }
  return line;
}

void RaceDetector::report(Warp& w, int lane, Finding f, int32_t site, int32_t other_site, int64_t place) {
  f.span = code.sites[size_t(site)].span;
  f.statement = statement(site);
  if (other_site >= 0) {
    f.other = code.sites[size_t(other_site)].span;
    f.other_statement = statement(other_site);
  }
  f.block = w.block->where;
  if (f.thread < 0) f.thread = w.first + lane;
  auto where = key(f.kind, site, other_site, place, f.between_blocks);
  findings.add(std::move(f), where);
}

std::string RaceDetector::name_of(const Warp& w, const Stamp& s) const {
  const Clocks& clocks = w.block->watch->clocks;
  if (s.thread < code.thread_count()) return fmt::format("thread {}", s.thread);
  if (int64_t warp = clocks.warp_of_products(s.thread); warp >= 0)
    return fmt::format("a product that warp {} has begun", warp);
  int64_t owner = clocks.owner(s.thread);
  return owner < 0 ? "a bulk copy" : fmt::format("a copy that thread {} has begun", owner);
}

void RaceDetector::race(Warp& w, const Place& p, int lane, const Stamp& me, const Stamp& other,
                        const char* did, Touch touch, const std::byte* at) {
  const Clocks& clocks = w.block->watch->clocks;
  // What it read there was not written yet for want of that order.
  if (touch != Touch::read) findings.withdraw(key(Finding::Kind::unwritten, other.site, -1, p.number));
  bool same_block = other.block == clocks.number(), between = !same_block && p.scope == Scope::global;
  if (findings.again(key(Finding::Kind::race, me.site, other.site, p.number, between))) return;
  bool begun = me.thread >= code.thread_count();
  int64_t index = index_of(w, p, lane, at);
  const Span& there = code.sites[size_t(other.site)].span;
  std::string who = begun ? "what " + describe_thread(w, lane) + " begins here" : describe_thread(w, lane);
  Finding f{.kind = Finding::Kind::race,
            .text = fmt::format(
                "data race on {}[{}]: {} {} it, {}{} {} it{}, and nothing orders the two; {}", p.name, index,
                who, verb(touch), name_of(w, other), same_block ? "" : " of " + grid.name(other.block), did,
                there ? fmt::format(" on line {}", there.line) : "", cure_of(w, p, lane, other, me))};
  f.other_thread = clocks.owner(other.thread);
  f.between_blocks = between;
  f.buffer = p.name;
  f.index = index;
  f.address = p.scope == Scope::shared ? uint64_t(at - owner_of(*w.block, at).shared)
                                       : reinterpret_cast<uint64_t>(at);
  report(w, lane, std::move(f), me.site, other.site, p.number);
}

// The asynchronous proxy reads what a thread has written, or writes there: only behind that thread's fence is
// it sure to come second.
void RaceDetector::check_fence(Warp& w, const Place& p, int lane, const Stamp& me, const Stamp& write,
                               Touch touch, const std::byte* at) {
  const Clocks& clocks = w.block->watch->clocks;
  bool copied = clocks.is_on(write.thread, Timeline::copies);
  if (!copied && write.thread >= code.thread_count()) return;  // by the same proxy
  int64_t writer = clocks.owner(write.thread);
  Stamp fenced = write;
  bool shared = p.scope == Scope::shared;
  fenced.thread = uint16_t(clocks.slot(copied   ? Timeline::fenced_copies
                                       : shared ? Timeline::fenced
                                                : Timeline::fenced_tensors,
                                       writer));
  if (clocks.ordered(fenced, w.first + lane)) return;
  int64_t index = index_of(w, p, lane, at);
  const Span& there = code.sites[size_t(write.site)].span;
  bool multiplies = clocks.warp_of_products(me.thread) >= 0;
  std::string who = fmt::format("{} that {}{} begins", multiplies ? "wgmma" : "bulk copy",
                                multiplies ? "the warp of " : "", describe_thread(w, lane));
  Finding f{
      .kind = Finding::Kind::fence,
      .text = fmt::format(
          "missing proxy fence: {}[{}] is {} by the {}, but thread {} wrote it{} and has executed no fence{} "
          "since, so {}; let the threads that write execute {}, before the barrier",
          p.name, index, touch == Touch::read ? "read" : "written", who, writer,
          there ? fmt::format(" on line {}", there.line) : "", shared ? "" : " for tensors",
          touch != Touch::read ? "that write may come after the copy"
          : multiplies         ? "the product may be of the old value"
                               : "the copy may read the old value",
          shared ? "T.fence_proxy_async()" : "T.fence_proxy_async(everywhere=True)")};
  f.other_thread = writer;
  f.buffer = p.name;
  f.index = index;
  report(w, lane, std::move(f), me.site, write.site, p.number);
}

}  // namespace tl::sim
