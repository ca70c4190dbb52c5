# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# prove --harness Tally: as always, and appends "passed failed skipped" to the file named by $TALLY. A program that
# breaks without a failed test (it dies, or its plan is not met) counts as one failure.
package Tally;
use strict;
use warnings;
use parent 'TAP::Harness';

sub runtests {
	my ($self, @tests) = @_;
	my $all = $self->SUPER::runtests(@tests);
	my ($passed, $failed, $skipped) = (0, 0, 0);

	for my $p ($all->parsers) {
		my $broken = $p->failed + 0;

		$broken ||= 1 if $p->parse_errors || $p->exit || $p->wait;
		$failed += $broken;
		$skipped += $p->skipped;
		$skipped++ if defined $p->skip_all && !$broken;
		$passed += $p->passed - $p->skipped;
	}
	if (defined $ENV{TALLY}) {
		open my $f, '>>', $ENV{TALLY} or die "$ENV{TALLY}: $!\n";
		print $f "$passed $failed $skipped\n";
		close $f or die "$ENV{TALLY}: $!\n";
	}
	return $all;
}

1;
