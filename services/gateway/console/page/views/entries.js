// The entries of a conversation: messages, steps with their tool calls, and notes.
import { clip, duration, percent } from "../format.js"
import { html, useState } from "../html.js"
import { Status, TaskLink, Value, When } from "../parts/basics.js"
import { Markdown } from "../parts/markdown.js"
import { memo } from "../parts/memo.js"
import { callsOf, tasksOf } from "../client.js"

/** What a dragged message is called among what may be dragged. */
export const MESSAGE = "application/x-pentad-message"

/** An entry of the order of a session's state. It is drawn again only when what it shows has changed. */
export function Entry({ entry, state, session, colours, onMove }) {
  if (entry.kind === "message") {
    const message = state.messages[entry.message_id]
    return message
      ? html`<${Message} message=${message} tasks=${state.tasks} colour=${colours.get(message.task_id)} onMove=${onMove} />`
      : null
  }
  if (entry.kind === "step") {
    const task = state.tasks[entry.task_id]
    const step = task?.steps.find((each) => each.step === entry.step)
    return step
      ? html`<${Step} task=${task} step=${step} calls=${keyOf(task, step)} colour=${colours.get(task.task_id) ?? colours.get(task.parent_task_id)} session=${session} />`
      : null
  }
  if (entry.kind === "answer")
    return html`<div class="said agent c${colours.get(entry.task_id) ?? 0}"><${Markdown} text=${entry.text} /></div>`
  return html`<${Note} event=${entry.event} />`
}

/** A value that changes when the calls of a step change. */
const keyOf = (task, step) => (step.calls.length ? task.calls : null)

const Message = memo(({ message, tasks, colour, onMove }) => {
  const drag = (event) => event.dataTransfer.setData(MESSAGE, message.message_id)
  const { routing, control, error } = message
  return html`<article class="said person c${colour ?? ""}" draggable=${message.task_id !== null} onDragStart=${drag} aria-label="Message">
    <p class="words">${message.text ?? html`<span class="quiet">(a message of ${message.user_id ?? "somebody"})</span>`}</p>
    ${message.files.length > 0 && html`<p class="quiet">${message.files.join(", ")}</p>`}
    <footer class="quiet">
      ${message.user_id && `${message.user_id} · `}<${When} at=${message.at} />
      ${message.status === "sending" && " · is being sent"}
      ${routing && html`<${Routing} of=${routing} message=${message} tasks=${tasks} onMove=${onMove} />`}
      ${message.moves.map((move) => html`<span key=${move.at}> · moved from <${TaskLink} id=${move.from_task_id} /></span>`)}
    </footer>
    ${control && html`<p>${control.content}</p>`}
    ${error && html`<p class="problem">${error.message}</p>`}
  </article>`
})

/** The decision to which task the message went, with the candidates; and another task for it. */
function Routing({ of: routing, message, tasks, onMove }) {
  const words =
    { new: "a new task", append: "goes to", reopen: "reopened", rejected: "refused", control: "control" }[
      routing.decision
    ] ?? routing.decision
  const others = tasksOf({ tasks }).filter((task) => task.task_id !== message.task_id && !task.parent_task_id)
  const pick = (event) => {
    if (event.target.value) onMove(message.message_id, event.target.value)
    event.target.value = ""
  }
  return html`<details class="routing">
    <summary>${words} ${message.task_id && html`<${TaskLink} id=${message.task_id} />`}</summary>
    <p>${routing.reason} <span class="quiet">(${routing.stage ?? "rule"}, ${percent(routing.confidence ?? 0, 1)} sure)</span></p>
    ${routing.candidates.length > 0 && html`<ul>${routing.candidates.map((id) => html`<li key=${id}><${TaskLink} id=${id} /> ${clip(tasks[id]?.goal ?? "", 50)} ${routing.scores?.[id] !== undefined ? percent(routing.scores[id], 1) : ""}</li>`)}</ul>`}
    ${
      message.task_id &&
      html`<label>Move to <select onChange=${pick} aria-label="Move the message to another task">
      <option value="">…</option><option value="new">a new task</option>
      ${others.map((task) => html`<option value=${task.task_id}>${clip(task.goal ?? task.task_id, 50)}</option>`)}
    </select></label>`
    }
  </details>`
}

const Step = memo(({ task, step, colour, session }) => {
  const calls = callsOf(task, step)
  const live = !step.whole
  return html`<article class="said agent c${colour ?? ""}" aria-label=${`Step ${step.step}`} aria-busy=${live}>
    <header class="quiet"><${TaskLink} id=${task.task_id} step=${step.step} /> ${clip(task.goal ?? "", 50)}${task.node ? ` · ${task.node}` : ""}${step.attempt > 1 ? ` · attempt ${step.attempt}` : ""}</header>
    ${step.thinking && html`<details><summary>Thoughts</summary><p class="words quiet">${step.thinking}</p></details>`}
    ${step.text && html`<${Markdown} text=${step.text} />`}
    ${step.ref && html`<${Whole} session=${session} task=${task.task_id} name=${step.ref} />`}
    ${live && html`<span class="live quiet" role="status">…</span>`}
    ${step.finish_reason && !["stop", "tool_calls"].includes(step.finish_reason) && html`<p class="warn">${step.finish_reason}</p>`}
    ${calls.map((call) => html`<${Call} key=${call.tool_call_id} call=${call} session=${session} />`)}
  </article>`
})

const Call = memo(({ call, session }) => {
  const kind = { running: "active", waiting: "waiting", done: "completed", failed: "failed" }[call.status]
  return html`<details class="call">
    <summary><code>${call.tool}</code> <span class="quiet">${clip(argsOf(call.args), 80)}</span> <${Status} of=${kind} /> ${call.duration_ms !== null ? duration(call.duration_ms) : ""}</summary>
    <${Value} of=${call.args} label="arguments" />
    ${call.error !== null && html`<p class="problem">${call.error}</p>`}
    ${call.result !== null && html`<${Value} of=${call.result} label="result" />`}
    ${call.result_ref && html`<${Whole} session=${session} task=${call.task_id} name=${call.result_ref} />`}
    ${call.artifacts.length > 0 && html`<p class="quiet">Made ${call.artifacts.map((file) => file.path).join(", ")}</p>`}
    ${call.approval && call.approval.status !== "asked" && html`<p class="quiet">${call.approval.status}${call.approval.by ? ` by ${call.approval.by}` : ""} ${call.approval.decision_reason}</p>`}
  </details>
  ${call.progress && html`<p class="quiet" role="status">${call.progress} ${call.fraction !== null ? html`<progress max="1" value=${call.fraction} aria-label="progress"></progress>` : ""}</p>`}`
})

/** A long text that events have only the beginning of. */
function Whole({ session, task, name }) {
  const [text, setText] = useState(null)
  const load = async () => setText(await session.value(task, name).catch((error) => error.message))
  return text === null
    ? html`<button type="button" class="plain" onClick=${load}>Show the whole</button>`
    : html`<${Value} of=${text} label="whole text" />`
}

const Note = memo(({ event }) => {
  const words = {
    control_result: () => event.content,
    message_moved: () =>
      `A message was moved${event.effects?.length ? `; these calls had been made: ${event.effects.map((each) => each.tool).join(", ")}` : ""}.`,
    compacted: () =>
      `Earlier messages are summarised in prompts from here on: ${event.tokens_before} tokens became ${event.tokens_after}.`,
    task_end: () => `The task ended as ${event.status}: ${event.reason}${event.detail ? `. ${event.detail}` : ""}`,
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
