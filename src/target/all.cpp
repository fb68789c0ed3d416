// Every chip and every instruction by name, and what a target string says.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/suggest.h"
#include "target/known.h"
#include "target/nvidia.h"
#include "target/user_rows.h"

namespace tl {

extern const Target sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_103, sm_120, sm_121;
extern const Target gfx942;
extern const Target x86_64, haswell, skylake_avx512, cascadelake, cooperlake;

std::span<const Target* const> all_targets() {
  static const Target* const rows[] = {&sm_75,   &sm_80,          &sm_86,       &sm_89,     &sm_90,  &sm_90a,
                                       &sm_100,  &sm_103,         &sm_120,      &sm_121,    &gfx942, &x86_64,
                                       &haswell, &skylake_avx512, &cascadelake, &cooperlake};
  return rows;
}

const Target* find_target(std::string_view chip) {
  for (auto* t : all_targets())
    if (t->name == chip) return t;
  return nullptr;
}

namespace {

// 90 of "sm_90"; with letters, those from 100 on: "sm_100a" and "sm_100f" are the chip sm_100.  -1: no such
// name.
int number_of(std::string_view chip, bool letters) {
  if (!chip.starts_with("sm_")) return -1;
  chip.remove_prefix(3);
  int number = 0;
  auto [end, error] = std::from_chars(chip.data(), chip.data() + chip.size(), number);
  std::string_view rest = chip.substr(size_t(end - chip.data()));
  bool known = rest.empty() || (letters && number >= 100 && (rest == "a" || rest == "f"));
  return error == std::errc() && known && chip[0] != '0' && number < 1000 ? number : -1;
}

}  // namespace

const Target* nearest_target(std::string_view chip) {
  int wanted = number_of(chip, true);
  if (wanted < 0 || find_target(chip)) return nullptr;
  const Target* nearest = nullptr;
  for (auto* t : all_targets())
    if (int number = number_of(t->name, false); number >= 0 && number <= wanted) nearest = t;
  return nearest;
}

const Intrinsic* find_instr(std::string_view name) {
  for (auto* row : nvidia_matrix_rows())
    if (row->intrinsic.name == name) return &row->intrinsic;
  for (auto* row : nvidia_copies(newest))
    if (row->intrinsic.name == name) return &row->intrinsic;
  for (auto& row : nvidia_async(sm_90a_only))
    if (row.intrinsic.name == name) return &row.intrinsic;
  for (auto& row : warpgroup_rows())
    if (row.intrinsic.name == name) return &row.intrinsic;
  for (auto* row : x86_dots())
    if (row->intrinsic.name == name) return &row->intrinsic;
  const MatrixInstr* users = find_user_row(name);
  return users ? &users->intrinsic : nullptr;
}

const MatrixInstr* Target::matrix_for(DType a, DType b, DType c) const {
  for (auto* row : matrix)
    if (row->a_type == a && row->b_type == b && row->c_type == c) return row;
  return nullptr;
}

const DotInstr* Target::dot_for(DType a, DType b, DType c) const {
  for (auto* row : dots)
    if (row->a_type == a && row->b_type == b && row->c_type == c) return row;
  return nullptr;
}

const AsyncInstr* Target::group_row(AsyncInstr::AsyncKind does) const {
  auto row = std::ranges::find_if(
      async, [&](const AsyncInstr& r) { return r.does == does && r.token == Token::copies; });
  return row == async.end() ? nullptr : &*row;
}
const CopyInstr* Target::copy_named(std::string_view wanted) const {
  for (auto* row : copies)
    if (row->intrinsic.name == wanted) return row;
  return nullptr;
}

bool Target::lacks(const Intrinsic& row) const {
  if (row.effect == Intrinsic::Effect::pure || !find_instr(row.name)) return false;
  auto is = [&](auto* mine) { return mine->intrinsic.name == row.name; };
  auto are = [&](auto& mine) { return mine.intrinsic.name == row.name; };
  return std::ranges::none_of(matrix, is) && std::ranges::none_of(copies, is) &&
         std::ranges::none_of(async, are) && std::ranges::none_of(warpgroup, are);
}

const AtomicInstr* Target::atomic_for(Intrinsic::Atomic op, DType value, bool global) const {
  for (auto& row : atomics)
    if (row.op == op && row.type == value && (!row.only || (*row.only == Scope::global) == global))
      return &row;
  return nullptr;
}

int64_t Target::atomic_lanes(const Call& atomic, const Function& f) const {
  MemoryOrder order = order_of(atomic);  // several at once come without an old value, by `red`
  if (atomic.dtype != none_type || (order != MemoryOrder::relaxed && order != MemoryOrder::release)) return 1;
  const Load& at = *place_of(atomic.args[0]);
  int64_t lanes = 1;
  for (auto& row : atomics)
    if (row.op == atomic.intrinsic->atomic && row.type.scalar() == at.dtype.scalar() &&
        (!row.only || *row.only == f[at.buffer].scope))
      lanes = std::max<int64_t>(lanes, row.type.lanes);
  return lanes;
}

namespace {

template <class Wanted>
std::string names_of(Wanted wanted) {
  std::string names;
  for (auto* t : all_targets())
    if (wanted(*t)) names += (names.empty() ? "" : ", ") + std::string(t->name);
  return names;
}

}  // namespace

std::string chips_of(const Language& language) {
  return names_of([&](const Target& t) { return t.language == &language; });
}

std::string chips_with(const Intrinsic& row) {
  return names_of([&](const Target& t) { return t.has_threads() && !t.lacks(row); });
}

std::string simulated_chips() {
  return names_of([](const Target& t) { return t.language->has_threads; });
}

namespace {

const Target* any_target(std::string_view chip) {
  const Target* own = find_target(chip);
  return own ? own : nearest_target(chip);
}

std::string reason(std::string_view why) { return why.empty() ? "" : fmt::format(": {}", why); }

// What may have been meant by the name of a chip of which no more is known; language: null for any GPU's.
std::string nearest_chip(std::string_view chip, const Language* language) {
  return why_no_chip(chip).empty() ? did_you_mean_chip(chip, language) : "";
}

// The chip that "kind option=CHIP" names; empty where there is no option.
std::string chip_option(std::string_view text, std::string_view rest, const Language& language) {
  std::string_view option = language.chip_option;
  size_t begin = rest.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  rest = rest.substr(begin, rest.find_last_not_of(' ') - begin + 1);
  if (!rest.starts_with(option) || rest.size() <= option.size())
    fail({}, "target '{}': '{}' is not understood; write {}CHIP", text, rest, option);
  std::string chip(rest.substr(option.size()));
  const Target* t = any_target(chip);
  if (!t || t->language != &language)
    fail({}, "target '{}': there is no chip '{}'; this version has {}{}{}", text, chip, chips_of(language),
         reason(why_no_chip(chip)), nearest_chip(chip, &language));
  return chip;
}

// "sim:CHIP", a GPU's program executed here.
std::string simulated_chip(std::string_view text) {
  size_t colon = text.find(':');
  std::string chip(colon == text.npos ? "" : text.substr(colon + 1));
  if (chip.empty())
    fail({}, "target '{}': which chip is to be simulated? write sim:CHIP with CHIP one of {}", text,
         simulated_chips());
  const Target* t = any_target(chip);
  if (!t || !t->language->has_threads)
    fail({}, "target '{}': there is no GPU '{}' to simulate; this version has {}{}{}", text, chip,
         simulated_chips(), reason(why_no_chip(chip)), nearest_chip(chip, nullptr));
  return chip;
}

}  // namespace

TargetSpec parse_target(std::string_view text) {
  size_t space = std::min(text.find(' '), text.size());
  std::string_view kind = text.substr(0, space), rest = text.substr(space);
  if ((kind == "auto" || kind == "reference") && rest.empty()) return {.kind = std::string(kind)};
  for (auto* row : all_languages())
    if (kind == row->kind || (!row->synonym.empty() && kind == row->synonym))
      return {.kind = std::string(row->kind), .language = row, .chip = chip_option(text, rest, *row)};
  if (kind == "sim" || kind.starts_with("sim:")) return {.kind = "sim", .chip = simulated_chip(text)};
  std::string known;
  for (auto* row : all_languages())
    known += fmt::format("{0}, {0} {1}CHIP ({2}), ", row->kind, row->chip_option, chips_of(*row));
  fail({}, "unknown target '{}'; the known ones are auto, {}sim:CHIP ({}), reference{}", text, known,
       simulated_chips(), reason(why_no_kind(kind)));
}

}  // namespace tl
