// The meaning of foreign code: a Python or C++ function that the executors call where a kernel calls an
// external function or inline PTX.  Kept for the process, found by key; programs hold the key.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ir/node.h"

namespace tl {

// A value that goes in or comes out; a place in memory goes in as the elements from there to the buffer's
// end.
struct ForeignValue {
  DType type;  // of an element, of a place
  int64_t i = 0;
  double d = 0;
  std::byte* data = nullptr;  // of a place
  int64_t elements = 0;
};
// Gives as many values as `results` has types.
using ForeignEval = std::function<std::vector<ForeignValue>(std::span<const ForeignValue> args,
                                                            std::span<const DType> results)>;

// The key of a function under a name: the name itself, or for further functions of that name one with a
// number. `identity` tells functions apart.
std::string add_foreign_eval(const std::string& name, const void* identity, ForeignEval eval);
std::shared_ptr<const ForeignEval> find_foreign_eval(const std::string& key);

// The text that a foreign call names, for messages: "`scale`", "the PTX `ex2.approx…`".
std::string describe_foreign(const Call& n);
// CompileError unless the call has a meaning here; `who`: "the simulator".
void require_foreign_eval(const Call& n, std::string_view who, Span span);

}  // namespace tl
