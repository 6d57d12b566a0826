"""Tables and enumerations of TFLite Model Metadata 1.1, as far as odt reads and writes them.

Source: metadata_schema.fbs of tflite-support 0.4.4. The form of the tables is that of circle.py: a
table is the list of its fields in the order of their slots, name:type; a field named - is not read.
"""

IDENTIFIER = b"M001"

ENUMERATIONS = {
    "ContentProperties": {
        1: "FeatureProperties",
        2: "ImageProperties",
        3: "BoundingBoxProperties",
    },
    "ColorSpaceType": {0: "UNKNOWN", 1: "RGB", 2: "GRAYSCALE"},
    "AssociatedFileType": {
        0: "UNKNOWN",
        1: "DESCRIPTIONS",
        2: "TENSOR_AXIS_LABELS",
        3: "TENSOR_VALUE_LABELS",
        4: "TENSOR_AXIS_SCORE_CALIBRATION",
        5: "VOCABULARY",
    },
    "ProcessUnitOptions": {
        1: "NormalizationOptions",
        2: "ScoreCalibrationOptions",
        3: "ScoreThresholdingOptions",
        4: "BertTokenizerOptions",
        5: "SentencePieceTokenizerOptions",
    },
}

TABLES = {
    "AssociatedFile": "name:str description:str type:b locale:str",
    "BertTokenizerOptions": "vocab_file:[AssociatedFile]",
    "BoundingBoxProperties": "index:[I] type:b coordinate_type:b",
    "Content": "content_properties_type:B content_properties:ContentProperties range:ValueRange",
    "FeatureProperties": "",
    "ImageProperties": "color_space:b default_size:ImageSize",
    "ImageSize": "width:I height:I",
    "ModelMetadata": "name:str description:str version:str subgraph_metadata:[SubGraphMetadata] "
    "author:str license:str associated_files:[AssociatedFile] min_parser_version:str",
    "NormalizationOptions": "mean:[f] std:[f]",
    "ProcessUnit": "options_type:B options:ProcessUnitOptions",
    "ScoreCalibrationOptions": "score_transformation:b default_score:f",
    "ScoreThresholdingOptions": "global_score_threshold:f",
    "SentencePieceTokenizerOptions": "sentencePiece_model:[AssociatedFile] "
    "vocab_file:[AssociatedFile]",
    "Stats": "max:[f] min:[f]",
    "SubGraphMetadata": "name:str description:str input_tensor_metadata:[TensorMetadata] "
    "output_tensor_metadata:[TensorMetadata] associated_files:[AssociatedFile] "
    "input_process_units:[ProcessUnit] output_process_units:[ProcessUnit]",
    "TensorMetadata": "name:str description:str -:[str] content:Content "
    "process_units:[ProcessUnit] stats:Stats associated_files:[AssociatedFile]",
    "ValueRange": "min:i max:i",
}
