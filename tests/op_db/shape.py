"""SHAPE: reference and samples."""

from op_db import OpInfo, Refusal, Sample
from op_db.support.pad import shape

INFO = OpInfo(
    "SHAPE",
    shape,
    samples=(
        Sample("rank 3", {"x": (2, 3, 4)}, {"out_type": 2}, rebatches=False),
        Sample("64 bits", {"x": (2, 3)}, {"out_type": 4}, rebatches=False),
    ),
    large=Sample("large", {"x": (512, 1024)}),
    refusals=(Refusal("out_type", {"x": (2,)}, {"out_type": 9}),),
)
