#!/bin/sh
# Trains a small network on images of clothes, evaluates it and predicts with it.
#
# Usage, in the project's folder: make demo
# or, with odt on the PATH: sh examples/demo.sh [OUT-DIR [EPOCHS]]
set -eu
out=${1:-demo-out}
epochs=${2:-5}

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

echo "Fashion-MNIST (c) 2017 Zalando SE, MIT license: 2,000 images for training, 500 for testing."
show odt gen-datafile fashion_mnist --data-dir examples/fashion-mnist --out-dir "$out"
show odt new cnn --input-shape 28,28,1 --outputs 10 -o "$out/cnn.circle" --seed 1
show odt inspect "$out/cnn.circle"
show odt train "$out/cnn.circle" \
    --load-input "$out/train.input.bin" --load-expected "$out/train.output.bin" \
    --epochs "$epochs" --batch-size 32 --loss categorical-crossentropy \
    --optimizer adam --learning-rate 0.001 --validation-split 0.1 \
    --metric accuracy --seed 1 \
    --export-circle "$out/trained.circle" --export-tflite "$out/trained.tflite"
show odt eval "$out/trained.circle" \
    --load-input "$out/test.input.bin" --load-expected "$out/test.output.bin" \
    --metric accuracy

# A raw file holds the samples one after the other. A sample of 28 x 28 float32 has 3,136 bytes.
head -c $((5 * 3136)) "$out/test.input.bin" > "$out/five.input.bin"
echo
echo "Five test images; 0 t-shirt, 1 trouser, 2 pullover, 3 dress, 4 coat,"
echo "5 sandal, 6 shirt, 7 sneaker, 8 bag, 9 ankle boot; they are 9, 2, 1, 1, 6."
show odt predict "$out/trained.tflite" --load-input "$out/five.input.bin" --top 3
