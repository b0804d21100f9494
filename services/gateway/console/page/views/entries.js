// The entries of a conversation: messages, steps with their tool calls, and notes.
import { callsOf, tasksOf } from "../client.js"
import { clip, duration, percent } from "../format.js"
import { html, useState } from "../html.js"
import { Status, TaskLink, Value, When } from "../parts/basics.js"
import { Markdown } from "../parts/markdown.js"
import { memo } from "../parts/memo.js"
import { APPLICATION } from "./client_calls.js"
import { File } from "./files.js"

/** What a dragged message is called among what may be dragged. */
export const MESSAGE = "application/x-pentad-message"

/** One object, so that a step without calls stays the same. */
const NO_CALLS = {}

/** An entry of the order of a session's state. It is drawn again only when what it shows has changed. */
export function Entry({ entry, state, session, colours, onMove }) {
  if (entry.kind === "message") {
    const message = state.messages[entry.message_id]
    return message
      ? html`<${Message} message=${message} session=${session} colour=${colours.get(message.task_id)}
        onMove=${onMove} />`
      : null
  }
  if (entry.kind === "step") {
    const task = state.tasks[entry.task_id]
    const step = task?.steps.find((each) => each.step === entry.step)
    if (!step) return null
    const colour = colours.get(task.task_id) ?? colours.get(task.parent_task_id)
    // Not the task itself, which changes with each piece of its text: its other steps stay as they are.
    const shared = { taskId: task.task_id, goal: task.goal ?? "", node: task.node, calls: callsFor(task, step) }
    return html`<${Step} step=${step} ...${shared} colour=${colour} session=${session} />`
  }
  if (entry.kind === "answer")
    return html`<div class="said agent c${colours.get(entry.task_id) ?? 0}"><${Markdown} text=${entry.text} /></div>`
  return html`<${Note} event=${entry.event} isTold=${isTold(entry.event, state.order)} />`
}

/** Whether an error of the same task has told why it ended: the stream has it once. */
function isTold(end, order) {
  if (end.type !== "task_end" || !end.detail) return false
  const says = ({ type, task_id: id, message }) => type === "error" && id === end.task_id && message === end.detail
  return order.some((entry) => entry.kind === "note" && says(entry.event))
}

/** The calls of a task, which change when one of them does; none for a step that has none. */
const callsFor = (task, step) => (step.calls.length ? task.calls : NO_CALLS)

const Message = memo(({ message, session, colour, onMove }) => {
  const drag = (event) => event.dataTransfer.setData(MESSAGE, message.message_id)
  const { routing, control, error } = message
  return html`<article class="said person c${colour ?? ""}" draggable=${message.task_id !== null} onDragStart=${drag}
    aria-label="Message">
    <p class="words">${message.text ?? html`<${Unknown} user=${message.user_id} />`}</p>
    ${message.files.map((path) => html`<p class="quiet" key=${path}><${File} session=${session} of=${{ path }} /></p>`)}
    <footer class="quiet">
      ${message.user_id && `${message.user_id} · `}<${When} at=${message.at} />
      ${message.status === "sending" && " · is being sent"}
      ${routing && html`<${Routing} of=${routing} message=${message} session=${session} onMove=${onMove} />`}
      ${message.moves.map(
        (move) => html`<span key=${move.at}> · moved from <${TaskLink} id=${move.from_task_id} /></span>`,
      )}
    </footer>
    ${control && html`<p>${control.content}</p>`}
    ${error && html`<p class="problem">${error.message}</p>`}
  </article>`
})

/** Stands for a message whose text nobody knows any more. */
const Unknown = ({ user }) => html`<span class="quiet">(a message of ${user ?? "somebody"})</span>`

/** The decision to which task the message went. Its candidates and the other tasks are drawn while it is open. */
function Routing({ of: routing, message, session, onMove }) {
  const [open, setOpen] = useState(false)
  const words =
    { new: "a new task", append: "goes to", reopen: "reopened", rejected: "refused", control: "control" }[
      routing.decision
    ] ?? routing.decision
  return html`<details class="routing" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${words} ${message.task_id && html`<${TaskLink} id=${message.task_id} />`}</summary>
    ${open && html`<${Decision} of=${routing} tasks=${session.state.tasks} />`}
    ${open && message.task_id && html`<${Mover} message=${message} tasks=${session.state.tasks} onMove=${onMove} />`}
  </details>`
}

function Decision({ of: routing, tasks }) {
  const sure = percent(routing.confidence ?? 0, 1)
  const scoreOf = (id) => (routing.scores?.[id] === undefined ? "" : percent(routing.scores[id], 1))
  return html`<p>${routing.reason} <span class="quiet">(${routing.stage ?? "rule"}, ${sure} sure)</span></p>
    <ul>
      ${routing.candidates.map(
        (id) => html`<li key=${id}><${TaskLink} id=${id} /> ${clip(tasks[id]?.goal ?? "", 50)} ${scoreOf(id)}</li>`,
      )}
    </ul>`
}

/** Moves a message to another task, once that is chosen and the button pressed: arrow keys alone move nothing. */
function Mover({ message, tasks, onMove }) {
  const [to, setTo] = useState("")
  const others = tasksOf({ tasks }).filter((task) => task.task_id !== message.task_id && !task.parent_task_id)
  return html`<div class="row">
    <label>Move to${" "}
      <select value=${to} aria-label="Another task for the message" onChange=${(event) => setTo(event.target.value)}>
        <option value="">…</option>
        <option value="new">a new task</option>
        ${others.map((task) => html`<option value=${task.task_id}>${clip(task.goal ?? task.task_id, 50)}</option>`)}
      </select>
    </label>
    <button type="button" disabled=${!to} onClick=${() => onMove(message.message_id, to)}>Move</button>
  </div>`
}

const Step = memo(({ taskId, goal, node, step, calls, colour, session }) => {
  const live = !step.whole
  const words = `${clip(goal, 50)}${node ? ` · ${node}` : ""}${step.attempt > 1 ? ` · attempt ${step.attempt}` : ""}`
  const cut = step.finish_reason && !["stop", "tool_calls"].includes(step.finish_reason)
  return html`<article class="said agent c${colour ?? ""}" aria-label=${`Step ${step.step}`} aria-busy=${live}>
    <header class="quiet"><${TaskLink} id=${taskId} step=${step.step} /> ${words}</header>
    ${step.thinking && html`<details><summary>Thoughts</summary><p class="words quiet">${step.thinking}</p></details>`}
    ${step.text && html`<${Markdown} text=${step.text} />`}
    ${step.ref && html`<${Whole} session=${session} task=${taskId} name=${step.ref} />`}
    ${live && html`<span class="live quiet" role="status">…</span>`}
    ${cut && html`<p class="warn">${step.finish_reason}</p>`}
    ${callsOf({ calls }, step).map(
      (call) => html`<${Call} key=${call.tool_call_id} call=${call} session=${session} />`,
    )}
  </article>`
})

const Call = memo(({ call, session }) => {
  const kind = { running: "active", done: "completed" }[call.status] ?? call.status
  return html`<details class="call">
    <summary><code>${call.tool}</code> <span class="quiet">
      ${clip(argsOf(call.args), 80)}</span> <${Status} of=${kind} />${" "}
      ${call.duration_ms !== null ? duration(call.duration_ms) : ""}
      ${call.client && kind === "active" && html`<span class="quiet">${APPLICATION}</span>`}</summary>
    <${Value} of=${call.args} label="arguments" />
    ${call.error !== null && html`<p class="problem">${call.error}</p>`}
    ${call.result !== null && html`<${Value} of=${call.result} label="result" />`}
    ${call.result_ref && html`<${Whole} session=${session} task=${call.task_id} name=${call.result_ref} />`}
    ${
      call.approval &&
      call.approval.status !== "asked" &&
      html`<p class="quiet">
      ${call.approval.status}${call.approval.by ? ` by ${call.approval.by}` : ""} ${call.approval.decision_reason}</p>`
    }
  </details>
  ${call.artifacts.map((file) => html`<p class="quiet" key=${file.path}><${File} session=${session} of=${file} /></p>`)}
  ${
    call.progress &&
    html`<p class="quiet" role="status">
    ${call.progress} ${
      call.fraction !== null ? html`<progress max="1" value=${call.fraction} aria-label="progress"></progress>` : ""
    }</p>`
  }`
})

/** A long text that events have only the beginning of. */
function Whole({ session, task, name }) {
  const [text, setText] = useState(null)
  const load = async () => setText(await session.value(task, name).catch((error) => error.message))
  return text === null
    ? html`<button type="button" class="plain" onClick=${load}>Show the whole</button>`
    : html`<${Value} of=${text} label="whole text" />`
}

const Note = memo(({ event, isTold }) => {
  const words = {
    control_result: () => event.content,
    message_moved: () =>
      event.effects?.length
        ? `A message was moved; these calls had been made: ${event.effects.map((each) => each.tool).join(", ")}.`
        : "A message was moved.",
    compacted: () =>
      `Prompts have a summary of earlier messages from here on: ${event.tokens_before} tokens became ` +
      `${event.tokens_after}.`,
    task_end: () =>
      `The task ended as ${event.status}: ${event.reason}${event.detail && !isTold ? `. ${event.detail}` : ""}`,
    error: () => event.message,
  }[event.type]
  return words ? html`<p class="note ${event.type}">${words()}</p>` : null
})

function argsOf(args) {
  if (args === null || args === undefined) return ""
  return typeof args === "string"
    ? args
    : Object.entries(args)
        .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
        .join(", ")
}
