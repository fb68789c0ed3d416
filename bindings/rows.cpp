// The table of what a chip's programs may call, for bench/rows, which tries every row.
#include "api/kernel.h"
#include "base/error.h"
#include "convert.h"

using namespace tl;

namespace {

nb::dict row_of(std::string_view group, std::string_view name) {
  nb::dict row;
  row["group"] = std::string(group);
  row["name"] = std::string(name);
  return row;
}

nb::dict matrix_row(const MatrixInstr& m) {
  nb::dict row = row_of("matrix", m.intrinsic.name);
  row["shape"] = nb::make_tuple(m.m, m.n, m.k);
  row["dtypes"] = nb::make_tuple(m.a_type, m.b_type, m.c_type);
  row["registers"] = nb::make_tuple(m.a.registers, m.b.registers, m.c.registers);
  return row;
}

nb::dict warpgroup_row(const WarpgroupInstr& w) {
  nb::dict row = row_of("warpgroup", w.intrinsic.name);
  row["k"] = w.k;
  row["n_step"] = w.n_step;
  row["dtypes"] = nb::make_tuple(w.a_type, w.b_type, w.c_type);
  return row;
}

nb::dict copy_row(const CopyInstr& c) {
  nb::dict row = row_of("copy", c.intrinsic.name);
  row["matrices"] = c.matrices;
  row["transposed"] = c.transposed;
  row["stores"] = c.intrinsic.access == "rw";  // to shared memory
  return row;
}

nb::dict async_row(const AsyncInstr& a) {
  nb::dict row = row_of("async", a.intrinsic.name);
  row["does"] = std::string(name_of(a.does));
  row["bytes"] = a.bytes;
  return row;
}

nb::dict atomic_row(const AtomicInstr& a) {
  nb::dict row = row_of("atomic", a.text);
  for (auto& intrinsic : thread_functions())
    if (intrinsic.atomic == a.op) row["function"] = std::string(intrinsic.name);
  row["dtype"] = a.type.scalar();
  row["lanes"] = int(a.type.lanes);
  row["only"] = std::string(a.only ? to_string(*a.only) : "");
  return row;
}

std::string_view takes_of(const Intrinsic& intrinsic) {
  constexpr std::string_view names[] = {"any",      "floats", "singles", "reals",
                                        "integers", "scaled", "counters"};
  return names[size_t(intrinsic.takes)];
}

nb::list instruction_rows(const std::string& chip) {
  const Target* target = find_target(chip);
  if (!target) fail({}, "there is no chip '{}'", chip);
  nb::list rows;
  for (auto* m : target->matrix) rows.append(matrix_row(*m));
  for (auto& w : target->warpgroup) rows.append(warpgroup_row(w));
  for (auto* c : target->copies) rows.append(copy_row(*c));
  for (auto& a : target->async) rows.append(async_row(a));
  for (auto& a : target->atomics) rows.append(atomic_row(a));
  const std::pair<std::string_view, std::span<const Intrinsic>> functions[] = {
      {"scalar", scalar_functions()}, {"exact", exact_functions()},   {"narrow", narrow_functions()},
      {"lane", lane_functions()},     {"thread", thread_functions()}, {"message", message_functions()}};
  for (auto& [group, intrinsics] : functions)
    for (auto& intrinsic : intrinsics) {
      nb::dict row = row_of(group, intrinsic.name);
      row["arity"] = intrinsic.arity;
      row["takes"] = std::string(takes_of(intrinsic));
      rows.append(row);
    }
  return rows;
}

// (name, row, parameters, help, result) of each function that front ends offer: `row` is the name for
// Builder.call, result "same" as the first argument, or a dtype.
nb::list offered() {
  constexpr std::string_view results[] = {"same",  "bool",   "handle", "none", "int64",
                                          "int32", "uint32", "uint64", "given"};
  nb::list rows;
  for (auto& f : offered_functions()) {
    nb::list params;
    for (size_t at = 0; at < f.params.size();) {
      size_t end = std::min(f.params.find(", ", at), f.params.size());
      params.append(std::string(f.params.substr(at, end - at)));
      at = end + 2;
    }
    rows.append(nb::make_tuple(std::string(f.name), std::string(f.row->name), nb::tuple(params),
                               std::string(f.help), std::string(results[size_t(f.row->result)])));
  }
  return rows;
}

// Dense operations a second, by dtype.
nb::dict peaks(const Target& t) {
  nb::dict all;
  auto add = [&](int each, std::initializer_list<const char*> dtypes) {
    for (auto* dtype : dtypes)
      if (each) all[dtype] = double(each) * double(t.multiprocessors.count) * t.rates.clock;
  };
  add(t.rates.f32, {"float32"});
  add(t.rates.f16, {"float16", "bfloat16"});
  add(t.rates.tf32, {"tfloat32"});
  add(t.rates.int8, {"int8", "uint8"});
  add(t.rates.fp8, {"float8_e4m3fn", "float8_e5m2"});
  return all;
}

nb::dict info_of(const Target& t) {
  nb::dict info;
  info["name"] = std::string(t.name);
  info["language"] = std::string(t.language->name);
  info["warp"] = t.warp;
  info["default_threads"] = t.default_threads;
  info["max_threads"] = t.max_threads;
  info["max_cluster"] = t.max_cluster;
  info["shared_bytes"] = t.shared_bytes;
  info["registers"] = t.registers;
  info["vector_bytes"] = t.vector_bytes;
  info["vector_registers"] = t.vector_registers;
  info["shared_banks"] = t.shared_banks.count;
  const Multiprocessors& m = t.multiprocessors;
  nb::dict of_one;
  of_one["count"] = m.count, of_one["threads"] = m.threads, of_one["blocks"] = m.blocks;
  of_one["shared_bytes"] = m.shared_bytes, of_one["reserved_bytes"] = m.reserved_bytes;
  of_one["registers"] = m.registers;
  info["multiprocessors"] = of_one;
  if (!t.has_threads()) return info;
  auto along = [](const std::array<int64_t, 3>& most) { return nb::make_tuple(most[0], most[1], most[2]); };
  info["max_block"] = along(t.max_block);
  info["max_grid"] = along(t.max_grid);
  info["capability"] = std::stoi(std::string(t.name.substr(t.name.find_first_of("0123456789"))));
  info["clock"] = t.rates.clock;
  info["bandwidth"] = t.rates.memory;
  info["l2_bytes"] = t.rates.cache_bytes;
  info["peak"] = peaks(t);
  return info;
}

// What the literal of a target's chip says; the reference has none.
nb::dict target_info(const std::string& text) {
  ResolvedTarget resolved = resolve_target(text);
  nb::dict info;
  if (resolved.chip) info = info_of(*resolved.chip);
  info["target"] = resolved.text();
  info["kind"] = resolved.kind;
  return info;
}

nb::list chips(const std::string& language) {
  nb::list names;
  for (auto* t : all_targets())
    if (language.empty() ? t->has_threads() : t->language->name == language)
      names.append(std::string(t->name));
  return names;
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("instruction_rows", &instruction_rows, "chip"_a);
  m.def("scalar_functions", &offered);
  m.def("target_info", &target_info, "target"_a);
  m.def("chips", &chips, "language"_a = "");
}
