"""Options of custom operators as a FlexBuffers map: numbers, and typed vectors of integers."""

from flatbuffers import flexbuffers

from op_db import Options


def flex_map(**fields: float | list[int]) -> Options:
    b = flexbuffers.Builder()
    with b.Map():
        for name, value in fields.items():
            if isinstance(value, list):
                b.TypedVectorFromElements(name, value)
            elif isinstance(value, int):
                b.Int(name, value)
            else:
                b.Float(name, value)
    return {"custom_options": bytes(b.Finish())}
