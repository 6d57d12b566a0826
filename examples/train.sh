#!/bin/sh
# Trains a model file, evaluates it, exports it and predicts with it.
#
# Usage, in the project's folder with odt on the PATH: sh examples/train.sh [OUT-DIR [EPOCHS]]
set -eu
out=${1:-train-out}
epochs=${2:-5}
mkdir -p "$out"

# A CNN with random weights; use your own model instead.
odt new cnn --input-shape 28,28,1 --outputs 10 -o "$out/model.tflite" --seed 1
odt inspect "$out/model.tflite"

# Make training and test data as raw files from the Fashion-MNIST images in examples/.
odt gen-datafile fashion_mnist --data-dir examples/fashion-mnist --out-dir "$out"

# Show the memory that training needs, without allocating it.
odt plan "$out/model.tflite" --batch-size 32

# Train; 10 % of the samples are for validation. Training stops after two epochs without an
# improvement, and the exported file has the weights of the best epoch.
odt train "$out/model.tflite" \
    --load-input "$out/train.input.bin" --load-expected "$out/train.output.bin" \
    --epochs "$epochs" --batch-size 32 --optimizer adam --learning-rate 0.001 \
    --validation-split 0.1 --seed 1 --metric accuracy --keep-best --patience 2 \
    --export-tflite "$out/trained.tflite" --export-checkpoint "$out/state.odt"

# Predict the test samples, which were not used in training, and evaluate loss and accuracy on them.
odt predict "$out/trained.tflite" --load-input "$out/test.input.bin" --output "$out/predictions.npy"
odt eval "$out/trained.tflite" \
    --load-input "$out/test.input.bin" --load-expected "$out/test.output.bin" --metric accuracy
