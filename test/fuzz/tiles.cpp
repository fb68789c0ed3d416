// Random tile programs through the whole line of passes: each that fits must get its layouts and code, twice the same,
// and what one thread after another computes must be what the operators mean.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "api/kernel.h"
#include "base/error.h"
#include "fuzz/tile_program.h"
#include "sim/reference.h"
#include "sim/run.h"
#include "unit/codegen/llvm_run.h"

using namespace tl;

namespace {

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

// The program's tensors with small integers in the inputs and 99 in the outputs.
struct Tensors {
  std::vector<std::vector<std::byte>> memory;
  std::vector<HostArg> args;

  Tensors(const Function& f, const fuzz::Program& p, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < p.tensors.size(); i++) {
      auto& t = p.tensors[i];
      int64_t size = 1;
      for (int64_t e : t.shape) size *= e;
      DType type = f[f.params[i].buffer].dtype;
      auto& bytes = memory.emplace_back(size_t(size * type.bytes()));
      for (int64_t k = 0; k < size; k++) {
        int64_t v = t.output ? 99 : int64_t(random() % 7) - 3;
        element_access(type).put(bytes.data() + k * type.bytes(),
                                 type.is_float() ? scalar(double(v)) : scalar(v));
      }
      args.push_back({.data = bytes.data()});
    }
  }
};

// `run` fills the tensors: the reference has its own. What differs, if anything does.
template <class F>
std::string compare(const fuzz::Program& p, uint64_t seed, F run) {
  Function f = parse_text(p.text, "fuzz.ir");
  Tensors expected(f, p, seed), got(f, p, seed);
  run_reference(f, expected.args);
  run(got);
  for (size_t i = 0; i < expected.memory.size(); i++)
    for (size_t k = 0; k < expected.memory[i].size(); k++)
      if (expected.memory[i][k] != got.memory[i][k]) {
        DType type = f[f.params[i].buffer].dtype;
        size_t element = k / size_t(type.bytes());
        auto value = [&](const Tensors& t) {
          Scalar s = element_access(type).get(t.memory[i].data() + element * size_t(type.bytes()));
          return type.is_float() ? s.d : double(s.i);
        };
        return fmt::format("{}[{}] is {}, but should be {}", p.tensors[i].name, element, value(got),
                           value(expected));
      }
  return "";
}

}  // namespace

TEST_CASE("tile programs that fit are laid out, and compute what they mean") {
  const Target& target = *find_target("sm_80");
  int64_t programs = setting("TL_TILE_PROGRAMS", 250), first = setting("TL_TILE_SEED", 0), refused = 0;
  double seconds = double(setting("TL_FUZZ_SECONDS", 0));
  auto begin = std::chrono::steady_clock::now();
  std::map<std::string, int> refusals;
  int64_t seed = first;
  for (; seed < first + programs ||
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds;
       seed++) {
    fuzz::Program p = fuzz::random_program(uint64_t(seed), target.shared_bytes, 200);
    CAPTURE(seed);
    CAPTURE(p.text);
    try {
      Compiled a = compile(parse_text(p.text, "fuzz.ir"), target),
               b = compile(parse_text(p.text, "fuzz.ir"), target);
      CHECK(a.program.text == b.program.text);
      auto simulate = [&](Tensors& t) { run_simulation(*prepare_simulation(a.function, target), t.args); };
      CHECK(compare(p, uint64_t(seed), simulate) == "");
    } catch (const CompileError& e) {
      refused++;
      if (refusals[e.text.substr(0, 40)]++ < 2) MESSAGE("seed " << seed << ": " << e.text << "\n" << p.text);
    }
  }
  for (auto& [text, count] : refusals) MESSAGE(count << " refusals: " << text << " …");
  MESSAGE((seed - first) << " programs, " << refused << " refused");
  CHECK(refused * 200 <= seed - first);
  CHECK(refusals.size() <= 6);
}

TEST_CASE("tile programs compute on every CPU what they mean") {
  int64_t programs = setting("TL_CPU_PROGRAMS", 40), first = setting("TL_TILE_SEED", 0), refused = 0;
  for (const Target* target : cpu_targets())
    for (int64_t seed = first; seed < first + programs; seed++) {
      fuzz::Program p = fuzz::random_program(uint64_t(seed), 160 << 10, 200);
      CAPTURE(target->name);
      CAPTURE(seed);
      CAPTURE(p.text);
      try {
        Compiled c = compile(parse_text(p.text, "fuzz.ir"), *target);
        auto run = [&](Tensors& t) {
          std::vector<uint64_t> slots;
          for (auto& arg : t.args) slots.push_back(uint64_t(arg.data));
          run_slots(c.function, *target, slots);
        };
        CHECK(compare(p, uint64_t(seed), run) == "");
      } catch (const CompileError& e) {
        refused++;
        MESSAGE("seed " << seed << ": " << e.text);
      }
    }
  CHECK(refused == 0);
}
