// The layouts of shared tiles that operators want. A requirement is granted: of the layouts that an operator
// can work with, the first that suits all operators with requirements on the tile. Else operators that want
// different layouts get the one, of theirs and of those that spread over the banks, under which all their
// accesses to the tile together take the fewest bank cycles.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/mapping.h"
#include "ops/warp_accesses.h"
#include "pass/inference.h"
#include "pass/share_storage.h"

namespace tl {
namespace {

// An operator would like this layout of a tile, for it reads it so.
struct Demand {
  Stmt stmt;
  Layout layout;
  std::vector<WarpAccess> reads;
};
// An operator can work with these alone, best first.
struct Requirement {
  Stmt stmt;
  std::vector<Layout> any;
};
struct Wanted {
  std::map<BufferId, std::vector<Demand>> demands;
  std::map<BufferId, std::vector<Requirement>> required;
};

std::string subject_and_line(const Stmt& s) {
  return subject_of(s) + (s->span ? fmt::format(" on line {}", s->span.line) : "");
}

// Every operator that strictly wants something of a tile, asked in the order of the text.
Wanted ask_strictly(Inference& in) {
  Wanted out;
  for (LayoutItem& item : in.items) {
    if (item.nest || !item.stmt.as<Tile>()) continue;
    LayoutDecisions wanted = ask(in, item, Strictness::strict);
    for (auto& [b, any] : wanted.required) out.required[b].push_back({item.stmt, std::move(any)});
    for (auto& [b, layout] : wanted.shared) {
      if (!out.demands.contains(b) && in.known.shared.contains(b))
        continue;                                   // the user's, or another shape's
      if (!fits_others(layout, in.f, b)) continue;  // `learn` says so
      if (in.known.shared.emplace(b, layout).second) share(in, b);
      out.demands[b].push_back({item.stmt, layout, std::move(wanted.reads[b])});
    }
  }
  return out;
}

void replace_layout(Inference& in, BufferId b, Layout layout) {
  for (size_t i = 0; i < in.f.buffers.size(); i++)  // its other shapes lie as it does
    if (in.f.storage(BufferId{int(i)}) == in.f.storage(b)) in.known.shared.erase(BufferId{int(i)});
  in.known.shared.emplace(b, std::move(layout));
  share(in, b);
}

// ── what is weighed ───────────────────────────────────────────────────────────────────────────────────
std::vector<WarpAccess> all_accesses(const BufferInfo& tile, const std::vector<Demand>& demands,
                                     const Target& target) {
  std::vector<WarpAccess> all;
  for (auto& d : demands) all.insert(all.end(), d.reads.begin(), d.reads.end());
  if (!all.empty()) all.push_back(copy_writes(tile_shape(tile), tile.dtype.bits, target));
  return all;
}

// The cheapest layout that fits into memory and allows all views of the tile's storage, as the demands do;
// the first operator's own where no operator says how it reads.
Layout weigh(const Inference& in, BufferId id, const std::vector<Demand>& demands) {
  const BufferInfo& tile = in.f[id];
  std::vector<WarpAccess> accesses = all_accesses(tile, demands, in.target);
  std::vector<Layout> family;
  for (auto& d : demands) family.push_back(d.layout);
  if (accesses.empty()) return family[0];
  for (auto& l : bank_family(tile_shape(tile), tile.dtype.bits))
    if (fits_others(l, in.f, id)) family.push_back(l);
  return fewest_bank_cycles(family, accesses, tile.dtype.bits,
                            room_for(id, in.f, in.kernel, in.target, in.known), in.target.shared_banks);
}

// Of all that these demands read, and of the copy that fills the tile.
int64_t bank_cycles(const Inference& in, BufferId id, const Layout& l, const std::vector<Demand>& demands) {
  const BufferInfo& tile = in.f[id];
  int64_t count = 0;
  for (auto& a : all_accesses(tile, demands, in.target))
    count += shared_cost(l, a, tile.dtype.bits, in.target.shared_banks).count;
  return count;
}

// A demand that gave way, and why; a refusal where its operator's own reads have become dearer.
void note_lost(Inference& in, BufferId b, const Demand& lost, const std::string& why) {
  const Layout& chosen = in.known.shared.at(b);
  bool dearer =
      lost.reads.empty() || bank_cycles(in, b, chosen, {lost}) > bank_cycles(in, b, lost.layout, {lost});
  in.notes.push_back(
      {.pass = "infer_layouts",
       .subject = in.f[b].name,
       .text = fmt::format("{} wants {}: {}", subject_and_line(lost.stmt), to_string(lost.layout), why),
       .span = lost.stmt->span,
       .refusal = dearer,
       .buffer = b});
}

std::string why_lost(const Inference& in, BufferId b, const Demand& lost, const std::vector<Demand>& all) {
  if (lost.reads.empty()) return "another operator was asked first";
  return fmt::format("all its readers take {} bank cycles with that layout, {} with this one",
                     bank_cycles(in, b, lost.layout, all), bank_cycles(in, b, in.known.shared.at(b), all));
}

void agree(Inference& in, BufferId b, const std::vector<Demand>& demands) {
  auto is_wanted = [&](const Demand& d) { return equal(d.layout, in.known.shared.at(b)); };
  if (!std::ranges::all_of(demands, is_wanted)) replace_layout(in, b, weigh(in, b, demands));
  auto winner = std::ranges::find_if(demands, is_wanted);
  bool nobodys = winner == demands.end();
  note_layout(in, b, nobodys ? "the banks" : subject_of(winner->stmt),
              nobodys ? in.f[b].span : winner->stmt->span, "strict", to_string(in.known.shared.at(b)));
  for (auto& d : demands)
    if (!is_wanted(d)) note_lost(in, b, d, why_lost(in, b, d, demands));
}

// ── what is required ──────────────────────────────────────────────────────────────────────────────────
std::string layouts_text(const std::vector<Layout>& layouts) {
  std::vector<std::string> texts;
  for (auto& l : layouts) texts.push_back(to_string(l));
  return fmt::format("{}", fmt::join(texts, " or "));
}

// Of what one operator can work with, what leaves elements of wider views whole.
std::vector<Layout> fitting(const Inference& in, BufferId b, const Requirement& r) {
  std::vector<Layout> left;
  for (auto& l : r.any)
    if (fits_others(l, in.f, b)) left.push_back(l);
  if (left.empty())
    fail(r.stmt->span,
         "{} can only work with {} laid out as {}, which would separate the elements of a view of a wider "
         "type: use another tile for the view",
         subject_of(r.stmt), in.f[b].name, layouts_text(r.any));
  return left;
}

// What all of them can work with, in the order of the first.
std::vector<Layout> common_layouts(const Inference& in, BufferId b, const std::vector<Requirement>& all) {
  std::vector<Layout> left = fitting(in, b, all[0]);
  for (auto& r : all) {
    std::erase_if(left, [&](const Layout& l) {
      return std::ranges::none_of(r.any, [&](const Layout& x) { return equal(x, l); });
    });
    if (left.empty())  // no program is known that comes here: engines are chosen by what the others need
      fail(r.stmt->span,
           "{} can only work with {} laid out as {}, which {} cannot; give one of the two a tile of its own, "
           "and "
           "T.copy what it needs",
           subject_and_line(r.stmt), in.f[b].name, layouts_text(r.any), subject_and_line(all[0].stmt));
  }
  return left;
}

// The shape of the tile's storage that the user has given a layout; none where there is none.
BufferId annotated_shape(const Function& f, BufferId b) {
  for (size_t i = 0; i < f.buffers.size(); i++)
    if (BufferId x{int(i)}; f.storage(x) == f.storage(b) && f[x].layout) return x;
  return {};
}

void check_annotated(const Inference& in, BufferId b, BufferId annotated, const std::vector<Layout>& common,
                     const Requirement& first) {
  const Layout& given = in.known.shared.at(b);
  if (std::ranges::any_of(common, [&](const Layout& l) { return equal(l, given); })) return;
  const BufferInfo& info = in.f[annotated];
  fail(info.layout_span ? info.layout_span : info.span,
       "{} is annotated with the layout {}, but {} can only work with {} laid out as {}: leave the "
       "annotation out, or give it that layout",
       info.name, to_string(from_map(*info.layout)), subject_and_line(first.stmt), in.f[b].name,
       layouts_text(common));
}

// The buffers of one storage that requirements have settled: nothing else is weighed there.
std::set<BufferId> grant(Inference& in, const Wanted& wanted) {
  std::set<BufferId> settled;
  for (auto& [b, all] : wanted.required) {
    std::vector<Layout> common = common_layouts(in, b, all);
    if (BufferId by_user = annotated_shape(in.f, b)) {
      check_annotated(in, b, by_user, common, all[0]);
    } else if (settled.contains(in.f.storage(b))) {
      const Layout& other = in.known.shared.at(b);  // what another shape of it must lie as
      if (std::ranges::none_of(common, [&](auto& l) { return equal(l, other); }))
        fail(all[0].stmt->span,
             "{} can only work with {} laid out as {}, but it is a view of a tile that other statements need "
             "as "
             "{}; give one of the two a tile of its own, and T.copy what it needs",
             subject_and_line(all[0].stmt), in.f[b].name, layouts_text(common), to_string(other));
    } else {
      replace_layout(in, b, common[0]);
      note_layout(in, b, subject_of(all[0].stmt), all[0].stmt->span, "required", to_string(common[0]));
    }
    settled.insert(in.f.storage(b));
    auto lost = wanted.demands.find(b);
    if (lost == wanted.demands.end()) continue;
    for (auto& d : lost->second)
      if (!equal(d.layout, in.known.shared.at(b)))
        note_lost(in, b, d,
                  fmt::format("{} can only work with the layout that it has", subject_and_line(all[0].stmt)));
  }
  return settled;
}

}  // namespace

void lay_out_shared(Inference& in) {
  Wanted wanted = ask_strictly(in);
  std::set<BufferId> settled = grant(in, wanted);
  for (auto& [b, demands] : wanted.demands)
    if (!settled.contains(in.f.storage(b))) agree(in, b, demands);
}

}  // namespace tl
