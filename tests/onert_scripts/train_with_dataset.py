"""Trains a model on two raw files, as a user of onert would write it."""

import argparse

from onert.experimental.train import DataLoader, losses, optimizer, session

parser = argparse.ArgumentParser()
parser.add_argument("-m", "--nnpackage", required=True)
parser.add_argument("-i", "--input", required=True)
parser.add_argument("-l", "--label", required=True)
parser.add_argument("--data_length", type=int, required=True)
parser.add_argument("--backends", default="train")
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--epoch", type=int, default=5)
parser.add_argument("--learning_rate", type=float, default=0.01)
parser.add_argument("--loss", choices=["mse", "cce"], default="mse")
parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
parser.add_argument("--loss_reduction_type", choices=["mean", "sum"], default="mean")
parser.add_argument("--validation_split", type=float, default=0.0)
parser.add_argument("--checkpoint")
args = parser.parse_args()

sess = session(args.nnpackage, args.backends)
(x_info,), (y_info,) = sess.get_inputs_tensorinfo(), sess.get_outputs_tensorinfo()
data = DataLoader(
    args.input,
    args.label,
    args.batch_size,
    input_shape=(args.data_length, *x_info.dims[1:]),
    expected_shape=(args.data_length, *y_info.dims[1:]),
)
rule = {"sgd": optimizer.SGD, "adam": optimizer.Adam}[args.optimizer]
function = {"mse": losses.MeanSquaredError, "cce": losses.CategoricalCrossentropy}[args.loss]
sess.compile(
    optimizer=rule(args.learning_rate),
    loss=function(reduction=args.loss_reduction_type),
    metrics=["categorical_accuracy"],
    batch_size=args.batch_size,
)
times = sess.train(
    data,
    epochs=args.epoch,
    validation_split=args.validation_split,
    checkpoint_path=args.checkpoint,
)
print(sorted(times), len(times["EPOCH_TIMES"]))
