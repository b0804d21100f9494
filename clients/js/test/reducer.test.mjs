// What the reducer makes of a session's events: recorded ones, random ones, hostile ones.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import * as pentad from "../pentad.js"
import { fold, frozen, randomOf, textsOf } from "./support.mjs"

const { approvalsOf, callsOf, emptySession, questionsOf, reduce, tasksOf } = pentad
const RECORDED = JSON.parse(readFileSync(new URL("./recorded.json", import.meta.url), "utf8"))

const delta = (offset, content, attempt = 1, step = 1, task_id = "t") => ({ type: "content", task_id, step, attempt, offset, content })
const thought = (...about) => ({ ...delta(...about), type: "thinking" })
const whole = (content, attempt = 1, step = 1, task_id = "t") => ({ type: "message", task_id, step, attempt, content })

const TEXTS = [
  ["in order", [delta(0, "Hel"), delta(3, "lo"), whole("Hello")], ["Hello"]],
  ["repeats and overlaps", [delta(0, "Hel"), delta(0, "Hel"), delta(1, "ello")], ["Hello"]],
  ["a gap is held back", [delta(0, "H"), delta(3, "lo")], ["H"]],
  ["the message heals a gap", [delta(0, "H"), delta(3, "lo"), whole("Hello")], ["Hello"]],
  ["a void attempt is gone", [delta(0, "Hi"), delta(0, "Bye", 2)], ["Bye"]],
  ["a void attempt is known by a delta beyond a gap", [delta(0, "Hi"), delta(2, "e", 2)], [""]],
  ["a void attempt is known by a thought", [delta(0, "Hi"), thought(0, "hm", 2)], [""]],
  ["a late delta of a void attempt", [delta(0, "Bye", 2), delta(0, "Hi", 1), delta(3, "!", 2)], ["Bye!"]],
  ["a late delta after the message", [whole("Hello"), delta(0, "Hi", 2)], ["Hello"]],
  ["characters are not units of UTF-16", [delta(0, "h\u{1f600}"), delta(2, "x\u{1f600}"), delta(3, "\u{1f600}y")], ["h\u{1f600}x\u{1f600}y"]],
  ["steps and tasks are told apart", [delta(0, "a"), delta(0, "b", 1, 2), delta(0, "c", 1, 1, "u"), delta(1, "!")], ["a!", "b", "c"]],
  ["a pause makes void what was not said to its end", [delta(0, "Hi"), { type: "task_status", task_id: "t", status: "waiting", reason: "paused" }], [""]],
  ["a pause leaves what was said to its end", [whole("Hi"), { type: "task_status", task_id: "t", status: "waiting", reason: "paused" }], ["Hi"]],
]

for (const [promise, events, texts] of TEXTS) {
  test(`text: ${promise}`, () => assert.deepEqual(textsOf(fold(events)), texts))
}

test("a recorded session: who said what, and what became of it", () => {
  const state = fold(RECORDED)
  assert.deepEqual(textsOf(state), [
    ...["the \u{1f600} whole answer", "let me see", "done: 42", "For when?", "booked for Monday", "ok one", "ok one"],
  ])
  assert.equal(tasksOf(state).length, 5)
  const [first, booking, left, moved, failed] = tasksOf(state)
  assert.deepEqual([first.status, first.steps.length, first.steps[0].attempt, first.steps[0].thinking], ["completed", 3, 2, "hm"])
  assert.deepEqual([first.usage.output_tokens > 0, first.goal], [true, "void please"])
  const [echo, calculator] = callsOf(first, first.steps[1])
  assert.deepEqual([echo.tool, echo.status, echo.result, echo.args], ["echo", "done", "public", { text: "secret" }])
  assert.deepEqual(
    [echo.approval.status, echo.approval.decided_args, echo.approval.decision_reason],
    ["approved", { text: "public" }, "safer"],
  )
  assert.deepEqual([calculator.tool, calculator.result, calculator.approval], ["calculator", "42", null])
  assert.deepEqual(booking.steps.map((step) => step.message_id), ["m3", "m4"])
  assert.deepEqual([failed.status, failed.reason, failed.detail.includes("no such model")], ["failed", "model_error", true])
  assert.deepEqual(state.messages.m5.moves.map((move) => [move.from_task_id, move.to_task_id]), [[left.task_id, moved.task_id]])
  assert.equal(state.messages.m5.task_id, moved.task_id)
  assert.deepEqual([left, moved].map((task) => [task.status, task.steps[0].void]), [["cancelled", true], ["completed", false]])
  assert.deepEqual([state.messages.m7.status, state.messages.m7.routing.decision], ["refused", "rejected"])
  assert.equal(state.messages.m2.routing.reason, "this task is the most likely (0.96): the message leans on what was said last (+0.6)")
  assert.deepEqual([approvalsOf(state), questionsOf(state), state.cursor], [[], [], RECORDED.at(-1).id])
})

test("while a call waits it is among the approvals, and a question among the questions", () => {
  const asked = RECORDED.findIndex((event) => event.type === "approval_request")
  const [approval] = approvalsOf(fold(RECORDED.slice(0, asked + 1)))
  assert.deepEqual([approval.tool, approval.args, approval.effect], ["echo", { text: "secret" }, "pure"])
  assert.match(approval.args_digest, /^[0-9a-f]{64}$/)
  const answered = fold(RECORDED.slice(0, RECORDED.findIndex((event) => event.type === "approval") + 1))
  assert.deepEqual(approvalsOf(answered), [])
  const waits = RECORDED.findIndex((event) => event.reason === "question")
  assert.deepEqual(questionsOf(fold(RECORDED.slice(0, waits + 1))).map((each) => each.text), ["For when?"])
})

test("a step that says nothing has its calls, and they are not those of the step before", () => {
  const call = (tool_call_id, causation_id) => ({ type: "tool_call", task_id: "t", tool_call_id, tool: "x", args: {}, causation_id })
  const state = fold([{ ...whole("one"), causation_id: "c1" }, call("a", "c1"), call("b", "c1"), call("c", "c2"), call("d", "c3")])
  assert.deepEqual(state.tasks.t.steps.map((step) => [step.step, step.calls]), [[1, ["a", "b"]], [2, ["c"]], [3, ["d"]]])
  const inner = { ...call("e", "c9"), parent_call_id: "c" }
  assert.deepEqual(reduce(state, inner).tasks.t.steps.map((step) => step.calls.length), [2, 2, 1])
})

test("a tool call shows its progress and its one outcome", () => {
  const about = { task_id: "t", tool_call_id: "c", tool: "x" }
  const begun = fold([{ type: "tool_call", ...about, args: { a: 1 } }, { type: "tool_progress", ...about, content: "half", fraction: 0.5 }])
  assert.deepEqual([begun.tasks.t.calls.c.progress, begun.tasks.t.calls.c.fraction], ["half", 0.5])
  const failed = fold([{ type: "tool_result", ...about, error: "no", duration_ms: 3 }, { type: "tool_progress", ...about, content: "late" }], begun)
  assert.deepEqual([failed.tasks.t.calls.c.status, failed.tasks.t.calls.c.error, failed.tasks.t.calls.c.progress], ["failed", "no", null])
})

test("tasks that a task has started are its children, and its graph's path is kept", () => {
  const state = fold([
    { type: "task_start", task_id: "a", goal: "all" },
    { type: "node_start", task_id: "a", node: "draft", step: 1 },
    { type: "task_start", task_id: "b", parent_task_id: "a", node: "draft", goal: "part" },
    { ...delta(0, "x", 1, 1, "b"), parent_task_id: "a", node: "draft" },
    { type: "node_end", task_id: "a", node: "draft", step: 1, duration_ms: 5, next: "judge" },
  ])
  assert.deepEqual([state.tasks.a.children, state.tasks.b.parent_task_id, state.tasks.b.node], [["b"], "a", "draft"])
  assert.deepEqual(state.tasks.a.nodes.map((visit) => [visit.node, visit.ended, visit.next]), [["draft", true, "judge"]])
})

test("a message of one's own is shown at once, then as the gateway takes it, and once", () => {
  let state = fold([{ type: "client_message", message_id: "m1", content: "hi", task_id: "new" }])
  assert.deepEqual([state.messages.m1.text, state.messages.m1.status, state.messages.m1.task_id], ["hi", "sending", null])
  state = reduce(state, { type: "client_accepted", message_id: "m1" })
  assert.equal(state.messages.m1.status, "accepted")
  state = reduce(state, { type: "message_routed", id: "5-0", message_id: "m1", task_id: "t", decision: "new", confidence: 1, reason: "r", candidates: ["a"] })
  assert.deepEqual([state.messages.m1.status, state.messages.m1.task_id, state.order.length], ["routed", "t", 1])
  assert.equal(reduce(state, { type: "client_accepted", message_id: "m1" }), state)
  assert.equal(reduce(state, { type: "client_failed", message_id: "m1", error: { code: "x", message: "y" } }), state)
})

test("texts that others have said are learnt, once, and what lies before comes before", () => {
  const routed = (message_id, id) => ({ type: "message_routed", id, message_id, task_id: "t", decision: "new", reason: "r" })
  const state = fold([routed("m2", "5-0"), routed("m3", "6-0"), whole("four")])
  const messages = [
    { role: "user", message_id: "m1", content: "one", task_id: "s", at: "1" },
    { role: "assistant", content: "two", task_id: "s", at: "2" },
    { role: "user", message_id: "m2", content: "three", task_id: "t", at: "3" },
  ]
  const learnt = reduce(state, { type: "client_history", messages, asked: ["m2", "m3"] })
  assert.deepEqual(learnt.order.map((entry) => entry.kind), ["message", "answer", "message", "message", "step"])
  assert.deepEqual(["m1", "m2", "m3"].map((id) => learnt.messages[id].text), ["one", "three", null])
  const again = reduce(learnt, { type: "client_history", messages, asked: [] })
  assert.deepEqual(again, learnt)
})

test("an answer that was remembered and is told again stands once", () => {
  const messages = [{ role: "assistant", content: "two", task_id: "t", at: "2" }]
  const state = fold([{ type: "client_history", messages }, whole("two")])
  assert.deepEqual(state.order.map((entry) => entry.kind), ["step"])
})

const SNAPSHOT = {
  ...{ type: "snapshot", id: "90-0" },
  tasks: [
    { task_id: "t", session_id: "s", status: "waiting", goal: "g", waiting_for: ["question"] },
    { task_id: "u", session_id: "s", status: "waiting", goal: "h", waiting_for: ["c1"], waiting_for_tools: ["echo"] },
  ],
  messages: [{ role: "user", content: "hi", task_id: "t", at: "1", message_id: "m1" }, { role: "assistant", content: "When?", task_id: "t", at: "2" }],
}
const EXPIRED = { type: "error", code: "cursor_expired", message: "gone" }

test("after a gap the snapshot is all that is known, and what was sent and not taken yet", () => {
  const before = fold([{ ...whole("old"), id: "100-0" }, { type: "client_message", message_id: "m9", content: "sent" }])
  const gap = reduce(before, EXPIRED)
  assert.deepEqual([gap.gap, gap.cursor], [true, "0"])
  const state = reduce(gap, SNAPSHOT)
  assert.deepEqual([state.gap, state.cursor], [false, "90-0"])
  assert.deepEqual(state.order.map((entry) => entry.message_id ?? entry.text), ["m1", "When?", "m9"])
  assert.deepEqual([state.messages.m9.text, state.tasks.t.reason, state.tasks.u.waiting_for], ["sent", "question", ["c1"]])
  const approvals = [{ task_id: "u", tool_call_id: "c1", tool: "echo", args: { a: 1 }, args_digest: "d", effect: "pure" }, { task_id: "other", tool_call_id: "x" }]
  assert.deepEqual(approvalsOf(reduce(state, { type: "client_approvals", approvals })).map((each) => each.tool_call_id), ["c1"])
})

test("of a session that was erased nothing is shown any more, and the snapshot says when", () => {
  const erased_at = "2030-01-31T12:00:00.000Z"
  const before = fold([{ ...SNAPSHOT, id: "1-0" }])
  const gap = fold([{ type: "error", code: "cursor_expired", message: "gone" }], before)
  const state = fold([{ ...SNAPSHOT, id: "0-0", tasks: [], messages: [], erased_at }], gap)
  assert.deepEqual({ ...state }, { ...emptySession(state.session_id), cursor: "0-0", erased_at })
  assert.equal(before.erased_at, null)
})

test("a gap whose snapshot never came is closed by all that is kept, from the beginning", () => {
  const texts = ["one", "two", "three"]
  const events = texts.map((text, place) => ({ ...whole(text, 1, place + 1), id: `${place + 1}-0` }))
  const gap = reduce(fold(events), EXPIRED)
  assert.deepEqual(textsOf(fold(events.slice(1), gap)), ["two", "three"])
})

test("cursors are compared as numbers", () => {
  const { isAfter } = pentad
  assert.deepEqual([isAfter("10-0", "9-0"), isAfter("9-10", "9-9"), isAfter("9", "9-0"), isAfter("0", "0-1")], [true, true, false, false])
  assert.equal(isAfter("1790000000000000001-0", "1790000000000000000-0"), true, "beyond what a double can hold")
})

test("no id is taken for a method of objects, and none changes a prototype", () => {
  for (const name of ["__proto__", "constructor", "toString"]) {
    const state = fold([
      { type: "message_routed", id: "1-0", message_id: name, task_id: name, decision: name, reason: "r" },
      { ...whole("x", 1, 1, name), id: "2-0" },
      { type: "tool_call", id: "3-0", task_id: name, tool_call_id: name, tool: name, args: {} },
      { type: name, id: "4-0" },
    ])
    assert.deepEqual([Object.keys(state.messages), Object.keys(state.tasks), state.cursor], [[name], [name], "4-0"])
    assert.equal(state.messages[name].status, "routed")
    assert.equal({}.message_id, undefined)
  }
})

test("random sessions: what was missed, repeated, reordered by reconnects and void is as if it had never been", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = randomOf(seed)
    const { events, truth } = randomSession(random)
    const state = watched(events, random)
    assert.deepEqual(textsOf(state), truth.texts, `seed ${seed}`)
    assert.deepEqual(tasksOf(state).map(({ task_id, status }) => [task_id, status]).sort(), truth.statuses, `seed ${seed}`)
    assert.deepEqual(state.order.filter(({ kind }) => kind === "message").map((entry) => entry.message_id), truth.messages)
    const calls = tasksOf(state).flatMap((task) => task.steps.flatMap((step) => callsOf(task, step)))
    assert.deepEqual(calls.map((call) => [call.tool_call_id, call.result]).sort(), truth.calls, `seed ${seed}`)
  }
})

test("random events of any form throw nothing, and change no state that was before", () => {
  const random = randomOf(7)
  const kinds = [...new Set(RECORDED.map((event) => event.type)), "snapshot", "client_history", "client_message", "client_approvals", "node_end", "approval", "error"]
  let state = emptySession()
  for (let count = 0; count < 20_000; count++) {
    const like = random.one(RECORDED)
    const event = random.chance(0.5) ? { ...like, ...random.object() } : { ...random.object(), type: random.one(kinds) }
    state = reduce(frozen(state), event)
    if (count % 500 === 0) [approvalsOf(state), questionsOf(state), JSON.stringify(state)]
    if (random.chance(0.002)) state = emptySession()
  }
})

test("a page that stays open for long keeps its newest entries, and calls that wait", () => {
  let state = fold([
    { type: "tool_call", id: "1-0", task_id: "w", tool_call_id: "c", tool: "echo", args: {}, causation_id: "x" },
    { type: "approval_request", id: "2-0", task_id: "w", tool_call_id: "c", tool: "echo", args: {}, effect: "pure" },
  ])
  for (let turn = 0; turn < 1_100; turn++) {
    const [task_id, id] = [`t${turn}`, (part) => `${turn + 10}-${part}`]
    state = reduce(state, { type: "message_routed", id: id(0), message_id: `m${turn}`, task_id, decision: "new", reason: "r" })
    state = reduce(state, { type: "message", id: id(1), task_id, step: 1, attempt: 1, content: "x" })
    state = reduce(state, { type: "task_end", id: id(2), task_id, status: "completed" })
  }
  assert.ok(state.order.length <= pentad.MAX_ORDER)
  assert.ok(tasksOf(state).length <= pentad.MAX_ORDER)
  assert.equal(Object.keys(state.messages).length <= pentad.MAX_ORDER, true)
  assert.equal(state.order.at(-1).task_id, "t1099")
  assert.deepEqual(approvalsOf(state).map((each) => each.tool_call_id), ["c"])
})

/** Several tasks at once, as a gateway tells them: void attempts, deltas of all sizes, calls, and what must come out. */
function randomSession(random) {
  const [events, texts, calls] = [[], new Map(), []]
  let clock = 0
  const tell = (event) => events.push({ id: `${++clock}-${random.below(3)}`, ...event })
  const tasks = Array.from({ length: 1 + random.below(3) }, (_, place) => ({ id: `task-${place}`, steps: 1 + random.below(3), step: 0 }))
  const statuses = []
  for (const { id } of tasks) tell({ type: "message_routed", message_id: `m-${id}`, task_id: id, decision: "new", reason: "r" })
  const running = [...tasks]
  while (running.length > 0) {
    const task = random.one(running)
    const goesOn = task.saying !== undefined
    if (!goesOn && task.step === task.steps) {
      const status = random.one(["completed", "failed", "cancelled"])
      tell({ type: "task_end", task_id: task.id, status, reason: "r" })
      statuses.push([task.id, status])
      running.splice(running.indexOf(task), 1)
    } else if (!goesOn) {
      task.step++
      task.saying = { attempt: 1, at: 0, text: random.text() }
    } else {
      const { saying, step } = task
      const said = [...saying.text]
      if (random.chance(0.1)) {
        task.saying = { attempt: saying.attempt + 1, at: 0, text: random.text() }
      } else if (saying.at < said.length) {
        const size = 1 + random.below(4)
        const content = said.slice(saying.at, saying.at + size).join("")
        tell({ type: "content", task_id: task.id, step, attempt: saying.attempt, offset: saying.at, content })
        saying.at += size
      } else {
        const causation_id = `${task.id} ${step}`
        tell({ type: "message", task_id: task.id, step, attempt: saying.attempt, content: saying.text, causation_id })
        texts.set(`${task.id} ${step}`, saying.text)
        task.saying = undefined
        if (random.chance(0.4)) {
          const about = { task_id: task.id, tool_call_id: `call-${clock}`, tool: "x" }
          tell({ type: "tool_call", ...about, args: {}, causation_id })
          tell({ type: "tool_result", ...about, result: `r${clock}`, causation_id: "worker" })
          calls.push([about.tool_call_id, events.at(-1).result])
        }
      }
    }
  }
  const order = []
  const first = new Set()
  for (const { type, task_id, step } of events) {
    const key = `${task_id} ${step}`
    if ((type === "content" || type === "message") && !first.has(key)) order.push(key) && first.add(key)
  }
  const truth = { texts: order.map((key) => texts.get(key)), statuses: statuses.sort(), calls: calls.sort() }
  return { events, truth: { ...truth, messages: tasks.map(({ id }) => `m-${id}`) } }
}

/** What a client makes of them that loses its connection now and then, and to which deltas get lost. */
function watched(events, random) {
  let state = emptySession()
  for (let place = 0; place < events.length; place++) {
    const event = events[place]
    const lost = event.type === "content" && random.chance(0.1) && !isFirst(events, place)
    if (!lost) state = reduce(frozen(state), event)
    if (random.chance(0.05)) place = Math.max(-1, place - 1 - random.below(6)) // the gateway sends again what it is not sure of
  }
  return state
}

const isFirst = (events, place) => events.findIndex(({ task_id, step }) => task_id === events[place].task_id && step === events[place].step) === place
