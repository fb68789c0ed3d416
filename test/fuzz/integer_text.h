// Arithmetic on integers of every type, of values that wrap: the ends of the types, powers of two, and what
// lies next to them.  Every operation wraps at the width of its type, at 64 bits, too, and a cast to another
// type comes later.
#pragma once
#include "fuzz/random_text.h"
#include "fuzz/tile_program.h"

namespace tl::fuzz {

struct IntegerText : RandomText {
  Program program = {};
  std::string params = {}, place = {};
  int64_t rows = 1, columns = 1, blocks = 1, tensors = 0;
  struct Name {
    std::string name, type;
  };
  std::vector<Name> names = {};                    // that stand for values
  std::map<std::string, std::string> inputs = {};  // by type

  static int bits_of(const std::string& type) { return std::stoi(type.substr(1)); }
  static bool is_signed(const std::string& type) { return type[0] == 'i'; }
  std::string int_type() {
    return pick<std::string>({"i8", "i16", "i32", "i64", "i64", "u8", "u16", "u32", "u64"});
  }

  std::string tensor(const char* letter, const std::string& type) {
    std::string name = fmt::format("{}{}", letter, tensors++);
    params += fmt::format("{}{}: {}[{}, {}]", params.empty() ? "" : ", ", name, type, blocks * rows, columns);
    return name;
  }
  std::string constant(const std::string& type) {
    int bits = bits_of(type);
    uint64_t top = ~uint64_t(0) >> (64 - bits + is_signed(type));
    uint64_t power = uint64_t(1) << below(bits - is_signed(type));
    uint64_t size =
        pick<uint64_t>({top, power, power - 1, uint64_t(below(10)), uint64_t(1 + below(9)), 0, 1, 3});
    if (!is_signed(type) || chance(50)) return fmt::format("{}:{}", size, type);
    return chance(15) ? fmt::format("-{}:{}", top + 1, type) : fmt::format("-{}:{}", size, type);
  }
  std::string value_of_data(const std::string& type) {
    std::vector<std::string> fitting;
    for (auto& n : names)
      if (n.type == type) fitting.push_back(n.name);
    if (!fitting.empty() && chance(50)) return fitting[size_t(below(int64_t(fitting.size())))];
    if (type == "i64" && chance(10)) return "s";
    std::string& input = inputs[type];
    if (input.empty() || chance(15)) input = tensor("X", type);
    return fmt::format("{}[{}]", input, place);
  }
  std::string leaf(const std::string& type) {
    // An index alone would be no data, and must not overflow.
    std::string index = pick<std::string>({"i0", "i1", "b"});
    if (chance(8)) return fmt::format("({} ^ cast<{}>({}))", value_of_data(type), type, index);
    return value_of_data(type);
  }
  std::string divisor(const std::string& type, int depth) {
    if (depth <= 0 || chance(60)) {
      std::string c = constant(type);
      return c.starts_with("0:") || c.starts_with("-0:") ? fmt::format("3:{}", type) : c;
    }
    std::string d = value(type, depth - 1);
    if (chance(50)) return fmt::format("({} | 1:{})", d, type);
    return fmt::format("select({0} == 0:{1}, 7:{1}, {0})", d, type);
  }
  // An index has 64 bits wherever it stands, and may be shifted by as many.
  std::string shifted_index(int depth) {
    std::string index = pick<std::string>({"i0", "i1", "b", "(i0*3 + i1)"});
    return fmt::format("({} >> ({} & 63:i64))", index, value("i64", depth - 1));
  }
  std::string condition(int depth) {
    if (chance(10))
      return fmt::format("{} {} {}:i64", shifted_index(depth), chance(50) ? "==" : "<", below(3));
    std::string type = int_type(), op = pick<std::string>({"<", "<=", ">", ">=", "==", "!="});
    std::string a = value(type, depth - 1), b = chance(40) ? constant(type) : value(type, depth - 1);
    std::string c = fmt::format("{} {} {}", a, op, b);
    if (chance(15)) return fmt::format("not ({})", c);
    if (depth > 1 && chance(20))
      return fmt::format("(({}) {} {})", c, chance(50) ? "and" : "or", condition(depth - 1));
    return c;
  }
  std::string shift(const std::string& type, int depth) {
    if (type == "i64" && chance(15)) return shifted_index(depth);
    std::string amount = chance(60)
                             ? fmt::format("{}:{}", below(bits_of(type)), type)
                             : fmt::format("({} & {}:{})", value(type, depth - 1), bits_of(type) - 1, type);
    return fmt::format("({} {} {})", value(type, depth - 1), chance(50) ? "<<" : ">>", amount);
  }
  // What would be its operand, a constant or a truth, if nothing wrapped.
  std::string undone(const std::string& type, int depth) {
    std::string a = value(type, depth - 2), c = constant(type), d = divisor(type, 0);
    int64_t k = below(bits_of(type));
    switch (below(6)) {
      case 0:
        return fmt::format("(({} * {}) // {})", a, d, d);
      case 1:
        return fmt::format("(({} << {}:{}) >> {}:{})", a, k, type, k, type);
      case 2:
        return fmt::format("(({} * {}) % {})", a, d, d);
      case 3:
        return fmt::format("select(({0} + {1}) {2} {0}, {0}, {1})", a, c,
                           pick<std::string>({">", "<", ">=", "=="}));
      case 4:
        return fmt::format("select(({0} - {1}) {2} 0:{3}, {0}, {1})", a, c,
                           pick<std::string>({">", "<", ">="}), type);
      default:
        return fmt::format("(({} << {}:{}) // {})", a, k, type, d);
    }
  }
  // The same bits as another type of the width, and maybe back; floats are finite: of whose other bits none
  // is lost.
  std::string reinterpreted(const std::string& type, int depth) {
    int bits = bits_of(type);
    std::string other = fmt::format("{}{}", is_signed(type) ? "u" : "i", bits);
    if (bits == 8 || chance(60)) return fmt::format("reinterpret<{}>({})", type, value(other, depth - 1));
    int64_t finite = bits == 16 ? 0x7BFF : bits == 32 ? 0x7F7FFFFF : 0x7FEFFFFFFFFFFFFF;
    return fmt::format("reinterpret<{}>(reinterpret<f{}>(({} & {}:{})))", type, bits, value(other, depth - 1),
                       finite, other);
  }
  std::string value(const std::string& type, int depth) {
    if (depth > 0 && chance(12)) return undone(type, depth);
    if (depth > 0 && chance(8)) return reinterpreted(type, depth);
    if (depth <= 0 || chance(8)) return leaf(type);
    auto operand = [&] { return chance(25) ? constant(type) : value(type, depth - 1); };
    std::string a = value(type, depth - 1);
    switch (below(12)) {
      case 0:
      case 1:
        return fmt::format("({} + {})", a, operand());
      case 2:
        return fmt::format("({} - {})", a, operand());
      case 3:
      case 4:
        return fmt::format("({} * {})", a, operand());
      case 5:
        return shift(type, depth);
      case 6:
      case 7: {
        std::string form =
            pick<std::string>({"({} // {})", "({} % {})", "truncdiv({}, {})", "truncmod({}, {})"});
        return fmt::format(fmt::runtime(form), a, divisor(type, depth));
      }
      case 8: {
        std::string form =
            pick<std::string>({"min({}, {})", "max({}, {})", "({} & {})", "({} | {})", "({} ^ {})"});
        return fmt::format(fmt::runtime(form), a, operand());
      }
      case 9:
        return fmt::format("select({}, {}, {})", condition(depth - 1), a, operand());
      case 10:
        return fmt::format("cast<{}>({})", type,
                           chance(15) ? condition(depth - 1) : value(int_type(), depth - 1));
      default:
        return chance(50) ? fmt::format("(-{})", a) : fmt::format("(~{})", a);
    }
  }

  void statement() {
    std::string type = int_type();
    if (chance(30)) {
      std::string v = value(type, 2);
      names.push_back({fmt::format("q{}", names.size()), type});
      return line("{} = {}", names.back().name, v);
    }
    if (chance(15)) {
      line("if {}:", condition(2));
      indent++;
    }
    std::string v = value(type, 1 + int(below(4)));
    line("{}[{}] = {}", tensor("Y", type), place, v);
  }
  Program run() {
    blocks = 1 + below(2), rows = pick<int64_t>({1, 2, 4});
    columns = pick<int64_t>({1, 7, 32, 64, 100});
    place = fmt::format("b*{} + i0, i1", rows);
    params = "s: i64";
    program.given["s"] = pick<double>({0, 1, -1, 3, 0x1p62, -0x1p63, 0x1p31, -0x1p53});
    int64_t threads = pick<int64_t>({32, 64});
    indent = 2;
    line("for i0 in parallel({}):", rows), indent++;
    line("for i1 in parallel({}):", columns), indent++;
    int body = indent;
    for (int64_t i = 2 + below(4); i > 0; i--, indent = body) statement();
    line("{}[{}] = {}", tensor("Y", "i64"), place, value("i64", 3));  // should all of them be names
    std::string header = fmt::format("  kernel main grid(b: {}) threads({}):\n", blocks, threads);
    program.text = fmt::format("func main({}):\n{}{}", params, header, text());
    return program;
  }
};

inline Program random_integers(uint64_t seed) { return IntegerText{{std::mt19937_64(seed)}}.run(); }

}  // namespace tl::fuzz
