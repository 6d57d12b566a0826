"""Slots of the fields that are read in place: positions in the tables of the schema.

Circle's and TFLite's tables have the same fields in the same slots, except where a comment says so.
"""


class ModelSlot:
    """Slots of table Model."""

    VERSION = 0
    OPERATOR_CODES = 1
    SUBGRAPHS = 2
    DESCRIPTION = 3
    BUFFERS = 4
    METADATA = 6
    SIGNATURE_DEFS = 7
    EXTERNAL_BUFFER_GROUPS = 8  # TFLite
    EXTERNAL_BUFFERS = 9  # TFLite


class SubGraphSlot:
    """Slots of table SubGraph."""

    TENSORS = 0
    INPUTS = 1
    OUTPUTS = 2
    OPERATORS = 3


class TensorSlot:
    """Slots of table Tensor."""

    SHAPE = 0
    TYPE = 1
    BUFFER = 2
    NAME = 3
    QUANTIZATION = 4
    IS_VARIABLE = 5
    SPARSITY = 6
    SHAPE_SIGNATURE = 7
    COMPRESSION_TYPE = 10  # Circle
    EXTERNAL_BUFFER = 10  # TFLite


class QuantizationParametersSlot:
    """Slots of table QuantizationParameters."""

    SCALE = 2
    ZERO_POINT = 3
    DETAILS_TYPE = 4
    DETAILS = 5
    QUANTIZED_DIMENSION = 6


class BlockwiseQuantizationSlot:
    """Slots of table BlockwiseQuantization."""

    SCALES = 0
    ZERO_POINTS = 1
    BLOCK_SIZE = 2
    BLOCK_SHAPE = 3  # TFLite


class MultiAxisQuantizationSlot:
    """Slots of table MultiAxisQuantization, which TFLite alone has."""

    SCALES = 0
    ZERO_POINTS = 1
    BLOCK_SIZE = 2
    QUANTIZED_DIMENSIONS = 3


class ExternalBufferGroupSlot:
    """Slots of table ExternalBufferGroup, which TFLite alone has."""

    NAME = 0


class ExternalBufferSlot:
    """Slots of table ExternalBuffer, which TFLite alone has."""

    ID = 0
    GROUP = 1


class SparsityParametersSlot:
    """Slots of table SparsityParameters."""

    TRAVERSAL_ORDER = 0
    BLOCK_MAP = 1
    DIM_METADATA = 2


class DimensionMetadataSlot:
    """Slots of table DimensionMetadata."""

    FORMAT = 0
    DENSE_SIZE = 1
    ARRAY_SEGMENTS_TYPE = 2
    ARRAY_INDICES_TYPE = 4


class OperatorSlot:
    """Slots of table Operator."""

    OPCODE_INDEX = 0
    INPUTS = 1
    OUTPUTS = 2
    BUILTIN_OPTIONS_TYPE = 3
    BUILTIN_OPTIONS = 4
    CUSTOM_OPTIONS = 5
    INTERMEDIATES = 8
    LARGE_CUSTOM_OPTIONS_OFFSET = 9
    BUILTIN_OPTIONS2_TYPE = 11


class OperatorCodeSlot:
    """Slots of table OperatorCode."""

    DEPRECATED_BUILTIN_CODE = 0
    CUSTOM_CODE = 1
    VERSION = 2
    BUILTIN_CODE = 3


class FullyConnectedOptionsSlot:
    """Slots of table FullyConnectedOptions."""

    WEIGHTS_FORMAT = 1


class BufferSlot:
    """Slots of table Buffer."""

    DATA = 0
    OFFSET = 1
    SIZE = 2


class MetadataSlot:
    """Slots of table Metadata."""

    NAME = 0
    BUFFER = 1


class SignatureDefSlot:
    """Slots of table SignatureDef."""

    INPUTS = 0
    OUTPUTS = 1
    SIGNATURE_KEY = 2
    SUBGRAPH_INDEX = 4


class TensorMapSlot:
    """Slots of table TensorMap."""

    NAME = 0
    TENSOR_INDEX = 1
