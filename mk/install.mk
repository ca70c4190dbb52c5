# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# make install DESTDIR= PREFIX=/usr/local LIBDIR=$(PREFIX)/lib: the library, its header and pkg-config file, the
# command where it is built, its man page where there is one.

SOVERSION := $(firstword $(subst ., ,$(VERSION)))
INCLUDEDIR ?= $(PREFIX)/include
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
INSTALL ?= install

dest_lib = $(DESTDIR)$(LIBDIR)

define kvslab_pc
prefix=$(PREFIX)
libdir=$(LIBDIR)
includedir=$(INCLUDEDIR)

Name: kvslab
Description: KV-cache pages, sequences and batch scheduling
Version: $(VERSION)
Requires.private: $(DEPS_LIB)
Libs: -L$${libdir} -lkvslab
Libs.private: -pthread
Cflags: -I$${includedir}
endef

.PHONY: uninstall
install: lib ## install below $(DESTDIR)$(PREFIX)
	$(INSTALL) -d '$(dest_lib)/pkgconfig' '$(DESTDIR)$(INCLUDEDIR)'
	$(INSTALL) -m 755 $(BUILD)/libkvslab.so '$(dest_lib)/libkvslab.so.$(VERSION)'
	ln -sf libkvslab.so.$(VERSION) '$(dest_lib)/libkvslab.so.$(SOVERSION)'
	ln -sf libkvslab.so.$(SOVERSION) '$(dest_lib)/libkvslab.so'
	$(INSTALL) -m 644 $(BUILD)/libkvslab.a '$(dest_lib)/libkvslab.a'
	$(INSTALL) -m 644 runtime/include/kvslab.h '$(DESTDIR)$(INCLUDEDIR)/kvslab.h'
	$(file >$(BUILD)/kvslab.pc,$(kvslab_pc))
	$(INSTALL) -m 644 $(BUILD)/kvslab.pc '$(dest_lib)/pkgconfig/kvslab.pc'
	if [ -x $(BUILD)/kvslab ]; then \
		$(INSTALL) -D -m 755 $(BUILD)/kvslab '$(DESTDIR)$(BINDIR)/kvslab'; fi
	if [ -f docs/kvslab.1 ]; then \
		$(INSTALL) -D -m 644 docs/kvslab.1 '$(DESTDIR)$(MANDIR)/man1/kvslab.1'; fi
	@# The linker's cache is the machine's: leave it alone when staging, or when not allowed to write it.
	@if [ -z '$(DESTDIR)' ] && [ -w /etc/ld.so.cache ]; then ldconfig; fi

uninstall: ## remove what install put there
	rm -f '$(dest_lib)/libkvslab.so.$(VERSION)' '$(dest_lib)/libkvslab.so.$(SOVERSION)' \
		'$(dest_lib)/libkvslab.so' '$(dest_lib)/libkvslab.a' '$(dest_lib)/pkgconfig/kvslab.pc' \
		'$(DESTDIR)$(INCLUDEDIR)/kvslab.h' '$(DESTDIR)$(BINDIR)/kvslab' \
		'$(DESTDIR)$(MANDIR)/man1/kvslab.1'
