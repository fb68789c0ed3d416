// Integer divisions by what is 0 where nobody asks for the result: under conditions of every kind, and beyond
// the ends of tensors.  Among the values are the least integer and -1.
#pragma once
#include <regex>

#include "fuzz/random_text.h"
#include "fuzz/tile_program.h"

namespace tl::fuzz {

inline std::string least_of(const std::string& type) {
  if (type[0] == 'u') return fmt::format("0:{}", type);
  int64_t bits = std::stoll(type.substr(1));  // i64 is the index type, which must not overflow
  return fmt::format("{}:{}", bits == 64 ? -(int64_t(1) << 40) : -(int64_t(1) << (bits - 1)), type);
}
inline std::string quotient_of(RandomText& r, const std::string& a, const std::string& b) {
  std::string form = r.pick<std::string>({"({} // {})", "({} % {})", "truncdiv({}, {})", "truncmod({}, {})"});
  return fmt::format(fmt::runtime(form), a, b);
}
// An operand that is a constant, of which a divisor of 0 is refused even where no one asks for the quotient.
inline bool is_constant_text(const std::string& text) {
  static const std::regex name(R"(\b[a-zA-Z]\w*\[|\b[ik][0-9]\b|\b[bs]\b)");
  return !std::regex_search(text, name);
}
// A value made of a quotient, which is asked for where the divisor is not 0 only.
inline std::string guarded_quotient(RandomText& r, const std::string& type, const std::string& a,
                                    const std::string& divisor, const std::string& otherwise) {
  std::string b = is_constant_text(divisor) ? fmt::format("({} | 1:{})", divisor, type) : divisor;
  std::string q = quotient_of(r, a, b);
  if (r.chance(50)) return fmt::format("select({} != 0:{}, {}, {})", b, type, q, otherwise);
  return fmt::format("select({} == 0:{}, {}, {})", b, type, otherwise, q);
}
// A condition that asks for a quotient where its left side does not decide.
inline std::string guarded_condition(RandomText& r, const std::string& type, const std::string& a,
                                     const std::string& b) {
  bool both = r.chance(60);
  return fmt::format("({} {} 0:{} {} {} {} {}:{})", b, both ? "!=" : "==", type, both ? "and" : "or",
                     quotient_of(r, a, b), r.pick<std::string>({"==", ">", "<="}), r.below(3), type);
}

// A tile program around such divisions: of tensors, by tensors, tiles, indices and scalars.
struct DivisionText : RandomText {
  Program program = {};
  std::string type = {}, params = {}, place = {}, own = {};
  int64_t blocks = 1, rows = 1, columns = 1, all_rows = 1, all_columns = 1, tensors = 0;

  // A tensor that need not be as large as the loops around it.
  std::string tensor(const char* letter, const std::string& of) {
    std::string name = fmt::format("{}{}", letter, tensors++);
    params += fmt::format("{}{}: {}[{}, {}]", params.empty() ? "" : ", ", name, of, all_rows, all_columns);
    return name;
  }
  std::string dividend() {
    std::string from = chance(70) ? type : pick<std::string>({"i32", "i8", "u8", "i64", "u32"});
    std::string x = fmt::format("{}[{}]", tensor("X", from), place);
    if (from != type) x = fmt::format("cast<{}>({})", type, x);
    if (chance(40)) return fmt::format("({} * {}:{})", x, 1 + below(60), type);
    return fmt::format("select({} {} {}:{}, {}, {})", x, pick<std::string>({">", "=="}), below(3), type,
                       least_of(type), x);
  }
  // 0 now and then.
  std::string divisor() {
    bool is_signed = type[0] == 'i';
    switch (below(6)) {
      case 0:
        return fmt::format("cast<{}>({}{})", type, pick<std::string>({"i0 % 3", "i1 % 4", "i1 // 5"}),
                           is_signed ? " - 1" : "");
      case 1:
        return fmt::format("cast<{}>(s)", type);
      case 2:
        return fmt::format("cast<{}>({}[{}])", type, tensor("D", "i8"), place);
      default:
        return fmt::format("{}[{}]", tensor("D", type), place);
    }
  }
  void store(const std::string& to, const std::string& value) {
    line("{}[{}] = {}", to, to[0] == 'F' ? own : place, value);
  }

  // One statement or more, in a nest of loops over i0 and i1.
  void statements(const std::string& to, const std::string& nonzero) {
    std::string a = dividend(), b = divisor(), c = fmt::format("{}:{}", 1 + below(5), type);
    if (chance(30)) {
      line("d = {}", b);
      b = "d";
    }
    switch (below(8)) {
      case 0:
        return store(to, guarded_quotient(*this, type, a, b, c));
      case 1:
        line("if {} != 0:{}:", b, type);
        indent++, store(to, quotient_of(*this, a, b)), indent--;
        if (chance(50)) line("else:"), indent++, store(to, c), indent--;
        return;
      case 2:
        line("if {} == 0:{}:", b, type);
        indent++, store(to, c), indent--;
        line("else:");
        indent++, store(to, quotient_of(*this, a, b)), indent--;
        return;
      case 3:
        line("if {}:", guarded_condition(*this, type, a, b));
        indent++, store(to, c), indent--;
        return;
      case 4:
        line("q = {}", guarded_quotient(*this, type, a, b, c));
        return store(to, fmt::format("q + {}", c));
      case 5:
        if (to[0] == 'F' || all_columns > 100) break;
        // 0 where the store is dropped
        return store(to, quotient_of(*this, a, fmt::format("cast<{}>(max({} - i1, 0))", type, all_columns)));
      case 6: {
        if (nonzero.empty()) break;
        std::string q = quotient_of(*this, a, fmt::format("{}[{}]", nonzero, place));
        if (chance(60)) {
          line("q = {}", q);
          q = "q";
        }
        if (chance(40)) line("if {} != {}:", q, c), indent++;
        store(to, q);
        return;
      }
      default: {
        line("if {} {} 1:", pick<std::string>({"i0", "i1"}), pick<std::string>({">", "<="}));
        indent++;
        line("if {}:", guarded_condition(*this, type, a, b));
        indent++, store(to, guarded_quotient(*this, type, a, b, c)), indent -= 2;
        return;
      }
    }
    store(to, guarded_quotient(*this, type, a, b, c));
  }
  void nest(const std::string& to, const std::string& nonzero) {
    int outer = indent;
    if (chance(25)) {
      line("if s != 0 and {} // s {} 1:", 1 + below(9), pick<std::string>({">", "<="}));
      indent++;
    }
    bool serial = chance(20);  // of one iteration or two, so that no two blocks write one element
    if (serial) line("for k in serial({}):", 1 + below(2)), indent++;
    line("for i0 in parallel({}):", rows), indent++;
    line("for i1 in parallel({}):", columns), indent++;
    statements(to, nonzero);
    indent = outer;
  }
  // Writes a tensor in which no element is 0, for the next kernel.
  std::string nonzero_tensor() {
    std::string z = tensor("Z", type), x = tensor("X", type);
    line("for i0 in parallel({}):", rows), indent++;
    line("for i1 in parallel({}):", columns), indent++;
    line("{0}[{1}] = select({2}[{1}] == 0:{3}, {4}:{3}, {2}[{1}])", z, place, x, type, 1 + below(3));
    indent -= 2;
    return z;
  }
  std::string kernel(const char* title, int64_t threads) {
    std::string out = fmt::format("  kernel {} grid(b: {}) threads({}):\n{}", title, blocks, threads, text());
    lines.clear();
    return out;
  }
  Program run() {
    type = pick<std::string>({"i8", "i16", "i32", "i32", "i64", "u8", "u16", "u32", "u64"});
    blocks = 1 + below(3);
    rows = pick<int64_t>({1, 2, 3, 8});
    columns = pick<int64_t>({1, 4, 16, 32, 64, 7, 40});
    all_rows = std::max<int64_t>(1, blocks * rows - (chance(50) ? below(rows) : 0));
    all_columns = std::max<int64_t>(1, columns - (chance(60) ? below(columns) : 0));
    place = fmt::format("b*{} + i0, i1", rows);
    own = "i0, i1";
    int64_t threads = pick<int64_t>({32, 64, 128});
    program.given["s"] = double(below(5) - 2);
    params = "s: i32";
    indent = 2;
    std::string kernels, nonzero;
    if (chance(40)) nonzero = nonzero_tensor(), kernels = kernel("first", threads);
    if (chance(40)) {
      std::string f = fmt::format("F{}", tensors++), y = tensor("Y", type);
      line("{} = {} {}[{}, {}]", f, pick<std::string>({"fragment", "shared"}), type, rows, columns);
      line("fill({}, 3:{})", f, type);
      nest(f, nonzero);
      line("copy({}, {}[b*{} : +{}, 0 : +{}])", f, y, rows, rows, columns);
    }
    for (int64_t i = 1 + below(2); i > 0; i--) nest(tensor("Y", type), nonzero);
    kernels += kernel("main", threads);
    program.text = fmt::format("func main({}):\n{}", params, kernels);
    return program;
  }
};

inline Program random_division(uint64_t seed) { return DivisionText{{std::mt19937_64(seed)}}.run(); }

}  // namespace tl::fuzz
