// node --test examples/web/
import assert from "node:assert/strict"
import { test } from "node:test"
import { Conversation, Session, open } from "./chat.mjs"

const delta = (offset, content, attempt = 1, step = 1, task_id = "t") => ({ type: "content", task_id, step, attempt, offset, content })
const whole = (content, attempt = 1, step = 1, task_id = "t") => ({ type: "message", task_id, step, attempt, content })

function shown(...events) {
  const conversation = new Conversation()
  events.forEach((event) => conversation.take(event))
  return conversation.entries.map(({ text, state }) => (state ? `${text} ${state}` : text))
}

const TEXTS = [
  ["in order", [delta(0, "Hel"), delta(3, "lo"), whole("Hello")], ["Hello"]],
  ["repeats and overlaps", [delta(0, "Hel"), delta(0, "Hel"), delta(1, "ello")], ["Hello"]],
  ["a gap is held back", [delta(0, "H"), delta(3, "lo")], ["H"]],
  ["the message heals a gap", [delta(0, "H"), delta(3, "lo"), whole("Hello")], ["Hello"]],
  ["a void attempt is gone", [delta(0, "Hi"), delta(0, "Bye", 2)], ["Bye"]],
  ["a void attempt is known by a delta beyond a gap", [delta(0, "Hi"), delta(2, "e", 2)], [""]],
  ["a late delta of a void attempt", [delta(0, "Bye", 2), delta(0, "Hi", 1), delta(3, "!", 2)], ["Bye!"]],
  ["a late delta after the message", [whole("Hello"), delta(0, "Hi", 2)], ["Hello"]],
  ["characters are not units of UTF-16", [delta(0, "h\u{1f600}"), delta(2, "x\u{1f600}"), delta(3, "\u{1f600}y")], ["h\u{1f600}x\u{1f600}y"]],
  ["steps and tasks are told apart", [delta(0, "a"), delta(0, "b", 1, 2), delta(0, "c", 1, 1, "u"), delta(1, "!")], ["a!", "b", "c"]],
]

for (const [promise, events, texts] of TEXTS) {
  test(`text: ${promise}`, () => assert.deepEqual(shown(...events), texts))
}

test("a tool call shows its arguments, its progress and its one outcome", () => {
  const call = { type: "tool_call", tool_call_id: "c", tool: "calculator", args: { expression: "6*7" } }
  assert.deepEqual(shown(call), ['calculator({"expression":"6*7"}) running'])
  assert.deepEqual(shown(call, { type: "tool_progress", tool_call_id: "c", content: "half" }), ['calculator({"expression":"6*7"}) half'])
  assert.deepEqual(shown(call, { type: "tool_result", tool_call_id: "c", result: "42" }), ['calculator({"expression":"6*7"}) = 42'])
  assert.deepEqual(shown(call, { type: "tool_result", tool_call_id: "c", error: "no" }), ['calculator({"expression":"6*7"}) error: no'])
})

test("what went wrong is shown", () => {
  assert.deepEqual(shown({ type: "task_end", id: "1-0", status: "failed", reason: "r", detail: "why" }), ["failed: why"])
  assert.deepEqual(shown({ type: "task_end", id: "1-0", status: "completed" }), [])
  assert.deepEqual(shown({ type: "error", code: "internal", message: "m" }), ["m"])
})

test("a message from elsewhere is a riddle until its text is learnt", () => {
  const conversation = new Conversation()
  conversation.take({ type: "message_routed", message_id: "m1", decision: "new" })
  const riddles = conversation.riddles
  conversation.take({ type: "message_routed", message_id: "m2", decision: "new" })
  conversation.learn([{ role: "user", message_id: "m1", content: "hi" }, { role: "assistant", content: "ho" }], riddles)
  assert.deepEqual(conversation.entries.map(({ text }) => text), ["hi", undefined])
  conversation.learn([], conversation.riddles)
  assert.deepEqual([conversation.riddles, conversation.entries[1].text], [[], "(its text is not known)"])
})

test("a snapshot takes the place of everything", () => {
  const messages = [{ role: "user", message_id: "m1", content: "q" }, { role: "assistant", task_id: "t", content: "a" }]
  assert.deepEqual(shown(whole("lost"), { type: "snapshot", id: "9-0", messages, tasks: [] }, delta(0, "next", 1, 2)), ["q", "a", "next"])
})

/** The gateway's side of a WebSocket, played by the test. */
class FakeSocket {
  static opened = []
  readyState = 1
  sent = []
  constructor(url, protocols) {
    Object.assign(this, { url, protocols })
    FakeSocket.opened.push(this)
    FakeSocket.arrived?.(this)
  }
  send(text) { this.sent.push(JSON.parse(text)) }
  close() { this.drop(1000) }
  tell(frame) { this.onmessage?.({ data: JSON.stringify(frame) }) }
  drop(code, reason = "") { this.readyState = 3; this.onclose?.({ code, reason }) }
}

/** The next connection that the page opens. */
const nextSocket = () => new Promise((resolve) => { FakeSocket.arrived = resolve })

function sessionOf(tokens, events, states = []) {
  let asked = 0
  const getToken = async () => {
    const token = tokens[asked++]
    if (!token) throw new Error("no token")
    return { url: "http://gateway", session_id: "s 1", token }
  }
  return new Session({ getToken, onEvent: (event) => events.push(event.type), onState: (state) => states.push(state), WebSocket: FakeSocket })
}

test("it comes back with its cursor, with another token once that has ended, and sends again what may be lost", async (t) => {
  const [events, states] = [[], []]
  const session = sessionOf(["one", "two"], events, states)
  t.after(() => session.stop()) // what still runs would keep node from ending
  let arriving = nextSocket()
  const running = session.run()
  let socket = await arriving
  assert.equal(socket.url, "ws://gateway/v1/ws?session_id=s+1&after=0")
  assert.deepEqual(socket.protocols, ["pentad.v1", "bearer.one"])
  const early = session.send("said before it was open")
  socket.tell({ type: "session", cursor: "0-0" })
  assert.deepEqual(socket.sent.map(({ message_id }) => message_id), [early])
  socket.tell({ type: "message_routed", id: "5-0", message_id: early, decision: "new" })
  const lost = session.send("is it there?")

  arriving = nextSocket()
  socket.drop(1012)
  socket = await arriving
  assert.match(socket.url, /after=5-0$/)
  assert.deepEqual(socket.protocols, ["pentad.v1", "bearer.one"])
  socket.tell({ type: "session", cursor: "5-0" })
  assert.deepEqual(socket.sent.map(({ message_id }) => message_id), [lost])

  arriving = nextSocket()
  socket.drop(4401, "the token has ended")
  socket = await arriving
  assert.deepEqual(socket.protocols, ["pentad.v1", "bearer.two"])
  socket.tell({ type: "session", cursor: "5-0" })
  session.stop()
  await running
  assert.deepEqual(events, ["message_routed"])
  assert.deepEqual(states.filter((state) => state === "connected").length, 3)
  assert.equal(states.at(-1), "closed")
})

test("stopped while it connects, it is closed and sends nothing", async () => {
  const states = []
  const session = sessionOf(["one"], [], states)
  const arriving = nextSocket()
  const running = session.run()
  const socket = await arriving
  session.send("too late")
  session.stop()
  socket.tell({ type: "session", cursor: "0-0" })
  assert.deepEqual([socket.readyState, socket.sent], [3, []])
  await running
  assert.deepEqual(states, ["closed"])
})

test("what is refused for good is not tried again", async (t) => {
  const states = []
  const session = sessionOf(["one"], [], states)
  t.after(() => session.stop())
  const arriving = nextSocket()
  const running = session.run()
  ;(await arriving).drop(1008, "this token is for another session")
  await running
  assert.equal(states.at(-1), "closed: this token is for another session")
})

test("a message that meets a busy gateway is sent again, and is not shown as an error", async (t) => {
  const events = []
  const session = sessionOf(["one"], events)
  t.after(() => session.stop())
  const arriving = nextSocket()
  const running = session.run()
  const socket = await arriving
  socket.tell({ type: "session", cursor: "0-0" })
  const id = session.send("hi")
  const again = new Promise((resolve) => { socket.send = (text) => resolve(JSON.parse(text)) })
  socket.tell({ type: "error", code: "busy", message: "later", message_id: id, retry_after: 0.01 })
  assert.equal((await again).message_id, id)
  assert.deepEqual(events, [])
  session.stop()
  await running
})

/** As much of a page as `open` uses. */
class FakeNode {
  children = []
  listeners = {}
  textContent = ""
  value = ""
  replaceChildren(...children) { this.children = children }
  addEventListener(name, listener) { this.listeners[name] = listener }
  querySelector(selector) { return (this[selector] ??= new FakeNode()) }
  createElement() { return new FakeNode() }
}

test("the page shows what is said and what comes of it, as text", async (t) => {
  const document = new FakeNode()
  const arriving = nextSocket()
  const session = open(document, async () => ({ url: "http://gateway", session_id: "s1", token: "one" }), { WebSocket: FakeSocket })
  t.after(() => session.stop())
  const socket = await arriving
  socket.tell({ type: "session", cursor: "0-0" })
  const form = document.querySelector("form")
  form.querySelector("input").value = " what is 6*7? "
  form.listeners.submit({ preventDefault() {} })
  const lines = () => document.querySelector("#entries").children.map((node) => `${node.className}: ${node.textContent}`)
  assert.deepEqual(lines(), ["user: what is 6*7? sending"])
  const [{ message_id }] = socket.sent
  socket.tell({ type: "message_routed", id: "1-0", message_id, decision: "new" })
  socket.tell({ ...delta(0, "It is <b>4"), id: "2-0" })
  socket.tell({ ...delta(0, "It is 42", 2), id: "3-0" })
  assert.deepEqual(lines(), ["user: what is 6*7?", "answer: It is 42"])
  assert.equal(document.querySelector("#state").textContent, "connected")

  globalThis.fetch = async (path, { headers }) => {
    assert.deepEqual([path, headers.Authorization], ["http://gateway/v1/sessions/s1/messages", "Bearer one"])
    return { ok: true, json: async () => ({ items: [{ role: "user", message_id: "m9", content: "from another tab" }] }) }
  }
  socket.tell({ type: "message_routed", id: "4-0", message_id: "m9", decision: "append" })
  while (lines().at(-1) === "user: …") await new Promise(setImmediate)
  assert.equal(lines().at(-1), "user: from another tab")
})
