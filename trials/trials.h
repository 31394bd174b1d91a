/* SPDX-License-Identifier: MIT */
/* Trials: one workload under several settings of a fresh mount, measured and judged. */
#ifndef TRIALS_TRIALS_H
#define TRIALS_TRIALS_H

/** Everything behind "chokefs trial ...": @argv[0] is "trial". The exit code: 0; 1 an expectation failed, or the
 *  world did not let the trial run; 2 the command line or the trial file is wrong. */
int trials_main(int argc, char **argv);

#endif
