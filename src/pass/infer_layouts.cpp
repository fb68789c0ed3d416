// infer_layouts: gives every shared and fragment buffer a layout, every parallel loop a mapping (paper 4.2).  The
// last pass at tile level: the order of tile operators is final, and lowering needs to know where elements live.
//
// A fix point over three strengths: at each, every statement is asked what it wants given what is known, until
// nothing new is learnt; then the next weaker strength.  As soon as a weaker strength decides something, the
// stronger ones are asked again.  The pass knows no operator by name.
//
//   Cl = fragment f32[64, 64]   ->   Cl = fragment f32[64, 64] layout((i, j, rep) -> (thread, register))
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/parallel.h"
#include "pass/passes.h"

namespace tl {
namespace {

constexpr std::string_view strictness_names[] = {"strict", "common", "free"};

// A tile operator or parallel nest, and the mapping found for its iterations.
struct Item {
  Stmt stmt;
  std::optional<Fragment> loop;
  int64_t lanes = 0;
};

struct Inference {
  Function& f;
  const Kernel& kernel;
  const Target& target;
  std::vector<Item> items;
  LayoutMap known;

  void collect(const Stmt& root) {
    rewrite(root,
            [&](const Tile& n, Rewriter&) -> Stmt {
              items.push_back({.stmt = Stmt(&n), .loop = {}});
              return Stmt(&n);
            },
            [&](const For& n, Rewriter& self) -> Stmt {
              if (n.loop != Loop::parallel) return self.children(n);
              items.push_back({.stmt = Stmt(&n), .loop = {}});
              return Stmt(&n);
            });
  }

  LayoutMap ask(const Item& item, Strictness level) {
    known.loop = item.loop;
    LayoutContext ctx{.function = f, .kernel = kernel, .target = target, .threads = thread_count(kernel), .known = known};
    if (auto* t = item.stmt.as<Tile>()) return row_of(*t).infer_layout(*t, ctx, level);
    return infer_parallel(read_nest(*item.stmt.as<For>()), ctx, level);
  }

  std::string subject(const Stmt& s) const {
    if (auto* t = s.as<Tile>()) return std::string(t->op->name);
    return "parallel loop " + s.as<For>()->var.as<Var>()->hint;
  }

  void note(BufferId buffer, const Item& item, Strictness level, const std::string& layout) {
    f.notes.push_back({.pass = "infer_layouts", .subject = f[buffer].name,
                       .text = fmt::format("{} (by {}, {})", layout, subject(item.stmt), strictness_names[size_t(level)]),
                       .span = f[buffer].span});
  }

  // Adds what an item wants; true if that was new.
  bool learn(Item& item, LayoutMap wanted, Strictness level) {
    bool news = false;
    for (auto& [buffer, fragment] : wanted.fragments) {
      auto [at, fresh] = known.fragments.emplace(buffer, fragment);
      if (fresh)
        note(buffer, item, level, to_string(fragment));
      else if (!equal(at->second, fragment))
        fail(item.stmt->span, "{} wants {} laid out as {}, but another operator needs {}: use two fragments, with a "
                              "copy through shared memory between them",
             subject(item.stmt), f[buffer].name, to_string(fragment), to_string(at->second));
      news |= fresh;
    }
    for (auto& [buffer, layout] : wanted.shared) {
      bool fresh = known.shared.emplace(buffer, layout).second;   // the first demand stands: any layout is right
      if (fresh) note(buffer, item, level, to_string(layout));
      news |= fresh;
    }
    if (wanted.loop && !item.loop) {
      item.loop = std::move(wanted.loop);
      item.lanes = wanted.lanes;
      news = true;
    }
    return news;
  }

  // Asks everyone at one strength, once; true if anything was new.
  bool round(Strictness level) {
    bool news = false;
    for (Item& item : items)
      if (learn(item, ask(item, level), level)) {
        news = true;
        if (level == Strictness::free) return true;   // one free choice, then the stronger ones again
      }
    return news;
  }

  void run() {
    while (round(Strictness::strict)) {}
    do {
      while (round(Strictness::common)) {}
    } while (round(Strictness::free));
  }
};

std::vector<int64_t> constant_shape(const BufferInfo& info) {
  std::vector<int64_t> shape;
  for (auto& e : info.shape) shape.push_back(*as_int(e));
  return shape;
}

// A fragment that no loop or operator maps lies whole in every thread.
Fragment everywhere(const std::vector<int64_t>& shape) {
  std::vector<Term> terms;
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
    terms.push_back({.output = 1, .stride = stride, .digit = {int(d), 1, shape[d]}});
  return make_fragment(shape, 1, std::move(terms));
}

// With one thread per block every fragment is an ordinary array.
void preset_fragments(Inference& inference) {
  if (inference.target.has_threads()) return;
  for (size_t i = 0; i < inference.f.buffers.size(); i++)
    if (inference.f.buffers[i].scope == Scope::fragment)
      inference.known.fragments.emplace(BufferId{int(i)}, everywhere(constant_shape(inference.f.buffers[i])));
}

Stmt annotated(const Stmt& body, const std::vector<Item>& items) {
  std::map<const StmtNode*, const Item*> of;
  for (auto& item : items) of.emplace(item.stmt.get(), &item);
  auto attrs_with = [](Attrs attrs, const Item& item) {
    if (item.loop) attrs.entries["loop_layout"] = item.loop->layout.map();
    if (item.lanes) attrs.entries["loop_lanes"] = item.lanes;
    return attrs;
  };
  return rewrite(body,
                 [&](const Tile& n, Rewriter&) -> Stmt {
                   return tile(*n.op, n.operands, attrs_with(n.attrs, *of.at(&n)), n.span);
                 },
                 [&](const For& n, Rewriter& self) -> Stmt {
                   if (n.loop != Loop::parallel) return self.children(n);
                   return for_loop(n.var, n.min, n.extent, n.loop, n.body, n.span, attrs_with(n.attrs, *of.at(&n)));
                 });
}

void write_back(Function& f, const LayoutMap& known, const Stmt& body) {
  visit(body, [&](const Alloc& n) {
    BufferInfo& info = f[n.buffer];
    if (info.scope == Scope::fragment) {
      auto it = known.fragments.find(n.buffer);
      Fragment fragment = it == known.fragments.end() ? everywhere(constant_shape(info)) : it->second;
      info.layout = fragment.layout.map();
      info.elements = fragment.registers;
    } else if (info.scope == Scope::shared || info.scope == Scope::local) {
      auto it = known.shared.find(n.buffer);
      Layout layout = it == known.shared.end() ? row_major(constant_shape(info)) : it->second;
      info.layout = layout.map();
      info.elements = layout.ranges[0];
    }
  });
}

}  // namespace

Function infer_layouts(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    Inference inference{.f = f, .kernel = k, .target = target, .items = {}, .known = {}};
    preset_fragments(inference);
    inference.collect(k.body);
    inference.run();
    write_back(f, inference.known, k.body);
    k.body = annotated(k.body, inference.items);
  }
  return f;
}

}  // namespace tl
