#!/bin/sh
# One client without a metric ends a run of Flower, where a client that failed is passed over.
#
# A client whose samples are all of one class has no AUC, and leaves it out of its reply. One would
# expect that Flower averages what all replies have, or passes this reply over as it does a reply with
# an error. FedAvg of flwr 1.42.0 raises InconsistentMessageReplies, whose text says "Skipping
# aggregation": nothing catches it, so the whole run ends, and the arrays of all clients are lost.
# The check runs after training and after evaluation.
#
# flwr 1.42.0, Python 3.11; output, the weight after a round of clients that reply 1 and 3:
#   both reply a loss and an AUC: 2.0
#   the second failed:            1.0
#   the second has no AUC:        InconsistentMessageReplies ends the run
# Exit status 1 if the run goes on.
# For odt: the server keeps the metrics that all replies have (src/odt/federated/flower/checked_grid.py).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flwr==1.42.0
cd "$folder"
FLWR_TELEMETRY_ENABLED=0 FLWR_HOME="$folder" venv/bin/python - 2>"$folder/log" <<'PYTHON'
import logging
import sys
from importlib.metadata import version

import numpy as np
from flwr.app import ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.exception import InconsistentMessageReplies
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # as in a server of a run
logging.disable(logging.CRITICAL)
print(f"flwr {version('flwr')}")


class TwoClients(Grid):
    """Two nodes in this process: the first replies weight 1, the second 3 or what `second` says."""

    def __init__(self, second):
        self.second = second

    def get_node_ids(self):
        return [1, 2]

    def send_and_receive(self, messages, *, timeout=None):
        return [self.reply(message) for message in messages]

    def reply(self, message):
        node = message.metadata.dst_node_id
        if node == 2 and self.second == "failed":
            return Message(Error(code=0, reason="no data"), reply_to=message)
        metrics = {"num-examples": 10, "loss": 0.5, "auc": 0.7}
        if node == 2 and self.second == "has no AUC":
            del metrics["auc"]
        weight = ArrayRecord([np.array([1.0 if node == 1 else 3.0], np.float32)])
        content = RecordDict({"arrays": weight, "metrics": MetricRecord(metrics)})
        return Message(content, reply_to=message)

    def unused(self, *args, **kwargs):
        raise NotImplementedError

    run = property(unused)
    set_run = create_message = push_messages = pull_messages = unused


ended = False
for second, text in (
    ("", "both reply a loss and an AUC:"),
    ("failed", "the second failed:"),
    ("has no AUC", "the second has no AUC:"),
):
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=2, min_train_nodes=2)
    start = ArrayRecord([np.zeros(1, np.float32)])
    try:
        result = strategy.start(grid=TwoClients(second), initial_arrays=start, num_rounds=1)
        answer = result.arrays.to_numpy_ndarrays()[0][0]
    except InconsistentMessageReplies as error:
        answer, ended = f"{type(error).__name__} ends the run", second == "has no AUC"
    print(f"{text:29} {answer}")
if not ended:
    sys.exit("changed: a reply without a metric no longer ends the run")
PYTHON
