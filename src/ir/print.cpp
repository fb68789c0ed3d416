// Function -> text.  Names are hints in the IR: here each definition in scope gets a unique spelling, `k`,
// `k.1`, …, of which the parser keeps the part before the dot, so that the hints come back as they were.
#include <cmath>
#include <set>

#include "ir/build.h"
#include "ir/names.h"
#include "ir/rewrite.h"
#include "ir/text.h"

namespace tl {
namespace {

// The shortest digits that the parser reads back as v.
std::string number_text(double v, DType type) {
  if (std::isnan(v)) return std::signbit(v) ? "-nan" : "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string s;
  for (int digits = type.bits == 64 ? 15 : 1; digits <= 17; digits++) {
    s = fmt::format("{:.{}g}", v, digits);
    if (round_float(std::strtod(s.c_str(), nullptr), type) == v) break;
  }
  return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

std::string quoted(std::string_view text) {
  std::string s = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      s += {'\\', char(c)};
    else if (c == '\n')
      s += "\\n";
    else if (c < ' ')
      s += fmt::format("\\x{:02x}", c);
    else
      s += char(c);
  }
  return s + "\"";
}

// What each definition in scope, and each buffer, is called.
struct Spellings {
  const Function* f = nullptr;
  std::map<const ExprNode*, std::string> names = {};
  std::set<std::string> taken = {};
  std::vector<std::vector<const ExprNode*>> scopes = {{}};
  std::vector<std::string> buffer_names = {};

  std::string unique(const std::string& hint) {
    std::string base = spelled(hint), name = base;
    for (int n = 1; !taken.insert(name).second; n++) name = fmt::format("{}.{}", base, n);
    return name;
  }
  const std::string& define(const Expr& v) {
    scopes.back().push_back(v.get());
    auto* n = v.as<Var>();
    return names[v.get()] = unique(n ? n->hint : "?");
  }
  const std::string& name_of(const Expr& v) {
    auto it = names.find(v.get());
    if (it != names.end()) return it->second;
    scopes.front().push_back(v.get());  // bound nowhere: a part of a program, or a wrong one
    return names[v.get()] = unique(v.as<Var>()->hint);
  }
  void open() { scopes.emplace_back(); }
  void close() {
    for (auto* v : scopes.back())
      if (auto it = names.find(v); it != names.end()) {
        taken.erase(it->second);
        names.erase(it);
      }
    scopes.pop_back();
  }
  bool is_known(BufferId id) const { return f && id && size_t(id.value) < f->buffers.size(); }
  std::string name_of(BufferId id) const {
    return is_known(id) ? buffer_names[size_t(id.value)] : fmt::format("buffer{}", id.value);
  }
  void name_buffers() {
    for (auto& b : f->buffers) buffer_names.push_back(unique(b.name));
  }
};

// Expressions, and what stands within a line: regions, maps, attributes.
struct TermPrinter {
  Spellings& names;

  static bool is_literal(const Expr& e) { return e.as<IntImm>() || e.as<FloatImm>(); }
  // Beside an expression of its type a constant needs no type of its own.
  static bool needs_type(const Expr& e, const Expr& beside) {
    bool large = e->dtype == u64 && as_int(e).value_or(0) < 0;  // not without u64
    return !is_literal(e) || is_literal(beside) || e->dtype != beside->dtype || large;
  }
  std::string text(const Expr& e, int tightness = loosest, bool typed = true) {
    if (!e) return "null";
    auto [s, level] = dispatch(e, [&](const auto& n) { return written(n); });
    bool plain = e->dtype == (e.as<IntImm>() ? i64 : f32) || e->dtype.is_bool();
    if (typed && is_literal(e) && !plain) s += ":" + to_string(e->dtype);
    return level < tightness ? "(" + s + ")" : s;
  }
  template <class List>
  std::string texts(const List& list) {
    std::string s;
    for (auto& e : list) s += (s.empty() ? "" : ", ") + text(e);
    return s;
  }
  std::string masked(const Expr& mask) { return mask ? fmt::format(" mask({})", text(mask)) : ""; }

  using Written = std::pair<std::string, Precedence>;
  Written written(const IntImm& n) {
    if (n.dtype.is_bool()) return {n.value ? "true" : "false", postfix_level};
    std::string s = n.dtype.is_unsigned() ? fmt::format("{}", uint64_t(n.value)) : fmt::format("{}", n.value);
    return {s, s[0] == '-' ? unary_level : postfix_level};
  }
  Written written(const FloatImm& n) {
    std::string s = number_text(n.value, n.dtype);
    return {s, s[0] == '-' ? unary_level : postfix_level};
  }
  Written written(const StringImm& n) { return {quoted(n.value), postfix_level}; }
  Written written(const Var& n) { return {names.name_of(Expr(&n)), postfix_level}; }
  Written written(const Unary& n) {
    if (n.op == UnaryOp::logical_not) return {"not " + text(n.a, not_level), not_level};
    return {(n.op == UnaryOp::neg ? "-" : "~") + text(n.a, unary_level), unary_level};
  }
  Written written(const Binary& n) {
    Precedence p = precedence(n.op);
    bool function = p == loosest;
    int left = function ? loosest : p == compare_level ? p + 1 : p, right = function ? loosest : p + 1;
    std::string a = text(n.a, left, needs_type(n.a, n.b)), b = text(n.b, right, needs_type(n.b, n.a));
    if (function) return {fmt::format("{}({}, {})", symbol(n.op), a, b), postfix_level};
    const char* gap = p == product_level ? "" : " ";
    return {fmt::format("{}{}{}{}{}", a, gap, symbol(n.op), gap, b), p};
  }
  Written written(const Cast& n) {
    return {fmt::format("cast<{}>({})", to_string(n.dtype), text(n.a)), postfix_level};
  }
  Written written(const Select& n) {
    std::string a = text(n.a, loosest, needs_type(n.a, n.b)), b = text(n.b, loosest, needs_type(n.b, n.a));
    return {fmt::format("select({}, {}, {})", text(n.cond), a, b), postfix_level};
  }
  Written written(const Load& n) {
    return {fmt::format("{}[{}]{}", names.name_of(n.buffer), texts(n.index), masked(n.mask)), postfix_level};
  }
  Written written(const Ramp& n) {
    std::string base = text(n.base, loosest, needs_type(n.base, n.stride));
    std::string stride = text(n.stride, loosest, needs_type(n.stride, n.base));
    return {fmt::format("ramp({}, {}, {})", base, stride, int(n.dtype.lanes)), postfix_level};
  }
  Written written(const Broadcast& n) {
    return {fmt::format("broadcast({}, {})", text(n.value), int(n.dtype.lanes)), postfix_level};
  }
  Written written(const Call& n) {
    std::string type =
        n.dtype == result_type(*n.intrinsic, n.args) ? "" : fmt::format("<{}>", to_string(n.dtype));
    return {fmt::format("{}{}({})", n.intrinsic->name, type, texts(n.args)), postfix_level};
  }

  // ── regions, maps, attributes ───────────────────────────────────────────────────────────────────────
  bool is_whole(const Region& r) const {
    if (r.ranges.empty()) return true;
    if (!names.f || !r.buffer || (*names.f)[r.buffer].shape.size() != r.ranges.size()) return false;
    for (size_t i = 0; i < r.ranges.size(); i++) {
      const Range& range = r.ranges[i];
      bool all = range.extent && !range.point && range.min->dtype == i64 && is_int(range.min, 0) &&
                 equal(range.extent, (*names.f)[r.buffer].shape[i]);
      if (!all) return false;
    }
    return true;
  }
  static bool is_point(const Range& r) {
    return r.point && (!r.extent || (r.extent->dtype == r.min->dtype && is_int(r.extent, 1)));
  }
  std::string text(const Range& r) {
    if (is_point(r)) return text(r.min);
    return r.extent ? fmt::format("{} : +{}", text(r.min), text(r.extent)) : text(r.min) + ":";
  }
  std::string text(const Region& r) {
    return is_whole(r) ? names.name_of(r.buffer)
                       : fmt::format("{}[{}]", names.name_of(r.buffer), texts(r.ranges));
  }
  std::string text(const Operand& operand, Access access) {
    bool as_value = access == Access::value;
    if (auto* e = std::get_if<Expr>(&operand)) return as_value ? text(*e) : fmt::format("({})", text(*e));
    auto& r = std::get<Region>(operand);
    bool looks_like_load = as_value && !is_whole(r) && std::ranges::all_of(r.ranges, is_point);
    return looks_like_load ? fmt::format("region({})", text(r)) : text(r);
  }

  // A variable where it is defined, with its type if that is not i64.
  std::string binding(const Expr& v) {
    const std::string& name = names.define(v);
    return v->dtype == i64 ? name : fmt::format("{}: {}", name, to_string(v->dtype));
  }
  // Extents that equal the expected ones are left out.
  std::string text(const IndexMap& m, const std::vector<int64_t>& expected = {}) {
    names.open();
    std::string vars, outputs;
    for (size_t i = 0; i < m.vars.size(); i++) {
      vars += (i ? ", " : "") + binding(m.vars[i]);
      if (m.extents.empty() && m.vars[i]->dtype == i64) vars += ": i64";
      if (i < m.extents.size() && (i >= expected.size() || expected[i] != m.extents[i]))
        vars += fmt::format(": {}", m.extents[i]);
    }
    outputs = m.outputs.size() == 1 ? text(m.outputs[0]) : "(" + texts(m.outputs) + ")";
    names.close();
    return fmt::format("({}) -> {}", vars, outputs);
  }
  std::string text(const AttrValue& value) {
    return std::visit(overloads{[&](int64_t i) { return fmt::format("{}", i); },
                                [&](double d) { return number_text(d, f64); },
                                [&](const std::string& s) { return quoted(s); },
                                [&](const std::vector<int64_t>& v) {
                                  std::string s;
                                  for (auto i : v) s += fmt::format("{}{}", s.empty() ? "" : ", ", i);
                                  return "[" + s + "]";
                                },
                                [&](const Expr& e) { return e ? "(" + text(e) + ")" : std::string("()"); },
                                [&](const IndexMap& m) { return text(m); }},
                      value);
  }
  std::string text(const Attrs& attrs) {
    if (attrs.entries.empty()) return "";
    std::string s;
    for (auto& [key, value] : attrs.entries)
      s += fmt::format("{}{}={}", s.empty() ? "" : ", ", spelled(key), text(value));
    return " {" + s + "}";
  }
};

// Statements and functions, line by line.
struct Printer {
  const Function* f = nullptr;
  Spellings names{.f = f};
  TermPrinter terms{names};
  std::string out = {};
  int depth = 0;
  std::set<int> declared = {};  // buffers whose declaration is printed
  int next_id = 0;              // the id that the parser gives to the next declaration

  // ── buffers ─────────────────────────────────────────────────────────────────────────────────────────
  // Everything of a buffer but its name and scope; ids are written where they are not the next one.
  std::string declaration(BufferId id) {
    const BufferInfo& b = (*f)[id];
    std::string s = fmt::format("{}[{}]", to_string(b.dtype), terms.texts(b.shape));
    if (!b.strides.empty()) s += fmt::format(" strides({})", terms.texts(b.strides));
    if (b.alignment != 0) s += fmt::format(" alignment({})", b.alignment);
    if (b.layout) s += fmt::format(" layout({})", terms.text(*b.layout, layout_extents(b)));
    if (b.slots != 1) s += fmt::format(" slots({})", b.slots);
    if (b.address != -1) s += fmt::format(" address({})", b.address);
    if (b.elements != -1) s += fmt::format(" elements({})", b.elements);
    if (b.alias_of) s += fmt::format(" alias({})", names.name_of(b.alias_of));
    if (!b.reducer.empty()) s += fmt::format(" reducer({})", quoted(b.reducer));
    if (!b.pipeline.empty()) s += fmt::format(" pipeline({})", quoted(b.pipeline));
    if (b.holds != none_type) s += fmt::format(" holds({})", to_string(b.holds));
    if (b.safe_value) s += fmt::format(" safe_value({})", terms.text(b.safe_value, loosest, false));
    while (declared.contains(next_id)) next_id++;
    if (id.value != next_id) s += fmt::format(" id({})", id.value);
    declared.insert(id.value);
    return s;
  }

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  void line(std::string_view s) { out.append(size_t(depth) * 2, ' ').append(s).append("\n"); }

  static bool binds(const Stmt& s) { return s.as<Let>() || s.as<Alloc>(); }
  void body(const Stmt& s) {
    depth++;
    names.open();
    auto* b = s.as<Block>();
    bool alone = b && b->stmts.size() == 1 && !binds(b->stmts[0]);  // a Block that the parser would not make
    if (!s || (b && b->stmts.empty()))
      line("pass");
    else if (b && !alone)
      for (auto& inner : b->stmts) stmt(inner);
    else
      stmt(s);
    names.close();
    depth--;
  }
  void stmt(const Stmt& s) {
    dispatch(s, [&](const auto& n) { write(n); });
  }
  void write(const Store& n) {
    bool typed = !names.is_known(n.buffer) || (*f)[n.buffer].dtype != n.value->dtype || n.value->dtype == u64;
    line(fmt::format("{}[{}]{} = {}", names.name_of(n.buffer), terms.texts(n.index), terms.masked(n.mask),
                     terms.text(n.value, loosest, typed)));
  }
  void write(const Let& n) {
    std::string value = terms.text(n.value);
    line(fmt::format("{} = {}", names.define(n.var), value));
  }
  void write(const For& n) {
    std::string min = terms.text(n.min), extent = terms.text(n.extent);
    std::string range = is_int(n.min, 0) ? extent : fmt::format("{} : +{}", min, extent);
    names.open();
    std::string attrs = terms.text(n.attrs);  // first: the variables of its maps leave their names again
    line(fmt::format("for {} in {}({}){}:", names.define(n.var), to_string(n.loop), range, attrs));
    body(n.body);
    names.close();
  }
  void write(const If& n, const char* word = "if") {
    line(fmt::format("{} {}:", word, terms.text(n.cond)));
    body(n.then_body);
    if (!n.else_body) return;
    if (auto* next = n.else_body.as<If>()) return write(*next, "elif");
    line("else:");
    body(n.else_body);
  }
  void write(const While& n) {
    line(fmt::format("while {}:", terms.text(n.cond)));
    body(n.body);
  }
  void write(const Block& n) {
    line("block:");
    depth++;
    names.open();
    if (n.stmts.empty()) line("pass");
    for (auto& s : n.stmts) stmt(s);
    names.close();
    depth--;
  }
  void write(const Group& n) {
    std::string regs = n.max_regs ? fmt::format(", max_regs={}", n.max_regs) : "";
    line(fmt::format("group({} : +{}{}){}:", n.first, n.count, regs, terms.text(n.attrs)));
    body(n.body);
  }
  void write(const Alloc& n) {
    if (!names.is_known(n.buffer) || declared.contains(n.buffer.value))
      return line(fmt::format("alloc {}{}", names.name_of(n.buffer), terms.text(n.attrs)));
    std::string type = declaration(n.buffer);
    line(fmt::format("{} = {} {}{}", names.name_of(n.buffer), to_string((*f)[n.buffer].scope), type,
                     terms.text(n.attrs)));
  }
  void write(const Tile& n) {
    std::string operands;
    for (size_t i = 0; i < n.operands.size(); i++) {
      Access access = i < n.op->operands.size() ? n.op->operands[i].access : Access::value;
      operands += i ? ", " : "";
      if (n.body) operands += fmt::format("{} ", to_string(access));
      operands += terms.text(n.operands[i], access);
    }
    line(fmt::format("{}({}){}{}", n.op->name, operands, terms.text(n.attrs), n.body ? ":" : ""));
    if (n.body) body(n.body);
  }
  void write(const Eval& n) { line(terms.text(n.value)); }

  // ── functions ───────────────────────────────────────────────────────────────────────────────────────
  std::string text(const Param& p) {
    std::string name = spelled(p.name);
    auto introduced = [&](const std::string& inner) { return inner == name ? name : name + " as " + inner; };
    if (p.var) return fmt::format("{}: {}", introduced(names.name_of(p.var)), to_string(p.var->dtype));
    Scope scope = (*f)[p.buffer].scope;
    std::string prefix = scope == Scope::global ? "" : std::string(to_string(scope)) + " ";
    return fmt::format("{}: {}{}", introduced(names.name_of(p.buffer)), prefix, declaration(p.buffer));
  }
  void header() {
    std::vector<std::string> params;
    size_t width = f->name.size() + 8;
    for (auto& p : f->params) {
      params.push_back(text(p));
      width += params.back().size() + 2;
    }
    std::string gap = width > 100 ? "\n    " : "", s;
    for (auto& p : params) s += (s.empty() ? gap : gap.empty() ? ", " : "," + gap) + p;
    line(fmt::format("func {}({}):", spelled(f->name), s));
  }
  // Buffers that no parameter, workspace or Alloc declares still have an id.
  void orphans() {
    std::set<int> allocated;
    for (auto& k : f->kernels) visit(k.body, [&](const Alloc& a) { allocated.insert(a.buffer.value); });
    for (int id = 0; id < int(f->buffers.size()); id++)
      if (!declared.contains(id) && !allocated.contains(id)) {
        std::string type = declaration({id});
        line(
            fmt::format("buffer {} = {} {}", names.name_of(BufferId{id}), to_string((*f)[{id}].scope), type));
      }
  }
  void tensor_map(const TensorMap& m) {
    std::string s = fmt::format("tensor_map {} = {}", spelled(m.name), names.name_of(m.tensor));
    if (!m.shape.empty()) s += fmt::format("[{}]", terms.texts(m.shape));
    if (!m.strides.empty()) s += fmt::format(" strides({})", terms.texts(m.strides));
    s += numbers("box", m.box);
    if (m.swizzle) s += fmt::format(" swizzle({})", m.swizzle);
    if (m.fetch) s += fmt::format(" fetch({})", m.fetch);
    line(s);
  }
  static std::string numbers(const char* word, const std::vector<int64_t>& v) {
    if (v.empty()) return "";
    std::string s;
    for (auto i : v) s += fmt::format("{}{}", s.empty() ? "" : ", ", i);
    return fmt::format(" {}({})", word, s);
  }
  void kernel(const Kernel& k) {
    names.open();
    std::string s = "kernel " + spelled(k.name), grid;
    std::vector<std::string> extents;
    for (auto& e : k.grid) extents.push_back(terms.text(e));
    for (size_t i = 0; i < k.grid_vars.size(); i++)
      grid += fmt::format("{}{}: {}", i ? ", " : "", terms.binding(k.grid_vars[i]),
                          i < extents.size() ? extents[i] : "1");
    if (!k.grid_vars.empty()) s += fmt::format(" grid({})", grid);
    s += numbers("threads", k.threads);
    if (k.thread) s += fmt::format(" thread({})", terms.binding(k.thread));
    s += numbers("cluster", k.cluster) + terms.text(k.attrs);
    line(s + ":");
    body(k.body);
    names.close();
  }
  void function() {
    names.name_buffers();
    for (auto& p : f->params)
      if (p.var) names.define(p.var);
    header();
    depth++;
    for (auto& fact : f->facts) line("assume " + terms.text(fact));
    for (auto& check : f->checks)
      line(fmt::format("check {}, {}, {}", terms.text(check.cond), quoted(check.message),
                       quoted(check.place)));
    for (auto& id : f->workspaces) {
      std::string type = declaration(id);
      line(fmt::format("{} = {} {}", names.name_of(id), to_string((*f)[id].scope), type));
    }
    orphans();
    for (auto& m : f->maps) tensor_map(m);
    for (auto& k : f->kernels) kernel(k);
    if (f->facts.empty() && f->checks.empty() && f->workspaces.empty() && f->maps.empty() &&
        f->kernels.empty())
      line("pass");
    depth--;
  }
  // Before a part of a function: what stands above it.
  void enter() {
    if (!f) return;
    names.name_buffers();
    for (int id = 0; id < int(f->buffers.size()); id++) declared.insert(id);
    for (auto& p : f->params)
      if (p.var) names.define(p.var);
  }
};

}  // namespace

std::string print(const Function& f) {
  Printer p{.f = &f};
  p.function();
  return std::move(p.out);
}
std::string print(const Expr& e, const Function* f) {
  Printer p{.f = f};
  p.enter();
  return p.terms.text(e);
}
std::string print(const Stmt& s, const Function* f) {
  Printer p{.f = f};
  p.enter();
  if (s) p.stmt(s);
  return std::move(p.out);
}

}  // namespace tl
