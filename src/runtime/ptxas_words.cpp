// A message of the family C75xx says that ptxas did not do what the program asks of a warpgroup: its products
// wait for each other, its registers stay where they are.  Rows are found by words: the same number means
// different things in CUDA 13.0 and 13.5 (C7519), and the same thing has different numbers.
#include "runtime/ptxas_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace tl {
namespace {

struct Refusal {
  std::string_view words, brief, means, mend;
};

constexpr std::string_view serialized = "products serialized", ignored = "T.set_max_nreg ignored",
                           added = "wait added", one_by_one = "each product ends before the next begins",
                           kept =
                               "every thread keeps the registers of the launch: T.set_max_nreg changes "
                               "nothing";
constexpr std::string_view on_every_path =
    "let T.wait_wgmma stand on every way from a product to what touches its result, under no condition, or "
    "under the one of the product itself";

// clang-format off
constexpr Refusal refusals[] = {
    {"to allow debugging", ignored, kept, "leave out the flag that asks for code to be debugged (-G)"},
    {"compatibility across compilation units", ignored, kept,
     "leave out the flag that asks for code to be linked (-rdc=true, -dc)"},
    {"compatibility into 'extern' call", ignored, kept,
     "call no function whose body ptxas does not see, as foreign code may"},
    {"unable to determine register count at entry", ignored, kept,
     "let the kernel's launch bounds name a least number of blocks: it stands in the text of a kernel with "
     "T.set_max_nreg, and an edit of the text or foreign code may have lost it"},
    {"minimum register requirements", ignored, kept,
     "give T.set_max_nreg a count that holds what the threads keep in registers there, or let them keep less: "
     "smaller tiles, or more warpgroups for each"},
    {"the presence of Extern calls", serialized, one_by_one,
     "call no function whose body ptxas does not see: no foreign code that only declares one"},
    {"crossing function boundary", serialized, one_by_one,
     "call no function that is not inlined from a kernel with products: T.print calls one, and so does foreign "
     "code marked __noinline__ (an assertion calls none there)"},
    {"insufficient register resources", serialized, one_by_one,
     "let a thread hold less (smaller tiles of C, more warpgroups), or give it more registers: "
     "T.set_max_nreg, fewer threads"},
    {"defining input registers", serialized, one_by_one,
     "let nothing touch a fragment that is a product's A before the wait that completes the product"},
    {"reading accumulator registers", serialized, one_by_one,
     "read the fragment of a product behind the wait that completes it; index it by numbers that are known "
     "when the kernel is compiled"},
    {"defining accumulator registers", serialized, one_by_one,
     "write to the fragment of a product behind the wait that completes it (clear_accum=True needs no "
     "clear); let a wait for all products, T.wait_wgmma(0), end a loop in which more than one fragment is in "
     "flight"},
    {"ill formed pipeline stage", serialized, one_by_one,
     "begin products and wait for them under the same conditions, in the same loop"},
    {"compiler-inserted WG.DP", serialized,
     "a result is touched where its product may be in flight, in code that not all threads reach, so that no "
     "wait could be added there and each product ends before the next begins", on_every_path},
    {"compiler-inserted WG.AR", serialized,
     "threads touch the registers of a product without a fence behind that, in code that not all threads "
     "reach, so that none could be added there and each product ends before the next begins",
     "begin the product by T.gemm or T.wgmma_gemm, which bring the fence, or put T.warpgroup_arrive() in "
     "front of it"},
    {"largest temporal register count", ignored, kept,
     "give up registers down to a count that the kernel's threads have: T.set_max_nreg(n, 0) with an n of at "
     "most what the launch gives"},
    {"wait_group is injected", added,
     "a result is touched while its product may be in flight, so that ptxas waits for all products in front "
     "of that", on_every_path},
    {"warpgroup.wait is injected", added,
     "a result is touched while its product may be in flight, so that ptxas waits for all products in front "
     "of that", on_every_path},
    {"warpgroup.arrive is injected", "fence added",
     "threads touch the registers of a product and no fence stands behind that, so that ptxas adds one",
     "begin the product by T.gemm or T.wgmma_gemm, which bring the fence, or put T.warpgroup_arrive() in "
     "front of it"},
};
// clang-format on

const Refusal* row_of(std::string_view refusal) {
  auto it = std::ranges::find_if(refusals, [&](auto& r) { return refusal.find(r.words) != refusal.npos; });
  return it == std::end(refusals) ? nullptr : it;
}

// The number that stands before `what` in the line; -1 if it does not.
int64_t number_before(std::string_view line, std::string_view what) {
  size_t end = line.find(what);
  if (end == std::string_view::npos || end == 0) return -1;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') begin--;
  int64_t value = 0;
  for (size_t i = begin; i < end; i++) value = value * 10 + (line[i] - '0');
  return begin == end ? -1 : value;
}

// Takes `before`, a number and `after` out of the text: lines of PTX, which the user does not see.
void take_out(std::string& text, std::string_view before, std::string_view after) {
  size_t at = text.find(before), end = at + before.size();
  if (at == text.npos) return;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') end++;
  if (std::string_view(text).substr(end).starts_with(after)) text.erase(at, end + after.size() - at);
}

// "(C7513) Potential Performance Loss: … in the function 'f' in line 12": kept as "… (C7513)", with the
// entry f.  Some name no function: they are said of every entry.
void note_refusal(std::string_view line, std::vector<Resources>& all) {
  size_t code = line.find("(C75"), end = code == line.npos ? code : line.find(')', code);
  if (end == line.npos) return;
  std::string text(line.substr(std::min(end + 2, line.size())));
  for (std::string_view loss = "Potential Performance Loss: "; text.starts_with(loss);)
    text.erase(0, loss.size());
  std::string name;
  constexpr std::string_view function = "function '";
  if (size_t at = text.find(function); at != text.npos) {
    name = text.substr(at + function.size());
    name = name.substr(0, name.find('\''));
    for (std::string_view before : {" in the function '", " in function '"})
      if (size_t from = text.find(before); from != text.npos) text.resize(from);
  }
  take_out(text, " in around line ", " by compiler");
  while (text.ends_with('.')) text.pop_back();
  text += fmt::format(" {}", line.substr(code, end + 1 - code));
  bool known = std::ranges::any_of(all, [&](const Resources& r) { return r.entry == name; });
  for (Resources& r : all)
    if ((!known || r.entry == name) && std::ranges::find(r.refusals, text) == r.refusals.end())
      r.refusals.push_back(text);
}

}  // namespace

// ptxas -v: "Compiling entry function 'f' for 'sm_90'", then stack and spills, then "Used 32 registers, …".
std::vector<Resources> parse_resources(std::string_view log, const Program& program) {
  std::vector<Resources> all;
  for (const EntrySpec& entry : program.entries) all.push_back({.entry = entry.name});
  Resources* now = nullptr;
  while (!log.empty()) {
    size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    note_refusal(line, all);
    if (size_t at = line.find("entry function '"); at != std::string_view::npos) {
      std::string_view name = line.substr(at + 16);
      name = name.substr(0, name.find('\''));
      auto it = std::ranges::find_if(all, [&](const Resources& r) { return r.entry == name; });
      now = it == all.end() ? nullptr : &*it;
    }
    if (!now) continue;
    if (int64_t n = number_before(line, " bytes stack frame"); n >= 0) now->stack_bytes = n;
    if (int64_t n = number_before(line, " bytes spill stores"); n >= 0) now->spill_stores = n;
    if (int64_t n = number_before(line, " bytes spill loads"); n >= 0) now->spill_loads = n;
    if (int64_t n = number_before(line, " registers"); n >= 0) {
      now->registers = int(n);
      now->static_shared = std::max<int64_t>(0, number_before(line, " bytes smem"));
    }
  }
  return all;
}

std::string explain_refusal(std::string_view refusal) {
  if (const Refusal* row = row_of(refusal)) return fmt::format("{}: {}; {}", refusal, row->means, row->mend);
  return fmt::format(
      "{}: ptxas did not do what the program asks of a warpgroup; its own words are all that "
      "is known of it here",
      refusal);
}

std::string_view brief_refusal(std::string_view refusal) {
  const Refusal* row = row_of(refusal);
  return row ? row->brief : "ptxas refuses something";
}

std::string serialized_by(const Resources& resources) {
  constexpr std::string_view words = "instructions are serialized";
  auto it = std::ranges::find_if(resources.refusals, [&](auto& r) { return r.find(words) != r.npos; });
  return it == resources.refusals.end() ? "" : *it;
}

}  // namespace tl
