#!/usr/bin/env bash
# The strong ensemble of a data set, and what is kept of it: strong.sh DATASET RUN RESULTS [options of relens run]
# Trains, ranks, searches and evaluates the members of the preset `strong`; then records them with the rank of every answer; then
# reduces the ranks for searches elsewhere. SECONDS_AT_MOST bounds one call: the next one resumes where it stopped (exit 124).
# RELENS and PYTHON are how relens and Python are called, KEEP and SAMPLE how much is kept of the contested candidates.
set -euo pipefail
dataset=$1 run=$2 results=$3
shift 3
RELENS=${RELENS:-relens} PYTHON=${PYTHON:-python3} KEEP=${KEEP:-48} SAMPLE=${SAMPLE:-16} DEVICE=${DEVICE:-cuda}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$results"
begun=$(date +%s)
left() { echo $((${SECONDS_AT_MOST:-100000} - $(date +%s) + begun)); }
# An interruption, unlike a plain end, keeps a checkpoint of the model in training.
timeout --signal=INT --preserve-status "$(left)" $RELENS run "$dataset" --preset strong --device "$DEVICE" --run "$run" \
  --no-report --json "$@" >"$results/run.json" 2>>"$results/run.log" ||
  { code=$?; exit $((code == 130 ? 124 : code)); }
$PYTHON "$here/record_run.py" "$run" --command "relens run $dataset --preset strong --device $DEVICE --no-report --json $*" \
  --device "${DEVICE_NAME:-$DEVICE}" --output "$results/strong.json" --ranks "$results/strong.npz"
$RELENS ranks reduce "$run" --keep "$KEEP" --sample "$SAMPLE" -o "$results/reduced.npz"
