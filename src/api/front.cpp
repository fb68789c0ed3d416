// tilelang.h: handles around Builder.  No checks here: they are Builder's.
#include <algorithm>

#include "api/front.h"
#include "base/error.h"
#include "ir/text.h"

namespace tilelang {
namespace detail {

tl::Span span_of(const Where& where) {
  int line = int(where.line()), column = int(where.column());
  return {tl::intern_file(where.file_name()), line, column, line, column + 1};
}

constexpr tl::DType types[] = {tl::f64, tl::f32, tl::f16, tl::bf16, tl::i8,  tl::i16,    tl::i32,
                               tl::i64, tl::u8,  tl::u16, tl::u32,  tl::u64, tl::boolean};

tl::DType type_of(DType type) { return types[size_t(type)]; }

DType type_from(tl::DType type) {
  auto* found = std::find(std::begin(types), std::end(types), type);
  tl::internal_check(found != std::end(types), "a value of type " + to_string(type) + " in the C++ front");
  return DType(found - types);
}

tl::Value Access::value(const Expr& e) {
  if (auto* node = std::get_if<std::shared_ptr<const ExprImpl>>(&e.value)) return (*node)->expr;
  if (auto* n = std::get_if<int64_t>(&e.value)) return *n;
  if (auto* n = std::get_if<uint64_t>(&e.value)) return *n;
  if (auto* d = std::get_if<double>(&e.value)) return *d;
  return std::get<bool>(e.value);
}

Expr Access::expr(tl::Expr e) { return Expr(std::make_shared<const ExprImpl>(ExprImpl{std::move(e)})); }

const tl::Buffer& Access::buffer(const Buffer& b) { return b.impl->buffer; }

tl::Builder& Access::builder(const Buffer& b) { return b.impl->owner->builder; }

Buffer Access::buffer(std::shared_ptr<BuilderImpl> owner, tl::Buffer b) {
  return Buffer(std::make_shared<const BufferImpl>(BufferImpl{std::move(b), std::move(owner)}));
}

Element Access::element(const Buffer& buffer, std::initializer_list<Operand> index, Where where) {
  std::vector<Expr> values;
  for (auto& i : index) values.push_back(i.value);
  return Element(buffer, std::move(values), index.size() ? index.begin()->where : where);
}

Region Access::region(const Buffer& buffer, std::vector<TileIndex> index) {
  return Region(buffer, std::move(index));
}

Expr Access::load(const Element& e) {
  tl::Builder& b = builder(e.buffer);
  b.at(span_of(e.where));
  return expr(b.load(buffer(e.buffer), values(e.index)));
}

void Access::store(const Element& e, const Operand& value) {
  tl::Builder& b = builder(e.buffer);
  b.at(span_of(value.where));
  b.store(buffer(e.buffer), values(e.index), Access::value(value.value));
}

std::vector<tl::Value> Access::values(const std::vector<Expr>& list) {
  std::vector<tl::Value> out;
  for (auto& e : list) out.push_back(value(e));
  return out;
}

std::vector<tl::Value> Access::values(std::initializer_list<Operand> list) {
  std::vector<tl::Value> out;
  for (auto& o : list) out.push_back(value(o.value));
  return out;
}

// A(i, j) is a base element; as soon as one dimension is a slice, the others are points (as in Python).
tl::TileOperand Access::tile(const Tile& t) {
  if (auto* whole = std::get_if<Buffer>(&t)) return buffer(*whole);
  auto& region = std::get<Region>(t);
  tl::Buffer b = buffer(region.buffer);
  auto& shape = b.info().shape;
  auto is_slice = [](const TileIndex& i) { return !std::holds_alternative<Operand>(i.index); };
  bool sliced = std::ranges::any_of(region.index, is_slice);
  std::vector<tl::Value> starts;
  std::vector<std::optional<tl::Value>> extents;
  std::vector<bool> points;
  for (size_t d = 0; d < region.index.size(); d++) {
    auto& index = region.index[d].index;
    std::optional<tl::Value> extent;
    points.push_back(false);
    if (auto* place = std::get_if<Operand>(&index)) {
      starts.push_back(value(place->value));
      points.back() = sliced;
    } else if (auto* s = std::get_if<Slice>(&index)) {
      starts.push_back(value(s->start.value));
      extent = tl::apply_binary(tl::BinaryOp::sub, value(s->stop.value), starts.back(), b.draft->here);
    } else {
      starts.push_back(int64_t(0));
      if (d < shape.size()) extent = shape[d];
    }
    extents.push_back(extent);
  }
  return tl::make_region(b, starts, extents, points);
}

namespace {

Expr binary(tl::BinaryOp op, const Operand& a, const Operand& b) {
  return Access::expr(tl::apply_binary(op, Access::value(a.value), Access::value(b.value), span_of(a.where)));
}

// `/` and `%` mean what C++ means by them.
Expr divide(tl::BinaryOp floats, tl::BinaryOp ints, const Operand& a, const Operand& b) {
  tl::Span span = span_of(a.where);
  tl::DType x = strong(Access::value(a.value), span)->dtype, y = strong(Access::value(b.value), span)->dtype;
  return binary(x.is_float() || y.is_float() ? floats : ints, a, b);
}

Expr unary(std::string_view op, const Operand& a) {
  return Access::expr(tl::apply_unary(op, Access::value(a.value), span_of(a.where)));
}

}  // namespace
}  // namespace detail

using detail::Access;
using Op = tl::BinaryOp;

// ── values ────────────────────────────────────────────────────────────────────────────────────────────
Expr::Expr(const Element& element) : Expr(Access::load(element)) {}
Expr::Expr(const Buffer& variable) : Expr(Access::load(Access::element(variable, {}, Where::current()))) {}
DType Expr::dtype() const { return detail::type_from(tl::strong(Access::value(*this), {})->dtype); }
std::string Expr::text() const { return tl::print(tl::strong(Access::value(*this), {})); }

Expr operator+(Operand a, Operand b) { return detail::binary(Op::add, a, b); }
Expr operator-(Operand a, Operand b) { return detail::binary(Op::sub, a, b); }
Expr operator*(Operand a, Operand b) { return detail::binary(Op::mul, a, b); }
Expr operator/(Operand a, Operand b) { return detail::divide(Op::div, Op::truncdiv, a, b); }
Expr operator%(Operand a, Operand b) { return detail::divide(Op::truncmod, Op::truncmod, a, b); }
Expr operator&(Operand a, Operand b) { return detail::binary(Op::bit_and, a, b); }
Expr operator|(Operand a, Operand b) { return detail::binary(Op::bit_or, a, b); }
Expr operator^(Operand a, Operand b) { return detail::binary(Op::bit_xor, a, b); }
Expr operator<<(Operand a, Operand b) { return detail::binary(Op::shl, a, b); }
Expr operator>>(Operand a, Operand b) { return detail::binary(Op::shr, a, b); }
Expr operator==(Operand a, Operand b) { return detail::binary(Op::eq, a, b); }
Expr operator!=(Operand a, Operand b) { return detail::binary(Op::ne, a, b); }
Expr operator<(Operand a, Operand b) { return detail::binary(Op::lt, a, b); }
Expr operator<=(Operand a, Operand b) { return detail::binary(Op::le, a, b); }
Expr operator>(Operand a, Operand b) { return detail::binary(Op::gt, a, b); }
Expr operator>=(Operand a, Operand b) { return detail::binary(Op::ge, a, b); }
Expr operator&&(Operand a, Operand b) { return detail::binary(Op::logical_and, a, b); }
Expr operator||(Operand a, Operand b) { return detail::binary(Op::logical_or, a, b); }
Expr operator-(Operand a) { return detail::unary("neg", a); }
Expr operator!(Operand a) { return detail::unary("not", a); }
Expr operator~(Operand a) { return detail::unary("invert", a); }
Expr floordiv(Operand a, Operand b) { return detail::binary(Op::floordiv, a, b); }
Expr floormod(Operand a, Operand b) { return detail::binary(Op::floormod, a, b); }
Expr ceildiv(Operand a, Operand b) {
  return detail::Access::expr(tl::apply_ceildiv(
      detail::Access::value(a.value), detail::Access::value(b.value), {}, detail::span_of(a.where)));
}
Expr min(Operand a, Operand b) { return detail::binary(Op::min, a, b); }
Expr max(Operand a, Operand b) { return detail::binary(Op::max, a, b); }

Expr select(Operand condition, Operand a, Operand b) {
  return Access::expr(tl::apply_select(Access::value(condition.value), Access::value(a.value),
                                       Access::value(b.value), detail::span_of(condition.where)));
}
Expr cast(DType type, Operand a) {
  return Access::expr(
      tl::to_type(Access::value(a.value), detail::type_of(type), "the constant", detail::span_of(a.where)));
}
Expr call(std::string_view name, std::initializer_list<Operand> args, Where where) {
  return Access::expr(tl::apply_call(name, Access::values(args), {}, detail::span_of(where)));
}

// ── buffers ───────────────────────────────────────────────────────────────────────────────────────────
Element Buffer::operator[](std::initializer_list<Operand> index) const {
  return Access::element(*this, index, Where::current());
}
Element Buffer::operator[](Operand index) const { return Access::element(*this, {index}, index.where); }

Region Buffer::operator()(TileIndex a, TileIndex b, TileIndex c, TileIndex d, TileIndex e) const {
  std::vector<TileIndex> index{std::move(a), std::move(b), std::move(c), std::move(d), std::move(e)};
  while (!index.empty() && std::holds_alternative<std::monostate>(index.back().index)) index.pop_back();
  return Access::region(*this, std::move(index));
}
std::string Buffer::name() const { return Access::buffer(*this).info().name; }
DType Buffer::dtype() const { return detail::type_from(Access::buffer(*this).info().dtype); }

void Element::operator=(Operand value) const { Access::store(*this, value); }
void Element::operator=(const Element& value) const {
  Access::store(*this, Operand(Expr(value), value.where));
}
void Element::operator+=(Operand value) const {
  *this = Operand(Operand(Expr(*this), value.where) + value, value.where);
}
void Element::operator-=(Operand value) const {
  *this = Operand(Operand(Expr(*this), value.where) - value, value.where);
}
void Element::operator*=(Operand value) const {
  *this = Operand(Operand(Expr(*this), value.where) * value, value.where);
}

// ── the builder ───────────────────────────────────────────────────────────────────────────────────────
Builder::Builder(std::string name) : impl(new detail::BuilderImpl{tl::Builder(std::move(name))}) {}

Buffer Builder::tensor(std::string name, std::initializer_list<Operand> shape, DType type, Where where) {
  impl->builder.at(detail::span_of(where));
  return Access::buffer(impl, impl->builder.tensor(name, Access::values(shape), detail::type_of(type)));
}
Expr Builder::scalar(std::string name, DType type, Where where) {
  impl->builder.at(detail::span_of(where));
  return Access::expr(impl->builder.scalar(name, detail::type_of(type)));
}
Expr Builder::dynamic(std::string name, Where where) {
  impl->builder.at(detail::span_of(where));
  return Access::expr(impl->builder.dynamic(name));
}

static std::vector<Expr> wrapped(std::vector<tl::Expr> vars) {
  std::vector<Expr> out;
  for (auto& v : vars) out.push_back(Access::expr(std::move(v)));
  return out;
}

std::vector<Expr> Builder::begin_kernel(std::initializer_list<Operand> grid, const Threads& threads,
                                        Where where) {
  impl->builder.at(detail::span_of(where));
  return wrapped(impl->builder.begin_kernel(Access::values(grid), threads.extents, {}));
}
void Builder::end_kernel() { impl->builder.end_kernel(); }

std::vector<Expr> Builder::begin_parallel(std::initializer_list<Operand> extents, const Fragment* map,
                                          Where where) {
  std::vector<Range> ranges;
  for (auto& e : extents) ranges.emplace_back(e.value);
  return begin_for("parallel", {}, std::move(ranges), 0, where, map);
}

std::vector<Expr> Builder::begin_for(std::string_view kind, std::vector<std::string> names,
                                     std::vector<Range> ranges, int num_stages, Where where,
                                     const Fragment* map) {
  impl->builder.at(detail::span_of(where));
  constexpr const char* usual[] = {"i", "j", "k", "l"};
  if (names.empty())
    for (size_t d = 0; d < ranges.size(); d++) names.push_back(usual[d % 4]);
  std::vector<tl::Value> starts, stops, steps;
  for (auto& r : ranges) {
    starts.push_back(Access::value(r.start));
    stops.push_back(Access::value(r.stop));
    steps.push_back(Access::value(r.step));
  }
  tl::Attrs attrs;
  if (kind == "pipelined") attrs.entries["num_stages"] = int64_t(num_stages);
  if (map)
    attrs.entries["loop_layout"] =
        tl::located(impl->builder.here(), [&] { return Access::fragment(*map).layout.map(); });
  return wrapped(impl->builder.begin_for(kind, names, starts, stops, steps, std::move(attrs)));
}
void Builder::end_for() { impl->builder.end_for(); }

void Builder::begin_if(const Operand& condition) {
  impl->builder.at(detail::span_of(condition.where));
  impl->builder.begin_if(Access::value(condition.value));
}
void Builder::begin_else() { impl->builder.begin_else(); }
void Builder::end_if() { impl->builder.end_if(); }

void Builder::wrong_body(std::string_view what, size_t variables, Where where) {
  tl::fail(detail::span_of(where), "this {} has {} variable{}; its body must take as many Exprs", what,
           variables, variables == 1 ? "" : "s");
}

Buffer Builder::alloc(std::string_view scope, std::string name, std::initializer_list<Operand> shape,
                      DType type, Where where) {
  impl->builder.at(detail::span_of(where));
  return Access::buffer(impl,
                        impl->builder.alloc(name, scope, Access::values(shape), detail::type_of(type), {}));
}
Buffer Builder::alloc_shared(std::string name, std::initializer_list<Operand> shape, DType type,
                             Where where) {
  return alloc("shared", std::move(name), shape, type, where);
}
Buffer Builder::alloc_fragment(std::string name, std::initializer_list<Operand> shape, DType type,
                               Where where) {
  return alloc("fragment", std::move(name), shape, type, where);
}
Buffer Builder::alloc_local(std::string name, std::initializer_list<Operand> shape, DType type, Where where) {
  return alloc("local", std::move(name), shape, type, where);
}
Buffer Builder::alloc_var(std::string name, DType type, Where where) {
  return alloc("var", std::move(name), {}, type, where);
}
void Builder::set(const Buffer& variable, Operand value) {
  Access::store(Access::element(variable, {}, value.where), value);
}
Expr Builder::let(std::string name, Operand value) {
  impl->builder.at(detail::span_of(value.where));
  return Access::expr(impl->builder.let(name, Access::value(value.value)));
}

// ── tile operators ────────────────────────────────────────────────────────────────────────────────────
void Builder::copy(const Tile& src, const Tile& dst, Where where) {
  impl->builder.at(detail::span_of(where));
  impl->builder.tile("copy", {Access::tile(src), Access::tile(dst)}, {});
}
void Builder::gemm(const Tile& a, const Tile& b, const Tile& c, const GemmOptions& options, Where where) {
  impl->builder.at(detail::span_of(where));
  tl::Attrs attrs;
  attrs.entries["trans_a"] = int64_t(options.trans_a);
  attrs.entries["trans_b"] = int64_t(options.trans_b);
  attrs.entries["clear_accum"] = tl::to_bool(Access::value(options.clear_accum), impl->builder.here());
  attrs.entries["policy"] = options.policy;
  impl->builder.tile("gemm", {Access::tile(a), Access::tile(b), Access::tile(c)}, std::move(attrs));
}
void Builder::clear(const Tile& tile, Where where) {
  impl->builder.at(detail::span_of(where));
  impl->builder.tile("clear", {Access::tile(tile)}, {});
}
void Builder::fill(const Tile& tile, Operand value) {
  impl->builder.at(detail::span_of(value.where));
  impl->builder.tile("fill", {Access::tile(tile), Access::value(value.value)}, {});
}
void Builder::reduce(std::string_view fold, const Tile& src, const Tile& dst, int dim, bool clear,
                     Where where) {
  impl->builder.at(detail::span_of(where));
  tl::Attrs attrs{.entries = {{"dim", int64_t(dim)}, {"clear", int64_t(clear)}}};
  impl->builder.tile(fmt::format("reduce_{}", fold), {Access::tile(src), Access::tile(dst)},
                     std::move(attrs));
}
void Builder::use_swizzle(Operand panel_size, std::string_view order) {
  impl->builder.at(detail::span_of(panel_size.where));
  impl->builder.use_swizzle(Access::value(panel_size.value), order);
}
void Builder::tile(std::string_view op, const std::vector<std::variant<Buffer, Region, Expr>>& operands,
                   const Options& options, Where where) {
  impl->builder.at(detail::span_of(where));
  std::vector<tl::TileOperand> made;
  for (auto& o : operands) {
    if (auto* e = std::get_if<Expr>(&o))
      made.push_back(Access::value(*e));
    else if (auto* b = std::get_if<Buffer>(&o))
      made.push_back(Access::tile(*b));
    else
      made.push_back(Access::tile(std::get<Region>(o)));
  }
  tl::Attrs attrs;
  for (auto& [key, value] : options) std::visit([&](auto& v) { attrs.entries[key] = v; }, value);
  impl->builder.tile(op, made, std::move(attrs));
}

Function Builder::finish(Where where) {
  impl->builder.at(detail::span_of(where));
  return Access::function(impl->builder.finish());
}

}  // namespace tilelang
