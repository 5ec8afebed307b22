#!/bin/sh
# Measure NBFNet's propagation on one GPU, in calls of less than nine minutes each. RELENS_DATA names the data sets.
#
#     benchmarks/propagation/run.sh kernels|messages|train OUTPUT_FOLDER [option…]
set -eu
part=$1 folder=$2
shift 2
cd "$(dirname "$0")/../.."
run() { PYTHONPATH=src:. PYTHONUNBUFFERED=1 python3 -m benchmarks.propagation.bench "$@"; }
case $part in
    kernels) run --parts check tiles kernels step ranking --profile-rows 20 --output "$folder/kernels.json" "$@" ;;
    messages) run --parts step ranking messages --output "$folder/messages.json" "$@" ;;
    train) run --parts train --seconds 120 --output "$folder/train.json" "$@" ;;
    *) echo "expected kernels, messages or train, found: $part" >&2; exit 2 ;;
esac
