// LLVM text to an ELF object, by libLLVM's C API, which is opened at run time and is the same from 16 to 22.
// The text arrives vectorised and tiled, so the passes clean up and place; they do not have to find
// parallelism.
#include <cstdio>
#include <mutex>

#include "base/error.h"
#include "base/interrupt.h"
#include "runtime/find.h"
#include "runtime/flags.h"

namespace tl {
namespace {

struct Llvm {
  Library library;
  std::string version;
  void (*get_version)(unsigned*, unsigned*, unsigned*);
  void* (*context_create)();
  void (*context_dispose)(void*);
  void (*set_diagnostic_handler)(void* context, void (*)(void* info, void* user), void* user);
  char* (*diagnostic_text)(void*);
  int (*diagnostic_severity)(void*);
  void* (*buffer_copy)(const char*, size_t, const char* name);
  const char* (*buffer_start)(void*);
  size_t (*buffer_size)(void*);
  void (*buffer_dispose)(void*);
  int (*parse_ir)(void* context, void* buffer, void** module, char** error);
  void (*module_dispose)(void*);
  const char* (*get_triple)(void* module);
  void (*set_triple)(void* module, const char*);
  char* (*default_triple)();
  int (*verify)(void* module, int action, char** error);
  int (*target_from_triple)(const char*, void** target, char** error);
  void* (*machine_create)(void* target, const char* triple, const char* cpu, const char* features, int level,
                          int reloc, int code_model);
  void (*machine_dispose)(void*);
  void* (*data_layout_create)(void* machine);
  void (*data_layout_dispose)(void*);
  void (*set_data_layout)(void* module, void* layout);
  void* (*options_create)();
  void (*options_dispose)(void*);
  void* (*run_passes)(void* module, const char* passes, void* machine, void* options);
  char* (*error_message)(void* error);
  void (*error_message_dispose)(char*);
  int (*emit)(void* machine, void* module, int file_type, char** error, void** buffer);
  void (*message_dispose)(char*);
  void (*install_fatal_handler)(void (*)(const char*));
};

constexpr const char* how_to_install =
    "install it by `apt install libllvm19` (any version from 16 to 22 will do)";

#if defined(__x86_64__)
constexpr const char* arch = "X86";
#elif defined(__aarch64__)
constexpr const char* arch = "AArch64";
#else
#error "name this machine's LLVM target here"
#endif

bool bind_all(Llvm& l) {
  const Library& lib = l.library;
  return lib.bind(l.get_version, "LLVMGetVersion") && lib.bind(l.context_create, "LLVMContextCreate") &&
         lib.bind(l.context_dispose, "LLVMContextDispose") &&
         lib.bind(l.set_diagnostic_handler, "LLVMContextSetDiagnosticHandler") &&
         lib.bind(l.diagnostic_text, "LLVMGetDiagInfoDescription") &&
         lib.bind(l.diagnostic_severity, "LLVMGetDiagInfoSeverity") &&
         lib.bind(l.buffer_copy, "LLVMCreateMemoryBufferWithMemoryRangeCopy") &&
         lib.bind(l.buffer_start, "LLVMGetBufferStart") && lib.bind(l.buffer_size, "LLVMGetBufferSize") &&
         lib.bind(l.buffer_dispose, "LLVMDisposeMemoryBuffer") &&
         lib.bind(l.parse_ir, "LLVMParseIRInContext") && lib.bind(l.module_dispose, "LLVMDisposeModule") &&
         lib.bind(l.get_triple, "LLVMGetTarget") && lib.bind(l.set_triple, "LLVMSetTarget") &&
         lib.bind(l.default_triple, "LLVMGetDefaultTargetTriple") && lib.bind(l.verify, "LLVMVerifyModule") &&
         lib.bind(l.target_from_triple, "LLVMGetTargetFromTriple") &&
         lib.bind(l.machine_create, "LLVMCreateTargetMachine") &&
         lib.bind(l.machine_dispose, "LLVMDisposeTargetMachine") &&
         lib.bind(l.data_layout_create, "LLVMCreateTargetDataLayout") &&
         lib.bind(l.data_layout_dispose, "LLVMDisposeTargetData") &&
         lib.bind(l.set_data_layout, "LLVMSetModuleDataLayout") &&
         lib.bind(l.options_create, "LLVMCreatePassBuilderOptions") &&
         lib.bind(l.options_dispose, "LLVMDisposePassBuilderOptions") &&
         lib.bind(l.run_passes, "LLVMRunPasses") && lib.bind(l.error_message, "LLVMGetErrorMessage") &&
         lib.bind(l.error_message_dispose, "LLVMDisposeErrorMessage") &&
         lib.bind(l.emit, "LLVMTargetMachineEmitToMemoryBuffer") &&
         lib.bind(l.message_dispose, "LLVMDisposeMessage") &&
         lib.bind(l.install_fatal_handler, "LLVMInstallFatalErrorHandler");
}

thread_local const char* compiling = "";

void on_fatal(const char* reason) {  // LLVM ends the process after this
  std::fprintf(stderr, "tilelang: internal error, please report it: LLVM gave up on '%s': %s\n", compiling,
               reason);
}

Llvm load_llvm() {
  std::string error;
  Llvm l;
  l.library = open_library(find_llvm().value_or("libLLVM.so.19.1"), &error);
  if (!l.library) throw RuntimeError(fmt::format("libLLVM was not found ({}): {}", error, how_to_install));
  unsigned major = 0, minor = 0, patch = 0;
  if (bind_all(l)) l.get_version(&major, &minor, &patch);
  if (major < 16)
    throw RuntimeError(fmt::format("{} is not LLVM 16 or newer: {}", l.library.path, how_to_install));
  l.version = fmt::format("LLVM {}.{}.{}", major, minor, patch);
  for (const char* part : {"TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"}) {
    void (*initialize)() = nullptr;
    if (!l.library.bind(initialize, fmt::format("LLVMInitialize{}{}", arch, part).c_str()))
      throw RuntimeError(fmt::format("{} was built without {}: {}", l.library.path, arch, how_to_install));
    initialize();
  }
  l.install_fatal_handler(on_fatal);
  return l;
}

const Llvm& llvm() {  // a failure is tried again: a folder may have been added since
  static std::mutex lock;
  static Llvm* opened = nullptr;
  std::lock_guard guard(lock);
  if (!opened) opened = new Llvm(load_llvm());
  return *opened;
}

constexpr std::string_view features_flag = "-mattr=", passes_flag = "-passes=";

// What of the user's flags libLLVM takes: it has no command line.  Those that are said to nvcc change nothing
// here: how quick and how exact floats are stands in the text.
void check_flags(const Llvm& l, const Program& program) {
  for (const Flag& said : read_flags(program.flags, program.chip)) {
    const std::string& flag = said.said;
    if (said.of_nvcc || flag.starts_with(passes_flag)) continue;
    if (!flag.starts_with(features_flag))
      throw BuildError(program, l.version, flag,
                       "for CPUs there are -mattr=+feature,-feature and -passes=pipeline");
    for (size_t at = features_flag.size() - 1; at != flag.npos; at = flag.find(',', at + 1))
      if (at + 1 >= flag.size() || (flag[at + 1] != '+' && flag[at + 1] != '-'))
        throw BuildError(program, l.version, flag,
                         "each feature has a + or a - in front, as in -mattr=+avx2,-fma");
  }
}

// One compilation: what it made, and disposes of in the right order.
struct Session {
  const Llvm& l;
  const Program& program;
  std::string log;
  bool has_errors = false;
  void *context = nullptr, *module = nullptr, *machine = nullptr, *layout = nullptr, *options = nullptr;
  void* object = nullptr;

  Session(const Llvm& llvm, const Program& p) : l(llvm), program(p), context(l.context_create()) {
    compiling = program.name.c_str();
    l.set_diagnostic_handler(context, on_diagnostic, this);
  }
  ~Session() {
    if (object) l.buffer_dispose(object);
    if (options) l.options_dispose(options);
    if (layout) l.data_layout_dispose(layout);
    if (machine) l.machine_dispose(machine);
    if (module) l.module_dispose(module);
    l.context_dispose(context);
    compiling = "";
  }
  static void on_diagnostic(void* info, void* user) {
    auto& self = *static_cast<Session*>(user);
    char* text = self.l.diagnostic_text(info);
    int severity = self.l.diagnostic_severity(info);  // 0 error, 1 warning, 2 remark, 3 note
    if (severity <= 1) self.log += std::string(text) + "\n";
    self.has_errors = self.has_errors || severity == 0;
    self.l.message_dispose(text);
  }
  // Ends the compilation if a call failed; takes its message.
  void check(bool failed, const char* doing, char* message) {
    std::string text = message ? message : "";
    if (message) l.message_dispose(message);
    if (failed) throw BuildError(program, l.version, "", fmt::format("it {}: {}\n{}", doing, text, log));
  }

  void parse() {
    char* message = nullptr;
    void* buffer = l.buffer_copy(program.text.data(), program.text.size(), program.name.c_str());
    bool failed = l.parse_ir(context, buffer, &module, &message);
    check(failed, "cannot read the text", message);
    message = nullptr;
    failed = l.verify(module, 2, &message);
    check(failed, "found the text invalid", message);
  }

  void make_machine() {
    std::string triple = l.get_triple(module), features;
    if (triple.empty()) {
      char* host = l.default_triple();
      triple = host;
      l.message_dispose(host);
      l.set_triple(module, triple.c_str());
    }
    for (const std::string& flag : program.flags)
      if (flag.starts_with(features_flag))
        features += (features.empty() ? "" : ",") + flag.substr(features_flag.size());
    void* target = nullptr;
    char* message = nullptr;
    bool unknown = l.target_from_triple(triple.c_str(), &target, &message);
    check(unknown, "does not know the target", message);
    enum { default_level = 2, pic = 2, small = 3 };
    machine = l.machine_create(target, triple.c_str(), program.chip.c_str(), features.c_str(), default_level,
                               pic, small);
    check(!machine, "cannot make a target machine", nullptr);
    layout = l.data_layout_create(machine);
    l.set_data_layout(module, layout);
  }

  void optimise() {
    std::string passes = "default<O1>", asked;  // as fast a GEMM as O2 makes, in half the time
    for (const std::string& flag : program.flags)
      if (flag.starts_with(passes_flag)) asked = flag;
    if (!asked.empty()) passes = asked.substr(passes_flag.size());
    options = l.options_create();
    void* error = l.run_passes(module, passes.c_str(), machine, options);
    if (!error) return;
    char* message = l.error_message(error);
    std::string text = message;
    l.error_message_dispose(message);
    if (!asked.empty()) throw BuildError(program, l.version, asked, text);
    throw BuildError(program, l.version, "", "it cannot optimise: " + text);
  }

  std::string emit() {
    char* message = nullptr;
    bool failed = l.emit(machine, module, 1, &message, &object);
    check(failed || has_errors, "cannot emit code", failed ? message : nullptr);
    return std::string(l.buffer_start(object), l.buffer_size(object));
  }
};

}  // namespace

std::optional<std::string> find_llvm() {
  static const char* const names[] = {"libLLVM.so.22.1", "libLLVM.so.21.1", "libLLVM.so.20.1",
                                      "libLLVM.so.19.1", "libLLVM.so.18.1", "libLLVM-22.so",
                                      "libLLVM-21.so",   "libLLVM-20.so",   "libLLVM-19.so",
                                      "libLLVM-18.so",   "libLLVM-17.so",   "libLLVM-16.so"};
  const std::string hints[] = {"/usr/lib/llvm-*/lib"};
  return find_library(names, hints);
}

void open_llvm() { llvm(); }

DeviceBinary build_llvm(const Program& program) {
  DeviceBinary binary;
  Stopwatch watch{binary.phases};
  const Llvm& l = llvm();
  watch.lap("open libLLVM");
  check_flags(l, program);
  look();
  now_at("LLVM");
  Session session(l, program);
  session.parse();
  watch.lap("LLVM parse");
  session.make_machine();
  session.optimise();
  watch.lap("LLVM optimise");
  binary.bytes = session.emit();
  watch.lap("LLVM emit");
  binary.log = session.log;
  binary.toolchain = l.version;
  for (const EntrySpec& entry : program.entries) binary.resources.push_back({.entry = entry.name});
  return binary;
}

}  // namespace tl
