// Atomic accesses and foreign code as closures, for the reference: one element after another, blocks in
// order.
#include "base/error.h"
#include "ir/build.h"
#include "ops/atomic.h"
#include "sim/evaluate.h"
#include "target/foreign.h"

namespace tl {

Code atomic_code(ExprCompiler& compile, const Call& n, Span span) {
  const Load& place = *place_of(n.args[0]);
  auto at = compile.offset(place.buffer, place.index, span);
  Code value = n.args.size() == 3 ? compile(n.args[1]) : Code();
  Code mask = place.mask ? compile(place.mask) : Code();
  auto access = element_access(place.dtype);
  return [=, id = size_t(place.buffer.value), type = place.dtype, op = n.intrinsic->atomic](Frame& x) {
    if (mask && !mask(x).i) return Scalar();
    Scalar v = value ? value(x) : Scalar();
    int64_t offset = at(x);
    if (offset < 0) {  // outside a tensor: nothing happens
      x.misfit.reset();
      return Scalar();
    }
    std::byte* element = x.buffers[id].data + offset * type.bytes();
    Scalar old = access.get(element);
    if (value)
      access.put(element, type.is_float() ? scalar(combine(op, old.d, v.d, type))
                                          : scalar(combine(op, old.i, v.i, type)));
    return old;
  };
}

namespace {

// The element that a place names, for code that may go on from there: over `count` elements, or to the
// buffer's end.
std::function<ForeignValue(Frame&)> place_code(ExprCompiler& compile, const Load& place, const Expr& count,
                                               Span span) {
  Code counted = count ? compile(count) : Code();
  auto at = compile.offset(place.buffer, place.index, span);
  return [=, id = size_t(place.buffer.value), type = place.dtype, function = &compile.f](Frame& x) {
    const Memory& m = x.buffers[id];
    int64_t offset = at(x), end = 1;
    if (offset < 0) fail(span, "an address outside of its tensor, in {}", x.where);
    for (size_t d = 0; d < m.shape.size(); d++) end += (m.shape[d] - 1) * m.strides[d];
    int64_t elements = counted ? counted(x).i : end - offset;
    if (elements < 0 || offset + elements > end)
      fail(span,
           "foreign code: elements {} to {} of {} are outside [0, {}), in {}; guard the call with an if",
           offset, offset + elements - 1, function->buffers[id].name, end, x.where);
    return ForeignValue{.type = type, .data = m.data + offset * type.bytes(), .elements = elements};
  };
}

}  // namespace

Code foreign_code(ExprCompiler& compile, const Call& n, Span span) {
  require_foreign_eval(n, "the reference", span);
  auto eval = find_foreign_eval(n.args[1].as<StringImm>()->value);
  size_t first = 2, outputs = 0;
  if (n.intrinsic == &inline_ptx) first = 3, outputs = size_t(*as_int(n.args[2]));
  std::vector<std::function<ForeignValue(Frame&)>> to, from;
  std::vector<DType> results;
  for (size_t i = first; i < n.args.size(); i++) {
    const Expr& a = n.args[i];
    bool output = i < first + outputs;
    if (output) results.push_back(place_of(a)->dtype);
    if (auto* place = place_of(a)) {
      (output ? to : from).push_back(place_code(compile, *place, count_of(a), span));
      continue;
    }
    from.push_back([value = compile(a), type = a->dtype](Frame& x) {
      Scalar v = value(x);
      ForeignValue out{.type = type};
      if (type.is_float())
        out.d = v.d;
      else
        out.i = v.i;
      return out;
    });
  }
  if (n.dtype != none_type) results.push_back(n.dtype);
  return [=](Frame& x) {
    std::vector<ForeignValue> args;
    for (auto& f : from) args.push_back(f(x));
    auto given = (*eval)(args, results);
    Scalar last;
    for (size_t r = 0; r < results.size(); r++) {
      last = results[r].is_float() ? scalar(round_float(given[r].d, results[r]))
                                   : scalar(wrap_int(given[r].i, results[r]));
      if (r < to.size()) element_access(results[r]).put(to[r](x).data, last);
    }
    return last;
  };
}

}  // namespace tl
