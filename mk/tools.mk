# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# Tests of parts of the command that stand alone: each is linked with its part.
$(BUILD)/tests/tool_lines: $(call obj,tools/lines.c)
