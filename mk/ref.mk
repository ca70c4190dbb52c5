# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The float64 reference and what it is compared with: a Python environment, test models, driver programs.
# The environment and the models are the same for every BUILD folder.

VENV := build/venv
MODELS := build/models

drivers := $(patsubst tests/drivers/%.c,$(BUILD)/drivers/%,$(wildcard tests/drivers/*.c))

.PHONY: models drivers
models: $(MODELS)/.made ## small random models for the tests, in build/models

drivers: $(drivers) ## programs that the tests in tests/sh run

$(VENV)/.made: tests/ref/requirements.txt
	@rm -rf $(VENV)
	python3 -m venv $(VENV)
	$(VENV)/bin/pip --quiet --disable-pip-version-check install -r $<
	@touch $@

$(MODELS)/.made: tests/ref/make_models.py tests/ref/vocab.py tests/data/text.txt $(VENV)/.made
	@rm -rf $(MODELS)
	$(VENV)/bin/python tests/ref/make_models.py $(MODELS)
	@touch $@

$(BUILD)/drivers/%: $(BUILD)/obj/tests/drivers/%.o $(BUILD)/libtest.a $(BUILD)/libinner.a $(BUILD)/libkvslab.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_TOOL)

-include $(patsubst tests/drivers/%.c,$(BUILD)/obj/tests/drivers/%.d,$(wildcard tests/drivers/*.c))
