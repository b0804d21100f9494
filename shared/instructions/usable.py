"""Whether an instruction can be used as it is."""

from pentad.contracts.instructions import Instruction


def check_schema(instruction: Instruction) -> None:
    """Raises ``WrongSchema``, a ``ValueError``. The checker is only loaded for an instruction that has a schema.

    It returns at once: a schema whose check may take long is left to `prove_schema`.
    """
    if instruction.output_schema is not None:
        from pentad.shared.instructions.output import Output

        Output(instruction.output_schema)


def prove_schema(instruction: Instruction) -> None:
    """As `check_schema`, for every schema. It may take seconds: not for an event loop."""
    if instruction.output_schema is not None:
        from pentad.shared.instructions.output import Output

        Output(instruction.output_schema).prove()
