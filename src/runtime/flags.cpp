#include "runtime/flags.h"

#include <fmt/format.h>

#include <algorithm>

namespace tl {
namespace {

// How the value of a flag is written: in the next word or behind a `=`; or at once behind the name, too
// (-O3).
enum class Value { none, next, attached };
// keep: as it stands; joined: NVRTC wants the `=`; list: it wants each option by itself; chip: names a chip.
enum class Becomes { idle, keep, joined, list, chip, refused };

struct Row {
  std::string_view name, other;
  Value value;
  Becomes becomes;
  std::string_view why = {};
};

constexpr std::string_view host = "it is for the host's compiler, and there is no host code",
                           lambdas = "a lambda in device code is the device's, without being marked so",
                           whole = "a kernel is loaded as it is, and nothing is linked to it";
// clang-format off
constexpr Row rows[] = {
    {"--optimize", "-O", Value::attached, Becomes::idle,
     "it is for host code; device code is optimised fully unless -Xptxas says otherwise"},
    {"--compiler-options", "-Xcompiler", Value::next, Becomes::idle, host},
    {"--compiler-bindir", "-ccbin", Value::next, Becomes::idle, host},
    {"--allow-unsupported-compiler", "-allow-unsupported-compiler", Value::none, Becomes::idle, host},
    {"--forward-unknown-to-host-compiler", "-forward-unknown-to-host-compiler", Value::none, Becomes::idle, host},
    {"--debug", "-g", Value::none, Becomes::idle, host},
    {"--machine", "-m", Value::attached, Becomes::idle, host},
    {"--threads", "-t", Value::attached, Becomes::idle, "there is one chip to compile for"},
    {"--verbose", "-v", Value::none, Becomes::idle, "NVRTC runs no other tools that could be listed"},
    {"--resource-usage", "-res-usage", Value::none, Becomes::idle, "registers and spills are asked for anyway"},
    {"--expt-relaxed-constexpr", "-expt-relaxed-constexpr", Value::none, Becomes::idle,
     "device code may call constexpr functions anyway"},
    {"--expt-extended-lambda", "-expt-extended-lambda", Value::none, Becomes::idle, lambdas},
    {"--extended-lambda", "-extended-lambda", Value::none, Becomes::idle, lambdas},
    {"--Wno-deprecated-declarations", "-Wno-deprecated-declarations", Value::none, Becomes::idle, host},
    {"--Wno-deprecated-gpu-targets", "-Wno-deprecated-gpu-targets", Value::none, Becomes::idle,
     "none of the targets is deprecated"},
    {"--ptxas-options", "-Xptxas", Value::next, Becomes::list},
    {"--maxrregcount", "-maxrregcount", Value::next, Becomes::joined},
    {"--std", "-std", Value::next, Becomes::joined},
    {"--diag-suppress", "-diag-suppress", Value::next, Becomes::joined},
    {"--fmad", "-fmad", Value::next, Becomes::joined},
    {"--ftz", "-ftz", Value::next, Becomes::joined},
    {"--prec-div", "-prec-div", Value::next, Becomes::joined},
    {"--prec-sqrt", "-prec-sqrt", Value::next, Becomes::joined},
    {"--opt-info", "-opt-info", Value::next, Becomes::joined},
    {"--define-macro", "-D", Value::attached, Becomes::keep},
    {"--undefine-macro", "-U", Value::attached, Becomes::keep},
    {"--include-path", "-I", Value::attached, Becomes::keep},
    {"--pre-include", "-include", Value::next, Becomes::keep},
    {"--Xcudafe", "-Xcudafe", Value::next, Becomes::keep},
    {"--use_fast_math", "-use_fast_math", Value::none, Becomes::keep},
    {"--generate-line-info", "-lineinfo", Value::none, Becomes::keep},
    {"--device-debug", "-G", Value::none, Becomes::keep},
    {"--extra-device-vectorization", "-extra-device-vectorization", Value::none, Becomes::keep},
    {"--restrict", "-restrict", Value::none, Becomes::keep},
    {"--disable-warnings", "-w", Value::none, Becomes::keep},
    {"--gpu-architecture", "-arch", Value::next, Becomes::chip},
    {"--gpu-code", "-code", Value::next, Becomes::chip},
    {"--generate-code", "-gencode", Value::next, Becomes::chip},
    {"--relocatable-device-code", "-rdc", Value::next, Becomes::refused, whole},
    {"--device-c", "-dc", Value::none, Becomes::refused, whole},
    {"--dlink-time-opt", "-dlto", Value::none, Becomes::refused, whole},
};
// clang-format on

struct Match {
  const Row* row = nullptr;
  std::string name, value;
  bool has_value = false;
};

bool is_value(std::string_view rest,
              const Row& row) {  // of -O3 and -t4, but not of -time; -D and -I take any
  bool digits = std::ranges::all_of(rest, [](char c) { return c >= '0' && c <= '9'; });
  return row.value == Value::attached && (row.becomes == Becomes::keep || digits);
}

Match match(const std::string& word) {
  for (auto& row : rows)
    for (std::string_view name : {row.name, row.other}) {
      if (!word.starts_with(name)) continue;
      std::string rest = word.substr(name.size());
      if (rest.empty()) return {&row, std::string(name), "", false};
      if (row.value == Value::none) continue;
      if (rest[0] == '=') return {&row, std::string(name), rest.substr(1), true};
      bool is_short = !name.starts_with("--");
      if (is_short && is_value(rest, row)) return {&row, std::string(name), rest, true};
    }
  return {};
}

// Does it name this chip alone?  Behind `compute_` stands the number of a virtual one.
bool names_only(std::string_view value, std::string_view chip) {
  size_t after = chip.find('_') + 1;  // 0 where there is none
  std::string_view number = chip.substr(after ? after - 1 : chip.size());
  bool any = false;
  for (std::string_view kind : {chip.substr(0, after), std::string_view("compute_")})
    for (size_t at = kind.empty() ? value.npos : value.find(kind); at != value.npos;
         at = value.find(kind, at + 1)) {
      size_t begin = at + kind.size() - 1, end = value.find_first_of(",]\" ", begin);
      if (value.substr(begin, end - begin) != number) return false;
      any = true;
    }
  return any;
}

void take(Flag& flag, const Match& m, std::string_view chip) {
  switch (m.row->becomes) {
    case Becomes::idle:
      flag.idle = m.row->why;
      break;
    case Becomes::joined:
      flag.words = {m.name + "=" + m.value};
      break;
    case Becomes::list:
      for (size_t at = 0; at <= m.value.size();) {
        size_t end = std::min(m.value.find(',', at), m.value.size());
        flag.words.push_back("--ptxas-options=" + m.value.substr(at, end - at));
        at = end + 1;
      }
      break;
    case Becomes::chip:
      flag.idle = "it names the target's own chip";
      if (!names_only(m.value, chip))
        flag.refusal =
            fmt::format("the kernel is compiled for {}; to have another chip, say so as target=", chip);
      break;
    case Becomes::refused:
      if (m.value == "false")
        flag.idle = "it is so anyway";
      else
        flag.refusal = m.row->why;
      break;
    case Becomes::keep:
      break;
  }
}

}  // namespace

std::vector<Flag> read_flags(std::span<const std::string> flags, std::string_view chip) {
  std::vector<Flag> all;
  for (size_t i = 0; i < flags.size(); i++) {
    Match m = match(flags[i]);
    Flag flag{.said = flags[i], .words = {flags[i]}, .of_nvcc = m.row != nullptr};
    if (m.row && m.row->value != Value::none && !m.has_value && i + 1 < flags.size()) {
      m.value = flags[++i];
      flag.words.push_back(m.value);
      flag.said += " " + m.value;
      m.has_value = true;
    }
    if (m.row && (m.has_value || m.row->value == Value::none)) {
      if (m.row->becomes != Becomes::keep) flag.words.clear();
      take(flag, m, chip);
    }
    all.push_back(std::move(flag));
  }
  return all;
}

}  // namespace tl
