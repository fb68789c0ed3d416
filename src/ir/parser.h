// The state of the parser, shared by its two halves: parse_expr.cpp (expressions, regions, attributes) and
// parse.cpp (statements, kernels, functions).
#pragma once
#include <optional>
#include <set>

#include "ir/build.h"
#include "ir/parse_lexer.h"

namespace tl {

struct Parser {
  const Vocabulary& vocabulary;
  std::vector<Lexeme> tokens;
  size_t at = 0;
  int depth = 0;  // of nesting, bounded
  Function f = {};
  std::map<std::string, Expr> vars = {};
  std::map<std::string, BufferId> buffers = {};
  std::vector<std::vector<std::pair<std::string, Expr>>> scopes = {{}};  // what each name meant outside
  std::set<int> taken_ids = {};
  bool introducing = false;  // in a parameter's shape an unknown name is an extent
  struct Weak {
    Expr e;
    Lexeme token;
    bool negative;
  };
  std::map<const ExprNode*, Weak> weak = {};  // the constants of this line that were written without a type

  // ── tokens ──────────────────────────────────────────────────────────────────────────────────────────
  const Lexeme& peek(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  const Lexeme& next();
  bool is(std::string_view symbol_or_word, size_t ahead = 0) const;
  bool is(Lexeme::Kind kind, size_t ahead = 0) const { return peek(ahead).kind == kind; }
  bool is_dtype(size_t ahead = 0) const;
  bool is_number(size_t ahead = 0) const {
    return is(Lexeme::Kind::integer, ahead) || is(Lexeme::Kind::number, ahead) || is("inf", ahead) ||
           is("nan", ahead);
  }
  bool accept(std::string_view symbol_or_word);
  const Lexeme& expect(std::string_view symbol_or_word, std::string_view after);
  const Lexeme& expect_name(std::string_view what);
  [[noreturn]] void expected(std::string_view what) const;
  Span since(size_t first) const;     // from that token to the last one read
  size_t closing(size_t open) const;  // the token that closes the bracket at `open`

  // ── names ───────────────────────────────────────────────────────────────────────────────────────────
  void open() { scopes.emplace_back(); }
  void close();
  Expr define(const Lexeme& name, DType type, bool may_shadow = false);
  void check_fresh(const Lexeme& name) const;
  [[noreturn]] void unknown(const Lexeme& name, std::string_view what) const;

  // ── parse_expr.cpp ──────────────────────────────────────────────────────────────────────────────────
  Expr expr(int tightness = 0);
  Expr value(int tightness = 0);  // an expr of a type that one can compute with
  Expr unary_expr();
  Expr primary();
  Expr literal(bool negative);
  static Expr constant(const Lexeme& token, bool negative, DType type, Span span);
  void adopt(Expr& e, DType type) const;
  void agree(Expr& a, Expr& b) const;  // each adopts the other's type
  Expr function_call();
  Expr builtin(const Lexeme& name, size_t first);
  Expr cast_expr();
  Expr load_expr();
  std::vector<Expr> exprs(std::string_view close);
  DType dtype();
  int64_t integer(std::string_view what);
  std::vector<int64_t> integers();  // "(1, 2)"
  Expr condition(std::string_view of);

  Range range();
  Region region();
  Operand operand(Access access);
  std::pair<Lexeme, DType> typed_name();  // "i" or "i: i32"
  IndexMap index_map(const std::vector<int64_t>& expected);
  AttrValue attr_value();
  Attrs attrs();

  // ── parse.cpp ───────────────────────────────────────────────────────────────────────────────────────
  Stmt nest();
  Stmt body();
  Stmt statement();
  Stmt for_statement();
  Stmt if_statement();
  Stmt group_statement();
  Stmt assignment();
  Stmt alloc_statement();
  Stmt tile_statement(const OpInfo& op);
  Stmt user_tile_statement();
  bool has_body() const;
  Stmt plain_statement();
  void end_of_line();
  void header_end();  // ":" and the end of the line

  BufferId declare(const Lexeme& name, Scope scope);
  void buffer_suffix(BufferInfo& b, std::optional<int64_t>& id);
  std::optional<Scope> scope_word(size_t ahead) const;
  void scan_scalars();
  void param();
  void function_item();
  void kernel();
  void tensor_map();
  void function();
};

}  // namespace tl
