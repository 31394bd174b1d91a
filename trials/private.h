/* SPDX-License-Identifier: MIT */
/* All that the files of trials/ share: the model, its file, figures, workloads, a run, and showing it. */
#ifndef TRIALS_PRIVATE_H
#define TRIALS_PRIVATE_H

#include <signal.h>
#include <stdio.h>

#include "trials/model.h"
#include "trials/file.h"
#include "trials/figures.h"
#include "trials/workload.h"
#include "trials/run.h"
#include "trials/show.h"

#endif
