#!/usr/bin/env bash
# From a data set to what is kept of it: run.sh CONFIG RUN RESULTS [options of relens run]
# Trains, ranks, searches and evaluates as CONFIG says; then records all members, and the paper's six models by themselves, with
# the rank of every answer; then reduces the ranks for searches elsewhere. The same command goes on where it stopped.
# The rank file of all members has those of two methods alone: the others' are in that of the six models.
# RELENS and PYTHON are how relens and Python are called, KEEP and SAMPLE how much is kept of the contested candidates.
set -euo pipefail
config=$1 run=$2 results=$3
shift 3
RELENS=${RELENS:-relens} PYTHON=${PYTHON:-python3} KEEP=${KEEP:-48} SAMPLE=${SAMPLE:-16} DEVICE=${DEVICE:-cuda}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$results"
command="relens run --config $(basename "$config") --device $DEVICE --no-report --json $*"
$RELENS run --config "$config" --device "$DEVICE" --run "$run" --no-report --json "$@" >"$results/run.json" 2>>"$results/run.log"
record() { $PYTHON "$here/record_run.py" "$run" --command "$command" --device "${DEVICE_NAME:-$DEVICE}" "$@"; }
six=transe,rotate,house,complex,conve,compgcn
record --output "$results/members.json" --ranks "$results/members.npz" --columns 'simple;dsc'
record --models $six --output "$results/six.json" --ranks "$results/six.npz"
$RELENS ranks reduce "$run" --models $six --keep "$KEEP" --sample "$SAMPLE" -o "$results/reduced.npz"
