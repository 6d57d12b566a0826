"""Keys of the records of a message and of the settings of a node."""

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"  # names of the records
ROUND, PAYLOAD = "server-round", "payload"  # names in the ConfigRecord; the first is Flower's
PROXIMAL = "proximal-mu"  # in the ConfigRecord: factor of the proximal term, from Flower's FedProx
SAMPLES, PARTITION = "num-examples", "partition-id"  # names in the MetricRecord
PARTITIONS = "num-partitions"  # in the settings of a node, as PARTITION
NORM_BIT = "norm_bit"  # metric of Flower's adaptive clipping: whether a client has clipped
