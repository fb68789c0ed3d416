#include "pass/slots.h"

#include "layout/layout.h"

namespace tl {

Stmt with_slots(const Stmt& body, const SlotOf& slot_of) {
  auto indexed = [&](BufferId b, const std::vector<Expr>& index, Rewriter& self) {
    std::vector<Expr> out;
    if (Expr slot = slot_of(b, index.size())) out.push_back(slot);
    for (auto& i : index) out.push_back(self(i));
    return out;
  };
  return rewrite(
      body,
      [&](const Load& n, Rewriter& self) -> Expr {
        return load(n.dtype, n.buffer, indexed(n.buffer, n.index, self), n.span,
                    n.mask ? self(n.mask) : n.mask);
      },
      [&](const Store& n, Rewriter& self) -> Stmt {
        return store(n.buffer, indexed(n.buffer, n.index, self), self(n.value), n.span,
                     n.mask ? self(n.mask) : n.mask);
      },
      [&](const Tile& n, Rewriter& self) -> Stmt {
        Stmt walked = self.children(n);
        auto* t = walked.as<Tile>();
        std::vector<Operand> operands = t->operands;
        for (auto& o : operands)
          if (auto* r = std::get_if<Region>(&o))
            if (Expr slot = slot_of(r->buffer, r->ranges.size()))
              r->ranges.insert(r->ranges.begin(), Range{.min = slot, .extent = imm(1), .point = true});
        return tile(*t->op, operands, t->attrs, t->span, t->body);
      });
}

void give_slots(BufferInfo& tile) {
  if (tile.slots < 2) return;
  if (tile.layout) {
    int64_t size = from_map(*tile.layout).ranges[0];
    Expr slot = var("slot");
    tile.layout->vars.insert(tile.layout->vars.begin(), slot);
    tile.layout->extents.insert(tile.layout->extents.begin(), tile.slots);
    tile.layout->outputs[0] = tile.layout->outputs[0] + slot * size;
  }
  tile.shape.insert(tile.shape.begin(), imm(tile.slots));
  tile.slots = 1;
}

}  // namespace tl
