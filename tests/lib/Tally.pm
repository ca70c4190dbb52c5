# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# prove --harness Tally: as always, and appends "passed failed skipped" to the file named by $TALLY. A program that
# breaks without a failed test (it dies, or its plan is not met) counts as one failure. A line for each failure, with the
# program's name and the test's, is appended to the file named by $FAILURES.
package Tally;
use strict;
use warnings;
use parent 'TAP::Harness';

sub runtests {
	my ($self, @tests) = @_;
	my ($passed, $failed, $skipped, @failures) = (0, 0, 0);

	$self->callback(made_parser => sub {
		my ($parser, $job) = @_;
		my $name = ref $job eq 'ARRAY' ? $job->[0] : $job->description;

		$parser->callback(test => sub { push @failures, "$name: " . $_[0]->as_string unless $_[0]->is_ok });
	});
	my $all = $self->SUPER::runtests(@tests);

	for my $name ($all->descriptions) {
		my ($p) = $all->parsers($name);

		next if $p->failed || !($p->parse_errors || $p->exit || $p->wait);
		push @failures, "$name: exit status " . ($p->exit // '?') . join('', map { ", $_" } $p->parse_errors);
	}

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
	if (defined $ENV{FAILURES} && @failures) {
		open my $f, '>>', $ENV{FAILURES} or die "$ENV{FAILURES}: $!\n";
		print $f "$_\n" for @failures;
		close $f or die "$ENV{FAILURES}: $!\n";
	}
	return $all;
}

1;
