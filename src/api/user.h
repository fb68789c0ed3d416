// What a user adds to the language while the process runs: matrix instructions and tile operators.
#pragma once
#include "ops/user_op.h"
#include "target/foreign.h"
#include "target/user_rows.h"
