// Pentad in JavaScript: sessions of an agent, for browsers and Node 20 or newer. One module, no dependency.
//
//     const client = connect({ url: "https://gateway.example.com", getToken })
//     const session = client.session("s1")
//     for await (const text of session.send("what is 6*7?").text()) show(text)
//
// The parts, from the top: errors; the reducer, which makes a session's state of its events; the turn of a message;
// the client, which sends requests; the two ways in which events come; the session; the tools that a page runs itself.
// docs/javascript.md tells how to use them.

/** Version of this client, which is that of Pentad. */
export const VERSION = "0.3.0"

/** Characters that a message may have. */
export const MAX_CONTENT = 65_536
/** Files that a message may name. */
export const MAX_FILES = 16
/** Tools of its own that a message may bring along. */
export const MAX_TOOLS = 128
/** Bytes that the result of such a tool may have. */
export const MAX_RESULT = 524_288
/** Entries of a session's order that its state keeps: beyond them it forgets the oldest ones. */
export const MAX_ORDER = 2_000
/** Events that wait for somebody who iterates over them, before the iteration fails with `SlowReader`. */
export const MAX_WAITING_EVENTS = 10_000
/** Characters of one frame or answer. A snapshot of a long session is large. */
export const MAX_FRAME = 64 * 1024 * 1024

const MAX_TEXT = 8 * 1024 * 1024
const FORGOTTEN_AT_ONCE = 500
const TIMEOUT_MS = 30_000
const SEND_PATIENCE_MS = 60_000
const MAX_ERROR_TEXT = 4_000
const MESSAGES_WITH_TOOLS = 1_000
const [FIRST_DELAY_MS, MAX_DELAY_MS] = [100, 3_000]
const PING_EVERY_MS = 20_000
const SILENCE_MS = 40_000
const RENEW_EARLY_MS = 10_000
const PAGE = 100
const TOKEN_ENDED = 4401
const LOST = 1006
/** Closed because of what we sent: the same again ends the same way. */
const FINAL_CODES = new Set([1002, 1003, 1007, 1008, 1009, 1010])
const BEGINNING = "0"
const END = "18446744073709551615-18446744073709551615"

// ---------------------------------------------------------------------------------------------------------- errors

/** The base of all errors of this client. The message is one line that says what happened and what to do. */
export class PentadError extends Error {
  constructor(message, { status, code, retryAfter, messageId, inDoubt, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = new.target.name
    this.status = status ?? null
    this.code = code ?? null
    this.retryAfter = retryAfter ?? null
    this.messageId = messageId ?? null
    this.inDoubt = inDoubt ?? false
  }
}
/** No gateway answers, or it cannot work now. Try again later. */
export class GatewayUnreachable extends PentadError {}
/** The key or token is missing, not known, or has ended. Never again with this one. */
export class NotAuthorized extends PentadError {}
/** The gateway understood and said no: the same request never succeeds. */
export class Refused extends PentadError {}
/** There is no such thing, or it belongs to somebody else. */
export class NotFound extends PentadError {}
/** It comes too late, or contradicts what was done before. Look at how it stands now. */
export class Conflict extends PentadError {}
/** What is stored is damaged, or of a newer version. Ask the gateway's operator. */
export class Unreadable extends PentadError {}
/** The system is behind and takes nothing new. Try again after `retryAfter` seconds. */
export class Busy extends PentadError {}
/** Events were iterated over too slowly. Iterate again; `session.state` has missed nothing. */
export class SlowReader extends PentadError {}
/** A turn has ended without an answer. `result` says how. */
export class TurnFailed extends PentadError {
  constructor(result) {
    const why = [result.reason, result.detail].filter(Boolean).join(": ")
    super(`the turn ended without an answer: ${result.outcome}${why ? ` (${why})` : ""}`)
    this.result = result
  }
}

// ----------------------------------------------------------------------------------------------------- the reducer
//
// `reduce(state, event) -> state` knows no network and no clock. A state is never changed: what an event does not touch
// is the same object in the next state, so that a page can compare by `===`. An event that says nothing new, a repeat
// for example, returns the very same state. Ids are chosen by others: maps have no prototype, so that no id is taken
// for a method of objects.

/** The state of a session of which nothing is known yet. */
export function emptySession(sessionId = null) {
  return { session_id: sessionId, cursor: BEGINNING, gap: false, erased_at: null, tasks: map(), messages: map(), order: [] }
}

/** Return the state after an event of the gateway, or after one of this client's own (`client_...`). */
export function reduce(state, event) {
  if (event === null || typeof event !== "object" || typeof event.type !== "string") return state
  const apply = Object.hasOwn(REDUCERS, event.type) ? REDUCERS[event.type] : unchanged
  const id = cursorOf(event.id)
  const isSnapshot = event.type === "snapshot"
  if (id === null && event.id !== undefined) return state
  let before = state
  if (before.gap && !isSnapshot && id !== null) before = replayed(before)
  if (id !== null && !isSnapshot && !isAfter(id, before.cursor)) return state
  const after = apply(before, event)
  return id === null || after.cursor === id ? after : { ...after, cursor: id }
}

/** Whether a cursor lies behind another. */
export function isAfter(cursor, other) {
  const [time, number] = position(cursor)
  const [otherTime, otherNumber] = position(other)
  return time === otherTime ? number > otherNumber : time > otherTime
}

/** The tasks of a session, as they have begun. */
export function tasksOf(state) {
  return Object.values(state.tasks)
}

/** The tool calls of one step of a task, in order. */
export function callsOf(task, step) {
  return step.calls.map((id) => get(task.calls, id)).filter(Boolean)
}

/** The tool calls that wait for a person's decision: `{task_id, tool_call_id, tool, args, args_digest, ...}`. */
export function approvalsOf(state) {
  return tasksOf(state)
    .filter((task) => !ENDED.has(task.status))
    .flatMap((task) => Object.values(task.calls))
    .filter((call) => call.approval?.status === "asked" && call.status === "waiting")
    .map((call) => ({ ...call.approval, task_id: call.task_id, tool_call_id: call.tool_call_id, tool: call.tool }))
}

/** The calls of clients' own tools that wait for their results, which `session.sendResult` sends. */
export function clientCallsOf(state) {
  return tasksOf(state)
    .filter((task) => !ENDED.has(task.status))
    .flatMap((task) => Object.values(task.calls))
    .filter((call) => call.client && isOpen(call))
}

/** The questions that tasks ask a person: `{task_id, text}`. The next message to the task is the answer. */
export function questionsOf(state) {
  return tasksOf(state)
    .filter((task) => task.status === "waiting" && task.reason === "question")
    .map((task) => ({ task_id: task.task_id, text: task.steps.at(-1)?.text ?? "" }))
}

const ENDED = new Set(["completed", "failed", "cancelled"])

const unchanged = (state) => state

const REDUCERS = {
  message_routed(state, event) {
    if (!isId(event.message_id)) return state
    const status = event.decision === "rejected" ? "refused" : event.decision === "control" ? "control" : "routed"
    const placed = status !== "refused" && isId(event.task_id) // a refusal may name a task that is not there
    const { decision, reason, confidence, stage, scores, metadata, at } = event
    const candidates = Array.isArray(event.candidates) ? event.candidates : []
    const routing = { decision, reason, confidence, stage: stage ?? null, candidates, scores: scores ?? null }
    const routed = withMessage(state, event.message_id, (message) => ({
      ...message,
      ...{ status, routing, task_id: placed ? event.task_id : null, error: null },
      metadata: metadata ?? message.metadata,
      at: message.at ?? at ?? null,
    }))
    return placed ? withTask(routed, event, same) : routed
  },
  control_result(state, event) {
    if (!isId(event.message_id)) return state
    const control = { action: event.action, content: text(event.content), task_id: event.task_id ?? null }
    const done = withMessage(state, event.message_id, (message) => ({ ...message, status: "control", control }))
    return noted(done, event)
  },
  message_moved(state, event) {
    const { message_id, from_task_id, to_task_id } = event
    if (!isId(message_id) || !isId(from_task_id) || !isId(to_task_id)) return state
    const moved = withMessage(state, message_id, (message) => ({
      ...message,
      ...{ status: "routed", task_id: to_task_id },
      moves: [...message.moves, { from_task_id, to_task_id, at: event.at ?? null }],
    }))
    const left = withTask(moved, { task_id: from_task_id }, (task) => withoutMessage(task, event))
    return noted(withTask(left, { task_id: to_task_id }, same), event)
  },
  compacted: (state, event) => (isId(event.task_id) ? noted(withTask(state, event, same), event) : state),
  task_start: (state, event) =>
    withTask(state, event, (task) => ({
      ...task,
      ...{ status: "active", reason: "", detail: null, ended_at: null, waiting_for: [] },
      goal: text(event.goal),
      forked_from: event.forked_from ?? task.forked_from,
      metadata: event.metadata ?? task.metadata,
      started_at: task.started_at ?? event.at ?? null,
    })),
  thinking: (state, event) => delta(state, event),
  content: (state, event) => delta(state, event),
  message(state, event) {
    if (!isStep(event.step)) return state
    const told = withStep(state, event, event.step, (step) => ({
      ...step,
      ...extended(step, "text", MAX_TEXT, { attempt: event.attempt, offset: 0, content: "" }),
      ...{ attempt: event.attempt ?? step.attempt, text: text(event.content), text_length: length(text(event.content)) },
      ...{ whole: true, held: false, commit: event.causation_id ?? null },
      finish_reason: event.finish_reason ?? null,
      model: event.model ?? null,
      model_id: event.model_id ?? null,
      ref: event.ref ?? null,
    }))
    return withoutAnswer(told, event)
  },
  tool_call(state, event) {
    if (!isId(event.task_id) || !isId(event.tool_call_id)) return state
    const number = stepOfCall(get(state.tasks, event.task_id), event)
    const stepped = withStep(state, event, number, (step) => ({
      ...step,
      ...{ whole: true, held: false, commit: step.commit ?? event.causation_id ?? null },
      calls: step.calls.includes(event.tool_call_id) ? step.calls : [...step.calls, event.tool_call_id],
    }))
    return withCall(stepped, event, (call) => ({
      ...call,
      ...{ step: number, args: event.args ?? call.args, ref: event.ref ?? null },
      ...{ parent_call_id: event.parent_call_id ?? null, client: event.client === true },
      asked_at: event.at ?? null,
    }))
  },
  tool_progress: (state, event) =>
    withCall(state, event, (call) =>
      isOpen(call) ? { ...call, progress: text(event.content), fraction: event.fraction ?? null } : call,
    ),
  tool_result(state, event) {
    const ended = withCall(state, event, (call) => ({
      ...call,
      status: event.error === undefined || event.error === null ? "done" : "failed",
      ...{ result: event.result ?? null, error: event.error ?? null, duration_ms: event.duration_ms ?? 0 },
      ...{ result_ref: event.ref ?? null, artifacts: event.artifacts ?? [], progress: null, fraction: null },
    }))
    return ended === state ? state : withTask(ended, { task_id: event.task_id }, goingOn)
  },
  approval_request: (state, event) => withCall(state, event, (call) => asked(call, event)),
  approval: (state, event) =>
    withCall(state, event, (call) => ({
      ...call,
      status: isOpen(call) ? (event.approved ? "running" : "refused") : call.status,
      approval: {
        ...(call.approval ?? NO_APPROVAL),
        status: event.approved ? "approved" : event.reason === "expired" ? "expired" : "refused",
        ...{ by: event.by ?? null, decision_reason: event.reason ?? "", decided_args: event.args ?? null },
      },
    })),
  task_status: (state, event) =>
    withTask(state, event, (task) => ({
      ...(event.status === "waiting" && event.reason === "paused" ? withoutUnfinished(task) : task),
      ...{ status: event.status, reason: event.reason ?? "" },
    })),
  node_start: (state, event) =>
    withTask(state, event, (task) => {
      const visit = { node: event.node ?? "", step: event.step ?? null, at: event.at ?? null }
      return { ...task, nodes: [...task.nodes, { ...visit, ended: false, duration_ms: null, next: null, error: null }] }
    }),
  node_end: (state, event) =>
    withTask(state, event, (task) => {
      const place = task.nodes.findLastIndex((visit) => visit.node === event.node && !visit.ended)
      if (place < 0) return task
      const { duration_ms = null, next = null, error = null } = event
      const nodes = [...task.nodes]
      nodes[place] = { ...nodes[place], ended: true, duration_ms, next, error }
      return { ...task, nodes }
    }),
  task_end(state, event) {
    const ended = withTask(state, event, (task) => ({
      ...task,
      ...{ status: event.status, reason: event.reason ?? "", detail: event.detail ?? null, waiting_for: [] },
      ...{ finish_reason: event.finish_reason ?? null, usage: event.usage ?? task.usage },
      ended_at: event.at ?? null,
    }))
    return event.status === "completed" || ended === state ? ended : noted(ended, event)
  },
  error(state, event) {
    if (event.code === "cursor_expired") return { ...state, gap: true, cursor: BEGINNING }
    if (!isId(event.message_id)) return noted(state, event)
    const error = { code: event.code, message: text(event.message), retry_after: event.retry_after ?? null }
    return withMessage(state, event.message_id, (message) => ({
      ...message,
      status: message.status === "refused" ? message.status : "failed",
      error,
    }))
  },
  snapshot: (state, event) => restored(state, event),
  client_message(state, event) {
    if (!isId(event.message_id)) return state
    const { content, files = [], user_id = null, task_id = null, metadata = null, at = null } = event
    return withMessage(state, event.message_id, (message) => ({
      ...message,
      ...{ text: text(content), files, user_id, metadata, at: message.at ?? at, error: null },
      task_id: message.task_id ?? (task_id === "new" ? null : task_id),
      status: message.status === "routed" ? message.status : "sending",
    }))
  },
  client_accepted: (state, event) =>
    changeMessage(state, event.message_id, (message) =>
      message.status === "sending" ? { ...message, status: "accepted" } : message,
    ),
  client_failed: (state, event) =>
    changeMessage(state, event.message_id, (message) =>
      message.status === "sending" ? { ...message, status: "failed", error: event.error } : message,
    ),
  client_history: (state, event) => learnt(state, event),
  client_approvals: (state, event) =>
    (Array.isArray(event.approvals) ? event.approvals : []).reduce(
      (known, each) =>
        get(known.tasks, each?.task_id) === undefined ? known : withCall(known, each, (call) => asked(call, each)),
      state,
    ),
}

const same = (value) => value
const text = (value) => (typeof value === "string" ? value : "")
const isId = (value) => typeof value === "string" && value !== "" && value.length <= 256
const isStep = (value) => Number.isSafeInteger(value) && value >= 0
const isOpen = (call) => call.status === "running" || call.status === "waiting"
const map = (from) => Object.assign(Object.create(null), from)
const get = (values, key) => (isId(key) && Object.hasOwn(values, key) ? values[key] : undefined)

function put(values, key, value) {
  const changed = map(values)
  changed[key] = value
  return changed
}

/** The cursor of an event; null for an event without one, or with one that is none. */
function cursorOf(id) {
  return typeof id === "string" && /^[0-9]{1,20}(-[0-9]{1,20})?$/.test(id) ? id : null
}

function position(cursor) {
  const [time, number = "0"] = cursor.split("-")
  return [BigInt(time), BigInt(number)]
}

/** Characters of a text, as offsets count them: not the units of UTF-16 in which JavaScript counts. */
function length(value) {
  let count = value.length
  for (let place = 0; place < value.length - 1; place++) {
    if (isPair(value, place)) {
      count--
      place++
    }
  }
  return count
}

/** A text without its first characters. */
function after(value, characters) {
  let place = 0
  for (; characters > 0 && place < value.length; characters--) place += isPair(value, place) ? 2 : 1
  return value.slice(place)
}

function isPair(value, place) {
  return (value.charCodeAt(place) & 0xfc00) === 0xd800 && (value.charCodeAt(place + 1) & 0xfc00) === 0xdc00
}

const NEW_MESSAGE = {
  text: undefined, // undefined: not known yet; null: nobody knows it any more
  ...{ files: [], user_id: null, task_id: null, metadata: null, at: null },
  ...{ status: "sending", routing: null, control: null, moves: [], error: null },
}

function withMessage(state, messageId, change) {
  const known = get(state.messages, messageId)
  const changed = change(known ?? { message_id: messageId, ...NEW_MESSAGE })
  const messages = put(state.messages, messageId, changed)
  if (known !== undefined) return { ...state, messages }
  return ordered({ ...state, messages }, { key: `message ${messageId}`, kind: "message", message_id: messageId })
}

function changeMessage(state, messageId, change) {
  const known = get(state.messages, messageId)
  if (known === undefined) return state
  const changed = change(known)
  return changed === known ? state : { ...state, messages: put(state.messages, messageId, changed) }
}

function newTask(taskId) {
  return {
    task_id: taskId,
    ...{ status: "active", reason: "", detail: null, goal: null, parent_task_id: null, node: null, children: [] },
    ...{ steps: [], calls: map(), nodes: [], waiting_for: [], usage: null, finish_reason: null, metadata: null },
    ...{ forked_from: null, started_at: null, ended_at: null },
  }
}

/** The state with the task that an event names changed; a task that was not known begins. */
function withTask(state, event, change) {
  if (!isId(event.task_id)) return state
  const known = get(state.tasks, event.task_id)
  let task = change(known ?? newTask(event.task_id))
  const parent = isId(event.parent_task_id) && event.parent_task_id !== event.task_id ? event.parent_task_id : null
  const adopted = parent !== null && task.parent_task_id !== parent
  if (adopted) task = { ...task, parent_task_id: parent, node: event.node ?? null }
  if (task === known) return state
  const changed = { ...state, tasks: put(state.tasks, event.task_id, task) }
  if (!adopted) return changed
  return withTask(changed, { task_id: parent }, (above) =>
    above.children.includes(event.task_id) ? above : { ...above, children: [...above.children, event.task_id] },
  )
}

/** The state with one step of a task changed; a step that was not known begins, and gets its place in the order. */
function withStep(state, event, number, change) {
  if (!isId(event.task_id)) return state
  let begun = false
  const changed = withTask(state, event, (task) => {
    const place = task.steps.findLastIndex((step) => step.step <= number)
    const known = place >= 0 && task.steps[place].step === number ? task.steps[place] : undefined
    begun = known === undefined
    const step = change(known ?? newStep(number, event))
    if (step === known) return task
    const steps = [...task.steps]
    steps.splice(begun ? place + 1 : place, begun ? 0 : 1, step)
    return { ...task, steps }
  })
  if (!begun) return changed
  const key = `step ${event.task_id} ${number}`
  return ordered(changed, { key, kind: "step", task_id: event.task_id, step: number })
}

function newStep(number, event) {
  return {
    ...{ step: number, attempt: event.attempt ?? 1, message_id: event.correlation_id ?? null, at: event.at ?? null },
    ...{ text: "", text_length: 0, thinking: "", thinking_length: 0, whole: false, held: false, calls: [] },
    void: false,
    ...{ finish_reason: null, model: null, model_id: null, ref: null, commit: null },
  }
}

function delta(state, event) {
  if (!isStep(event.step) || !isStep(event.offset) || !isStep(event.attempt)) return state
  if (typeof event.content !== "string") return state
  const part = event.type === "thinking" ? "thinking" : "text"
  return withStep(state, event, event.step, (step) => (step.whole ? step : extended(step, part, MAX_TEXT, event)))
}

/**
 * A step's text with a delta added. A higher attempt makes all that the step has said void. What lies beyond a gap is
 * held back: the step's `message` brings the whole.
 */
function extended(step, part, limit, { attempt, offset, content }) {
  if (!(attempt >= step.attempt)) return step
  const current = attempt > step.attempt ? { ...step, ...NOTHING_SAID, attempt } : step
  const have = current[`${part}_length`]
  if (offset > have) return current.held ? current : { ...current, held: true }
  const added = offset === have ? content : after(content, have - offset)
  if (added === "") return current
  if (current[part].length + added.length > limit) return current.held ? current : { ...current, held: true }
  return { ...current, [part]: current[part] + added, [`${part}_length`]: have + length(added) }
}

const NOTHING_SAID = { text: "", text_length: 0, thinking: "", thinking_length: 0, held: false }

function withoutUnfinished(task) {
  const last = task.steps.at(-1)
  if (last === undefined || last.whole) return task
  return { ...task, steps: [...task.steps.slice(0, -1), { ...last, ...NOTHING_SAID }] }
}

/** A task that has waited for its client goes on when the last result has come: no event of its own tells it. */
function goingOn(task) {
  if (task.status !== "waiting" || task.reason !== "client_tools") return task
  const waits = Object.values(task.calls).some((call) => call.client && isOpen(call))
  return waits ? task : { ...task, status: "active", reason: "" }
}

/** A task from which a message was moved away: what it has said to that message is void. */
function withoutMessage(task, { message_id, emptied }) {
  const steps = task.steps.map((step) => (step.message_id === message_id ? { ...step, void: true } : step))
  return { ...task, steps, status: emptied ? "cancelled" : task.status }
}

/**
 * The step that a call belongs to: the one of its commit, the one that was being said, or one that has said nothing.
 * A call that another one has made on its way belongs to the step of that one.
 */
function stepOfCall(task, event) {
  if (task === undefined) return 1
  const known = get(task.calls, event.tool_call_id) ?? get(task.calls, event.parent_call_id)
  if (known !== undefined && known.step !== null) return known.step
  const last = task.steps.at(-1)
  if (last === undefined) return 1
  const goesOn = !last.whole || last.commit === null || last.commit === event.causation_id
  return goesOn ? last.step : last.step + 1
}

function withCall(state, event, change) {
  const id = event.tool_call_id
  if (!isId(event.task_id) || !isId(id)) return state
  return withTask(state, event, (task) => {
    const known = get(task.calls, id)
    const call = change(known ?? newCall(event))
    return call === known ? task : { ...task, calls: put(task.calls, id, call) }
  })
}

function newCall({ task_id, tool_call_id, tool }) {
  return {
    ...{ task_id, tool_call_id, tool: text(tool), step: null, args: null, ref: null, parent_call_id: null },
    ...{ status: "running", progress: null, fraction: null, result: null, error: null, duration_ms: null },
    ...{ result_ref: null, artifacts: [], approval: null, asked_at: null, client: false },
  }
}

const NO_APPROVAL = {
  ...{ status: "asked", args: null, args_digest: null, effect: null, reason: null, expires_at: null, ref: null },
  ...{ needs: "approval", form: null, approvers: null, by: null, decision_reason: null, decided_args: null },
}

function asked(call, event) {
  const { args = null, args_digest = null, effect = null, reason = null, expires_at = null, ref = null } = event
  const { needs = "approval", form = null, approvers = null } = event
  const approval = { ...NO_APPROVAL, args, args_digest, effect, reason, expires_at, ref, needs, form, approvers }
  return { ...call, tool: call.tool || text(event.tool), args: call.args ?? args, status: "waiting", approval }
}

function noted(state, event) {
  const key = `note ${event.id ?? event.event_id ?? `${event.type} ${state.order.length}`}`
  if (state.order.some((entry) => entry.key === key)) return state
  return ordered(state, { key, kind: "note", event })
}

function ordered(state, entry) {
  const longer = { ...state, order: [...state.order, entry] }
  return longer.order.length > MAX_ORDER ? forgetful(longer) : longer
}

/** The state without its oldest entries, and without what only they have shown. Open calls are kept. */
function forgetful(state) {
  const [gone, order] = [state.order.slice(0, FORGOTTEN_AT_ONCE), state.order.slice(FORGOTTEN_AT_ONCE)]
  const [messages, tasks] = [map(state.messages), map(state.tasks)]
  const steps = map()
  for (const entry of gone) {
    if (entry.kind === "message") delete messages[entry.message_id]
    if (entry.kind === "step") (steps[entry.task_id] ??= new Set()).add(entry.step)
  }
  for (const [id, forgotten] of Object.entries(steps)) {
    const task = tasks[id]
    if (task === undefined) continue
    const calls = Object.values(task.calls).filter((call) => isOpen(call) || !forgotten.has(call.step))
    const kept = task.steps.filter((step) => !forgotten.has(step.step))
    tasks[id] = { ...task, steps: kept, calls: map(Object.fromEntries(calls.map((call) => [call.tool_call_id, call]))) }
  }
  for (const task of Object.values(tasks)) {
    if (ENDED.has(task.status) && task.steps.length === 0) delete tasks[task.task_id]
  }
  return { ...state, messages, tasks, order }
}

/** What is known when all that is kept comes once more: the texts of messages. */
function replayed(state) {
  const { session_id, erased_at } = state
  return { ...emptySession(session_id), erased_at, messages: map(state.messages), order: ownMessages(state) }
}

/** The places of messages that this client has sent and of which the gateway has said nothing yet. */
function ownMessages(state) {
  const unsure = (id) => ["sending", "accepted"].includes(get(state.messages, id)?.status)
  return state.order.filter((entry) => entry.kind === "message" && unsure(entry.message_id))
}

/** The state that a snapshot shows: events were lost, and this is all that the session remembers. */
function restored(state, event) {
  const tasks = map()
  for (const shown of listOf(event.tasks)) {
    if (!isId(shown.task_id)) continue
    const before = get(state.tasks, shown.task_id) ?? newTask(shown.task_id)
    const waits = listOfTexts(shown.waiting_for)
    tasks[shown.task_id] = {
      ...newTask(shown.task_id),
      ...{ status: shown.status, goal: shown.goal ?? null, usage: shown.usage ?? null, waiting_for: waits },
      reason: shown.reason ?? (shown.status === "waiting" && !shown.waiting_for_tools ? (waits[0] ?? "") : ""),
      ...{ detail: shown.detail ?? null, parent_task_id: shown.parent_task_id ?? null, node: shown.node ?? null },
      ...{ forked_from: shown.forked_from ?? null, started_at: shown.created_at ?? null, nodes: before.nodes },
      ended_at: shown.completed_at ?? null,
    }
  }
  for (const task of Object.values(tasks)) {
    const above = get(tasks, task.parent_task_id)
    if (above !== undefined) tasks[above.task_id] = { ...above, children: [...above.children, task.task_id] }
  }
  const about = { cursor: cursorOf(event.id) ?? state.cursor, erased_at: event.erased_at ?? null }
  const fresh = { ...emptySession(state.session_id), ...about, tasks }
  const told = listOf(event.messages).reduce((known, each, place) => remembered(known, state, each, place), fresh)
  const own = ownMessages(state).filter((entry) => get(told.messages, entry.message_id) === undefined)
  const messages = map(told.messages)
  for (const { message_id } of own) messages[message_id] = state.messages[message_id]
  return { ...told, messages, order: [...told.order, ...own] }
}

/** The state with one message of a session's memory at the end of its order. */
function remembered(state, before, told, place) {
  const at = told.at ?? null
  if (told.role === "assistant") {
    const key = `answer ${told.task_id} ${at} ${place}`
    return ordered(state, { key, kind: "answer", task_id: told.task_id ?? null, text: text(told.content), at })
  }
  if (told.role !== "user") return state
  const id = isId(told.message_id) ? told.message_id : `before ${at} ${place}`
  const known = get(before.messages, id) ?? { message_id: id, ...NEW_MESSAGE }
  return withMessage(state, id, () => ({
    ...known,
    ...{ text: text(told.content), task_id: told.task_id ?? known.task_id, at: known.at ?? at, status: "routed" },
  }))
}

/**
 * The state with what the session remembers of its messages. Texts that were not known are filled in; `asked` names
 * those that were asked for: what is not told now is told never. What lies before all that is known comes before it.
 */
function learnt(state, event) {
  const told = listOf(event.messages)
  const texts = new Map(told.filter((each) => isId(each.message_id)).map((each) => [each.message_id, each.content]))
  const missing = new Set(listOfTexts(event.asked))
  const messages = map(state.messages)
  let changed = false
  for (const message of Object.values(messages)) {
    const found = texts.get(message.message_id)
    if (message.text !== undefined && message.text !== null) continue
    if (found === undefined && (!missing.has(message.message_id) || message.text === null)) continue
    messages[message.message_id] = { ...message, text: found === undefined ? null : text(found) }
    changed = true
  }
  const current = changed ? { ...state, messages } : state
  const first = told.findIndex((each) => get(state.messages, each.message_id) !== undefined)
  const older = first < 0 ? (state.order.length === 0 ? told : []) : told.slice(0, first)
  return older.length === 0 ? current : withPast(current, older)
}

function withPast(state, older) {
  const shown = state.order.some((entry) => entry.kind === "answer")
  if (shown) return state // it is there already
  const past = older.reduce((known, each, place) => remembered(known, state, each, place), emptySession())
  return { ...state, messages: map({ ...past.messages, ...state.messages }), order: [...past.order, ...state.order] }
}

/** An answer that was remembered without its step is told with it now: it is shown once. */
function withoutAnswer(state, event) {
  const same = (entry) => entry.kind === "answer" && entry.task_id === event.task_id && entry.text === event.content
  const place = state.order.findIndex(same)
  return place < 0 ? state : { ...state, order: state.order.toSpliced(place, 1) }
}

function listOf(value) {
  return Array.isArray(value) ? value.filter((each) => each !== null && typeof each === "object") : []
}

function listOfTexts(value) {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : []
}

// ------------------------------------------------------------------------------------------- the turn of a message

/** The turn of a message before anything is known of it. `runs`: names of the message's own tools that are run here. */
export function newTurn(messageId, runs = []) {
  return { message_id: messageId, task_id: null, started: [], runs, left: [], end: null }
}

/**
 * Return a message's turn after an event of its session. It ends with a rejection, an error or a `control_result` of the
 * message, or with its task's next end or wait; a wait for results that are all made here does not end it. An ended turn,
 * and one that the event is not about, is the same object.
 */
export function turnAfter(turn, event) {
  if (turn.end !== null || !concerns(turn, event)) return turn
  const own = event.message_id === turn.message_id
  switch (event.type) {
    case "snapshot":
      return turnInSnapshot(turn, event)
    case "message_routed":
      if (!own) break
      return event.decision === "rejected"
        ? endedTurn(turn, "rejected", event.reason)
        : { ...turn, task_id: event.task_id ?? null }
    case "message_moved":
      if (own) return { ...turn, task_id: event.to_task_id }
      break
    case "control_result":
      if (own) return { ...endedTurn(turn, "completed", event.content), answer: event.content }
      break
    case "client_failed":
      return endedTurn(turn, "error", event.error?.message ?? "")
    case "error":
      if (own) return endedTurn(turn, "error", `${event.code}: ${event.message}`)
      break
    case "tool_result":
      if (turn.left.includes(event.tool_call_id)) {
        return { ...turn, left: turn.left.filter((id) => id !== event.tool_call_id) }
      }
  }
  if (isOfChild(turn, event) && event.task_id !== turn.task_id) return turnAfterChild(turn, event)
  const placed = turn.task_id === null && isId(event.task_id) ? { ...turn, task_id: event.task_id } : turn
  return turnAfterTaskEvent(placed, event)
}

/** A turn after a call of a client's tool that is not run here: `left` are those without a result. */
function turnAfterClientCall(turn, event) {
  const here = event.correlation_id === turn.message_id && turn.runs.includes(event.tool)
  if (here || turn.left.includes(event.tool_call_id)) return turn
  return { ...turn, left: [...turn.left, event.tool_call_id] }
}

/** Whether an event belongs to a message's turn. */
export function concerns(turn, event) {
  if (event.type === "snapshot") return true
  if (event.type === "error" && event.code === "cursor_expired") return false
  if (event.type === "error" && event.message_id) return event.message_id === turn.message_id
  if (["message_routed", "message_moved", "control_result", "client_failed"].includes(event.type)) {
    if (event.message_id === turn.message_id) return true
  }
  if (event.type.startsWith("client_")) return false
  if (turn.task_id !== null) return event.task_id === turn.task_id || isOfChild(turn, event)
  return event.correlation_id === turn.message_id
}

function isOfChild(turn, event) {
  const parent = event.parent_task_id
  if (!isId(parent)) return false
  return parent === turn.task_id || turn.started.includes(parent) || event.correlation_id === turn.message_id
}

function turnAfterChild(turn, event) {
  if (event.type === "task_status" && event.status === "waiting" && event.reason === "question") {
    return endedTurn(turn, "waiting", event.reason)
  }
  const others = turn.started.filter((id) => id !== event.task_id)
  if (event.type === "task_end") return { ...turn, started: others }
  return others.length < turn.started.length ? turn : { ...turn, started: [...others, event.task_id] }
}

function turnAfterTaskEvent(turn, event) {
  if (event.type === "task_end" && isId(event.parent_task_id)) return { ...turn, task_id: event.parent_task_id }
  if (event.type === "task_end") {
    const anothers = event.queues && event.correlation_id !== turn.message_id
    return anothers ? turn : endedTurn(turn, event.status, event.reason, event.detail)
  }
  if (event.type === "tool_call" && event.client === true) return turnAfterClientCall(turn, event)
  if (event.type !== "task_status" || event.status !== "waiting") return turn
  const goesOn = event.reason === "client_tools" && turn.runs.length > 0 && turn.left.length === 0
  return goesOn ? turn : endedTurn(turn, "waiting", event.reason)
}

function turnInSnapshot(turn, event) {
  const said = listOf(event.messages).find((each) => each.message_id === turn.message_id)
  const task_id = turn.task_id ?? said?.task_id ?? null
  const task = listOf(event.tasks).find((each) => each.task_id === task_id)
  const known = task_id === turn.task_id ? turn : { ...turn, task_id }
  if (task === undefined || !(ENDED.has(task.status) || task.status === "waiting")) return known
  return endedTurn(known, task.status, task.reason ?? listOfTexts(task.waiting_for).join(", "), task.detail)
}

function endedTurn(turn, outcome, reason, detail) {
  return { ...turn, end: { outcome, reason: reason ?? "", detail: detail ?? null } }
}

// ------------------------------------------------------------------------------------------------------- the client

/**
 * Return a client of a gateway. Nothing is sent before it is needed.
 *
 * `key` is an API key (for servers), `token` a token for one session, `getToken` a function that returns a promise of a
 * token, or of `{token, expires_at?, url?, session_id?}`; it is asked again when the token has ended. Without `url` the
 * gateway is the one that `getToken` names, else the one that the page has come from.
 */
export function connect(options = {}) {
  return new Client(options)
}

export class Client {
  #credentials
  #url
  #fetch

  constructor({ url, key, token, getToken, fetch, WebSocket, transport = "auto" } = {}) {
    if ([key, token, getToken].filter((each) => each !== undefined && each !== null).length > 1) {
      throw new Refused("give one of key, token and getToken")
    }
    if (!["auto", "websocket", "sse"].includes(transport)) {
      throw new Refused(`transport is "auto", "websocket" or "sse", not ${JSON.stringify(transport)}`)
    }
    this.#url = url === undefined || url === null ? null : checkedUrl(url)
    this.#credentials = new Credentials(key ?? token ?? null, getToken ?? null)
    this.#fetch = (...request) => (fetch ?? globalThis.fetch)(...request) // browsers refuse it as a method of others
    this.transport = transport
    this.WebSocket = WebSocket ?? globalThis.WebSocket
    this.memory = new Memory(this)
  }

  /** A session: a conversation. Without an id the token's, or a new one. `after` is the cursor to begin after. */
  session(id = null, options = {}) {
    return new Session(this, id, options)
  }

  /**
   * Send a request to a route of the gateway and return what it answers, as JSON. `as`: "json", "text", "blob", or
   * "response" for the `Response` itself. A `body` that is a plain object is sent as JSON, anything else as it is.
   * Raises an error of this module, or the signal's reason.
   */
  async request(method, path, { query, body, headers, signal, timeoutMs = TIMEOUT_MS, as = "json" } = {}) {
    if (typeof path !== "string" || !path.startsWith("/") || path.startsWith("//")) {
      throw new Refused(`${JSON.stringify(path)} is no path of the gateway: it begins with one /`)
    }
    const limit = new TimeLimit(signal, timeoutMs)
    try {
      const response = await this.#sent(method, path + queryOf(query), body, headers, limit)
      if (!response.ok) throw await problemOf(response, this.#credentials.isToken)
      if (as === "response") return response
      return await readAs(response, as, limit)
    } catch (error) {
      throw limit.judged(error)
    } finally {
      limit.over(as === "response")
    }
  }

  /** Iterate over the items of a list, page after page; at most `limit` of them. */
  async *pages(path, { query, limit = Infinity, signal } = {}) {
    let cursor
    let left = limit
    while (left > 0) {
      const asked = { ...query, limit: Math.min(left, PAGE), cursor }
      const page = await this.request("GET", path, { query: asked, signal })
      for (const item of page.items.slice(0, left)) yield item
      left -= page.items.length
      cursor = page.next
      if (!cursor) return
    }
  }

  /** Iterate over the tenant's sessions, the newest first. */
  sessions(options = {}) {
    return this.pages("/v1/sessions", options)
  }

  /** Iterate over tasks, the newest first. `query`: `status`, `session_id`, `since`, `until`. */
  tasks(options = {}) {
    return this.pages("/v1/tasks", options)
  }

  /** One task, as it stands. */
  task(taskId, options = {}) {
    return this.request("GET", pathOf("tasks", taskId), options)
  }

  /** The whole text that a `ref` of an event stands for. */
  async value(taskId, ref, options = {}) {
    return (await this.request("GET", pathOf("tasks", taskId, "values", ref), options)).content
  }

  /** Iterate over the tool calls that wait for a decision, of all sessions that the key may see. */
  approvals(options = {}) {
    return this.pages("/v1/approvals", options)
  }

  /** Ask for a token for one session, with an API key: `{session_id, user_id?, may, ttl_s?}`. For servers. */
  token(body, options = {}) {
    return this.request("POST", "/v1/tokens", { ...options, body })
  }

  /** The gateway's address, and the key or token to send. */
  async access(signal) {
    const pass = await this.#credentials.current(signal)
    const url = this.#url ?? (pass.url === null ? pageOrigin() : checkedUrl(pass.url))
    return { url, secret: pass.secret, sessionId: pass.sessionId, renews: this.#credentials.renews }
  }

  /** Forget a token that the gateway has refused, so that the next request asks for another. */
  forget(secret) {
    this.#credentials.forget(secret)
  }

  async #sent(method, address, body, headers, limit) {
    for (let again = false; ; again = true) {
      const { url, secret, renews } = await this.access(limit.signal)
      const response = await this.#fetched(url + address, {
        method,
        ...sendable(body, headers, secret),
        signal: limit.signal,
        credentials: "omit",
        cache: "no-store",
        redirect: "error",
      })
      if (response.status !== 401 || !renews || again) return response
      this.forget(secret)
    }
  }

  /** `fetch`, which tells a gateway that is away as an error of ours. */
  async #fetched(url, init) {
    try {
      return await this.#fetch(url, init)
    } catch (error) {
      if (init.signal?.aborted) throw init.signal.reason
      throw new GatewayUnreachable(`no gateway answers at ${new URL(url).origin} (${error.cause?.code ?? error.message})`, {
        cause: error,
      })
    }
  }

  /** Open a request whose answer is read piece by piece. */
  fetched(url, init) {
    return this.#fetched(url, { credentials: "omit", cache: "no-store", redirect: "error", ...init })
  }
}

/** The key or token, which is asked for again when it has ended. */
class Credentials {
  #secret
  #getToken
  #pass = null
  #asking = null

  constructor(secret, getToken) {
    this.#secret = secret
    this.#getToken = getToken
  }

  get renews() {
    return this.#getToken !== null
  }

  get isToken() {
    return this.#getToken !== null || (this.#secret ?? "").startsWith("pt1.")
  }

  async current(signal) {
    if (this.#getToken === null) return { secret: this.#secret, url: null, sessionId: null }
    if (this.#pass !== null && this.#pass.end - Date.now() > RENEW_EARLY_MS) return this.#pass
    this.#asking ??= this.#asked().finally(() => (this.#asking = null))
    return await abortable(this.#asking, signal)
  }

  forget(secret) {
    if (this.#pass?.secret === secret) this.#pass = null
  }

  async #asked() {
    let given
    try {
      given = await this.#getToken()
    } catch (error) {
      if (error instanceof PentadError) throw error
      throw new GatewayUnreachable(`getToken gave no token: ${error?.message ?? error}`, { cause: error })
    }
    const pass = typeof given === "string" ? { token: given } : given
    if (typeof pass?.token !== "string" || pass.token === "") {
      throw new Refused("getToken must return a token, or an object that has one as `token`")
    }
    const end = pass.expires_at ? Date.parse(pass.expires_at) : Infinity
    this.#pass = {
      secret: pass.token,
      url: pass.url ?? null,
      sessionId: pass.session_id ?? null,
      // A clock of this machine that is ahead must not ask for a token before each request.
      end: Number.isFinite(end) && end - Date.now() > RENEW_EARLY_MS ? end : Infinity,
    }
    return this.#pass
  }
}

/** The end of a request: the caller's signal, or too long a silence. */
class TimeLimit {
  #controller = new AbortController()
  #timer = null
  #ended = false

  constructor(signal, timeoutMs) {
    this.outer = signal
    this.timeoutMs = timeoutMs
    this.onAbort = () => this.#controller.abort(signal.reason)
    if (signal?.aborted) this.onAbort()
    signal?.addEventListener("abort", this.onAbort)
    this.heard()
  }

  get signal() {
    return this.#controller.signal
  }

  heard() {
    clearTimeout(this.#timer)
    if (Number.isFinite(this.timeoutMs)) this.#timer = setTimeout(() => this.#end(), this.timeoutMs)
  }

  /** The request is over; a body that the caller reads can still be given up by the caller's signal. */
  over(isRead) {
    clearTimeout(this.#timer)
    if (!isRead) this.outer?.removeEventListener("abort", this.onAbort)
  }

  #end() {
    this.#ended = true
    this.#controller.abort(new GatewayUnreachable(`the gateway has sent nothing for ${this.timeoutMs / 1000} s`))
  }

  judged(error) {
    if (this.outer?.aborted) return this.outer.reason
    if (this.#ended) return this.#controller.signal.reason
    if (error instanceof PentadError) return error
    return new GatewayUnreachable(`the answer has broken off: ${error?.message ?? error}`, { cause: error })
  }
}

function checkedUrl(url) {
  let found
  try {
    found = new URL(url)
  } catch {
    found = null
  }
  if (found === null || !["http:", "https:"].includes(found.protocol) || found.search || found.hash || found.username) {
    throw new Refused(`${JSON.stringify(url)} is not a gateway's address: write it as https://gateway.example.com`)
  }
  return found.href.replace(/\/+$/, "")
}

function pageOrigin() {
  const origin = globalThis.location?.origin
  if (typeof origin !== "string" || !origin.startsWith("http")) throw new Refused("give the gateway's address as url")
  return origin
}

/** A path under `/v1` of names that are not trusted. */
function pathOf(...names) {
  return `/v1/${names.map((name) => encodeURIComponent(checkedName(name))).join("/")}`
}

function checkedName(name) {
  if (typeof name !== "string" || name === "" || name === "." || name === "..") {
    throw new Refused(`${JSON.stringify(name)} is no id: a text of 1 to 128 characters is one`)
  }
  return name
}

function queryOf(query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null)
  if (given.length === 0) return ""
  return `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
}

function sendable(body, headers, secret) {
  const sent = new Headers(headers)
  if (secret !== null) sent.set("Authorization", `Bearer ${secret}`)
  if (body === undefined) return { headers: sent }
  if (!isPlain(body)) return { headers: sent, body, ...(body instanceof ReadableStream ? { duplex: "half" } : {}) }
  sent.set("Content-Type", "application/json")
  return { headers: sent, body: JSON.stringify(body) }
}

function isPlain(value) {
  if (value === null || typeof value !== "object") return false
  if (Array.isArray(value)) return true
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

async function readAs(response, as, limit) {
  if (as === "blob") return await readBlob(response, limit)
  const body = await readText(response, limit)
  if (as === "text") return body
  try {
    return body === "" ? undefined : JSON.parse(body)
  } catch {
    throw new Refused("what answers is not a Pentad gateway: it sends no JSON. Check the url")
  }
}

/** The body as text. Raises `Refused` for one that is longer than any that a gateway sends. */
async function readText(response, limit) {
  let read = ""
  for await (const piece of textsOf(response)) {
    limit?.heard()
    read += piece
    if (read.length > MAX_FRAME) throw new Refused("the answer is longer than 64 MiB: ask for less of it")
  }
  return read
}

async function readBlob(response, limit) {
  const pieces = []
  for await (const piece of piecesOf(response)) {
    limit.heard()
    pieces.push(piece)
  }
  return new Blob(pieces, { type: response.headers.get("Content-Type") ?? "" })
}

async function* textsOf(response) {
  const decoder = new TextDecoder()
  for await (const piece of piecesOf(response)) yield decoder.decode(piece, { stream: true })
  yield decoder.decode()
}

async function* piecesOf(response) {
  if (response.body === null) return
  const reader = response.body.getReader()
  try {
    for (let chunk; !(chunk = await reader.read()).done; ) yield chunk.value
  } finally {
    reader.cancel().catch(() => {}) // without effect on a body that was read to its end
  }
}

async function problemOf(response, isToken) {
  let problem = {}
  try {
    problem = JSON.parse(await readText(response)) ?? {}
  } catch {
    problem = {}
  }
  const told = [problem.title, problem.detail].filter((part) => typeof part === "string" && part !== "")
  const words = [...new Set(told)].join(": ").slice(0, 2_000) || `the gateway answered ${response.status}`
  const seconds = Number(response.headers.get("Retry-After") ?? NaN)
  const about = {
    ...{ status: response.status, code: problem.code, messageId: problem.message_id },
    inDoubt: problem.in_doubt === true,
    retryAfter: Number.isFinite(seconds) ? Math.max(0, seconds) : null,
  }
  return new (kindOf(response.status, problem.code))(response.status === 401 ? unauthorized(words, isToken) : words, about)
}

function unauthorized(words, isToken) {
  const advice = isToken ? "the token has ended, or the key that made it is gone: get another" : "check the key"
  return `${words} (${advice})`
}

function kindOf(status, code) {
  const kinds = { 401: NotAuthorized, 404: NotFound, 409: Conflict, 410: Unreadable, 412: Conflict, 429: Busy }
  if (kinds[status] !== undefined) return kinds[status]
  if (status === 503 && code === "busy") return Busy
  return status >= 500 ? GatewayUnreachable : Refused
}

/** Long-term memory, for API keys: tokens are for one session. */
class Memory {
  #client

  constructor(client) {
    this.#client = client
  }

  /** Search it. `query`: `limit`, `user_id`, `session_id`, `as_of`, `strategy`, `depth`, `kind`, `tasks`. */
  search(question, { signal, ...query } = {}) {
    return this.#client.request("GET", "/v1/memory/search", { query: { q: question, ...query }, signal })
  }

  /** The very words that an anchor points at, with what stands around them. */
  expand(anchor, { signal, ...about } = {}) {
    return this.#client.request("POST", "/v1/memory/expand", { body: { anchor, ...about }, signal })
  }
}

// ------------------------------------------------------------------------------------------------ how events come
//
// A transport follows a session from a cursor on, until the connection ends: `follow({url, secret, sessionId, after},
// {onOpen, onFrame, signal}) -> Promise<{code, reason, opened, retryAfter?}>`. Both have the same codes, those of the
// WebSocket. All that a client asks for goes over REST, whichever transport brings the events.

/** Events over a WebSocket. Its key travels as a subprotocol, as a browser can send no header. */
class SocketTransport {
  constructor(WebSocket) {
    this.WebSocket = WebSocket
  }

  /** Whether a key may be in the name of a subprotocol. */
  static takes(secret) {
    return secret === null || /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(secret)
  }

  async follow({ url, secret, sessionId, after }, { onOpen, onFrame, signal }) {
    const query = new URLSearchParams({ session_id: sessionId, after })
    const protocols = ["pentad.v1", ...(secret === null ? [] : [`bearer.${secret}`])]
    let socket
    try {
      socket = new this.WebSocket(`${url.replace(/^http/, "ws")}/v1/ws?${query}`, protocols)
    } catch (error) {
      return { code: LOST, reason: error.message, opened: false } // what this page may not open
    }
    return new Promise((resolve) => {
      let [opened, heard] = [false, true]
      const end = (code, reason) => {
        clearInterval(watch)
        signal.removeEventListener("abort", leave)
        socket.onmessage = socket.onclose = null
        if (socket.readyState < 2) socket.close()
        resolve({ code, reason, opened })
      }
      const leave = () => end(LOST, "left")
      const watch = setInterval(() => {
        if (!heard || !opened) return end(LOST, "no answer")
        heard = false
        socket.send('{"type":"ping"}')
      }, PING_EVERY_MS)
      signal.addEventListener("abort", leave)
      socket.onerror = () => {} // onclose follows, and says more
      socket.onclose = ({ code, reason }) => end(code, reason)
      socket.onmessage = ({ data }) => {
        heard = true
        const frame = parsed(data)
        if (frame === null) return end(1002, "what answers is not a Pentad gateway")
        if (frame.type === "session") {
          opened = true
          onOpen()
        } else if (frame.type === "error" && !opened) {
          end(1008, text(frame.message)) // the session is not opened: the frame says why
        } else if (frame.type !== "pong" && frame.type !== "accepted") {
          onFrame(frame)
        }
      }
      if (signal.aborted) leave()
    })
  }
}

/** Server-sent events, read by `fetch`, so that the key is a header and in no address. */
class StreamTransport {
  constructor(client) {
    this.client = client
  }

  async follow({ url, secret, sessionId, after }, { onOpen, onFrame, signal }) {
    const controller = new AbortController()
    const leave = () => controller.abort()
    let [opened, watch] = [false, null]
    const heard = () => {
      clearTimeout(watch)
      watch = setTimeout(leave, SILENCE_MS)
    }
    signal.addEventListener("abort", leave)
    try {
      heard()
      const headers = { Accept: "text/event-stream", "Last-Event-ID": after }
      if (secret !== null) headers.Authorization = `Bearer ${secret}`
      const address = `${url}${pathOf("sessions", sessionId, "events")}`
      const response = await this.client.fetched(address, { headers, signal: controller.signal })
      if (!response.ok) return endOf(await problemOf(response, true))
      opened = true
      onOpen()
      for await (const frame of framesOf(response, heard)) onFrame(frame)
      return { code: 1012, reason: "the stream has ended", opened }
    } catch (error) {
      return { code: error instanceof Refused ? 1009 : LOST, reason: error?.message ?? String(error), opened }
    } finally {
      clearTimeout(watch)
      signal.removeEventListener("abort", leave)
      controller.abort()
    }
  }
}

/** How a stream has ended that was refused, in the codes of the WebSocket. */
function endOf(problem) {
  const { status, message: reason, retryAfter } = problem
  const code = status === 401 ? TOKEN_ENDED : status === 429 || status >= 500 ? 1013 : 1008
  return { code, reason, opened: false, retryAfter }
}

/** The events of a response of server-sent events. */
async function* framesOf(response, heard) {
  let rest = ""
  for await (const piece of textsOf(response)) {
    heard()
    const blocks = (rest + piece).split("\n\n")
    rest = blocks.pop()
    if (rest.length > MAX_FRAME) throw new Refused("an event is longer than 64 MiB")
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6))
      if (data.length === 0) continue // a comment, which keeps the connection
      const frame = parsed(data.join("\n"))
      if (frame === null) throw new Refused("what answers is not a Pentad gateway")
      yield frame
    }
  }
}

function parsed(data) {
  try {
    const frame = typeof data === "string" && data.length <= MAX_FRAME ? JSON.parse(data) : null
    return frame !== null && typeof frame === "object" && typeof frame.type === "string" ? frame : null
  } catch {
    return null
  }
}

// ------------------------------------------------------------------------------------------------------ the session

/**
 * One session: its events, each once and in order across any number of lost connections, what they make of its state,
 * and all that a person can do in it. It connects when it is first listened to, and stays connected until `close`.
 */
export class Session {
  #client
  #after
  #listeners = { event: new Set(), state: new Set(), status: new Set(), error: new Set() }
  #ended = new AbortController()
  #running = null
  #sending = Promise.resolve()
  #learning = false
  #quiet = false
  #tools = new ToolRunner(
    this,
    (call, body, signal) => this.#answered(call, body, signal, Infinity),
    (messageId, error) => this.#failed(messageId, error),
  )

  /**
   * `after`: the cursor to begin after; "0" (the default) for all that is kept; "now" for a snapshot and what comes
   * next. `state`: a state that was kept, from which to go on. `userId`: the person whose messages are sent.
   */
  constructor(client, id, { after, state, userId = null } = {}) {
    if (id !== null) checkedName(id)
    this.#client = client
    this.#quiet = after === "now"
    this.#after = this.#quiet ? END : (after ?? null)
    this.id = id ?? state?.session_id ?? null
    this.userId = userId
    /** The state of the session, which `reduce` makes. Another object after each event. */
    this.state = state ?? emptySession(this.id)
    /** "idle", "connecting", "connected", "reconnecting" or "closed". */
    this.status = "idle"
    /** The error with which the session was closed; null while it is open, or when `close` was called. */
    this.error = null
    this.files = new Files(client, this)
  }

  /** The cursor of the last event: with it, or with `state`, another session object goes on from here. */
  get cursor() {
    return this.#after ?? this.state.cursor
  }

  /** Connect, and stay connected. Done by itself with the first listener, message or iteration. */
  open() {
    this.#running ??= Promise.resolve().then(() => this.#run()) // after whoever listens has said so
    return this
  }

  /** Leave the session. Messages that the gateway has are answered all the same. */
  close() {
    this.#end(null)
  }

  /**
   * Call a function with each "event" (and the state after it), "state", "status" or "error". Returns a function that
   * ends it.
   */
  on(kind, listener) {
    if (!Object.hasOwn(this.#listeners, kind)) throw new Refused(`there is no ${kind}: event, state, status or error`)
    this.#listeners[kind].add(listener)
    this.open()
    return () => this.#listeners[kind].delete(listener)
  }

  /** Iterate over the events from now on. Ends when the session is closed; raises what has closed it. */
  async *events({ signal } = {}) {
    const queue = new EventQueue(signal)
    const stop = [
      this.on("event", (event) => queue.push(event)),
      this.on("status", (status) => status === "closed" && queue.end(this.error)),
    ]
    try {
      if (this.status === "closed") queue.end(this.error)
      yield* queue.events()
    } finally {
      queue.leave()
      for (const each of stop) each()
    }
  }

  /**
   * Say something; returns its `Turn` at once. Options: `taskId` (an id, or "new"), `files`, `instruction`, `metadata`,
   * `budget`, `deadline`, `outputSchema`, `state`, `userId`, `messageId`, `tools`, and `signal`, which ends the wait for
   * the gateway. Messages reach the gateway in the order in which they are said, each once.
   *
   * `tools`: what the model may call until the task's next message, and this page runs: `{name, description, parameters,
   * run}`. `run(args, {call, signal})` is called once for each call, and its value, or its error, is the result. A call
   * of a tool without `run` waits for `sendResult`.
   */
  send(content, options = {}) {
    const { tools, runs } = toolsOf(options.tools)
    const message = messageOf(content, { userId: this.userId, ...options, tools })
    if (this.status === "closed") throw new Refused("the session is closed: open another with client.session(id)")
    const turn = new Turn(this, message.message_id, [...runs.keys()])
    this.#tools.add(message.message_id, runs)
    this.#local({ type: "client_message", ...message, at: new Date().toISOString() })
    turn.accepted = this.#delivered(message, options.signal)
    turn.accepted.catch(() => {}) // the turn tells it, too
    this.open()
    return turn
  }

  /** Say something and return the answer. Raises `TurnFailed` when there is none. */
  async ask(content, options = {}) {
    const turn = this.send(content, options)
    await turn.accepted
    const result = await turn.done(options)
    if (result.outcome === "completed" || result.outcome === "waiting") return result.answer
    throw new TurnFailed(result)
  }

  /** Answer the question that a task asks. */
  answer(taskId, content, options = {}) {
    return this.send(content, { ...options, taskId })
  }

  /** Ask a task to stop. */
  cancel(taskId, options) {
    return this.#control(taskId, "cancel", options)
  }

  /** Ask a task to pause. What its step has said so far is void. */
  pause(taskId, options) {
    return this.#control(taskId, "pause", options)
  }

  /** Ask a paused task to go on. */
  resume(taskId, options) {
    return this.#control(taskId, "resume", options)
  }

  /** Say that a task that waits for a person is done. With an API key. */
  complete(taskId, options) {
    return this.#control(taskId, "complete", options)
  }

  /** Give a message to another task, or to a "new" one. The event `message_moved` says that it is done. */
  move(messageId, to, { from, signal } = {}) {
    const taskId = from ?? get(this.state.messages, messageId)?.task_id
    if (!isId(taskId)) throw new Refused(`it is not known to which task ${messageId} belongs: name it as from`)
    return this.#client.request("POST", pathOf("tasks", taskId, "move"), { body: { message_id: messageId, to }, signal })
  }

  /** The tool calls of this session that wait for a decision, as a list. */
  async approvals({ signal } = {}) {
    const [waiting, id] = [[], await this.#named(signal)]
    for await (const each of this.#client.approvals({ signal, limit: 500 })) if (each.session_id === id) waiting.push(each)
    this.#local({ type: "client_approvals", approvals: waiting })
    return waiting
  }

  /**
   * Allow a tool call. `approval`: what waits, from `approvalsOf(state)` or `approvals()`. `args`: other arguments, or the
   * values that its form asks for. Raises `Conflict` when it was decided otherwise, or has other arguments by now.
   */
  approve(approval, { args, reason, signal } = {}) {
    return this.#decided(approval, { approved: true, args, reason }, signal)
  }

  /** Refuse a tool call. The model is told the reason. */
  refuse(approval, { reason, signal } = {}) {
    return this.#decided(approval, { approved: false, reason }, signal)
  }

  /**
   * Send the result of a call of a client's tool, from `clientCallsOf(state)`: a text, or any other JSON. The first result
   * is the only one; the same again changes nothing. Raises `Conflict` after another one, and when its task has ended.
   */
  async sendResult(call, value, { signal } = {}) {
    return await this.#answered(call, resultOf(call.tool, value), signal, SEND_PATIENCE_MS)
  }

  /** Send why a call of a client's tool has failed. The model is told. */
  async sendFailure(call, reason, { signal } = {}) {
    return await this.#answered(call, failureOf(reason), signal, SEND_PATIENCE_MS)
  }

  /** The last messages of the session, oldest first; the state learns texts that it did not know. */
  async history({ signal } = {}) {
    const asked = Object.values(this.state.messages).filter((each) => each.text === undefined)
    const path = pathOf("sessions", await this.#named(signal), "messages")
    const { items } = await this.#client.request("GET", path, { signal })
    this.#local({ type: "client_history", messages: items, asked: asked.map((each) => each.message_id) })
    return items
  }

  /** How far the turn of a message is, for who comes back later. */
  async run(messageId, { signal } = {}) {
    const query = { session_id: await this.#named(signal) }
    return await this.#client.request("GET", pathOf("runs", messageId), { query, signal })
  }

  /** The whole text that a `ref` of an event stands for. */
  value(taskId, ref, options) {
    return this.#client.value(taskId, ref, options)
  }

  /** The session's id, once it is known. */
  named(signal) {
    return this.#named(signal)
  }

  async #named(signal) {
    if (this.id === null) this.#nameIt((await this.#client.access(signal)).sessionId ?? `s-${randomHex(10)}`)
    return this.id
  }

  #nameIt(id) {
    if (this.id !== null) return
    this.id = id
    this.state = { ...this.state, session_id: id }
  }

  #control(taskId, what, { signal } = {}) {
    return this.#client.request("POST", pathOf("tasks", taskId, what), { signal })
  }

  #decided({ task_id, tool_call_id, args_digest }, { approved, args, reason }, signal) {
    const body = { approved, args, reason, args_digest: args_digest ?? undefined }
    return this.#client.request("POST", pathOf("tasks", task_id, "approvals", tool_call_id), { body, signal })
  }

  /** Send a message until the gateway has it. Its id makes it one message, however often that is. */
  #delivered(message, signal) {
    const before = this.#sending
    const sent = (async () => {
      await before
      try {
        await this.#insisted(message, signal)
        this.#local({ type: "client_accepted", message_id: message.message_id })
      } catch (error) {
        this.#tools.forget(message.message_id)
        this.#failed(message.message_id, error)
        throw error
      }
    })()
    this.#sending = sent.catch(() => {})
    return sent
  }

  async #insisted(message, signal) {
    const either = anyOf(signal, this.#ended.signal)
    const isTold = () => (get(this.state.messages, message.message_id)?.status ?? "sending") !== "sending"
    const send = async () => {
      const body = { ...message, session_id: await this.#named(either) }
      return await this.#client.request("POST", "/v1/messages", { body, signal: either })
    }
    await insisted(send, either, SEND_PATIENCE_MS, isTold)
  }

  /** Send the outcome of a call until the gateway has it: the same again changes nothing. */
  async #answered({ task_id, tool_call_id }, body, signal, patienceMs) {
    const either = anyOf(signal, this.#ended.signal)
    const path = pathOf("tasks", task_id, "calls", tool_call_id, "result")
    return await insisted(() => this.#client.request("POST", path, { body, signal: either }), either, patienceMs)
  }

  /** Tell that nothing comes of a message any more. */
  #failed(messageId, error) {
    const told = { code: error?.code ?? error?.name ?? null, message: error?.message ?? String(error) }
    this.#local({ type: "client_failed", message_id: messageId, error: told })
  }

  /** Take an event that this client makes itself. */
  #local(event) {
    const before = this.state
    this.state = reduce(before, event)
    if (this.state !== before) this.#tell("state", this.state)
    if (event.type === "client_failed") this.#tell("event", event, this.state)
  }

  #take(frame) {
    const before = this.state
    if (this.#quiet && frame.type === "error" && frame.code === "cursor_expired") return // as it was asked for
    if (frame.type === "snapshot" || frame.id !== undefined) [this.#quiet, this.#after] = [false, null]
    this.state = reduce(before, frame)
    if (this.state === before) return // a repeat
    this.#tell("event", frame, this.state)
    this.#tell("state", this.state)
    this.#tools.take(frame)
    if (frame.type === "snapshot") this.#learnApprovals(frame)
    if (frame.type === "message_routed") this.#learnTexts()
  }

  /** Ask for the texts of messages that were sent by others, or before: events do not have them. */
  async #learnTexts() {
    if (this.#learning) return
    this.#learning = true
    const unknown = () => Object.values(this.state.messages).some((each) => each.text === undefined)
    try {
      while (unknown() && !this.#ended.signal.aborted) await this.history({ signal: this.#ended.signal })
    } catch {
      // The next message asks again; until then the text is shown as unknown.
    } finally {
      this.#learning = false
    }
  }

  async #learnApprovals(snapshot) {
    if (!listOf(snapshot.tasks).some((task) => task.status === "waiting" && task.waiting_for_tools)) return
    await this.approvals({ signal: this.#ended.signal }).catch(() => {}) // a token may not be allowed to see them
  }

  async #run() {
    let refusals = 0
    let socketFailures = 0
    for (let failures = 0; !this.#ended.signal.aborted; failures++) {
      this.#say(this.status === "idle" ? "connecting" : this.status === "connected" ? "reconnecting" : this.status)
      const ended = await this.#followed(socketFailures)
      if (this.#ended.signal.aborted) return
      if (ended.error) return this.#end(ended.error)
      if (ended.opened) [failures, refusals, socketFailures] = [0, 0, 0]
      else if (ended.bySocket) socketFailures++
      else socketFailures = 0
      if (ended.code === TOKEN_ENDED) {
        if (!ended.renews || ++refusals > 2) return this.#end(new NotAuthorized(unauthorized(ended.reason, true)))
        this.#client.forget(ended.secret)
        if (ended.opened) continue
      }
      if (FINAL_CODES.has(ended.code)) {
        return this.#end(new Refused(`the gateway has closed the session: ${ended.reason || ended.code}`))
      }
      this.#say("reconnecting")
      await pause(ended.retryAfter ? ended.retryAfter * 1000 : delayAfter(failures), this.#ended.signal)
    }
  }

  /** Follow the session over one connection; returns how it has ended. */
  async #followed(socketFailures) {
    try {
      const access = await this.#client.access(this.#ended.signal)
      const sessionId = await this.#named(this.#ended.signal)
      const transport = this.#transport(access.secret, socketFailures)
      const ended = await transport.follow(
        { ...access, sessionId, after: this.cursor },
        {
          onOpen: () => this.#say("connected"),
          onFrame: (frame) => this.#take(frame),
          signal: this.#ended.signal,
        },
      )
      return { ...ended, secret: access.secret, renews: access.renews, bySocket: transport instanceof SocketTransport }
    } catch (error) {
      if (error instanceof GatewayUnreachable) return { code: LOST, reason: error.message, opened: false }
      return { error }
    }
  }

  /** A WebSocket where there is one; server-sent events where there is none, or where it has not opened twice. */
  #transport(secret, socketFailures) {
    const { transport, WebSocket } = this.#client
    const can = typeof WebSocket === "function" && SocketTransport.takes(secret)
    if (transport === "websocket" && !can) throw new Refused("there is no WebSocket here, or it cannot carry this key")
    const wanted = transport === "websocket" || (transport === "auto" && can && socketFailures < 2)
    return wanted ? new SocketTransport(WebSocket) : new StreamTransport(this.#client)
  }

  #say(status) {
    if (this.status === status || this.status === "closed") return
    this.status = status
    this.#tell("status", status)
  }

  #end(error) {
    if (this.status === "closed") return
    this.error = error
    this.#say("closed")
    if (error !== null) this.#tell("error", error)
    this.#ended.abort(error ?? new DOMException("the session was closed", "AbortError"))
    this.#tools.close(this.#ended.signal.reason)
  }

  #tell(kind, ...told) {
    for (const listener of [...this.#listeners[kind]]) {
      try {
        listener(...told)
      } catch (error) {
        queueMicrotask(() => { throw error }) // a listener's mistake is the page's, and ends no session
      }
    }
  }
}

/** What comes of one message. `accepted` is a promise of the gateway having it. */
export class Turn {
  #session
  #turn
  #text = emptySession()
  #seen = []
  #news = new Set()
  #waiting = []
  #finished = false
  #stop

  constructor(session, messageId, runs) {
    this.#session = session
    this.#turn = newTurn(messageId, runs)
    const stop = [
      session.on("event", (event) => this.#take(event)),
      session.on("status", (status) => status === "closed" && this.#closed()),
    ]
    this.#stop = () => stop.forEach((each) => each())
    this.messageId = messageId
    this.accepted = Promise.resolve()
  }

  /** The task that the message went to; null until that is known. */
  get taskId() {
    return this.#turn.task_id
  }

  /** How the turn has ended: `{outcome, reason, detail}`; null while it lasts. */
  get end() {
    return this.#turn.end
  }

  /** All that the agent has said in this turn so far, without what broken attempts have said. */
  get said() {
    const { tasks, order } = this.#text
    const steps = order.filter((entry) => entry.kind === "step")
    const texts = steps.map((entry) => get(tasks, entry.task_id).steps.find((step) => step.step === entry.step).text)
    return [...texts, this.#turn.answer ?? ""].filter(Boolean).join("\n\n")
  }

  /** Iterate over the turn's events, from its beginning to its end. */
  async *events({ signal } = {}) {
    const queue = new EventQueue(signal)
    for (const event of this.#seen) queue.push(event)
    const news = (event) => (event === null ? queue.end(this.#failure()) : queue.push(event))
    if (this.#isOver()) news(null)
    this.#news.add(news)
    try {
      yield* queue.events()
    } finally {
      queue.leave()
      this.#news.delete(news)
    }
  }

  /** Iterate over all that the agent has said so far, whenever it has changed: a slow reader sees fewer steps of it. */
  async *text({ signal } = {}) {
    for (let shown = ""; ; await abortable(this.#change(), signal)) {
      const { said } = this
      if (said !== shown) yield (shown = said)
      if (said === this.said && this.#isOver()) break
    }
    this.#check()
  }

  /**
   * Wait for the end: `{outcome, reason, detail, answer, task_id, message_id}`. `outcome` is "completed", "failed",
   * "cancelled", "waiting" (for a person, or for results of tools that are not run here), "rejected" or "error".
   */
  async done({ signal } = {}) {
    while (!this.#isOver()) await abortable(this.#change(), signal)
    this.#check()
    const { task_id, end } = this.#turn
    return { ...end, answer: await this.#answer(signal), task_id, message_id: this.messageId }
  }

  /** Ask the task to stop, once it is known. */
  async cancel({ signal } = {}) {
    while (this.taskId === null && !this.#isOver()) await abortable(this.#change(), signal)
    if (this.taskId !== null && this.end === null) await this.#session.cancel(this.taskId, { signal })
  }

  /** A promise of the turn's next event. */
  #change() {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  #wake() {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  #isOver() {
    return this.#finished || this.#session.status === "closed"
  }

  #check() {
    const failure = this.#failure()
    if (failure !== null) throw failure
  }

  async #answer(signal) {
    if (this.#turn.answer !== undefined) return this.#turn.answer
    const last = get(this.#text.tasks, this.taskId)?.steps.findLast((step) => step.whole && step.text !== "")
    if (last === undefined) return null
    return last.ref === null ? last.text : await this.#session.value(this.taskId, last.ref, { signal })
  }

  #take(event) {
    if (this.#turn.end !== null || !concerns(this.#turn, event)) return
    this.#turn = turnAfter(this.#turn, event)
    if (event.type === "snapshot") return this.#lookUp(event)
    this.#keep(event)
  }

  #keep(event) {
    if (event.type === "thinking" || event.type === "content" || event.type === "message") {
      this.#text = reduce(this.#text, { ...event, id: undefined })
    }
    if (this.#seen.length < MAX_WAITING_EVENTS) this.#seen.push(event)
    for (const news of [...this.#news]) news(event)
    this.#wake()
    if (this.#turn.end !== null) this.#finish()
  }

  /** Events are gone, perhaps the end of the turn, too: ask how it stands. */
  async #lookUp(snapshot) {
    this.#text = emptySession()
    const known = await this.#asked()
    if (this.#finished) return // later events have told the end meanwhile
    if (this.#turn.end === null && known !== null && !["accepted", "running"].includes(known.status)) {
      const end = { outcome: known.status, reason: known.reason ?? "", detail: null }
      this.#turn = { ...this.#turn, task_id: known.task_id ?? this.taskId, end }
    }
    if (this.#turn.end !== null && known?.answer) this.#turn = { ...this.#turn, answer: known.answer }
    this.#keep(snapshot)
  }

  /** How the turn stands by what the gateway says; null where it knows no such message. */
  async #asked() {
    for (let failures = 0; !this.#finished; failures++) {
      try {
        return await this.#session.run(this.messageId)
      } catch (error) {
        if (!(error instanceof Busy || error instanceof GatewayUnreachable)) return null
        await pause(delayAfter(failures), NEVER)
      }
    }
    return null
  }

  #failure() {
    if (this.#turn.end !== null) return null
    return this.#session.error ?? new DOMException("the session was closed", "AbortError")
  }

  #closed() {
    if (this.#turn.end === null) this.#finish()
  }

  #finish() {
    this.#finished = true
    this.#stop()
    for (const news of [...this.#news]) news(null)
    this.#wake()
  }
}

/** The files of a session: the workspace that its tools share. */
class Files {
  #client
  #session

  constructor(client, session) {
    this.#client = client
    this.#session = session
  }

  /** Iterate over the files: `{path, size, media_type, modified_at, etag}`. `glob`: only these, like `reports/**`. */
  async *list({ glob, limit, signal } = {}) {
    yield* this.#client.pages(`${await this.#folder(signal)}`, { query: { glob }, limit, signal })
  }

  /** The bytes of a file as a `Blob`, or those from `start` up to `end`. */
  async get(path, { start = 0, end, timeoutMs, signal } = {}) {
    const part = start > 0 || end !== undefined
    const headers = part ? { Range: `bytes=${start}-${end === undefined ? "" : end - 1}` } : {}
    return await this.#client.request("GET", await this.#address(path, signal), { headers, timeoutMs, signal, as: "blob" })
  }

  /**
   * Write a file, from a `Blob`, bytes, or text. `ifMatch`: the `etag` of the version that it replaces. `onlyNew`: only
   * if there is none yet. Raises `Conflict` if that is not so.
   */
  async put(path, content, { ifMatch, onlyNew = false, timeoutMs = 90_000, signal } = {}) {
    const headers = { "Content-Type": "application/octet-stream" }
    if (ifMatch !== undefined) headers["If-Match"] = ifMatch
    if (onlyNew) headers["If-None-Match"] = "*"
    const address = await this.#address(path, signal)
    return await this.#client.request("PUT", address, { headers, body: content, timeoutMs, signal })
  }

  /** Remove a file; with `ifMatch` that version alone. */
  async remove(path, { ifMatch, signal } = {}) {
    const headers = ifMatch === undefined ? {} : { "If-Match": ifMatch }
    await this.#client.request("DELETE", await this.#address(path, signal), { headers, signal })
  }

  async #folder(signal) {
    return pathOf("sessions", await this.#session.named(signal), "files")
  }

  async #address(path, signal) {
    const names = typeof path === "string" ? path.split("/") : [""]
    if (names.some((name) => name === "" || name === "." || name === "..")) {
      throw new Refused(`${JSON.stringify(path)} is no path of a file: names separated by /, none empty, . or ..`)
    }
    return `${await this.#folder(signal)}/${names.map(encodeURIComponent).join("/")}`
  }
}

// ---------------------------------------------------------------------------------------- tools that a page runs itself

/**
 * Runs the tools that this session object has sent along with its messages: of several pages that follow a session, only
 * the one that has sent the message runs its calls.
 */
class ToolRunner {
  #session
  #answer
  #failed
  /** By message: the functions of its tools, and a controller for each call that was begun. */
  #messages = new Map()

  /** `answer` sends the outcome of a call, for as long as its session is open; `failed` tells that it cannot be sent. */
  constructor(session, answer, failed) {
    this.#session = session
    this.#answer = answer
    this.#failed = failed
  }

  add(messageId, runs) {
    if (runs.size === 0) return
    this.#messages.set(messageId, { runs, calls: new Map() })
    if (this.#messages.size > MESSAGES_WITH_TOOLS) this.forget(this.#messages.keys().next().value)
  }

  /** No call of this message comes any more, and none goes on. */
  forget(messageId, reason = new DOMException("the call was given up", "AbortError")) {
    for (const controller of this.#messages.get(messageId)?.calls.values() ?? []) controller.abort(reason)
    this.#messages.delete(messageId)
  }

  close(reason) {
    for (const messageId of [...this.#messages.keys()]) this.forget(messageId, reason)
  }

  take(event) {
    if (event.type === "task_end" && !isId(event.parent_task_id)) return this.forget(event.correlation_id)
    if (event.type === "tool_result") return this.#end(event.tool_call_id)
    if (event.type !== "tool_call" || event.client !== true) return
    const message = this.#messages.get(event.correlation_id)
    const run = message?.runs.get(event.tool)
    if (run === undefined || message.calls.has(event.tool_call_id)) return // a gap may show a call again
    this.#run(message.calls, run, event)
  }

  #end(id) {
    const given = new DOMException("the call has its result, or was given up", "AbortError")
    for (const { calls } of this.#messages.values()) calls.get(id)?.abort(given)
  }

  /** Run a call and send what comes of it. The function's signal is not given any more once the function has ended. */
  async #run(calls, run, event) {
    let signal
    const begun = () => {
      const controller = new AbortController()
      calls.set(event.tool_call_id, controller)
      signal = controller.signal
    }
    try {
      begun()
      const body = await this.#outcome(run, event, signal)
      if (signal.aborted) return
      begun()
      await this.#send(event, body, signal)
    } catch (error) {
      if (signal.aborted || error instanceof Conflict || error instanceof NotFound) return // nobody waits for it
      this.#failed(event.correlation_id, error)
    }
  }

  /** What has come of a call. Whatever its function does, the call has an outcome, for which the model waits. */
  async #outcome(run, event, signal) {
    const args = event.ref ? await this.#whole(event, signal) : structuredClone(event.args)
    try {
      const call = get(get(this.#session.state.tasks, event.task_id)?.calls ?? map(), event.tool_call_id) ?? newCall(event)
      return resultOf(event.tool, await run(args, { call, signal }))
    } catch (error) {
      return failureOf(error)
    }
  }

  /** The arguments of a call that were too long for its event. */
  async #whole({ task_id, ref }, signal) {
    return JSON.parse(await insisted(() => this.#session.value(task_id, ref, { signal }), signal, Infinity))
  }

  async #send(event, body, signal) {
    try {
      await this.#answer(event, body, signal)
    } catch (error) {
      if (signal.aborted || !(error instanceof Refused) || body.error !== undefined) throw error
      await this.#answer(event, failureOf(error), signal)
    }
  }
}

/** The tools of a message as they are sent, and the functions of those that are run here, by name. */
function toolsOf(tools) {
  if (tools === undefined || tools === null) return { tools: undefined, runs: new Map() }
  if (!Array.isArray(tools) || tools.length > MAX_TOOLS) {
    throw new Refused(`tools: a list of at most ${MAX_TOOLS} tools is expected, each {name, description, parameters, run}`)
  }
  const runs = new Map()
  const sent = tools.map((tool) => {
    const { name, description, parameters, run } = tool ?? {}
    if (typeof name !== "string") throw new Refused("tools: a tool without a name: each is {name, description, parameters, run}")
    if (run !== undefined && typeof run !== "function") throw new Refused(`tool ${JSON.stringify(name)}: run is no function`)
    if (run !== undefined) runs.set(name, (...given) => run.apply(tool, given))
    return { name, description, parameters }
  })
  return { tools: sent, runs }
}

/** The body that sends the value of a tool. Raises `Refused` for a value that is no result. */
function resultOf(tool, value) {
  const result = value === undefined ? "" : value
  let json
  try {
    json = typeof result === "string" ? result : JSON.stringify(result)
  } catch (error) {
    throw new Refused(`tool ${JSON.stringify(tool)} gave a value that cannot become JSON: ${textOfError(error)}`)
  }
  if (json === undefined) throw new Refused(`tool ${JSON.stringify(tool)} gave a ${typeof value}, which cannot become JSON`)
  const size = json.length > MAX_RESULT ? json.length : new TextEncoder().encode(json).length
  if (size > MAX_RESULT) {
    throw new Refused(`the result of tool ${JSON.stringify(tool)} has more than ${MAX_RESULT} bytes: give the part that matters`)
  }
  return { result: typeof result === "string" ? result : JSON.parse(json) } // what is sent again is what it was first
}

/** The body that sends why a call has failed. Half a pair of surrogates cannot be sent: a sign stands for it. */
function failureOf(reason) {
  const words = textOfError(reason).slice(0, MAX_ERROR_TEXT)
  return { error: new TextDecoder().decode(new TextEncoder().encode(words)) }
}

/** The words of an error, whatever was thrown. */
function textOfError(error) {
  try {
    const told = typeof error === "object" && error !== null ? error.message || error.name : error
    return String(told || "it has failed, and did not say why")
  } catch {
    return "it has failed, and did not say why"
  }
}

/** Events that wait for who iterates over them. */
class EventQueue {
  #waiting = []
  #wake = () => {}
  #over = false
  #error = null

  constructor(signal) {
    this.signal = signal
    this.onAbort = () => this.end(signal.reason)
    if (signal?.aborted) this.onAbort()
    signal?.addEventListener("abort", this.onAbort)
  }

  push(event) {
    if (this.#over) return
    this.#waiting.push(event)
    if (this.#waiting.length > MAX_WAITING_EVENTS) {
      this.#waiting = []
      this.end(new SlowReader("events come faster than they are read: iterate again, and look at session.state"))
    }
    this.#wake()
  }

  end(error) {
    if (this.#over) return
    this.#over = true
    this.#error = error
    this.#wake()
  }

  leave() {
    this.#over = true
    this.signal?.removeEventListener("abort", this.onAbort)
  }

  async *events() {
    while (true) {
      const batch = this.#waiting
      this.#waiting = []
      yield* batch
      if (this.#waiting.length > 0) continue
      if (this.#over) break
      await new Promise((resolve) => (this.#wake = resolve))
    }
    if (this.#error !== null) throw this.#error
  }
}

function messageOf(content, options) {
  if (typeof content !== "string" || content === "" || length(content) > MAX_CONTENT) {
    const has = typeof content === "string" ? `this one has ${length(content)}` : `this is ${typeof content}`
    throw new Refused(`a message is a text of 1 to ${MAX_CONTENT} characters, and ${has}`)
  }
  const { files } = options
  if (files !== undefined && (!Array.isArray(files) || files.length > MAX_FILES)) {
    throw new Refused(`files: a list of at most ${MAX_FILES} paths of files of the session is expected`)
  }
  const message = {
    ...{ content, message_id: options.messageId ?? `m-${randomHex(16)}`, task_id: options.taskId, files },
    ...{ user_id: options.userId ?? undefined, instruction: options.instruction, metadata: options.metadata },
    ...{ budget: options.budget, deadline: options.deadline, output_schema: options.outputSchema, state: options.state },
    tools: options.tools,
  }
  return JSON.parse(JSON.stringify(message)) // what is sent again is what was said, whatever the caller changes
}

/** Do something until it is done, while it may succeed later. `isDone`: whether it was done although it has failed. */
async function insisted(send, signal, patienceMs, isDone = () => false) {
  const begun = Date.now()
  for (let failures = 0; ; failures++) {
    try {
      return await send()
    } catch (error) {
      if (isDone()) return undefined // an event has told what became of it
      const later = error instanceof Busy || error instanceof GatewayUnreachable
      if (!later || signal.aborted || Date.now() - begun > patienceMs) throw error
      await pause(error.retryAfter === null ? delayAfter(failures) : error.retryAfter * 1000, signal)
      if (signal.aborted) throw signal.reason
    }
  }
}

function randomHex(bytes) {
  const random = crypto.getRandomValues(new Uint8Array(bytes))
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")
}

/** Milliseconds to wait after so many failures; half of it is chance, so that clients do not come back as one. */
function delayAfter(failures) {
  return Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2)
}

/** Wait. Returns early when the signal is given. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener("abort", end)
  })
}

const NEVER = new AbortController().signal

function anyOf(signal, other) {
  return signal === undefined ? other : AbortSignal.any([signal, other])
}

/** A promise, or the signal's reason where that comes first. */
function abortable(promise, signal) {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason)
    if (signal.aborted) return leave()
    signal.addEventListener("abort", leave)
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", leave))
  })
}
