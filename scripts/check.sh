#!/usr/bin/env bash
# make check: formatting, lints, licences of dependencies, documentation, tidiness.
set -euo pipefail
source "$(dirname "$0")/env.sh"

scripts/setup.sh
source scripts/steps.sh
source scripts/check_steps.sh
steps_end
