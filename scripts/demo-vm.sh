#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/demo-vm.sh
# Boots the guest with the kernel module and shows two servers on one pool there.
set -euo pipefail
cd "$(dirname "$0")/.."
exec tests/vm/guest.py run --ko build/vm/kvslab.ko --path build/kvslab --file tests/vm/demo --file tests/vm/serve.sh \
	--file build/models/f32-gqa8.gguf ${VM:-} -- 'sh ./demo'
