#!/usr/bin/env bash
# Train base models on a data set, rank with all of them, and compare: base_models.sh DATASET FOLDER [MODEL…]
# The run is FOLDER/DATASET; logs and results are FOLDER/results/DATASET. The same command goes on where it stopped.
# RELENS is how relens is called, DEVICE and PRESET what their names say, LIMIT the seconds a model may take.
set -uo pipefail
dataset=$1 folder=$2
shift 2
models=("${@:-transe rotate house complex conve compgcn}")
RELENS=${RELENS:-relens} DEVICE=${DEVICE:-cuda} PRESET=${PRESET:-best} LIMIT=${LIMIT:-290}
run=$folder/$dataset results=$folder/results/$dataset
mkdir -p "$results"
for model in ${models[*]}; do
  timeout "$LIMIT" $RELENS train "$dataset" --model "$model" --preset "$PRESET" --device "$DEVICE" --seed 0 --run "$run" \
    --json >"$results/$model.json" 2>"$results/$model.log" || echo "$dataset $model: exit status $?"
  cp "$run/models/$model/log.jsonl" "$results/$model.jsonl" 2>/dev/null
  grep -h mrr "$results/$model.json" | head -3
done
