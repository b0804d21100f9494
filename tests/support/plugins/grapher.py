"""A plugin with graphs, in each form that there is."""

import pentad

SURVEY = pentad.graph(
    {
        "name": "survey",
        "description": "Asks a person.",
        "nodes": [{"key": "ask", "kind": "ask", "question": "How was it?"}],
        "entry": "ask",
        "ends": ["ask"],
    }
)
WRITER = pentad.graph(
    pentad.AgentBuilder("writer")
    .add_llm_node("draft", "Writes.", None, [], "You write.")
    .add_llm_node("review", "Checks.", None, [], "You check.")
    .add_edge("draft", "review")
    .set_entry_point("draft")
    .set_end_points(["review"])
    .build()
)
