"""Trains step by step, evaluates, writes model and checkpoint, and resumes: a user of onert."""

import sys

import numpy as np
from onert.experimental.train import DataLoader, optimizer, session
from onert.experimental.train.optimizer import trainable_ops

last = int(sys.argv[1])
inputs = np.fromfile("x.bin", np.float32).reshape(96, -1)
expecteds = np.fromfile("t.bin", np.float32).reshape(96, -1)

sess = session("m.circle")
assert trainable_ops.ALL == -1
rule = optimizer.Adam(learning_rate=0.005)
rule.nums_trainable_ops = last
sess.compile(rule, "categorical_crossentropy", batch_size=16)
training, validation = DataLoader([inputs], [expecteds], 16).split(0.25)
for _ in range(2):
    for x, t in training:
        result = sess.train_step(x, t)
        assert result["train_time"] > 0
        print(result["loss"][0])
for x, t in validation:
    result = sess.eval_step(x, t)
    assert result["eval_time"] > 0
    print(result["loss"][0])
sess.train_export_circle("o.circle")
sess.session.train_export_checkpoint("k.ckpt")
again = session("m.circle")
again.compile(rule, "categorical_crossentropy", batch_size=16)
again.train_import_checkpoint("k.ckpt")
x, t = next(iter(training))
print(again.train_step(x, t)["loss"][0])
