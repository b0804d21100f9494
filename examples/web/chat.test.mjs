// node --test examples/web/
import assert from "node:assert/strict"
import { test } from "node:test"
import { emptySession, reduce } from "../../clients/js/pentad.js"
import { open, rows } from "./chat.mjs"

const about = { task_id: "t", tool_call_id: "c", tool: "echo" }
const call = { type: "tool_call", ...about, args: { text: "x" } }
const asked = { type: "approval_request", ...about, args: { text: "x" }, args_digest: "d", effect: "unsafe", reason: "ask first" }
const delta = (content, attempt = 1) => ({ type: "content", task_id: "t", step: 1, attempt, offset: 0, content })
const shown = (...events) => rows(events.reduce(reduce, emptySession())).map(({ kind, text, state }) => `${kind}: ${text} ${state}`.trim())

test("a void attempt is taken back, and a step that only thinks says so", () => {
  assert.deepEqual(shown(delta("It is 4"), delta("It is 42", 2)), ["answer: It is 42"])
  assert.deepEqual(shown({ ...delta("hm"), type: "thinking" }), ["answer:  thinking …"])
})

test("a tool call shows its arguments, its progress and its one outcome", () => {
  assert.deepEqual(shown(call), ['tool: echo({"text":"x"}) running'])
  assert.deepEqual(shown(call, { type: "tool_progress", ...about, content: "half" }), ['tool: echo({"text":"x"}) half'])
  assert.deepEqual(shown(call, { type: "tool_result", ...about, result: "42" }), ['tool: echo({"text":"x"}) = 42'])
  assert.deepEqual(shown(call, { type: "tool_result", ...about, error: "no" }), ['tool: echo({"text":"x"}) error: no'])
  assert.deepEqual(shown(call, asked), ['tool: echo({"text":"x"}) ask first'])
})

test("what went wrong is shown, once", () => {
  const failed = { type: "error", id: "1-0", task_id: "t", code: "model_error", message: "m" }
  assert.deepEqual(shown(failed, { type: "task_end", id: "2-0", task_id: "t", status: "failed", reason: "r", detail: "why" }), ["note: failed: why"])
  assert.deepEqual(shown({ type: "error", id: "1-0", code: "internal", message: "m" }), ["note: m"])
  const rejected = { type: "message_routed", id: "1-0", message_id: "m", decision: "rejected", reason: "unknown" }
  assert.deepEqual(shown(rejected), ["user: … refused: unknown"])
})

test("what was said to a message that another task answers is not shown", () => {
  const said = { type: "message", task_id: "t", step: 1, attempt: 1, content: "hi", correlation_id: "m" }
  const moved = { type: "message_moved", id: "1-0", task_id: "t", message_id: "m", from_task_id: "t", to_task_id: "u" }
  assert.deepEqual(shown(said, moved), ["user: …", "note: a message was given to another task"])
})

/** As much of a page as `open` uses. */
class FakeNode {
  children = []
  listeners = {}
  textContent = ""
  value = ""
  replaceChildren(...children) { this.children = children }
  append(...children) { this.children.push(...children) }
  addEventListener(name, listener) { this.listeners[name] = listener }
  querySelector(selector) { return (this[selector] ??= new FakeNode()) }
  createElement() { return new FakeNode() }
}

test("the page shows what is said and what comes of it, as text, and passes on what a person decides", async () => {
  const [document, done] = [new FakeNode(), []]
  const session = { state: emptySession(), status: "connected", error: null, listeners: [] }
  const tell = (event) => { session.state = reduce(session.state, event); session.listeners.forEach((listener) => listener()) }
  session.on = (_, listener) => session.listeners.push(listener)
  session.send = (content) => tell({ type: "client_message", message_id: "m1", content })
  session.approve = async ({ tool_call_id, args_digest }) => done.push(["approve", tool_call_id, args_digest])
  session.refuse = async () => { throw new Error("it was decided") }
  session.cancel = async (task_id) => done.push(["cancel", task_id])
  open(document, session, (draw) => draw())
  const form = document.querySelector("form")
  form.querySelector("input").value = " what is <b>6*7</b>? "
  form.listeners.submit({ preventDefault() {} })
  const lines = () => document.querySelector("#entries").children.map((node) => `${node.className}: ${node.textContent}`)
  assert.deepEqual(lines(), ["user: what is <b>6*7</b>? sending"])
  tell({ type: "message_routed", id: "1-0", message_id: "m1", task_id: "t", decision: "new", reason: "r" })
  tell({ ...delta("It is 42", 2), id: "3-0" })
  assert.deepEqual(lines(), ["user: what is <b>6*7</b>?", "answer: It is 42"])
  tell(call)
  tell(asked)
  const [allow, refuse] = document.querySelector("#entries").children[2].children
  allow.listeners.click()
  refuse.listeners.click()
  await new Promise(setImmediate)
  assert.equal(document.querySelector("#state").textContent, "it was decided")
  assert.equal(document.querySelector("#stop").hidden, false)
  document.querySelector("#stop").listeners.click()
  assert.deepEqual(done, [["approve", "c", "d"], ["cancel", "t"]])
  tell({ type: "task_end", id: "9-0", task_id: "t", status: "completed" })
  assert.equal(document.querySelector("#stop").hidden, true)
})
