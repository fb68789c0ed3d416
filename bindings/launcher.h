// A kernel as Python calls it: `kernel(a, b)` comes straight here.  JITKernel is made on this type.
#pragma once
#include "arguments.h"

// What is settled before the first call.
class LaunchPlan {
 public:
  // `outputs` are parameters that the caller does not pass: they are allocated and returned, in this order.
  LaunchPlan(nb::object kernel, std::vector<size_t> outputs);

  size_t input_count() const { return inputs.size(); }
  // What the call returns: None, an array, or a list of arrays.
  nb::object run(nb::handle const* objects);
  // All parameters; on `stream`, or on the current one of the arrays' library.
  void launch(nb::handle const* objects, size_t count, std::optional<tl::Stream> stream);
  std::vector<nb::object> allocate(Arguments& arguments);
  std::vector<nb::object> allocate_for(nb::handle const* objects, size_t count);

 private:
  struct Output {
    size_t param;
    tl::DlType type;
    nb::object dtype;                 // a DType
    nb::object numpy_dtype = {};      // once it was asked for
    std::vector<int64_t> shape = {};  // if it is constant
    nb::object extents = {};          // the same as a tuple
    bool is_constant = false;
  };
  nb::object holder;
  tl::CompiledKernel& kernel;
  bool on_gpu;
  std::vector<size_t> inputs;
  std::vector<Output> outputs;

  bool shape_of(const Output& output, const Arguments& arguments, int64_t* shape) const;
  nb::object allocate_one(Output& output, const Arguments& arguments);
  // With the objects of the call: those given, and those made for it.
  void go(Arguments& arguments, std::span<nb::handle const> given, std::span<nb::object const> made);
  void finish(const Arguments& arguments) const;
};

// The plan of an object of the type that bind_launcher makes (or of a subclass); null for others.
LaunchPlan* plan_of(nb::handle object);
// The same, but null where the subclass has a call of its own.
LaunchPlan* direct_plan_of(nb::handle object);
