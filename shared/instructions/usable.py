"""Whether an instruction can be used as it is."""

from pentad.contracts.instructions import Instruction


def check_schema(instruction: Instruction) -> None:
    """Raises ``WrongSchema``, a ``ValueError``. The checker is only loaded for an instruction that has a schema."""
    if instruction.output_schema is not None:
        from pentad.shared.instructions.output import Output

        Output(instruction.output_schema)
