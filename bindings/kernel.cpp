// Function, Kernel, and the functions that make them.
#include <nanobind/stl/shared_ptr.h>
#include <filesystem>
#include <numeric>

#include "api/infinite_constants.h"
#include "api/kernel.h"
#include "arguments.h"
#include "base/dylib.h"
#include "base/error.h"
#include "convert.h"
#include "long_call.h"
#include "simulation.h"

using namespace tl;

namespace {

// NVRTC may come from pip: site-packages/nvidia/*/lib.
void add_package_libraries() {
  static bool done = false;
  if (std::exchange(done, true)) return;
  for (nb::handle entry : nb::list(nb::module_::import_("sys").attr("path"))) {
    std::error_code none;
    std::vector<std::string> found;
    for (auto& package : std::filesystem::directory_iterator(nb::cast<std::string>(entry) + "/nvidia", none))
      if (auto lib = package.path() / "lib"; std::filesystem::is_directory(lib, none)) found.push_back(lib);
    std::ranges::sort(found);
    for (auto& folder : found) add_library_dir(folder);
  }
}

nb::object extent_of(const Expr& e, const Function& f) {
  if (auto n = as_int(e)) return nb::int_(*n);
  return nb::cast(print(e, &f));
}

// (place, text) of each constant that its type makes infinite.
nb::list infinite_constants_of(const Function& f) {
  nb::list rows;
  for (auto& n : f.notes)
    if (n.pass == infinite_constant)
      rows.append(nb::make_tuple(place_of(n.span), in_words_of_python(n.subject + " " + n.text, "")));
  return rows;
}

nb::list params_of(const Function& f) {
  nb::list rows;
  for (auto& p : f.params) {
    nb::dict row;
    std::vector<nb::object> shape;
    if (p.buffer)
      for (auto& e : f[p.buffer].shape) shape.push_back(extent_of(e, f));
    row["name"] = p.name;
    row["is_tensor"] = bool(p.buffer);
    row["dtype"] = p.buffer ? f[p.buffer].dtype : p.var->dtype;
    row["shape"] = tuple_of(shape);
    rows.append(row);
  }
  return rows;
}

// A function of Python's, for whichever thread calls it, and lets go of it.
std::shared_ptr<nb::object> held_by_any_thread(nb::object function) {
  auto release = [](nb::object* held) {
    GilHeld acquired;
    delete held;
  };
  return {new nb::object(std::move(function)), release};
}

// (language, text) -> text
std::function<std::string(std::string_view, std::string)> editor_of(nb::object function) {
  return [held = held_by_any_thread(std::move(function))](std::string_view language, std::string text) {
    GilHeld acquired;
    nb::object edited =
        or_sleep_at_exit([&] { return (*held)(nb::str(language.data(), language.size()), text); });
    return nb::cast<std::string>(edited);
  };
}

nb::list resources_of(const std::vector<Report::KernelRow>& kernels) {
  nb::list rows;
  for (auto& row : kernels) {
    nb::dict out;
    out["kernel"] = row.name;
    out["threads"] = known(row.threads);
    out["shared_bytes"] = known(row.shared_bytes);
    out["registers"] = known(row.resources.registers);
    out["stack_bytes"] = known(row.resources.stack_bytes);
    out["spill_stores"] = known(row.resources.spill_stores);
    out["spill_loads"] = known(row.resources.spill_loads);
    out["serialized"] = row.serialized;
    out["refusals"] = row.refusals;
    rows.append(out);
  }
  return rows;
}

// (target, resources) -> None
decltype(Settings::hear_generic) listener_of(nb::object function) {
  return [held = held_by_any_thread(std::move(function))](const std::string& target,
                                                          const std::vector<Report::KernelRow>& kernels) {
    GilHeld acquired;
    or_sleep_at_exit([&] { return (*held)(target, resources_of(kernels)); });
  };
}

Settings settings_of(const nb::dict& options) {
  Settings s;
  bool cached = true;
  std::string folder;
  auto into = [](auto& to) {
    return [&to](nb::handle value) { to = nb::cast<std::decay_t<decltype(to)>>(value); };
  };
  const std::map<std::string, std::function<void(nb::handle)>> readers = {
      {"at_machine", into(s.at_machine)},
      {"cache", into(cached)},
      {"cache_dir", into(folder)},
      {"deterministic", into(s.options.deterministic)},
      {"dump_dir", into(s.dump_dir)},
      {"edit_text", [&](nb::handle value) { s.edit_text = editor_of(nb::borrow(value)); }},
      {"fast_math", into(s.options.fast_math)},
      {"flags", into(s.options.flags)},
      {"hear_generic", [&](nb::handle value) { s.hear_generic = listener_of(nb::borrow(value)); }},
      {"line_directives", into(s.options.line_directives)},
      {"own_barriers", into(s.options.own_barriers)},
      {"skip", into(s.options.skip)},
      {"stop_after", into(s.options.stop_after)},
      {"strict", into(s.options.strict)},
      {"timeline", into(s.options.timeline)}};
  for (auto [key, value] : options) {
    std::string name = nb::cast<std::string>(key);
    auto reader = readers.find(name);
    if (reader == readers.end()) {
      std::vector<std::string_view> names;
      for (auto& [known, read] : readers) names.push_back(known);
      fail({}, "compile has no option `{}`{}", name, did_you_mean(name, names));
    }
    reader->second(value);
  }
  if (!cached)
    s.cache = Cache{};
  else if (!folder.empty())
    s.cache = Cache{.folder = folder};
  return s;
}

std::shared_ptr<CompiledKernel> compile_function(const Function& f, const std::string& target,
                                                 const nb::dict& options) {
  add_package_libraries();
  Settings settings = settings_of(options);
  std::shared_ptr<CompiledKernel> kernel;
  {
    LongCall call("compiling", f.name);
    kernel = compile_kernel(f, target, std::move(settings));
  }
  for (auto& note : kernel->report.notes)
    if (note.subject == flags_subject)
      nb::module_::import_("logging").attr("getLogger")("tilelang").attr("debug")("%s", note.text);
  return kernel;
}

void launch(CompiledKernel& k, nb::handle args, uint64_t stream) {
  std::vector<nb::object> objects = items_of(args);
  std::vector<nb::handle> handles(objects.begin(), objects.end());
  Arguments arguments(k.program, handles.data(), handles.size(), k.device_type() == device_cuda, stream);
  LongCall call("running", k.program.name);
  k.launch(arguments.list(), stream);
}

// A run of the simulator: its report as a dict.  fresh: the positions of unwritten arguments.
nb::dict simulate_kernel(CompiledKernel& k, nb::handle args, const std::vector<size_t>& fresh, uint64_t seed,
                         int64_t schedules, std::vector<int64_t> blocks, int64_t sample, bool watch,
                         bool count, nb::object stop) {
  std::vector<nb::object> objects = items_of(args);
  Arguments arguments(k.program, objects.size(), false);
  std::vector<nb::handle> handles(objects.begin(), objects.end());
  std::vector<size_t> places(objects.size());
  std::iota(places.begin(), places.end(), size_t(0));
  arguments.read_all(handles.data(), places, 0);
  for (size_t i : fresh) arguments.read_new(i, handles.at(i));
  SimulationOptions options{.seed = seed,
                            .schedules = schedules,
                            .blocks = std::move(blocks),
                            .sample = sample,
                            .watch = watch,
                            .count = count};
  if (!stop.is_none()) options.stop = stop_handler(stop);
  SimulationReport report;
  {
    LongCall call("simulating", k.program.name);
    report = k.simulate(arguments.list(), options);
  }
  return dict_of(report);
}

nb::dict phases_of(const CompiledKernel& k) {
  nb::dict out;
  for (auto& p : k.report.phases) {
    double before = out.contains(p.name.c_str()) ? nb::cast<double>(out[p.name.c_str()]) : 0;
    out[p.name.c_str()] = before + p.ms;
  }
  return out;
}

// What the host does in a call, as text: parameters with what is checked of them, then each launch.
std::string host_source(const CompiledKernel& k) {
  const Program& p = k.program;
  auto formula = [&](const Formula& f) { return formula_text(f, p.integers); };
  auto list = [&](const std::vector<Formula>& fs) {
    std::vector<std::string> texts;
    for (const Formula& f : fs) texts.push_back(formula(f));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  std::string text = fmt::format("call {} on {}\n", p.name, k.report.target);
  for (const ParamSpec& spec : p.params)
    text += spec.is_tensor
                ? fmt::format("  tensor {}: {}[{}] strides({}){}\n", spec.name, spec.dtype, list(spec.shape),
                              list(spec.strides), spec.is_written ? " written" : "")
                : fmt::format("  number {}: {}\n", spec.name, spec.dtype);
  for (const CheckSpec& c : p.checks) text += fmt::format("  check {}\n", formula(c.holds));
  for (const Workspace& w : p.workspaces)
    text += fmt::format("  workspace {}: {} bytes\n", w.name, formula(w.bytes));
  for (const TensorMapSpec& m : p.maps) {
    auto i = size_t(m.index);
    text += fmt::format("  map {}: of {}, box ({}) swizzle {}{}\n", m.name,
                        m.of_workspace ? p.workspaces[i].name : p.params[i].name, fmt::join(m.box, ", "),
                        m.swizzle, m.fetch ? fmt::format(" fetch {}", m.fetch) : "");
  }
  for (const EntrySpec& e : p.entries) {
    std::vector<std::string> args;
    for (const EntrySpec::Arg& a : e.args) {
      auto i = size_t(a.index);
      args.push_back(a.from == EntrySpec::Arg::From::param       ? p.params[i].name
                     : a.from == EntrySpec::Arg::From::workspace ? p.workspaces[i].name
                     : a.from == EntrySpec::Arg::From::map       ? p.maps[i].name
                                                                 : p.integers[i].name);
    }
    text += fmt::format("  launch {}({}) grid({}) threads({}, {}, {}) shared({} bytes)\n", e.name,
                        fmt::join(args, ", "), list(e.grid), e.threads[0], e.threads[1], e.threads[2],
                        e.shared_bytes);
  }
  return text;
}

std::string ptx(const CompiledKernel& k) {
  const Language* language = k.target.chip ? k.target.chip->language : nullptr;
  if (!language || !language->takes_ptx)
    throw RuntimeError(
        fmt::format("{} was compiled for {}: only CUDA kernels have PTX", k.program.name, k.report.target));
  add_package_libraries();
  LongCall call("compiling", k.program.name);
  return ptx_of(k.program);
}

nb::list tile_ops() {
  constexpr const char* accesses[] = {"value", "read", "write", "update"};
  constexpr const char* types[] = {"flag", "condition", "integer", "number", "choice", "map", "function"};
  nb::list rows;
  for (auto* op : all_ops()) {
    nb::list operands, attrs;
    for (auto& o : op->info.operands)
      operands.append(nb::make_tuple(std::string(o.name), accesses[size_t(o.access)]));
    for (auto& a : op->info.attrs) attrs.append(nb::make_tuple(std::string(a.name), types[size_t(a.type)]));
    nb::dict row;
    row["name"] = std::string(op->info.name);
    row["doc"] = std::string(op->info.doc);
    row["operands"] = operands;
    row["attrs"] = attrs;
    rows.append(row);
  }
  return rows;
}

}  // namespace

void bind_kernel(nb::module_& m) {
  nb::class_<Function>(m, "Function")
      .def_ro("name", &Function::name)
      .def("text", [](const Function& f) { return print(f); })
      .def_prop_ro("params", &params_of)
      .def_prop_ro("used", &used_params)
      .def_prop_ro("infinite_constants", &infinite_constants_of);
  nb::class_<CompiledKernel>(m, "Kernel")
      .def_prop_ro("target", [](const CompiledKernel& k) { return k.report.target; })
      .def_prop_ro("device_type",
                   [](const CompiledKernel& k) { return k.device_type() == device_cpu ? "cpu" : "cuda"; })
      .def_ro("source", &CompiledKernel::source)
      .def_prop_ro("report",
                   [](CompiledKernel& k) {
                     LongCall call("explaining", k.program.name);
                     return k.current_report();
                   })
      .def_prop_ro("phases", &phases_of)
      .def_prop_ro("params", [](const CompiledKernel& k) { return params_of(k.function); })
      .def_prop_ro("written", [](const CompiledKernel& k) { return written_params(k.function); })
      .def_prop_ro("from_cache", [](const CompiledKernel& k) { return k.report.from_cache; })
      .def_prop_ro("binary",
                   [](const CompiledKernel& k) {
                     auto* b = k.device_binary();
                     return b ? nb::bytes(b->bytes.data(), b->bytes.size()) : nb::object(nb::none());
                   })
      .def_prop_ro("host_source", &host_source)
      .def_prop_ro("machine_text",
                   [](const CompiledKernel& k) {
                     LongCall call("compiling", k.program.name);
                     return k.machine_text();
                   })
      .def_prop_ro("resources", [](const CompiledKernel& k) { return resources_of(k.report.kernels); })
      .def_prop_ro("warnings", [](const CompiledKernel& k) { return k.program.warnings; })
      .def("ptx", &ptx)
      .def("launch", &launch, "args"_a, "stream"_a)
      .def("simulate", &simulate_kernel, "args"_a, "fresh"_a, "seed"_a, "schedules"_a, "blocks"_a, "sample"_a,
           "watch"_a, "count"_a, "stop"_a.none() = nb::none());
  m.def("compile", &compile_function, "function"_a, "target"_a, "options"_a);
  m.def(
      "resolve_target",
      [](const std::string& target) {
        add_package_libraries();
        return resolve_target(target).text();
      },
      "target"_a);
  m.def(
      "register_source",
      [](const std::string& file, std::string text) { register_source(file, std::move(text)); }, "file"_a,
      "text"_a);
  m.def("tile_ops", &tile_ops);
  m.def(
      "parse", [](const std::string& text, const std::string& file) { return parse_text(text, file); },
      "text"_a, "file"_a = "<text>");
}
