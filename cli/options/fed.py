"""Options of `odt fed`: data, clients, rounds and files."""

import click

from odt.cli.options.sections import FEDERATION, combine, option
from odt.cli.options.trained_model import trained_model_options
from odt.cli.options.types import OutputPath
from odt.core.options.option import DATA, EXPORT, VALIDATION

# Of odt fed simulate and odt fed init.
federation_options = combine(
    option(
        FEDERATION,
        "--clients",
        common=True,
        type=click.IntRange(1),
        default=10,
        show_default=True,
        help="Number of simulated clients.",
    ),
    option(
        FEDERATION,
        "--partition",
        common=True,
        default="iid",
        show_default=True,
        metavar="KIND",
        help="Division of the samples among the clients: iid, dirichlet:ALPHA (the smaller ALPHA, "
        "the more uneven the classes), by-label[:SHARDS], by-column[:NAME] of a table, or an .npy "
        "file with the number of the client of each sample.",
    ),
    option(
        FEDERATION,
        "--rounds",
        common=True,
        type=click.IntRange(0),
        default=20,
        show_default=True,
        help="Number of rounds.",
    ),
    option(
        FEDERATION,
        "--epochs",
        common=True,
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Number of epochs of a client in a round.",
    ),
    option(
        FEDERATION,
        "--decay",
        type=click.Choice(["cosine", "none"]),
        default="cosine",
        show_default=True,
        help="Decay of the learning rate over the rounds.",
    ),
    option(
        FEDERATION,
        "--min-clients",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Smallest number of updates that a round needs; with fewer, the command stops.",
    ),
    option(
        FEDERATION,
        "--payload",
        type=click.Choice(["float32", "float16", "int8"]),
        default="float32",
        show_default=True,
        help="Type in which updates travel; int8 has error feedback.",
    ),
    option(
        FEDERATION,
        "--norm-bound",
        type=click.FloatRange(0, min_open=True),
        metavar="NORM",
        help="Refuse updates whose L2 norm of the change is larger.",
    ),
    option(
        FEDERATION,
        "--seed",
        common=True,
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Random seed of partition, sampling, drop-out and training.",
    ),
)

# Of odt fed simulate alone.
server_options = combine(
    option(
        FEDERATION,
        "--strategy",
        common=True,
        default="fedavg",
        show_default=True,
        metavar="NAME[:OPTION=VALUE,…]",
        help="Strategy of the server: fedavg, fedprox, fedadam, fedyogi, fedmedian, trimmed-mean "
        "or krum, such as fedprox:mu=0.1. docs/federated.md lists their options.",
    ),
    option(
        FEDERATION,
        "--fraction",
        type=click.FloatRange(0, 1, min_open=True),
        default=1.0,
        show_default=True,
        help="Client sampling: fraction of the clients that train in a round.",
    ),
    option(
        FEDERATION,
        "--offline",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.0,
        show_default=True,
        help="Drop-out: probability that a sampled client does not answer.",
    ),
)

data_options = combine(
    option(
        DATA,
        "--model",
        common=True,
        type=click.Path(),
        metavar="MODEL",
        help="Model that is trained: a .circle, circle+, .tflite or .onnx file.",
    ),
    option(
        DATA,
        "--data",
        common=True,
        type=click.Path(),
        metavar="DIR",
        help="Folder of odt gen-datafile: the part train is divided among the clients, and the "
        "part test, if there is one, is used for validation.",
    ),
)

held_options = combine(
    option(
        VALIDATION,
        "--validation-input",
        type=click.Path(),
        metavar="FILE",
        help="Model inputs of the validation samples; default: the part test of --data.",
    ),
    option(
        VALIDATION,
        "--validation-expected",
        type=click.Path(),
        metavar="FILE",
        help="Expected outputs (targets) of the validation samples.",
    ),
)

validation_options = combine(
    held_options,
    option(
        VALIDATION,
        "--client-validation",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.0,
        show_default=True,
        metavar="FRACTION",
        help="Fraction of each client's samples that is held back; each client evaluates the "
        "model on its own after every round.",
    ),
)

output_options = combine(
    option(
        EXPORT,
        "--log",
        type=OutputPath(),
        metavar="FILE",
        help="Write loss, metrics, counts and bytes by round: .csv, or .jsonl for JSON lines.",
    ),
    option(
        EXPORT,
        "--plot",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Draw the validation accuracy (or the first metric, or the loss) by round: .svg, or "
        ".png with matplotlib.",
    ),
    option(
        EXPORT,
        "--checkpoint",
        common=True,
        type=click.Path(),
        metavar="FILE",
        help="Resume a federation from FILE.",
    ),
    option(
        EXPORT,
        "--export-checkpoint",
        common=True,
        type=OutputPath(),
        metavar="FILE",
        help="Save a checkpoint (.odt) after each round.",
    ),
    trained_model_options,
)
