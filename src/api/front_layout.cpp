// tilelang.h: Layout, Fragment, annotate_layout.
#include "api/front.h"

namespace tilelang {
namespace detail {

Layout Access::layout(tl::Layout l) {
  return Layout(std::make_shared<const LayoutImpl>(LayoutImpl{std::move(l)}));
}
const tl::Layout& Access::layout(const Layout& l) { return l.impl->layout; }
Fragment Access::fragment(tl::Fragment f) {
  return Fragment(std::make_shared<const FragmentImpl>(FragmentImpl{std::move(f)}));
}
const tl::Fragment& Access::fragment(const Fragment& f) { return f.impl->fragment; }

}  // namespace detail

using detail::Access;
using tl::located;

namespace {

// One variable per dimension, and one for the replica where the user's function takes it.
std::vector<Expr> as_users(const std::vector<tl::Expr>& vars, size_t count) {
  std::vector<Expr> out;
  for (size_t i = 0; i < count; i++) out.push_back(Access::expr(vars[i]));
  return out;
}

tl::Layout layout_of(const std::vector<int64_t>& shape, const IndexFunction& place, const Where& where) {
  std::vector<tl::Expr> vars = tl::input_vars(shape.size());
  std::vector<tl::Value> outputs = Access::values(place(as_users(vars, vars.size())));
  return tl::make_layout(shape, vars, outputs, detail::span_of(where));
}

tl::Fragment fragment_of(const std::vector<int64_t>& shape, const IndexFunction& place, int64_t replicas,
                         const Where& where) {
  tl::Span span = detail::span_of(where);
  std::vector<tl::Expr> vars = tl::input_vars(shape.size() + 1);
  std::vector<tl::Value> outputs = Access::values(place(as_users(vars, shape.size() + (replicas > 1))));
  if (outputs.size() != 2)
    tl::fail(span, "a fragment gives two numbers for each element, its thread and its register, not {}",
             outputs.size());
  return tl::make_fragment(shape, replicas, vars, outputs[0], outputs[1], span);
}

}  // namespace

Layout::Layout(std::vector<int64_t> shape, const IndexFunction& place, Where where)
    : Layout(Access::layout(layout_of(shape, place, where))) {}

Layout Layout::swizzled(std::vector<int64_t> shape, DType type, int bytes, Where where) {
  int bits = detail::type_of(type).bits;
  return Access::layout(located(detail::span_of(where), [&] {
    return bytes ? tl::swizzled(shape, bits, bytes) : tl::conflict_free(shape, bits, false);
  }));
}

Layout Layout::inverse(Where where) const {
  return Access::layout(located(detail::span_of(where), [&] { return tl::inverse(impl->layout); }));
}
Layout Layout::repeat(int64_t dim, int64_t factor, Where where) const {
  return Access::layout(
      located(detail::span_of(where), [&] { return tl::repeat(impl->layout, size_t(dim), factor); }));
}
bool Layout::operator==(const Layout& other) const { return tl::equal(impl->layout, other.impl->layout); }
std::vector<int64_t> Layout::operator()(const std::vector<int64_t>& index, Where where) const {
  return located(detail::span_of(where), [&] { return tl::locate(impl->layout, index); });
}
std::string Layout::text() const { return tl::to_string(impl->layout); }
std::string Layout::drawing() const { return tl::to_text(tl::draw(impl->layout)); }

Fragment::Fragment(std::vector<int64_t> shape, const IndexFunction& place, int64_t replicas, Where where)
    : Fragment(Access::fragment(fragment_of(shape, place, replicas, where))) {}

Fragment Fragment::repeat(const std::vector<int64_t>& factors, bool on_threads, bool last_dim_first,
                          Where where) const {
  return Access::fragment(located(detail::span_of(where), [&] {
    return tl::repeat(impl->fragment, factors, on_threads, last_dim_first);
  }));
}
Fragment Fragment::replicate(int64_t copies, Where where) const {
  return Access::fragment(
      located(detail::span_of(where), [&] { return tl::replicate(impl->fragment, copies); }));
}
bool Fragment::operator==(const Fragment& other) const {
  return tl::equal(impl->fragment, other.impl->fragment);
}
std::string Fragment::text() const { return tl::to_string(impl->fragment); }
std::string Fragment::drawing() const { return tl::to_text(tl::draw(impl->fragment)); }

void Builder::annotate_layout(const Buffer& buffer, const Layout& layout, Where where) {
  impl->builder.at(detail::span_of(where));
  impl->builder.annotate_layout(Access::buffer(buffer), Access::layout(layout));
}
void Builder::annotate_layout(const Buffer& buffer, const Fragment& fragment, Where where) {
  impl->builder.at(detail::span_of(where));
  impl->builder.annotate_layout(Access::buffer(buffer), Access::fragment(fragment));
}

}  // namespace tilelang
