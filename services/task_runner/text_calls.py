"""Tool calls as text, for one step: its answer is read, and clients see its thoughts and its final answer alone."""

from dataclasses import replace

from pentad.shared.models.ports import DeltaSink, ModelAnswer, ToolCallDraft
from pentad.shared.text_protocol.answer import MalformedAnswer, TextSplitter, read_answer


def read_text_answer(answer: ModelAnswer) -> tuple[ModelAnswer, str]:
    """Return an answer with the call or the final text that its words are, and why they are neither ('' if they are).

    A malformed answer stays as it is: the model is told what is wrong with it.
    """
    if not answer.text.strip():
        return answer, ""
    try:
        read = read_answer(answer.text)
    except MalformedAnswer as error:
        return answer, str(error)
    if read.final is not None:
        return replace(answer, text=read.final), ""
    call = ToolCallDraft(read.tool, read.arguments)
    return replace(answer, text=read.thought, tool_calls=(call,)), ""


def split_deltas(sink: DeltaSink) -> DeltaSink:
    """Return a sink that tells another one the thoughts and the final answer of what it is told."""
    splitter = TextSplitter()

    def told(kind: str, text: str) -> None:
        if kind == "thinking":
            sink("thinking", text)
            return
        for shown, piece in splitter.feed(text):
            sink(shown, piece)

    return told
