#!/usr/bin/env bash
# The leaderboard's models among all entities, and among 500 drawn ones as OGB has it: leaderboard.sh RUN RESULTS [CONFIG]
# Trains and judges as CONFIG says; then the same models rank the same queries among sampled candidates. The same command goes on
# where it stopped. RELENS and PYTHON are how relens and Python are called.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
run=$1 results=$2 config=${3:-$here/leaderboard.toml}
RELENS=${RELENS:-relens} PYTHON=${PYTHON:-python3} DEVICE=${DEVICE:-cuda}
mkdir -p "$results"
command="relens run --config $(basename "$config") --device $DEVICE --no-report --json"
$RELENS run --config "$config" --device "$DEVICE" --run "$run" --no-report --json >"$results/run.json" 2>>"$results/run.log"
record() { $PYTHON "$here/../record_run.py" "$@" --device "${DEVICE_NAME:-$DEVICE}"; }
record "$run" --command "$command" --output "$results/full.json" --ranks "$results/full.npz"
dataset=$(sed -n 's/^dataset = "\(.*\)"$/\1/p' "$config") models=$(sed -n 's/^models = \[\(.*\)\]$/\1/p' "$config" | tr -d '" ')
[ -d "$run-candidates" ] || $RELENS data sample-negatives "$dataset" --output "$run-candidates"
command="relens data sample-negatives $dataset --output CANDIDATES; relens rank RUN --candidates CANDIDATES --into SAMPLED --device $DEVICE"
$RELENS rank "$run" --candidates "$run-candidates" --into "$run-sampled" --device "$DEVICE" --force
record "$run-sampled" --trained "$run" --models "$models" --command "$command" --output "$results/sampled.json" --ranks "$results/sampled.npz"
