/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Values of options. What is out of range ends the command with a message that names option, value and range. */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <argp.h>
#include <stdint.h>

#define STR_(x) #x
#define STR(x) STR_(x)

uint64_t arg_u64(const char *option, const char *arg, uint64_t min, uint64_t max);
double arg_real(const char *option, const char *arg, double min, double max);
/* Bytes, with K, M, G or T. */
uint64_t arg_size(const char *option, const char *arg);
/* The position of @arg in @words, which ends with NULL. */
int arg_word(const char *option, const char *arg, const char *const *words);

/* A subcommand: argv[0] is "kvslab NAME". Exit status. */
int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_pool(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_map(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_bench(int argc, char **argv);

#endif
