/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What requests are checked against, without a model: a small tokenizer and ChatML. */
#ifndef TESTS_API_MODEL_H
#define TESTS_API_MODEL_H

#include "runtime/serve/params.h"

/* Context 1000, a pool for 500 tokens. */
void api_model_open(struct api_model *m);
void api_model_close(struct api_model *m);

#endif
