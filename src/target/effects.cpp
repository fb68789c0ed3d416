#include "target/effects.h"

#include <unordered_map>

#include "ir/rewrite.h"
#include "target/hopper.h"
#include "target/nvidia.h"

namespace tl {
namespace {

Access access_from(char c) { return c == 'r' ? Access::read : c == 'w' ? Access::write : Access::update; }

struct Collector {
  Effects found = {};
  std::vector<Expr> masks = {};
  Expr whole = {};  // of an Eval: what nobody uses

  void add(Effect e) {
    e.masks = masks;
    found.list.push_back(std::move(e));
  }
  void under(const Expr& mask, const auto& f) {
    if (mask) masks.push_back(mask);
    f();
    if (mask) masks.pop_back();
  }
  void all(const std::vector<Expr>& es) {
    for (auto& e : es) expression(e);
  }

  void expression(const Expr& e) {
    if (!e) return;
    if (auto* load = e.as<Load>()) {
      under(load->mask, [&] { add({.buffer = load->buffer, .index = load->index, .by = load}); });
      all(load->index);
      expression(load->mask);
    } else if (auto* call = e.as<Call>()) {
      arguments(*call);
    } else {
      visit_below(e, [&](const Expr& x) { expression(x); });
    }
  }

  // Through an address an instruction reaches as far as its row says.
  void arguments(const Call& call) {
    const AsyncInstr* row = async_row_of(*call.intrinsic);
    if (row && row->completes()) found.completes.push_back(completion(call, *row));
    if (row && row->closes_group()) found.closes.push_back(row->token);
    found.fences |= row && row->fences();
    found.meets |= call.intrinsic->effect == Intrinsic::Effect::barrier;
    found.signals |= is_named_barrier(*call.intrinsic) || call.intrinsic == &bar_sync_groups ||
                     (row && row->token == Token::phase);
    for (size_t i = 0; i < call.args.size(); i++) {
      auto* place =
          call.intrinsic == &address_of && i == 0 ? call.args[0].as<Load>() : place_of(call.args[i]);
      if (!place) {
        expression(call.args[i]);
        continue;
      }
      all(place->index);
      expression(place->mask);
      if (Expr count = count_of(call.args[i])) expression(count);
      Effect effect{.buffer = place->buffer, .access = Access::value, .by = &call, .argument = i};
      if (call.intrinsic != &address_of) effect.access = access_from(access_of(call, i));
      if (i == 0 && updates(call.intrinsic->atomic))
        effect.update = call.intrinsic->atomic, effect.is_told = &call != whole.get();
      if (row) at_row(effect, call, *row);
      if (warpgroup_row_of(*call.intrinsic)) effect.begins = Token::gemms, effect.proxy = Proxy::async;
      if (copy_row_of(*call.intrinsic)) effect.bytes = 16, effect.by_warp = true;  // a row of eight units
      add(std::move(effect));
    }
  }

  static bool updates(Intrinsic::Atomic op) {
    using enum Intrinsic::Atomic;
    return op != none && op != load && op != store;
  }

  static std::pair<BufferId, int64_t> word_of(const Load& place) {
    return {place.buffer, place.index.size() == 1 ? as_int(place.index[0]).value_or(-1) : -1};
  }

  static Completion completion(const Call& call, const AsyncInstr& row) {
    Completion c{.token = row.token};
    if (row.token == Token::phase)
      std::tie(c.word, c.word_at) = word_of(*place_of(call.args[0]));
    else if (!call.args.empty())
      c.left = as_int(call.args[0]).value_or(0);
    return c;
  }

  // A copy is begun by its row; the words of barriers are accessed at once, by the thread.
  static void at_row(Effect& effect, const Call& call, const AsyncInstr& row) {
    effect.is_phase = row.token == Token::phase && (!row.begins() || effect.argument + 1 == call.args.size());
    if (!row.begins() || effect.is_phase) return;
    if (row.does == AsyncInstr::AsyncKind::copy) effect.bytes = row.bytes;
    effect.begins = row.token;
    effect.proxy = row.proxy;
    if (row.token == Token::phase)
      std::tie(effect.word, effect.word_at) = word_of(*place_of(call.args.back()));
  }

  void statement(const Store& n) {
    all(n.index);
    expression(n.mask);
    under(n.mask, [&] {  // its value is asked for there alone
      expression(n.value);
      add({.buffer = n.buffer, .access = Access::write, .index = n.index});
    });
  }
  void statement(const Let& n) { expression(n.value); }
  void statement(const Eval& n) {
    whole = n.value;
    expression(n.value);
  }
  void statement(const For& n) {
    expression(n.min);
    expression(n.extent);
  }
  void statement(const If& n) { expression(n.cond); }
  void statement(const While& n) { expression(n.cond); }
  void statement(const Block&) {}
  void statement(const Group&) {}
  void statement(const Alloc&) {}
  void statement(const Tile& n) {
    const Intrinsic* of_elements = update_of_elements(n);
    for (auto& [name, value] : n.attrs.entries)
      if (auto* e = std::get_if<Expr>(&value)) expression(*e);
    for (size_t i = 0; i < n.operands.size(); i++) {
      auto* region = std::get_if<Region>(&n.operands[i]);
      if (!region) {
        expression(std::get<Expr>(n.operands[i]));
        continue;
      }
      for (auto& range : region->ranges) {
        expression(range.min);
        expression(range.extent);
      }
      Effect effect{.buffer = region->buffer, .access = n.op->operands[i].access, .region = region};
      if (of_elements && i == 0) effect.update = of_elements->atomic;
      add(std::move(effect));
    }
  }
};

auto by_intrinsic(const auto& rows, auto address) {
  std::unordered_map<const Intrinsic*, decltype(address(rows[0]))> by;
  for (auto& row : rows) by.emplace(&address(row)->intrinsic, address(row));
  return by;
}
auto found(const auto& rows, const Intrinsic& intrinsic) {
  auto it = intrinsic.effect == Intrinsic::Effect::memory ? rows.find(&intrinsic) : rows.end();
  return it == rows.end() ? nullptr : it->second;
}

}  // namespace

std::vector<Expr> place_of(const Effect& e) {
  if (e.by == nullptr || e.by->kind == Kind::Load) return {e.index.begin(), e.index.end()};
  const Expr& argument = static_cast<const Call&>(*e.by).args[e.argument];
  return (argument.as<Load>() ? argument.as<Load>() : place_of(argument))->index;
}

const Intrinsic* update_of_elements(const Tile& t) {
  std::string_view name = t.op->name, suffix = "_tile";
  if (!name.ends_with(suffix)) return nullptr;
  name.remove_suffix(suffix.size());
  const Intrinsic* row = find_intrinsic(name);
  return row && row->atomic != Intrinsic::Atomic::none ? row : nullptr;
}

Effects effects_of(const Stmt& s) {
  Collector c;
  dispatch(s, [&](const auto& n) { c.statement(n); });
  // A loop asks for a phase until it has ended; what asks once goes on before that.
  if (!s.as<While>()) std::erase_if(c.found.completes, [](auto& x) { return x.token == Token::phase; });
  return std::move(c.found);
}

Effects effects_of(const Expr& e) {
  Collector c;
  c.expression(e);
  return std::move(c.found);
}

void visit_effects(const Stmt& body, const std::function<void(const Stmt&, const Effect&)>& f) {
  if (!body) return;
  visit_nodes(body, [&](const Node& n) {
    if (!is_statement(n.kind)) return;
    Stmt s(static_cast<const StmtNode*>(&n));
    for (auto& effect : effects_of(s).list) f(s, effect);
  });
}

std::set<BufferId> written_buffers(const Stmt& body) {
  std::set<BufferId> written;
  visit_effects(body, [&](const Stmt& s, const Effect& e) {
    bool is_named = e.access == Access::value && s.as<Let>();
    if (e.writes() || is_named) written.insert(e.buffer);
  });
  return written;
}

const CopyInstr* copy_row_of(const Intrinsic& intrinsic) {
  static const auto rows = by_intrinsic(nvidia_copies(newest), [](auto* row) { return row; });
  return found(rows, intrinsic);
}

const AsyncInstr* async_row_of(const Intrinsic& intrinsic) {
  static const auto rows = by_intrinsic(nvidia_async(sm_90a_only), [](auto& row) { return &row; });
  return found(rows, intrinsic);
}

}  // namespace tl
