#!/bin/sh
# Federated learning: four clients simulated by odt, then the same federation as a Flower app.
#
# Usage, in the project's folder with odt on the PATH:
#     sh examples/federated/federate.sh [OUT-DIR [ROUNDS]]
#
# The Flower app runs if Flower is installed: pip install 'odt[flower]'
set -eu
out=${1:-federated-out}
rounds=${2:-10}
mkdir -p "$out"

# 2,000 images of clothes and a small network.
odt gen-datafile fashion_mnist --data-dir examples/fashion-mnist --out-dir "$out/data"
odt new mlp --like "$out/data" --hidden 32 -o "$out/model.tflite" --seed 1

# Each client has few classes. Changes of the weights travel as int8.
set -- --model "$out/model.tflite" --data "$out/data" --clients 4 --partition dirichlet:0.3 \
    --rounds "$rounds" --batch-size 16 --payload int8 --metric accuracy
odt fed simulate "$@" --log "$out/log.csv" --plot "$out/accuracy.svg" \
    --export-tflite "$out/trained.tflite"

# A Flower app with the same options trains the same weights; its README.md says how it runs on
# devices.
odt fed init "$out/app" "$@"
if python -c 'import flwr' 2> /dev/null; then
    . "$out/app/environment.sh"
    python "$out/app/run.py"
    odt verify --diff "$out/trained.tflite" "$out/app/trained.tflite"
fi

odt eval "$out/trained.tflite" \
    --load-input "$out/data/test.input.bin" --load-expected "$out/data/test.output.bin" \
    --metric accuracy
