// The list of the user's matrix instructions.  A row is never deleted, because programs point to it.
#include "target/user_rows.h"

#include <algorithm>
#include <list>
#include <mutex>

#include "base/error.h"
#include "layout/fragment.h"
#include "target/check.h"

namespace tl {
namespace {

struct UserRow {
  std::string name, ptx;
  MatrixInstr row;
  std::shared_ptr<const MatrixEval> eval;
  bool offered = true;  // to compilations
};
struct UserRows {
  std::mutex lock;
  std::list<UserRow> rows;  // the latest last; addresses stay
};
// Not destroyed: an eval may belong to an interpreter that ends before this process does.
UserRows& user_rows() {
  static auto& made = *new UserRows;
  return made;
}

// ── an operand's fragment ─────────────────────────────────────────────────────────────────────────────
struct OperandTile {
  std::string_view operand;
  int64_t rows, cols;
  DType type;
  int warp;  // lanes that hold it
  std::string text() const { return fmt::format("{} ({}×{} {})", operand, rows, cols, to_string(type)); }
};

std::string element(const OperandTile& t, int64_t number) {
  return fmt::format("({}, {})", number / t.cols, number % t.cols);
}

void check_extents(const OperandTile& t, const Placement& p) {
  if (p.extents[0] < t.rows || p.extents[1] < t.cols)
    fail({}, "element ({}, {}) of {} is missing: its fragment covers {}×{}",
         p.extents[0] < t.rows ? p.extents[0] : 0, p.extents[0] < t.rows ? 0 : p.extents[1], t.text(),
         p.extents[0], p.extents[1]);
  if (p.extents[0] > t.rows || p.extents[1] > t.cols)
    fail({}, "the fragment of {} covers {}×{}: element ({}, {}) is outside of the operand", t.text(),
         p.extents[0], p.extents[1], p.extents[0] > t.rows ? t.rows : 0, p.extents[0] > t.rows ? 0 : t.cols);
}

// Each element in one register of one lane, each register with one element.
void check_cover(const OperandTile& t, const Placement& p) {
  int64_t copies = p.extents[2], size = t.rows * t.cols, warp = t.warp;
  auto place = [&](int64_t i, int64_t copy) { return &p.points[size_t(2 * (i * copies + copy))]; };
  for (int64_t i = 0; i < size; i++)
    for (int64_t copy = 1; copy < copies; copy++)
      if (auto *a = place(i, 0), *b = place(i, copy); a[0] != b[0] || a[1] != b[1])
        fail({}, "element {} of {} is held twice, by register {} of lane {} and register {} of lane {}",
             element(t, i), t.text(), a[1], a[0], b[1], b[0]);
  if (size % warp) fail({}, "{} has {} elements, which {} lanes cannot share evenly", t.text(), size, warp);
  int64_t registers = size / warp;
  std::vector<int64_t> holds(size_t(size), -1);
  for (int64_t i = 0; i < size; i++) {
    int64_t lane = place(i, 0)[0], reg = place(i, 0)[1];
    if (lane < 0 || lane >= warp)
      fail({}, "element {} of {} lies in lane {}, but a warp has the lanes 0 to {}", element(t, i), t.text(),
           lane, warp - 1);
    if (reg < 0 || reg >= registers)
      fail({},
           "element {} of {} lies in register {} of lane {}, but {} elements over {} lanes are the registers "
           "0 to {} of each",
           element(t, i), t.text(), reg, lane, size, warp, registers - 1);
    int64_t& there = holds[size_t(lane * registers + reg)];
    if (there >= 0)
      fail({}, "elements {} and {} of {} are both in register {} of lane {}", element(t, there),
           element(t, i), t.text(), reg, lane);
    there = i;
  }
  if (registers * t.type.bits % 32)
    fail({}, "{} gives each lane {} element{} of {} bits, which do not fill 32-bit registers", t.text(),
         registers, registers == 1 ? "" : "s", int(t.type.bits));
}

OperandFragment fragment_from(const OperandTile& t, const Placement& p) {
  if (p.extents.size() != 3 || p.points.size() != size_t(2 * p.extents[0] * p.extents[1] * p.extents[2]))
    fail({}, "the fragment of {} must have two dimensions, its rows and columns", t.text());
  check_extents(t, p);
  check_cover(t, p);
  std::vector<int64_t> places;
  for (size_t i = 0; i < p.points.size(); i += size_t(2 * p.extents[2]))
    places.insert(places.end(), {p.points[i], p.points[i + 1]});
  Layout layout = from_points({t.rows, t.cols}, 2, std::move(places));
  bool digits = layout.terms.has_value();
  for (auto& term : digits ? *layout.terms : std::vector<Term>{}) digits &= term.xors.empty();
  if (!digits)
    fail({},
         "the fragment of {} is not a permutation of mixed-radix digits: its lane and register must be sums "
         "of multiples of digits of the row and the column",
         t.text());
  OperandFragment out{.rows = int(t.rows), .cols = int(t.cols), .registers = int(t.rows * t.cols / t.warp)};
  for (auto& term : *layout.terms) {
    int step = int(term.digit.divisor), row = term.digit.input == 0 ? step : 0;
    out.digits.push_back({term.output == 0 ? FragmentDigit::From::lane : FragmentDigit::From::reg,
                          int(term.stride), int(term.digit.radix), row, step - row});
  }
  return out;
}

// ── the row ───────────────────────────────────────────────────────────────────────────────────────────
void check_types(const UserMatrix& u) {
  auto number = [](DType t) { return (t.is_int() || t.is_float()) && t.lanes == 1; };
  if (!number(u.a_type) || !number(u.b_type) || !number(u.c_type))
    fail({}, "a matrix instruction multiplies numbers, not {} × {} -> {}", to_string(u.a_type),
         to_string(u.b_type), to_string(u.c_type));
  if (u.a_type != u.b_type)
    fail({}, "A is {} but B is {}: T.gemm, which is to use the instruction, multiplies tiles of one type",
         to_string(u.a_type), to_string(u.b_type));
  if (u.a_type.is_float() != u.c_type.is_float())
    fail({}, "A and B are {} but C is {}: floats accumulate in floats, integers in integers",
         to_string(u.a_type), to_string(u.c_type));
}

void check_mnemonic(const UserMatrix& u) {
  auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == ':';
  };
  if (u.ptx.empty() || !std::ranges::all_of(u.ptx, plain))
    fail({}, "`{}` is not a mnemonic: write its words joined by dots, without operands", u.ptx);
  int m = 0, n = 0, k = 0;
  for (size_t at = u.ptx.find(".m"); at != std::string::npos; at = u.ptx.find(".m", at + 1))
    if (std::sscanf(u.ptx.c_str() + at, ".m%dn%dk%d", &m, &n, &k) == 3 &&
        (m != u.shape[0] || n != u.shape[1] || k != u.shape[2]))
      fail({}, "the mnemonic {} says {}×{}×{}, but the shape is {}×{}×{}", u.ptx, m, n, k, u.shape[0],
           u.shape[1], u.shape[2]);
}

// Small integers, the same in every process.
std::vector<double> small_integers(size_t n, DType type, uint64_t& state) {
  std::vector<double> out(n);
  for (auto& x : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = double(state >> 33 & 7) - (type.is_unsigned() ? 0 : 4);
  }
  return out;
}

void check_eval(const UserMatrix& u) {
  if (!u.eval) return;
  size_t m = size_t(u.shape[0]), n = size_t(u.shape[1]), k = size_t(u.shape[2]);
  uint64_t state = 1;
  for (int trial = 0; trial < 3; trial++) {
    auto a = small_integers(m * k, u.a_type, state), b = small_integers(k * n, u.b_type, state),
         c = small_integers(m * n, u.c_type, state);
    std::vector<double> d = u.eval(a, b, c);
    if (d.size() != m * n) fail({}, "eval gave {} elements, but D is {}×{}", d.size(), m, n);
    for (size_t i = 0; i < m; i++)
      for (size_t j = 0; j < n; j++) {
        double expected = c[i * n + j];
        for (size_t x = 0; x < k; x++) expected += a[i * k + x] * b[x * n + j];
        if (d[i * n + j] != expected)
          fail({}, "eval gave {} for element ({}, {}) of D, but that of A @ B + C is {}", d[i * n + j], i, j,
               expected);
      }
  }
}

bool same(const OperandFragment& a, const OperandFragment& b) {
  auto key = [](const FragmentDigit& d) { return std::tuple(int(d.from), d.divisor, d.radix, d.row, d.col); };
  return a.rows == b.rows && a.cols == b.cols &&
         std::equal(a.digits.begin(), a.digits.end(), b.digits.begin(), b.digits.end(),
                    [&](auto& x, auto& y) { return key(x) == key(y); });
}
bool same(const MatrixInstr& x, const MatrixInstr& y) {
  return x.ptx == y.ptx && x.a_type == y.a_type && x.b_type == y.b_type && x.c_type == y.c_type &&
         same(x.a, y.a) && same(x.b, y.b) && same(x.c, y.c);
}

int lanes_of(const MatrixInstr& row) { return row.c.rows * row.c.cols / row.c.registers; }

std::string text_of(const OperandFragment& f) {
  std::string s = fmt::format("{}×{}", f.rows, f.cols);
  for (auto& d : f.digits)
    s += fmt::format(" {}/{}%{}:({},{})", int(d.from), d.divisor, d.radix, d.row, d.col);
  return s;
}

}  // namespace

const MatrixInstr& register_matrix(const UserMatrix& u) {
  if (u.shape.size() != 3 || *std::ranges::min_element(u.shape) < 1 ||
      *std::ranges::max_element(u.shape) > 256)
    fail({}, "the shape is (m, n, k), each from 1 to 256");
  check_types(u);
  check_mnemonic(u);
  int64_t m = u.shape[0], n = u.shape[1], k = u.shape[2];
  MatrixInstr row{.intrinsic = {.name = "",
                                .arity = 3,
                                .result = Intrinsic::Result::none,
                                .effect = Intrinsic::Effect::memory,
                                .access = "xrr"},
                  .m = int(m),
                  .n = int(n),
                  .k = int(k),
                  .a_type = u.a_type,
                  .b_type = u.b_type,
                  .c_type = u.c_type,
                  .a = fragment_from({"A", m, k, u.a_type, u.warp}, u.a),
                  .b = fragment_from({"B", k, n, u.b_type, u.warp}, u.b),
                  .c = fragment_from({"C", m, n, u.c_type, u.warp}, u.c),
                  .ptx = u.ptx};
  check_row(row, u.warp);
  check_eval(u);
  auto eval = u.eval ? std::make_shared<const MatrixEval>(u.eval) : nullptr;
  UserRows& r = user_rows();
  std::lock_guard guard(r.lock);
  for (auto it = r.rows.begin(); it != r.rows.end(); ++it)
    if (same(it->row, row)) {
      it->eval = std::move(eval);
      it->offered = true;
      r.rows.splice(r.rows.end(), r.rows, it);
      return it->row;
    }
  std::string name = u.ptx;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '.' || c == ':'; }, '_');
  auto named = std::ranges::count_if(r.rows, [&](auto& known) { return known.ptx == u.ptx; });
  if (named) name += fmt::format("_{}", named + 1);
  UserRow& made = r.rows.emplace_back(UserRow{std::move(name), u.ptx, std::move(row), std::move(eval)});
  made.row.intrinsic.name = made.name;
  made.row.ptx = made.ptx;
  return made.row;
}

Target with_user_rows(Target target) {
  if (!target.language->takes_ptx) return target;
  UserRows& r = user_rows();
  std::lock_guard guard(r.lock);
  for (auto& row : r.rows)
    if (row.offered && lanes_of(row.row) == target.warp)
      target.matrix.insert(target.matrix.begin(), &row.row);
  return target;
}

void unregister_matrix(std::string_view name) {
  UserRows& r = user_rows();
  std::lock_guard guard(r.lock);
  for (auto& row : r.rows)
    if (row.name == name && std::exchange(row.offered, false)) return;
  fail({}, "there is no registered instruction `{}`", name);
}

const MatrixInstr* find_user_row(std::string_view name) {
  UserRows& r = user_rows();
  std::lock_guard guard(r.lock);
  for (auto& row : r.rows)
    if (row.name == name) return &row.row;
  return nullptr;
}

std::shared_ptr<const MatrixEval> eval_of(const MatrixInstr& row) {
  UserRows& r = user_rows();
  std::lock_guard guard(r.lock);
  for (auto& known : r.rows)
    if (&known.row == &row) return known.eval;
  return nullptr;
}

std::string user_rows_text(const Target& target, const std::vector<DType>& types) {
  auto used = [&](DType t) { return std::ranges::find(types, t) != types.end(); };
  std::string text;
  for (auto* row : target.matrix)
    if (used(row->a_type) && used(row->b_type) && used(row->c_type) &&
        find_user_row(row->intrinsic.name) == row)
      text += fmt::format("{} {} {} {} | {} | {} | {}\n", row->ptx, to_string(row->a_type),
                          to_string(row->b_type), to_string(row->c_type), text_of(row->a), text_of(row->b),
                          text_of(row->c));
  return text;
}

}  // namespace tl
