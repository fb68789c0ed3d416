#include "api/refused.h"

#include "base/error.h"
#include "ir/intrinsic.h"
#include "ir/rewrite.h"
#include "target/foreign.h"
#include "target/user_rows.h"

namespace tl {
namespace {

struct UsersText {
  Span span;
  std::string what;  // empty: nothing in the program is the user's
};

// The text of the user's that the log speaks of, else the first that there is.
UsersText find_users_text(const Function& f, std::string_view log) {
  UsersText found;
  bool named = false;
  auto offer = [&](Span span, std::string what, bool is_named) {
    if (!found.what.empty() && (named || !is_named)) return;
    found = {span, std::move(what)};
    named = is_named;
  };
  for (auto& k : f.kernels) {
    visit(k.body, [&](const Call& n) {
      if (is_foreign(*n.intrinsic))
        offer(n.span, describe_foreign(n),
              n.intrinsic != &inline_ptx && log.find(n.args[0].as<StringImm>()->value) != log.npos);
      else if (find_user_row(n.intrinsic->name))
        offer(n.span, fmt::format("the instruction {} of tilelang.register_matrix", n.intrinsic->name),
              false);
    });
    if (k.attrs.find("source"))
      offer(k.span ? k.span : f.span, "the text of T.import_source or prelude=", false);
  }
  return found;
}

}  // namespace

void blame_refusal(const BuildError& refusal, const Function& f, bool edited) {
  if (!refusal.flag.empty())
    fail(f.span,
         "{} refuses the flag '{}': {}; leave it out of compile_flags (or T.annotate_compile_flags), or "
         "write it as that compiler takes it",
         refusal.compiler, refusal.flag, refusal.log);
  UsersText users = find_users_text(f, refusal.log);
  if (users.what.empty() && edited)
    users = {f.span, "the text returned by a function registered with tilelang.engine.register_…_postproc"};
  bool lacks_header = refusal.log.find("open source file") != refusal.log.npos;
  if (!users.what.empty())
    fail(users.span, "{} rejects the program, which contains text of yours: {}. It says:\n{}{}",
         refusal.compiler, users.what, refusal.log,
         lacks_header ? "\nCUDA's headers are taken from beside NVRTC: install a toolkit, or `pip install "
                        "nvidia-cuda-runtime`; or name their folder by compile_flags=[\"-I…\"]"
                      : "");
  internal_error(refusal.what());
}

}  // namespace tl
