// A kernel on random arguments: what the tools and the fuzz tests call, compare and judge.
#pragma once
#include <map>
#include <random>

#include "api/kernel.h"
#include "sim/evaluate.h"

namespace tl {

// Extents and scalars that a program leaves open, by name; CompileError for one that is not given.
struct Given {
  std::map<std::string, double> values;
  double of(const std::string& name) const;
};

struct Tensor {
  DType type;
  std::vector<int64_t> shape, strides;
  std::vector<std::byte> bytes;

  int64_t size() const;
  std::byte* at(int64_t i);  // of the i-th element in row-major order
  double number(int64_t i);
  int64_t whole(int64_t i);  // of an integer type, its bits
};

struct Trial {
  std::vector<Tensor> tensors;  // by parameter; empty for a scalar
  std::vector<double> scalars;
};

// Eighths from -1 to 1 (integers from -8 to 8), exact in every float type; whole numbers from -3 to 3; the
// same, but integers that are the ends of their types, powers of two, and what lies next to these; or any
// bits, of which those of floats are often NaN: then results are compared bit for bit.  A tensor's are the
// same whatever other parameters there are.
enum class Inputs : uint8_t { eighths, whole, extreme, bits };
std::string_view name_of(Inputs inputs);
std::optional<Inputs> find_inputs(std::string_view name);
Trial random_trial(const Program& program, const Given& given, uint64_t seed, Inputs inputs);

std::vector<Argument> arguments_of(const Program& program, Trial& trial, int device_type = device_cpu);
// Calls the kernel on the tensors of the trial; for a GPU through copies of them.
void launch(CompiledKernel& kernel, Trial& trial);

// The largest difference, in parts of the largest number wanted (of 1 where all are smaller).
double error_of(Tensor& got, Tensor& wanted);
double tolerance(DType type);

// How a program, as text IR, is to be run and judged.
struct Test {
  std::string target = "sim:sm_80";
  Options options = {};
  Given given = {};
  uint64_t seed = 1;  // of the arguments
  Inputs inputs = Inputs::eighths;
  double tolerance = 0;         // 0: that of each tensor's type
  uint64_t first_schedule = 0;  // the simulator's seed
  int64_t schedules = 1;
  bool at_machine = false;  // the level of the text, else tile
  // Makes of the arguments what the program should; it is false where that cannot be said.  Empty: the
  // reference.
  std::function<bool(const Function&, Trial&)> oracle = {};
};

struct Verdict {
  enum class Kind : uint8_t { right, refused, wrong, finding, crash } kind = Kind::right;
  std::string what = {};  // of a finding its kind, of a crash what broke: what a smaller program keeps
  std::string text = {};  // one sentence
  int line = 0;           // of a refusal: of the program, or 0

  bool is_failure() const { return kind >= Kind::wrong; }
  bool is_like(const Verdict& other) const { return kind == other.kind && what == other.what; }
};
std::string to_string(const Verdict& verdict);
// Names the first tensor that is not as it should be.
Verdict compare(const Program& program, Trial& got, Trial& wanted, const Test& test);

// Compiles, runs, compares.  What the user did wrong is `refused`, a broken invariant of ours a `crash`.
Verdict judge(const std::string& text, const Test& test);
// The same in a process of its own, so that one that dies or does not end (within so many seconds of its
// processor) is a crash like any other.
Verdict judge_apart(const std::string& text, const Test& test, double seconds = 60);

// Whether it fails as `before` did.  A wrong result of what was compiled for a device counts only where the
// simulator finds nothing to say: a smaller program may have become one without a meaning.
bool fails_alike(const std::string& text, const Test& test, const Verdict& before, double seconds = 60);

}  // namespace tl
