// What the tables of loops share (explain_pipelines.cpp, explain_roles.cpp).
#pragma once
#include "api/report.h"

namespace tl {

// "copy(A, A_shared)", "parallel i, j", "loop k": a statement as the user wrote it.
std::string turn_text(const Stmt& s, const Function& f);
// What has become of a loop of the user's, by its place and name; those that prologues were made of are not
// it.  Null: it is none any more.
const For* loop_of(const Stmt& body, const For& loop);
// A row for each role of each loop that roles divide, and the intervals of their stamps.
void explain_roles(Report& report, const Function& user, const Function& divided);

}  // namespace tl
