#!/bin/sh
# Transfer learning: a trained model gets a new last layer for other classes.
#
# Usage, in the project's folder with odt on the PATH:
#     sh examples/transfer_learning.sh [OUT-DIR [EPOCHS]]
set -eu
out=${1:-transfer-out}
epochs=${2:-5}
mkdir -p "$out"

# Make a trained model for the ten classes of Fashion-MNIST.
odt gen-datafile fashion_mnist --data-dir examples/fashion-mnist --out-dir "$out/ten"
odt new cnn --input-shape 28,28,1 --outputs 10 -o "$out/random.tflite" --seed 1
odt train "$out/random.tflite" \
    --load-input "$out/ten/train.input.bin" --load-expected "$out/ten/train.output.bin" \
    --epochs "$epochs" --batch-size 32 --optimizer adam --learning-rate 0.001 --seed 1 \
    --export-tflite "$out/ten.tflite"

# Make the data of a new task: clothes, shoes or bag, with 300 training samples.
new=$out/three
clothes="T-shirt/top=clothes,Trouser=clothes,Pullover=clothes,Dress=clothes,Coat=clothes"
shoes="Sandal=shoes,Sneaker=shoes,Ankle boot=shoes"
odt gen-datafile fashion_mnist --data-dir examples/fashion-mnist --out-dir "$new" \
    --label-map "$clothes,Shirt=clothes,$shoes,Bag=bag" --split train test --length 300 500

# Replace the last layer with one for three classes; all other weights stay unchanged.
odt replace-head "$out/ten.tflite" --classes 3 --seed 1 --output "$out/three.tflite"

# Train only the new layer and its softmax. The outputs of the frozen layers do not change, so they
# are computed once (--cache-frozen).
odt train "$out/three.tflite" \
    --load-input "$new/train.input.300.bin" --load-expected "$new/train.output.300.bin" \
    --epochs "$epochs" --batch-size 30 --optimizer adam --learning-rate 0.01 --seed 1 \
    --num-of-trainable-ops 2 --cache-frozen --export-tflite "$out/head.tflite"

# Fine-tune all layers with a small learning rate.
odt train "$out/head.tflite" \
    --load-input "$new/train.input.300.bin" --load-expected "$new/train.output.300.bin" \
    --epochs 1 --batch-size 30 --optimizer adam --learning-rate 0.0001 --seed 1 \
    --export-tflite "$out/trained.tflite"

odt eval "$out/trained.tflite" \
    --load-input "$new/test.input.500.bin" --load-expected "$new/test.output.500.bin" \
    --metric accuracy
