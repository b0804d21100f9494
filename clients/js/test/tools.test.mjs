// Tools that a page runs itself: each call once, by who has sent its message, and always with an outcome.
import assert from "node:assert/strict"
import { test } from "node:test"
import * as pentad from "../pentad.js"
import { fakeFetch, fakeSockets, json, until } from "./fakes.mjs"
import { fold } from "./support.mjs"

const { connect, emptySession, newTurn, turnAfter } = pentad
const PLACE = { name: "get_place", description: "Where the user is", parameters: { type: "object", properties: {} } }
const accepted = ({ body }) => json({ message_id: body.message_id, session_id: body.session_id }, 202)

/** A session that has said "where am I?" with these tools, and the events of its turn. */
async function asked(t, tools, { answer = () => json({}), more = {} } = {}) {
  const sockets = fakeSockets()
  const respond = (request) => (request.path === "/v1/messages" ? accepted(request) : answer(request))
  const { fetch, asked: requests } = fakeFetch(respond)
  const session = connect({ url: "http://gateway", fetch, WebSocket: sockets.WebSocket }).session("s")
  t.after(() => session.close()) // what still runs would keep node from ending
  const turn = session.send("where am I?", { tools, ...more })
  const socket = await sockets.next()
  socket.greet()
  await turn.accepted
  let place = 0
  const about = { task_id: "t", correlation_id: turn.messageId }
  const tell = (...events) => socket.tell(...events.map((event) => ({ id: `${++place}-0`, ...about, ...event })))
  tell({ type: "message_routed", message_id: turn.messageId, decision: "new", reason: "r" })
  const results = () => requests.filter(({ path }) => path.endsWith("/result"))
  return { session, turn, socket, sockets, tell, requests, results }
}

const call = (args = { exact: true }, id = "c1", tool = "get_place") => ({ type: "tool_call", tool_call_id: id, tool, args, client: true })
const waits = { type: "task_status", status: "waiting", reason: "client_tools" }
const result = (id = "c1", about = { result: "in Berlin" }) => ({ type: "tool_result", tool_call_id: id, tool: "get_place", duration_ms: 0, ...about })
const answered = [{ type: "message", step: 2, attempt: 1, content: "You are in Berlin." }, { type: "task_end", status: "completed", reason: "answered" }]

test("its value is sent as the result, and the turn goes on beyond the wait", async (t) => {
  const given = []
  const run = (...all) => (given.push(all), { city: "Berlin" })
  const { turn, tell, results, requests, session } = await asked(t, [{ ...PLACE, run }])
  tell(call(), waits)
  await until("the result", () => results().length === 1)
  assert.deepEqual(requests.find(({ path }) => path === "/v1/messages").body.tools, [PLACE], "the function stays here")
  const [[args, { call: known, signal }]] = given
  assert.deepEqual([args, known.tool_call_id, known.client, signal.aborted], [{ exact: true }, "c1", true, false])
  assert.deepEqual([results()[0].path, results()[0].body], ["/v1/tasks/t/calls/c1/result", { result: { city: "Berlin" } }])
  assert.equal(turn.end, null)
  tell(result(), ...answered)
  assert.equal(signal.aborted, false, "the function has ended by itself")
  assert.deepEqual([(await turn.done()).outcome, (await turn.done()).answer, turn.said], ["completed", "You are in Berlin.", "You are in Berlin."])
  assert.equal(given.length, 1)
  assert.equal(session.state.tasks.t.calls.c1.result, "in Berlin")
})

test("ask and answer bring tools along as well", async (t) => {
  const { session, tell, requests, turn } = await asked(t, undefined)
  const answer = session.ask("and now?", { messageId: "m2", taskId: "t", tools: [{ ...PLACE, run: () => "here" }] })
  await until("the message", () => requests.length === 2)
  tell({ type: "message_routed", message_id: "m2", decision: "append", reason: "r" }, { ...call(), correlation_id: "m2" }, { ...waits, correlation_id: "m2" })
  await until("the result", () => requests.length === 3)
  assert.deepEqual(requests[2].body, { result: "here" })
  tell(result(), ...answered)
  assert.equal(await answer, "You are in Berlin.")
  const other = session.answer("t", "once more", { tools: [{ ...PLACE, run: () => "there" }] })
  await other.accepted
  assert.equal(requests.at(-1).body.tools.length, 1)
  assert.equal((await turn.done()).outcome, "waiting", "the turn of a message without tools ends with the wait")
})

test("a page that has not sent the message runs none of its calls, and does not end its wait", async (t) => {
  const run = () => assert.fail("it is another's")
  const { session, turn, tell, results } = await asked(t, [{ ...PLACE, run }])
  tell({ ...call(), correlation_id: "of another page" }, waits)
  assert.deepEqual([(await turn.done()).outcome, (await turn.done()).reason], ["waiting", "client_tools"])
  assert.deepEqual(pentad.clientCallsOf(session.state).map((each) => each.tool_call_id), ["c1"])
  assert.equal(results().length, 0)
})

test("a call that a gap shows again is run once", async (t) => {
  let count = 0
  const { socket, tell, results, turn } = await asked(t, [{ ...PLACE, run: () => ++count }])
  tell(call())
  await until("the result", () => results().length === 1)
  socket.tell({ type: "error", code: "cursor_expired", message: "gone" })
  socket.tell({ id: "2-0", task_id: "t", correlation_id: turn.messageId, ...call() })
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual([count, results().length], [1, 1])
})

test("without a function a call waits for who answers it by hand", async (t) => {
  const { session, turn, tell, results } = await asked(t, [PLACE, { ...PLACE, name: "mine", run: () => "done" }])
  tell(call({}, "c1"), call({}, "c2", "mine"), waits)
  assert.deepEqual((await turn.done()).reason, "client_tools")
  await until("the other's result", () => results().length === 1)
  const [waiting] = pentad.clientCallsOf(session.state)
  await session.sendResult(waiting, ["Berlin"])
  await session.sendFailure({ task_id: "t", tool_call_id: "c 9" }, "nobody knows")
  await session.sendResult(waiting, undefined)
  assert.deepEqual(results().slice(1).map(({ path, body }) => [path, body]), [
    ["/v1/tasks/t/calls/c1/result", { result: ["Berlin"] }],
    ["/v1/tasks/t/calls/c%209/result", { error: "nobody knows" }],
    ["/v1/tasks/t/calls/c1/result", { result: "" }],
  ])
  await assert.rejects(session.sendResult(waiting, 1n), pentad.Refused)
})

test("a result is sent until the gateway has it, however often that fails", async (t) => {
  const failures = [() => { throw new TypeError("fetch failed") }, () => json({ code: "busy", in_doubt: true }, 503, { "Retry-After": "0" }), () => json({}, 502)]
  const { results } = await (async () => {
    const known = await asked(t, [{ ...PLACE, run: () => "x" }], { answer: () => failures.shift()?.() ?? json({}) })
    known.tell(call())
    return known
  })()
  await until("the last try", () => results().length === 4)
  assert.deepEqual(new Set(results().map(({ body }) => JSON.stringify(body))), new Set(['{"result":"x"}']))
})

test("a result that comes too late is dropped; one that can never be sent ends the turn", async (t) => {
  const late = await asked(t, [{ ...PLACE, run: () => "x" }], { answer: () => json({}, 409) })
  late.tell(call(), waits)
  await until("the result", () => late.results().length === 1)
  late.tell(result("c1", { error: "another" }), ...answered)
  assert.equal((await late.turn.done()).outcome, "completed")
  const never = await asked(t, [{ ...PLACE, run: () => "x" }], { answer: () => json({ title: "this token may not send" }, 401) })
  never.tell(call(), waits)
  const end = await never.turn.done()
  assert.deepEqual([end.outcome, /may not send/.test(end.reason)], ["error", true])
})

const thrower = (error) => () => { throw error }
const circle = {}
circle.self = circle
for (const [what, run, error] of [
  ["throws", thrower(new Error("the user says no")), /^the user says no$/],
  ["rejects", () => Promise.reject("a text"), /^a text$/],
  ["throws nothing", thrower(undefined), /did not say why/],
  ["throws what cannot be told", thrower({ get message() { throw 1 } }), /did not say why/],
  ["throws what has no name", thrower(Object.create(null)), /did not say why/],
  ["throws half a pair", thrower(new Error("a\ud800")), /^a\ufffd$/],
  ["throws very much", thrower(new Error("x".repeat(1e6))), /^x{4000}$/],
  ["gives a circle", () => circle, /"get_place" gave a value that cannot become JSON: /],
  ["gives a bigint", () => 1n, /cannot become JSON/],
  ["gives a function", () => () => 1, /gave a function, which cannot become JSON/],
  ["gives what throws as JSON", () => ({ toJSON: thrower(new Error("mine")) }), /cannot become JSON: mine/],
  ["gives too much", () => "\u00e9".repeat(300_000), /more than 524288 bytes/],
]) {
  test(`a tool that ${what} has failed, and the model is told so`, async (t) => {
    const { tell, results } = await asked(t, [{ ...PLACE, run }])
    tell(call())
    await until("the outcome", () => results().length === 1)
    assert.match(results()[0].body.error, error)
  })
}

test("a result that the gateway refuses becomes a failure that says why", async (t) => {
  const answer = ({ body }) => (body.error === undefined ? json({ title: "half of a surrogate pair" }, 422) : json({}))
  const { tell, results } = await asked(t, [{ ...PLACE, run: () => "\ud800" }], { answer })
  tell(call())
  await until("the failure", () => results().length === 2)
  assert.deepEqual(results()[1].body, { error: "half of a surrogate pair" })
})

test("long arguments are fetched whole, and a tool may change its own", async (t) => {
  let lost = 2
  const answer = ({ path }) => (!path.includes("/values/") ? json({}) : lost-- > 0 ? json({}, 503, { "Retry-After": "0" }) : json({ content: '{"text":"whole"}' }))
  const seen = []
  const run = (args) => { seen.push(args.text); args.text = "changed" }
  const { session, tell, results, requests } = await asked(t, [{ ...PLACE, run }], { answer })
  tell({ ...call('{"text":"wh', "c1"), ref: "c1.args" }, call({ text: "short" }, "c2"))
  await until("both", () => results().length === 2)
  assert.deepEqual([seen.sort(), session.state.tasks.t.calls.c2.args], [["short", "whole"], { text: "short" }])
  assert.equal(requests.find(({ path }) => path.includes("/values/")).path, "/v1/tasks/t/values/c1.args")
})

for (const [what, end] of [
  ["a message was sent instead", ({ tell }) => tell(result("c1", { error: "the client has sent a message instead of a result" }))],
  ["its task has ended", ({ tell }) => tell({ type: "task_end", status: "cancelled", reason: "cancelled" })],
  ["the session is closed", ({ session }) => session.close()],
]) {
  test(`a tool that never ends has its signal when ${what}, and sends nothing more`, async (t) => {
    let signal
    const run = (_, about) => new Promise((resolve) => { signal = about.signal; signal.addEventListener("abort", () => resolve("late")) })
    const known = await asked(t, [{ ...PLACE, run }])
    known.tell(call(), waits)
    await until("its begin", () => signal !== undefined)
    end(known)
    assert.equal(signal.aborted, true)
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(known.results().length, 0)
  })
}

test("the end of a task that this one has started gives none of its calls up", async (t) => {
  let signal
  const { tell } = await asked(t, [{ ...PLACE, run: (_, about) => new Promise(() => { signal = about.signal }) }])
  tell(call(), { type: "task_end", task_id: "child", parent_task_id: "t", status: "completed", reason: "answered" })
  await until("its begin", () => signal !== undefined)
  assert.equal(signal.aborted, false)
})

test("what is no list of tools is refused where it is written", async (t) => {
  const { session } = await asked(t, undefined)
  for (const tools of ["get_place", {}, [null], [{ description: "no name" }], [{ name: "a", run: "no" }], Array(pentad.MAX_TOOLS + 1).fill(PLACE)]) {
    assert.throws(() => session.send("x", { tools }), pentad.Refused)
  }
})

test("a state shows the calls that wait for their client, until the last has its result", () => {
  const events = [call({}, "c1"), call({}, "c2"), { type: "tool_call", tool_call_id: "c3", tool: "echo", args: {} }, waits]
  const at = events.map((event, place) => ({ id: `${place + 1}-0`, task_id: "t", ...event }))
  const waiting = fold(at)
  const open = (state) => pentad.clientCallsOf(state).map((each) => each.tool_call_id)
  assert.deepEqual([open(waiting), waiting.tasks.t.reason], [["c1", "c2"], "client_tools"])
  const one = fold([{ id: "8-0", task_id: "t", ...result("c1") }], waiting)
  assert.deepEqual([open(one), one.tasks.t.status], [["c2"], "waiting"])
  const both = fold([{ id: "9-0", task_id: "t", ...result("c2") }], one)
  assert.deepEqual([open(both), both.tasks.t.status, both.tasks.t.reason], [[], "active", ""])
  const ended = fold([{ id: "9-0", task_id: "t", type: "task_end", status: "cancelled" }], waiting)
  assert.deepEqual(open(ended), [], "nobody waits for a task that has ended")
  assert.deepEqual(open(emptySession()), [])
})

test("a turn goes on beyond a wait for what is run here alone", () => {
  const routed = { type: "message_routed", message_id: "m", decision: "new", reason: "r" }
  const after = (runs, ...events) => [routed, ...events].reduce((turn, event) => turnAfter(turn, { task_id: "t", correlation_id: "m", ...event }), newTurn("m", runs)).end?.reason
  assert.equal(after(["get_place"], call(), waits), undefined)
  assert.equal(after([], call(), waits), "client_tools")
  assert.equal(after(["get_place"], call(), call({}, "c2", "other"), waits), "client_tools")
  assert.equal(after(["get_place"], call({}, "c2", "other"), result("c2"), call(), waits), undefined)
  assert.equal(after(["get_place"], { ...call(), correlation_id: "m2" }, waits), "client_tools")
  assert.equal(after(["get_place"], call(), { ...waits, reason: "approval" }), "approval")
})
