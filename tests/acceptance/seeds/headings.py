"""Headings of the five documents, each with the test that walks it.

A name alone is a test of the document's own module, which names the heading (`walked`). ``MODULE::TEST`` is a test of
another module, for a heading that says what another document says, too. A sentence is the reason why no test does.
"""

from collections.abc import Mapping

HEADINGS_IN = {"test_000_agent_module": 20, "test_001_simple_agent": 28, "test_002_five_parts": 42} | {
    "test_003_agent_graph": 19,
    "test_004_architecture": 33,
}
"""Numbers of the headings of the second and third level that each document has."""
FILES = "It lists files of the documents' own program."
PLAN = "It says in which order the parts are built: they are walked above."
SUMMARY = "It repeats what is walked above."
LATER = "It says what is built next, and all of it is walked above."
_LOOP = "test_000_agent_module::test_a_task_and_its_events_are_those_of_the_documents"
_SENT = "test_000_agent_module::test_tasks_are_sent_to_and_controlled_as_in_the_documents"
_PARTS = "test_000_agent_module::test_the_components_work_together_as_in_the_example"
_ROUTED = "test_000_agent_module::test_a_message_goes_on_with_what_it_is_about"
_SAID = "test_000_agent_module::test_what_was_said_is_found_and_opened_as_in_the_documents"
_CALLED = "test_002_five_parts::test_models_are_called_as_the_documents_call_them"
_REGISTERED = "test_002_five_parts::test_models_are_registered_as_the_documents_register_them"
_KNOWN = "test_002_five_parts::test_what_is_known_is_kept_and_walked_as_in_the_documents"
_ARCHIVED = "test_002_five_parts::test_a_task_is_archived_when_its_grace_is_over_and_a_list_is_told_of_changes"
_CREATED = "test_002_five_parts::test_an_agent_is_created_used_and_shut_down_as_in_the_documents"
_STORES = "test_004_architecture::test_the_stores_are_chosen_by_the_documents_variables"


def _own(walk: str) -> str:
    return walk.partition("::")[2]


_EXAMPLE = "test_the_example_runs_with_its_two_iterations"
_ASKED = "test_the_tests_that_the_document_asks_for"
_INSTRUCTIONS = "test_instructions_are_registered_and_run_as_the_documents_do"
_GRAPH = "test_a_graph_is_built_run_and_looked_at_as_in_the_document"
_FUTURE = "test_what_the_document_leaves_to_the_future_is_there"
_AGENTS = "test_each_agent_works_in_its_way"
_HOOKS = "test_hooks_change_and_block_what_an_agent_does_as_in_the_document"
_TOOLS = "test_tools_are_made_and_called_as_in_the_documents"

WALKS: Mapping[str, Mapping[str, str]] = {
    "test_000_agent_module": {
        "Overview": _own(_LOOP),
        "Core concept: the run loop": _own(_SENT),
        "Interfaces of the components": _own(_PARTS),
        "1. The LLM's interface": _own(_PARTS),
        "2. The tool's interface": _own(_PARTS),
        "3. The memory's interface": _own(_SAID),
        "4. The agent's interface": _own(_SENT),
        "Core flows": _own(_SENT),
        "How messages are routed": _own(_SENT),
        "How a run loop goes": _own(_LOOP),
        "How long-term memory is archived": _own(_SAID),
        "Folders": FILES,
        "Example of its use": _own(_PARTS),
        "To be discussed": _own(_ROUTED),
        "1. How a model classifies messages": _own(_ROUTED),
        "2. Tools at once": _own(_PARTS),
        "3. How long-term memory is cut into segments": _own(_SAID),
        "4. Observables": _ARCHIVED,
        "5. Which vector database": _STORES,
        "Next steps": LATER,
    },
    "test_001_simple_agent": {
        "Overview": _ASKED,
        "Core types": _EXAMPLE,
        "1. Messages": _EXAMPLE,
        "2. Definition of a tool": _EXAMPLE,
        "3. Answer of the LLM": _CALLED,
        "4. Configuration of the agent": _EXAMPLE,
        "Core classes": _EXAMPLE,
        "1. LLMClient": _REGISTERED,
        "2. ToolManager": _ASKED,
        "3. Agent": _EXAMPLE,
        "The whole example": _EXAMPLE,
        "Folders": FILES,
        "Example of its use": _EXAMPLE,
        "The loop in detail": _EXAMPLE,
        "The first iteration": _EXAMPLE,
        "The second iteration": _EXAMPLE,
        "Further abilities": "test_a_run_tells_its_callbacks_as_in_the_documents",
        "1. Streamed answers": "test_a_run_tells_its_callbacks_as_in_the_documents",
        "2. Hooks": _HOOKS,
        "3. Memory of a conversation": "test_a_long_conversation_is_cut_or_summarised",
        "4. Retries": _REGISTERED,
        "Key decisions": _ASKED,
        "1. Why tool results have the user's role": _LOOP,
        "2. Why maxIterations is needed": _ASKED,
        "3. Why tools run at once": _PARTS,
        "4. How errors are handled": _ASKED,
        "How it is tested": _ASKED,
        "Summary": SUMMARY,
    },
    "test_002_five_parts": {
        "Overview": _own(_CREATED),
        "1. Model manager": _own(_CALLED),
        "Model manager: duties": _own(_REGISTERED),
        "Model manager: types": _own(_CALLED),
        "Model manager: points of its design": _own(_REGISTERED),
        "2. Instruction set": _INSTRUCTIONS,
        "Instruction set: duties": _INSTRUCTIONS,
        "Instruction set: types": _INSTRUCTIONS,
        "Instruction set: what is built in": _INSTRUCTIONS,
        "Instruction set: points of its design": _INSTRUCTIONS,
        "3. Task manager": _SENT,
        "Task manager: duties": _SENT,
        "Task manager: types": _LOOP,
        "How a task is run": _SENT,
        "The task's run loop": _LOOP,
        "Task manager: points of its design": _ROUTED,
        "4. Memory": _own(_KNOWN),
        "Memory: duties": _own(_KNOWN),
        "Memory: types": _own(_KNOWN),
        "How memory is archived": "test_knowledge_is_archived_and_walked_by_instructions",
        "How memory is retrieved": "test_knowledge_is_archived_and_walked_by_instructions",
        "Where memory is stored": _STORES,
        "Memory: points of its design": _own(_KNOWN),
        "5. The facade": _own(_CREATED),
        "The facade: duties": _own(_CREATED),
        "The facade: types": _own(_CREATED),
        "The facade: how it is set up": _own(_CREATED),
        "The facade: example of its use": _own(_CREATED),
        "Folders": FILES,
        "The way there": PLAN,
        "Phase 1: foundations": PLAN,
        "Phase 2: tasks": PLAN,
        "Phase 3: memory": PLAN,
        "Phase 4: interfaces": PLAN,
        "Phase 5: improvements": PLAN,
        "To be discussed": _own(_KNOWN),
        "1. How the router decides": _ROUTED,
        "2. Tools at once": _PARTS,
        "3. How the graph of what is known is built": _own(_KNOWN),
        "4. The life of a task": _own(_ARCHIVED),
        "5. Observables": _own(_ARCHIVED),
        "Summary": SUMMARY,
    },
    "test_003_agent_graph": {
        "Overview": _GRAPH,
        "Architecture": _GRAPH,
        "Core components": _GRAPH,
        "AgentGraph": _GRAPH,
        "AgentBuilder": _GRAPH,
        "LLMNode": _GRAPH,
        "DefaultAgentExecutionContext": _GRAPH,
        "Message types": _GRAPH,
        "Edge routing": _GRAPH,
        "Plain edges": _GRAPH,
        "Conditional edges": _GRAPH,
        "Execution result": _GRAPH,
        "Configuration": _GRAPH,
        "Design decisions": _GRAPH,
        "1. One kind of node": _FUTURE,
        "2. State that changes and state that does not": _GRAPH,
        "3. How conditions are judged": _GRAPH,
        "4. How tool calls are traced": _GRAPH,
        "Limits and future work": _FUTURE,
    },
    "test_004_architecture": {
        "What is aimed at": _AGENTS,
        "The modules": FILES,
        "Picture of the architecture": "It draws the parts that are walked below.",
        "The flow of data": _AGENTS,
        "How a UnifiedAgent works": _AGENTS,
        "How a MemoryAgent works": _AGENTS,
        "Agents": _AGENTS,
        "The agents' base class": _AGENTS,
        "The six agents": _AGENTS,
        "The system of tools": _TOOLS,
        "The parts of tools": _TOOLS,
        "The tool's base class": _TOOLS,
        "ToolExecutor": _TOOLS,
        "The tool-calling loop": _AGENTS,
        "The log": _CREATED,
        "The logger's interface": _CREATED,
        "Built-in loggers": _CREATED,
        "How a logger is given": _CREATED,
        "Memory and retrieval": _KNOWN,
        "MemoryManager: the one entrance": _KNOWN,
        "Kinds of memory": _KNOWN,
        "How memory is added": _KNOWN,
        "Embedding": _CALLED,
        "Qdrant and Neo4j": _own(_STORES),
        "Configuration by variables": _own(_STORES),
        "Variables of the LLM": _AGENTS,
        "Variables of embedding": _CALLED,
        "Variables of Qdrant": _own(_STORES),
        "Variables of Neo4j": _own(_STORES),
        "How the system grows": _TOOLS,
        "How an agent is added": _AGENTS,
        "How a tool is added": _TOOLS,
        "How a store of memory is added": "It is work on the code: shared/vectors/README.md says where.",
    },
}
