// The kernels of one function of the eager dialect.  A key is words: of the values that a kernel is built
// with, of what the function captures, of what its trace read of the tensors.  It is made again at every call
// and compared, so no change is missed; a miss and every error are handled in Python (`_call`).
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "call_key.h"
#include "callable.h"
#include "launcher.h"

using namespace tl;

namespace {

struct Read {  // of a tensor
  size_t position;
  enum class What : uint8_t { shape, stride, whole } what;
  int dim;
  auto operator<=>(const Read&) const = default;
};

struct Entry {
  std::vector<uint64_t> words = {};
  nb::object kernel;
  LaunchPlan* plan;  // null: the kernel has a call of its own
  std::vector<size_t> inputs = {};
  std::vector<nb::object> kept = {};
};

// Kernels whose traces read the same of their tensors.
struct Group {
  std::vector<Read> reads;
  std::unordered_multimap<uint64_t, Entry> entries;
};

struct State {
  std::vector<nb::object> names, defaults;  // defaults: null where there is none
  std::vector<bool> is_runtime;
  nb::object rule;  // of objects whose attributes count (KeyWriter); null: none
  // Shared, because what a key is made of may call Python, and that may call us.
  std::shared_ptr<const std::vector<Watch>> watches = std::make_shared<std::vector<Watch>>();
  std::vector<std::shared_ptr<Group>> groups;

  bool add_base(Words& words, std::span<PyObject* const> args, std::vector<nb::object>* kept) const;
  bool add_reads(Words& words, const Group& group, std::span<PyObject* const> args) const;
  const Entry* find(Words& words, std::span<PyObject* const> args) const;
  std::optional<size_t> order(PyObject* const* given, size_t count, PyObject* keywords,
                              std::span<PyObject*> args) const;
};

// Of a scalar, and of a tensor that is not given: None where that is its default, or any object, for compile.
Mark mark_without_tensor(PyObject* o) {
  if (o == Py_None) return Mark::none;
  return Py_TYPE(o) == &PyBaseObject_Type ? Mark::missing : Mark::number;
}

// Static values, captures, and of what is given at run time where it lives.
bool State::add_base(Words& words, std::span<PyObject* const> args, std::vector<nb::object>* kept) const {
  nb::object asked = rule;
  KeyWriter writer{words, kept, asked.ptr()};
  words.add(args.size());
  for (size_t i = 0; i < args.size(); i++) {
    if (i >= names.size() || !is_runtime[i]) {
      writer.argument(args[i], i < names.size() ? int(i) : -1);
      continue;
    }
    ArrayType& type = array_type(Py_TYPE(args[i]));
    if (type.protocol == ArrayType::Protocol::none) {
      words.add(mark_without_tensor(args[i]));
      continue;
    }
    Borrowed borrowed;
    TensorView view;
    if (!borrowed.read(nb::handle(args[i]), view, type.family == ArrayType::Family::jax ? 1 : -1))
      return false;
    bool is_scalar = type.family == ArrayType::Family::numpy && type.protocol != ArrayType::Protocol::numpy;
    words.add(is_scalar && view.ndim == 0                                 ? Mark::number  // np.float32(1)
              : view.device_type == device_cuda || view.device_type == 13 ? Mark::gpu
                                                                          : Mark::cpu);
  }
  auto watched = watches;
  for (const Watch& watch : *watched) {
    nb::object value = watch.value();
    if (value.is_valid())
      writer.captured(value.ptr());
    else
      words.add(Mark::missing);
  }
  return true;
}

bool State::add_reads(Words& words, const Group& group, std::span<PyObject* const> args) const {
  for (size_t k = 0; k < group.reads.size();) {
    size_t position = group.reads[k].position;
    Borrowed borrowed;
    TensorView view;
    ArrayType& type = array_type(Py_TYPE(args[position]));
    if (type.protocol == ArrayType::Protocol::none) return false;
    if (!borrowed.read(nb::handle(args[position]), view, type.family == ArrayType::Family::jax ? 1 : -1))
      return false;
    for (; k < group.reads.size() && group.reads[k].position == position; k++) {
      const Read& read = group.reads[k];
      if (read.what == Read::What::whole) {
        words.add(uint64_t(view.code) | uint64_t(view.bits) << 8 | uint64_t(view.lanes) << 16 |
                  uint64_t(view.ndim) << 32);
        for (int d = 0; d < view.ndim; d++) words.add(uint64_t(view.shape[d]));
        continue;
      }
      if (read.dim >= view.ndim) return false;
      bool is_stride = read.what == Read::What::stride;
      words.add(uint64_t(is_stride ? stride_of(view, read.dim) : view.shape[read.dim]));
    }
  }
  return true;
}

const Entry* State::find(Words& words, std::span<PyObject* const> args) const {
  if (groups.empty() || !add_base(words, args, nullptr)) return nullptr;
  size_t base = words.size();
  for (size_t i = 0; i < groups.size(); i++) {
    std::shared_ptr<Group> group = groups[i];
    words.shorten(base);
    if (!add_reads(words, *group, args)) continue;
    auto [first, last] = group->entries.equal_range(words.hash());
    for (; first != last; ++first)
      if (std::ranges::equal(first->second.words, words.all())) return &first->second;
  }
  return nullptr;
}

// One object for each name, in order, then name and value of each further keyword, an integer for a T.const
// name. How many these are, or nothing where Python has to say what is wrong, or what keywords mean.
std::optional<size_t> State::order(PyObject* const* given, size_t count, PyObject* keywords,
                                   std::span<PyObject*> args) const {
  size_t named = keywords ? size_t(PyTuple_GET_SIZE(keywords)) : 0, total = names.size();
  if (count > total || total > args.size()) return {};
  std::copy(given, given + count, args.begin());
  std::fill(args.begin() + std::ptrdiff_t(count), args.begin() + std::ptrdiff_t(total), nullptr);
  for (size_t k = 0; k < named; k++) {
    PyObject* name = PyTuple_GET_ITEM(keywords, Py_ssize_t(k));
    size_t i = 0;
    while (i < names.size() && names[i].ptr() != name) i++;
    if (i < names.size()) {
      if (args[i]) return {};
      args[i] = given[count + k];
      continue;
    }
    auto same = [&](const nb::object& own) { return PyUnicode_Compare(own.ptr(), name) == 0; };
    if (std::ranges::any_of(names, same) || !PyLong_CheckExact(given[count + k]) || total + 2 > args.size())
      return {};
    args[total++] = name;
    args[total++] = given[count + k];
  }
  for (size_t i = count; i < names.size(); i++)
    if (!args[i] && !(args[i] = defaults[i].ptr())) return {};
  return total;
}

// ── the type ──────────────────────────────────────────────────────────────────────────────────────────────

constexpr size_t most_arguments = 64;

State& state_of(PyObject* self) {
  State* state = value_in<State>(self);
  if (!state) throw nb::type_error("CallCache.__init__ was not called");
  return *state;
}

const Entry* find_entry(const State& state, std::span<PyObject* const> args) {
  Words words;
  try {
    return state.find(words, args);
  } catch (nb::python_error& e) {  // a value without a hash; an array that its library does not lend
    if (!e.matches(PyExc_TypeError) && !e.matches(PyExc_ValueError) && !e.matches(PyExc_BufferError)) throw;
  } catch (const nb::builtin_exception&) {
  }
  return nullptr;  // Python will say so
}

nb::object call_object(nb::handle kernel, nb::handle const* inputs, size_t count) {
  PyObject* const* first = reinterpret_cast<PyObject* const*>(inputs);
  PyObject* made = or_sleep_at_exit([&] { return PyObject_Vectorcall(kernel.ptr(), first, count, nullptr); });
  nb::object result = nb::steal<nb::object>(made);
  if (!result.is_valid()) throw nb::python_error();
  return result;
}

PyObject* call_cached(PyObject* self, PyObject* const* given, size_t flags, PyObject* keywords) {
  return guarded([&] {
    const State& state = state_of(self);
    size_t count = size_t(PyVectorcall_NARGS(flags));
    PyObject* ordered[most_arguments];
    auto total = state.order(given, count, keywords, ordered);
    if (!total) return call_method(self, "_call", given, count, keywords);
    std::span<PyObject* const> args{ordered, *total};
    const Entry* entry = find_entry(state, args);
    if (!entry) return call_method(self, "_call", given, count, keywords);
    nb::object kernel = entry->kernel;  // another thread may forget it meanwhile
    nb::handle inputs[most_arguments];
    size_t passed = entry->inputs.size();
    for (size_t i = 0; i < passed; i++) inputs[i] = args[entry->inputs[i]];
    if (entry->plan) return entry->plan->run(inputs);
    return call_object(kernel, inputs, passed);
  });
}

std::vector<Watch> watches_of(PyObject* sequence) {
  std::vector<Watch> watches;
  for (auto& item : items_of(sequence)) {
    std::vector<nb::object> parts = items_of(item);
    if (parts.size() != 3 || !(PyDict_Check(parts[0].ptr()) || PyCell_Check(parts[0].ptr())))
      throw nb::type_error("watches are tuples: a dict or a cell, a name, and names of attributes");
    watches.push_back({parts[0], parts[1], items_of(parts[2])});
  }
  return watches;
}

nb::object interned(nb::handle text) {
  PyObject* o = text.inc_ref().ptr();
  if (!PyUnicode_CheckExact(o)) throw nb::type_error("the names of parameters are texts");
  PyUnicode_InternInPlace(&o);
  return nb::steal<nb::object>(o);
}

int initialise_cache(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* words[] = {"names", "defaults", "runtime", "watches", "rule", nullptr};
  PyObject *names, *defaults, *runtime, *watches = nullptr, *rule = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O|OO", const_cast<char**>(words), &names, &PyDict_Type,
                                   &defaults, &runtime, &watches, &rule))
    return -1;
  return set_value<State>(self, [&] {
    auto state = std::make_unique<State>();
    for (auto& name : items_of(names)) {
      state->names.push_back(interned(name));
      PyObject* value = PyDict_GetItemWithError(defaults, name.ptr());
      if (!value && PyErr_Occurred()) throw nb::python_error();
      state->defaults.push_back(nb::borrow<nb::object>(value));
    }
    state->is_runtime.assign(state->names.size(), false);
    for (auto& place : items_of(runtime)) state->is_runtime.at(nb::cast<size_t>(place)) = true;
    if (rule) state->rule = nb::borrow<nb::object>(nb::handle(rule));
    if (watches) state->watches = std::make_shared<std::vector<Watch>>(watches_of(watches));
    return state;
  });
}

Read read_of(nb::handle item, size_t count) {
  std::vector<nb::object> parts = items_of(item);
  if (parts.size() != 3)
    throw nb::type_error("reads are tuples: position, \"shape\" | \"stride\" | \"whole\", dimension");
  std::string what = nb::cast<std::string>(parts[1]);
  Read read{nb::cast<size_t>(parts[0]),
            what == "shape"    ? Read::What::shape
            : what == "stride" ? Read::What::stride
                               : Read::What::whole,
            nb::cast<int>(parts[2])};
  if (read.position >= count || read.dim < 0 || (read.what == Read::What::whole && what != "whole"))
    throw nb::index_error("reads: no such place");
  return read;
}

std::vector<nb::object> arguments_of(const State& state, nb::handle args) {
  std::vector<nb::object> objects = items_of(args);
  if (objects.size() < state.names.size() || (objects.size() - state.names.size()) % 2 != 0)
    throw nb::type_error("args must hold one value for each name, then pairs of names and values");
  return objects;
}

nb::object remember_entry(State& state, nb::handle args, nb::handle reads, nb::handle kernel,
                          nb::handle inputs) {
  std::vector<nb::object> objects = arguments_of(state, args);
  std::vector<PyObject*> pointers;
  for (auto& o : objects) pointers.push_back(o.ptr());
  Group wanted;
  for (auto& item : items_of(reads)) wanted.reads.push_back(read_of(item, state.names.size()));
  std::ranges::sort(wanted.reads);
  Entry entry{.kernel = nb::borrow<nb::object>(kernel), .plan = direct_plan_of(kernel)};
  if (!PyCallable_Check(kernel.ptr())) throw nb::type_error("kernel must be callable");
  for (auto& place : items_of(inputs)) entry.inputs.push_back(nb::cast<size_t>(place));
  for (size_t place : entry.inputs)
    if (place >= state.names.size() || !state.is_runtime[place])
      throw nb::index_error("inputs: not a runtime argument");
  if (entry.plan && entry.inputs.size() != entry.plan->input_count())
    throw nb::type_error("inputs must be all that the kernel takes");
  Words words;
  if (!state.add_base(words, pointers, &entry.kept) || !state.add_reads(words, wanted, pointers))
    throw nb::type_error("args are not what `reads` says");
  entry.words.assign(words.all().begin(), words.all().end());
  auto same = [&](const std::shared_ptr<Group>& g) { return g->reads == wanted.reads; };
  auto group = std::ranges::find_if(state.groups, same);
  if (group == state.groups.end())
    group = state.groups.insert(state.groups.end(), std::make_shared<Group>(std::move(wanted)));
  (*group)->entries.emplace(words.hash(), std::move(entry));
  return nb::none();
}

PyObject* remember(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    if (count != 4) throw nb::type_error("remember takes args, reads, kernel, inputs");
    return remember_entry(state_of(self), given[0], given[1], given[2], given[3]);
  });
}

PyObject* find(PyObject* self, PyObject* args) {
  return guarded([&] {
    const State& state = state_of(self);
    std::vector<nb::object> objects = arguments_of(state, args);
    std::vector<PyObject*> pointers;
    for (auto& o : objects) pointers.push_back(o.ptr());
    const Entry* entry = find_entry(state, pointers);
    return entry ? entry->kernel : nb::none();
  });
}

// The part of the key that is known before the trace, as bytes.  Objects that count by identity are not kept
// alive.
PyObject* key(PyObject* self, PyObject* args) {
  return guarded([&] {
    const State& state = state_of(self);
    std::vector<nb::object> objects = arguments_of(state, args);
    std::vector<PyObject*> pointers;
    for (auto& o : objects) pointers.push_back(o.ptr());
    Words words;
    if (!state.add_base(words, pointers, nullptr))
      throw nb::type_error("an array that its library does not export");
    return nb::object(nb::bytes(words.all().data(), words.size() * sizeof(uint64_t)));
  });
}

// How many kernels there are, of each choice of reads.
PyObject* counts(PyObject* self, PyObject*) {
  return guarded([&] {
    nb::list all;
    for (auto& group : state_of(self).groups) all.append(group->entries.size());
    return all;
  });
}

PyObject* forget(PyObject* self, PyObject* watches) {
  return guarded([&] {
    State& state = state_of(self);
    auto fresh = std::make_shared<std::vector<Watch>>(watches_of(watches));
    auto gone = std::exchange(state.groups, {});  // destructors of Python may call us
    auto former = std::exchange(state.watches, std::move(fresh));
    return nb::none();
  });
}

PyMethodDef cache_methods[] = {
    {"remember", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&remember)), METH_FASTCALL,
     "remember(self, args, reads, kernel, inputs) -> None\n\nFrom now on, calls like `args` (one value for "
     "each name, then name and value of each other keyword) go to `kernel` with the arguments at the places "
     "`inputs`.  reads: what the trace asked of the tensors, (position, \"shape\" | \"stride\" | \"whole\", "
     "dimension); calls that differ there are other calls."},
    {"find", &find, METH_O,
     "find(self, args) -> object | None\n\nThe kernel that a call with `args` (one value for each name) "
     "would run."},
    {"key", &key, METH_O,
     "key(self, args) -> bytes\n\nWhat a call with `args` is before its trace: equal for calls that differ "
     "at most in what traces read of their tensors.  TypeError for values that cannot be told apart."},
    {"counts", &counts, METH_NOARGS,
     "counts(self) -> list[int]\n\nHow many kernels there are, for each choice of reads."},
    {"forget", &forget, METH_O,
     "forget(self, watches) -> None\n\nDrop all kernels; what the function reads from around itself is "
     "`watches` now."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void bind_call_cache(nb::module_& m) {
  add_callable_type<State, call_cached>(m, "tilelang._core.CallCache",
                                        "The call forms of one eager function, each with its kernel.",
                                        cache_methods, initialise_cache);
}
