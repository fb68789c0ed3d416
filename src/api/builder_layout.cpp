// Layouts that the user makes, and where the user wants them: annotate_layout, loop_layout.
#include <algorithm>

#include "api/builder.h"
#include "api/layout.h"
#include "base/error.h"
#include "ir/names.h"

namespace tl {
namespace {

std::vector<int64_t> checked_shape(const std::vector<int64_t>& shape, Span span) {
  if (shape.empty()) fail(span, "a layout has at least one dimension");
  for (int64_t e : shape)
    if (e < 1) fail(span, "an extent of a layout is {} in {}; extents are positive", e, tuple_text(shape));
  return shape;
}

// The constant extents of a buffer that is to have a layout.
std::vector<int64_t> constant_extents(const Buffer& buffer, Span span) {
  std::vector<int64_t> shape;
  for (auto& e : buffer.info().shape) {
    auto n = as_int(e);
    if (!n)
      fail(span,
           "{} has an extent that is known only when the kernel is called: a layout needs constant extents",
           describe(buffer));
    shape.push_back(*n);
  }
  return shape;
}

void check_shape(const Buffer& buffer, const std::vector<int64_t>& shape, std::string_view what, Span span) {
  if (constant_extents(buffer, span) != shape)
    fail(span, "{} cannot take a {} of the extents {}: they must be those of the buffer", describe(buffer),
         what, tuple_text(shape));
}

}  // namespace

Layout make_layout(const std::vector<int64_t>& shape, const std::vector<Expr>& vars,
                   const std::vector<Value>& outputs, Span span) {
  IndexMap map{.vars = vars, .extents = checked_shape(shape, span)};
  if (outputs.empty()) fail(span, "a layout gives at least one number for each element");
  for (auto& o : outputs) map.outputs.push_back(to_index(o, "what a layout gives for an element", span));
  return located(span, [&] { return from_map(map); });
}

Fragment make_fragment(const std::vector<int64_t>& shape, int64_t replicas, const std::vector<Expr>& vars,
                       const Value& thread, const std::optional<Value>& reg, Span span) {
  std::vector<int64_t> extents = checked_shape(shape, span);
  if (replicas < 1) fail(span, "a fragment has 1 replica or more, not {}", replicas);
  extents.push_back(replicas);
  IndexMap map{
      .vars = vars, .extents = extents, .outputs = {to_index(thread, "the thread of a fragment", span)}};
  return located(span, [&] {
    if (reg) {
      map.outputs.push_back(to_index(*reg, "the register of a fragment", span));
      return fragment_from_map(map);
    }
    std::vector<int64_t> threads = table(from_map(map)), points;
    std::map<int64_t, int64_t> next;  // per thread: elements so far
    for (int64_t t : threads) {
      points.push_back(t);
      points.push_back(next[t]++);
    }
    return fragment_of(from_points(extents, 2, std::move(points)));
  });
}

void Builder::set_layout(BufferId buffer, const Layout& layout, const std::string& by) {
  BufferInfo& info = draft->function[buffer];
  if (info.layout && !equal(from_map(*info.layout), layout))
    fail({}, "{} has a layout already, {} (by {}), and cannot also have {} (by {}): annotate it once",
         info.name, to_string(from_map(*info.layout)), layout_by[buffer], to_string(layout), by);
  info.layout = layout.map();
  info.layout_span = here();
  layout_by.emplace(buffer, by);
}

void Builder::annotate_layout(const Buffer& buffer, const Layout& layout, const std::string& by) {
  check_owner(buffer);
  BufferInfo& info = draft->function[buffer.id];
  if (info.scope == Scope::fragment)
    fail(here(), "{} lies in registers: it takes a Fragment, which says thread and register, not a Layout",
         describe(buffer));
  if (info.scope == Scope::local)
    fail(here(), "{} belongs to one thread: only shared tiles, fragments and tensors have layouts",
         describe(buffer));
  check_shape(buffer, layout.extents, "layout", here());
  located(here(), [&] {
    Layout flat = flattened(layout);
    flat.map();
    if (info.scope == Scope::global) check_tensor_layout(buffer, flat);
    if (!is_injective(flat)) {
      auto [a, b] = *collision(flat);
      fail({}, "this layout of {} puts the elements {} and {} in one place, {}", info.name, tuple_text(a),
           tuple_text(b), map_index(flat, a)[0]);
    }
    set_layout(buffer.id, flat, by);
  });
}

// A tensor keeps its size, and its layout is code in every kernel that touches it.
void Builder::check_tensor_layout(const Buffer& buffer, const Layout& flat) const {
  const BufferInfo& info = buffer.info();
  const std::vector<BufferInfo>& all = draft->function.buffers;
  auto shows = std::ranges::find_if(all, [&](auto& b) { return b.alias_of == buffer.id; });
  if (info.alias_of || shows != all.end())
    fail({},
         "{} cannot have a layout: {} is a view of {} in another shape or type, and only a row-major tensor "
         "can have such a view; index it without the view, or leave the layout out",
         describe(buffer), info.alias_of ? info.name : shows->name,
         info.alias_of ? draft->function[info.alias_of].name : info.name);
  if (!info.strides.empty())
    fail({}, "{} has strides of its own, but a tensor with a layout must be dense", describe(buffer));
  if (!flat.terms)
    fail({},
         "this layout of the tensor {} is not a permutation of digits of its indices ({}), as the layout of "
         "a tensor must be",
         info.name, to_string(flat));
  if (flat.ranges[0] > flat.size())
    fail({}, "this layout of {} reaches offset {}, but the tensor has {} elements: only tiles can be padded",
         info.name, flat.ranges[0] - 1, flat.size());
}

void Builder::annotate_layout(const Buffer& buffer, const Fragment& fragment, const std::string& by) {
  check_owner(buffer);
  BufferInfo& info = draft->function[buffer.id];
  if (info.scope != Scope::fragment)
    fail(here(), "{} is not a fragment: it takes a Layout, not a Fragment of threads and registers",
         describe(buffer));
  check_shape(buffer, fragment.shape(), "fragment", here());
  located(here(), [&] {
    Fragment f = condense(fragment);
    f.layout.map();
    if (auto at = shared_register(f))
      fail({}, "this fragment puts the elements {} and {} of {} into one register, {} of thread {}",
           tuple_text(at->first), tuple_text(at->second), info.name, at->reg, at->thread);
    if (std::string why = why_not_inverse(f); !why.empty())
      fail({},
           "this fragment of {}, {}, cannot be used: which elements a thread holds cannot be derived from "
           "it, because {}. Thread and register must be sums of digits of the indices (i // a % b, times a "
           "stride), and each digit belongs to one of the two",
           info.name, to_string(f), why);
    int64_t threads = draft->function.kernels.empty() ? 0 : thread_count(draft->function.kernels.back());
    if (threads && f.threads > threads)
      fail({}, "this fragment of {}, {}, names {} threads, but a block of this kernel has {}", info.name,
           to_string(f), f.threads, threads);
    set_layout(buffer.id, f.layout, by);
  });
}

void Builder::check_loop_layout(const std::vector<LoopHead>& heads, Loop loop, const Attrs& attrs) const {
  auto* value = attrs.find("loop_layout");
  if (!value) return;
  auto* map = std::get_if<IndexMap>(value);
  if (!map || map->outputs.size() != 2)
    fail(here(), "loop_layout must be a Fragment over the loops' iterations");
  if (loop != Loop::parallel)
    fail(here(), "only parallel loops have a loop_layout; this one is {}", to_string(loop));
  std::vector<int64_t> extents, shape(map->extents.begin(), map->extents.end() - 1);
  for (auto& h : heads) extents.push_back(*as_int(h.extent));
  if (extents != shape)
    fail(here(), "a loop over {} iterations cannot take a loop_layout of the extents {}", tuple_text(extents),
         tuple_text(shape));
  located(here(), [&] { check_iterations_apart(fragment_from_map(*map), here()); });
}

}  // namespace tl
