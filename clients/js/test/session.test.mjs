// A session and its requests, over a gateway that the test plays.
import assert from "node:assert/strict"
import { test } from "node:test"
import * as pentad from "../pentad.js"
import { fakeFetch, fakeSockets, fakeStream, json, until } from "./fakes.mjs"

const { connect } = pentad
const accepted = ({ body }) => json({ message_id: body.message_id, session_id: body.session_id }, 202)
const routed = (id, message_id, task_id = "t") => ({ type: "message_routed", id, message_id, task_id, decision: "new", reason: "r" })
const said = (id, content, step = 1, about = {}) => ({ type: "message", id, task_id: "t", step, attempt: 1, content, ...about })
const ended = (id, status = "completed", about = {}) => ({ type: "task_end", id, task_id: "t", status, reason: "answered", ...about })

/** A session over sockets that the test opens and drops. */
function overSockets(t, options = {}, answer = accepted) {
  const sockets = fakeSockets()
  const { fetch, asked } = fakeFetch(answer)
  const client = connect({ url: "http://gateway", fetch, WebSocket: sockets.WebSocket, ...options })
  const session = client.session(options.session === undefined ? "s 1" : options.session, options.sessionOptions)
  t.after(() => session.close()) // what still runs would keep node from ending
  return { client, session, sockets, asked }
}

test("it comes back with its cursor, with another token once that has ended, and shows each event once", async (t) => {
  let given = 0
  const { session, sockets } = overSockets(t, { getToken: async () => ({ token: `t${++given}` }) })
  const [events, statuses] = [[], []]
  session.on("event", (event) => events.push(event.id))
  session.on("status", (status) => statuses.push(status))
  let socket = await sockets.next()
  assert.equal(socket.url, "ws://gateway/v1/ws?session_id=s+1&after=0")
  assert.deepEqual(socket.protocols, ["pentad.v1", "bearer.t1"])
  socket.greet()
  socket.tell(routed("5-0", "m1"), said("6-0", "hi"))
  socket.drop(1012)
  socket = await sockets.next()
  assert.match(socket.url, /after=6-0$/)
  assert.deepEqual(socket.protocols[1], "bearer.t1")
  socket.greet()
  socket.tell(said("6-0", "hi"), ended("7-0"))
  socket.drop(4401, "the token has ended")
  socket = await sockets.next()
  assert.deepEqual([socket.protocols[1], /after=7-0$/.test(socket.url)], ["bearer.t2", true])
  socket.greet()
  session.close()
  assert.deepEqual(events, ["5-0", "6-0", "7-0"])
  assert.deepEqual(statuses, ["connecting", "connected", "reconnecting", "connected", "reconnecting", "connected", "closed"])
  assert.equal(sockets.opened.length, 3)
})

test("a message is sent until the gateway has it, under one id, and those after it wait", async (t) => {
  const refusals = [() => json({ code: "busy" }, 429, { "Retry-After": "0" }), () => { throw new TypeError("fetch failed") }, () => json({ title: "no", in_doubt: true, code: "busy" }, 503, { "Retry-After": "0" })]
  const { session, asked } = overSockets(t, {}, (request) => (refusals.length > 0 && request.method === "POST" ? refusals.shift()() : accepted(request)))
  const turns = [session.send("one"), session.send("two")]
  await Promise.all(turns.map((turn) => turn.accepted))
  const sent = asked.filter(({ method }) => method === "POST").map(({ body }) => [body.content, body.message_id])
  const [one, two] = turns.map((turn) => turn.messageId)
  assert.deepEqual(sent, [...Array(4).fill(["one", one]), ["two", two]])
  assert.deepEqual([session.state.messages[one].status, session.state.messages[one].text], ["accepted", "one"])
})

test("a message of which an event tells is not sent again, though its answer was lost", async (t) => {
  const { session, sockets, asked } = overSockets(t, {}, () => { throw new TypeError("hung up") })
  const turn = session.send("one")
  const socket = await sockets.next()
  socket.greet()
  socket.tell(routed("1-0", turn.messageId))
  await turn.accepted
  const count = asked.length
  assert.ok(count <= 2, `sent ${count} times`)
})

test("a turn has its text, corrected, and its end; a long answer is fetched whole", async (t) => {
  const answer = (request) => (request.path.includes("/values/") ? json({ content: "the long answer" }) : accepted(request))
  const { session, sockets } = overSockets(t, {}, answer)
  const turn = session.send("hi")
  const texts = []
  const reading = (async () => { for await (const text of turn.text()) texts.push(text) })()
  const socket = await sockets.next()
  socket.greet()
  const delta = (id, content, attempt = 1) => ({ type: "content", id, task_id: "t", step: 1, attempt, offset: 0, content })
  socket.tell(routed("1-0", turn.messageId), { ...routed("1-1", "other", "u") }, delta("2-0", "Hal"))
  await until("the first text", () => texts.length === 1)
  socket.tell(delta("3-0", "Hello", 2))
  await until("the second text", () => texts.length === 2)
  socket.tell({ ...said("4-0", "not mine"), task_id: "u" }, said("5-0", "the lo", 1, { attempt: 2, ref: "message-1" }), ended("6-0"))
  await reading
  assert.deepEqual(texts, ["Hal", "Hello", "the lo"])
  const result = await turn.done()
  assert.deepEqual([result.outcome, result.answer, result.task_id], ["completed", "the long answer", "t"])
})

for (const [event, outcome] of [
  [{ type: "message_routed", decision: "rejected", reason: "unknown_task" }, "rejected"],
  [{ type: "control_result", action: "cancel", content: "done" }, "completed"],
  [{ type: "error", code: "busy", message: "later" }, "error"],
]) {
  test(`a turn ends with ${event.type}`, async (t) => {
    const { session, sockets } = overSockets(t)
    const turn = session.send("hi")
    const socket = await sockets.next()
    socket.greet()
    socket.tell({ id: "1-0", message_id: turn.messageId, ...event })
    assert.equal((await turn.done()).outcome, outcome)
    assert.equal(session.state.messages[turn.messageId].status !== "sending", true)
  })
}

test("a turn whose end was lost in a gap is asked for", async (t) => {
  const run = { status: "completed", answer: "42", task_id: "t", reason: "answered" }
  const failures = [1, 2]
  const { session, sockets, asked } = overSockets(t, {}, (request) => {
    if (!request.path.startsWith("/v1/runs/")) return accepted(request)
    return failures.pop() ? json({ code: "busy" }, 503) : json(run)
  })
  const turn = session.send("hi")
  const socket = await sockets.next()
  socket.greet()
  socket.tell({ type: "error", code: "cursor_expired", message: "gone" }, { type: "snapshot", id: "9-0", tasks: [], messages: [] })
  const result = await turn.done()
  assert.deepEqual([result.outcome, result.answer], ["completed", "42"])
  assert.deepEqual(asked.find(({ path }) => path.startsWith("/v1/runs/")).query, { session_id: "s 1" })
})

test("what was said elsewhere is learnt over REST", async (t) => {
  const { session, sockets, asked } = overSockets(t, {}, () => json({ items: [{ role: "user", message_id: "m9", content: "from another tab", task_id: "t" }] }))
  session.open()
  const socket = await sockets.next()
  socket.greet()
  socket.tell(routed("1-0", "m9"))
  await until("the text", () => session.state.messages.m9.text !== undefined)
  assert.deepEqual([session.state.messages.m9.text, asked[0].path], ["from another tab", "/v1/sessions/s%201/messages"])
})

test("what is refused for good closes the session, and says why", async (t) => {
  const { session, sockets } = overSockets(t)
  const iterated = (async () => { for await (const _ of session.events()); })()
  const turn = session.send("hi")
  ;(await sockets.next()).drop(1008, "this token is for another session")
  await assert.rejects(iterated, (error) => error instanceof pentad.Refused && /another session/.test(error.message))
  await assert.rejects(turn.done(), pentad.Refused)
  assert.throws(() => session.send("more"), /closed/)
  assert.equal(sockets.opened.length, 1)
})

test("a key that is not known is tried once; a token that is renewed is tried again, but not for ever", async (t) => {
  const one = overSockets(t, { key: "secret" })
  one.session.open()
  ;(await one.sockets.next()).drop(4401, "give one of the gateway's API keys")
  await until("its end", () => one.session.status === "closed")
  assert.ok(one.session.error instanceof pentad.NotAuthorized)
  assert.doesNotMatch(one.session.error.message, /secret/)
  let given = 0
  const other = overSockets(t, { getToken: () => `t${++given}` })
  other.session.open()
  for (let round = 0; round < 3; round++) (await other.sockets.next()).drop(4401, "no")
  await until("its end", () => other.session.status === "closed")
  assert.equal(given, 3)
})

test("closed while it connects, it opens nothing more", async (t) => {
  const { session, sockets } = overSockets(t)
  session.open()
  const socket = await sockets.next()
  session.close()
  socket.greet()
  assert.deepEqual([socket.readyState, session.status], [3, "closed"])
})

test("a listener's mistake is the page's: the session goes on", async (t) => {
  const { session, sockets } = overSockets(t)
  const handlers = process.listeners("uncaughtException")
  process.removeAllListeners("uncaughtException")
  const caught = new Promise((resolve) => process.once("uncaughtException", resolve))
  t.after(() => handlers.forEach((handler) => process.on("uncaughtException", handler)))
  session.on("event", ({ id }) => { if (id === "1-0") throw new Error("mine") })
  const socket = await sockets.next()
  socket.greet()
  socket.tell(said("1-0", "a"), said("2-0", "b", 2))
  assert.equal((await caught).message, "mine")
  assert.equal(session.cursor, "2-0")
})

test("who iterates too slowly is told so, and the state has missed nothing", async (t) => {
  const { session, sockets } = overSockets(t)
  const iterator = session.events()
  const first = iterator.next()
  const socket = await sockets.next()
  socket.greet()
  socket.tell(said("1-0", "a"))
  await first
  for (let count = 2; count < pentad.MAX_WAITING_EVENTS + 10; count++) socket.tell(said(`${count}-0`, "b", count % 50))
  await assert.rejects(async () => { while (!(await iterator.next()).done); }, pentad.SlowReader)
  assert.equal(session.cursor, `${pentad.MAX_WAITING_EVENTS + 9}-0`)
})

test("events, requests and messages are given up by a signal", async (t) => {
  const { session, client } = overSockets(t, {}, () => new Promise(() => {}))
  const controller = new AbortController()
  const { signal } = controller
  const waiting = [
    (async () => { for await (const _ of session.events({ signal })); })(),
    client.request("GET", "/v1/tasks", { signal }),
    session.send("hi", { signal }).accepted,
    session.history({ signal }),
    session.files.put("a", "b", { signal }),
  ]
  controller.abort(new Error("enough"))
  for (const each of waiting) await assert.rejects(each, /enough/)
  await assert.rejects(client.request("GET", "/v1/tasks", { signal }), /enough/)
  await assert.rejects(client.request("GET", "/v1/tasks", { timeoutMs: 5 }), /nothing for 0.005 s/)
})

test("a turn of very many events has its end and its text, though nobody has read it meanwhile", async (t) => {
  const { session, sockets } = overSockets(t)
  const turn = session.send("hi")
  const socket = await sockets.next()
  socket.greet()
  socket.tell(routed("1-0", turn.messageId))
  const count = pentad.MAX_WAITING_EVENTS + 10
  for (let place = 0; place < count; place++) {
    socket.tell({ type: "content", id: `2-${place}`, task_id: "t", step: 1, attempt: 1, offset: place, content: "x" })
  }
  const done = turn.done()
  socket.tell(ended("3-0"))
  assert.equal((await done).outcome, "completed")
  const texts = []
  for await (const text of turn.text()) texts.push(text)
  assert.deepEqual(texts.map((text) => text.length), [count])
  await assert.rejects(session.send("more").done({ signal: AbortSignal.abort(new Error("enough")) }), /enough/)
})

const PROBLEMS = [
  [400, {}, pentad.Refused], [401, {}, pentad.NotAuthorized], [403, {}, pentad.Refused], [404, {}, pentad.NotFound], [409, {}, pentad.Conflict],
  [410, {}, pentad.Unreadable], [412, {}, pentad.Conflict], [413, {}, pentad.Refused], [429, { code: "busy" }, pentad.Busy], [500, {}, pentad.GatewayUnreachable],
  [502, null, pentad.GatewayUnreachable], [503, { code: "busy" }, pentad.Busy], [418, "no object", pentad.Refused],
]
for (const [status, body, kind] of PROBLEMS) {
  test(`an answer of ${status} is ${kind.name}`, async (t) => {
    const problem = body === null || typeof body === "string" ? body : { title: "T", detail: "what to do", message_id: "m", ...body }
    const { client } = overSockets(t, {}, () => json(problem, status, { "Retry-After": "2" }))
    await assert.rejects(client.request("GET", "/v1/tasks"), (error) => {
      assert.deepEqual([error.constructor, error.status, error.retryAfter, error instanceof pentad.PentadError], [kind, status, 2, true])
      if (typeof problem === "object" && problem !== null) assert.match(error.message, /T: what to do/)
      return true
    })
  })
}

test("nobody there, and somebody who is no gateway, are told apart", async (t) => {
  const away = overSockets(t, { key: "secret" }, () => { throw Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } }) })
  await assert.rejects(away.client.task("t"), (error) => error instanceof pentad.GatewayUnreachable && /http:\/\/gateway \(ECONNREFUSED\)/.test(error.message))
  const stranger = overSockets(t, {}, () => new Response("<html>hello"))
  await assert.rejects(stranger.client.task("t"), /not a Pentad gateway/)
})

test("a token is asked for again when it is refused, once a request, and before it ends", async (t) => {
  let given = 0
  const getToken = async () => ({ token: `t${++given}`, expires_at: new Date(Date.now() + (given === 2 ? 60_000 : 10_500)).toISOString() })
  const { client, asked } = overSockets(t, { getToken }, ({ headers }) => (headers.authorization === "Bearer t1" ? json({}, 401) : json({})))
  await Promise.all([client.task("a"), client.task("b")])
  assert.deepEqual(asked.map(({ headers }) => headers.authorization), ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"])
  const never = overSockets(t, { getToken: () => "x" }, () => json({}, 401))
  await assert.rejects(never.client.task("a"), pentad.NotAuthorized)
  assert.equal(never.asked.length, 2)
})

test("the page's server that gives no token is waited for; its refusal is final", async (t) => {
  let asked = 0
  const { session, sockets } = overSockets(t, { getToken: async () => { if (++asked < 3) throw new Error("no server"); return "t" } })
  session.open()
  ;(await sockets.next()).greet()
  assert.deepEqual([asked, session.status], [3, "connected"])
  const final = overSockets(t, { getToken: async () => { throw new pentad.NotAuthorized("sign in") } })
  await assert.rejects(async () => { for await (const _ of final.session.events()); }, /sign in/)
})

test("gateway and session are those of the token, where none are named", async (t) => {
  const { session, sockets } = overSockets(t, { url: undefined, session: null, getToken: () => ({ token: "t", url: "https://there/base/", session_id: "web-1" }) })
  session.open()
  assert.equal((await sockets.next()).url, "wss://there/base/v1/ws?session_id=web-1&after=0")
  assert.deepEqual([session.id, session.state.session_id], ["web-1", "web-1"])
})

test("nothing is sent to another host, whatever a path says, and names are encoded", async (t) => {
  const { client, session, asked } = overSockets(t, { key: "k" }, () => json({ items: [], next: null }))
  for (const path of ["//evil.example/v1", "https://evil.example", "v1/tasks", "", null]) {
    await assert.rejects(client.request("GET", path), pentad.Refused)
  }
  for (const path of ["", "..", "a/../b", "/etc/passwd", "a//b", null]) await assert.rejects(session.files.get(path), pentad.Refused)
  await client.request("GET", "/@evil.example/x")
  await client.task("a/b?c#d")
  await session.files.put("r \u00e9/a?b.txt", "x", { ifMatch: '"e"' })
  await session.files.put("n", new Uint8Array([1]), { onlyNew: true })
  assert.deepEqual(asked.map(({ origin }) => origin), Array(4).fill("http://gateway"))
  assert.deepEqual(asked.slice(1).map(({ path }) => path), ["/v1/tasks/a%2Fb%3Fc%23d", "/v1/sessions/s%201/files/r%20%C3%A9/a%3Fb.txt", "/v1/sessions/s%201/files/n"])
  assert.deepEqual([asked[2].headers["if-match"], asked[3].headers["if-none-match"]], ['"e"', "*"])
  assert.throws(() => connect({ url: "ftp://x" }), pentad.Refused)
  assert.throws(() => connect({ url: "https://user@x" }), pentad.Refused)
  assert.throws(() => connect({ url: "http://x", key: "a", token: "b" }), pentad.Refused)
})

test("a message has a text of some length and few files, and is what it was when it was said", async (t) => {
  const { session, asked } = overSockets(t)
  for (const content of ["", "x".repeat(pentad.MAX_CONTENT + 1), 5, null]) assert.throws(() => session.send(content), pentad.Refused)
  assert.throws(() => session.send("x", { files: Array(17).fill("a") }), pentad.Refused)
  const metadata = { a: "b" }
  const turn = session.send("\u{1f600}".repeat(pentad.MAX_CONTENT), { metadata, taskId: "new", userId: "u", files: ["f"] })
  metadata.a = "changed"
  await turn.accepted
  const [{ body }] = asked
  assert.deepEqual([body.metadata, body.task_id, body.user_id, body.files, body.session_id], [{ a: "b" }, "new", "u", ["f"], "s 1"])
})

test("a decision names the arguments that were seen", async (t) => {
  const { session, sockets, asked } = overSockets(t, {}, () => json({ approved: true }))
  session.open()
  const socket = await sockets.next()
  socket.greet()
  socket.tell({ type: "approval_request", id: "1-0", task_id: "t", tool_call_id: "c", tool: "echo", args: { a: 1 }, args_digest: "d", effect: "pure" })
  const [waiting] = pentad.approvalsOf(session.state)
  await session.approve(waiting, { args: { a: 2 } })
  await session.refuse(waiting, { reason: "no" })
  assert.deepEqual(asked.map(({ path, body }) => [path, body]), [
    ["/v1/tasks/t/approvals/c", { approved: true, args: { a: 2 }, args_digest: "d" }],
    ["/v1/tasks/t/approvals/c", { approved: false, reason: "no", args_digest: "d" }],
  ])
})

test("what a person does goes to its route", async (t) => {
  const { session, client, sockets, asked } = overSockets(t, {}, () => json({ items: [], next: null, content: "" }))
  session.open()
  const socket = await sockets.next()
  socket.greet()
  socket.tell(routed("1-0", "m1"))
  await session.cancel("t")
  await session.pause("t")
  await session.resume("t")
  await session.move("m1", "new")
  await client.memory.search("q", { limit: 3 })
  await client.memory.expand("a", { window: 1 })
  assert.throws(() => session.move("m2", "new"), /name it as from/)
  const told = asked.filter(({ path }) => !path.endsWith("/messages")).map(({ method, path, query, body }) => [method, path, query, body])
  assert.deepEqual(told, [
    ...["cancel", "pause", "resume"].map((what) => ["POST", `/v1/tasks/t/${what}`, {}, undefined]),
    ["POST", "/v1/tasks/t/move", {}, { message_id: "m1", to: "new" }],
    ["GET", "/v1/memory/search", { q: "q", limit: "3" }, undefined],
    ["POST", "/v1/memory/expand", {}, { anchor: "a", window: 1 }],
  ])
})

test("a list goes on while there is a next page, to its limit", async (t) => {
  const { client, asked } = overSockets(t, {}, ({ query }) => json({ items: query.cursor ? ["c", "d"] : ["a", "b"], next: query.cursor === "2" ? null : query.cursor ? "2" : "1" }))
  const found = []
  for await (const item of client.pages("/v1/x", { limit: 3 })) found.push(item)
  assert.deepEqual([found, asked.map(({ query }) => query)], [["a", "b", "c"], [{ limit: "3" }, { limit: "1", cursor: "1" }]])
})

/** A session over server-sent events that the test writes. */
function overStreams(t, options = {}) {
  const streams = []
  const { fetch, asked } = fakeFetch(async (request) => {
    if (!request.path.endsWith("/events")) return json({ items: [] })
    const next = options.refusals?.shift()
    if (next) return next()
    streams.push(fakeStream(request.signal))
    return streams.at(-1).response
  })
  const client = connect({ url: "http://gateway", fetch, key: "k", transport: "sse", ...options })
  const session = client.session("s1", options.sessionOptions)
  t.after(() => session.close())
  return { session, streams, asked: () => asked.filter(({ path }) => path.endsWith("/events")) }
}

test("events come by server-sent events, cut anywhere, and a broken stream goes on at its cursor", async (t) => {
  const { session, streams, asked } = overStreams(t, { refusals: [() => json({}, 503), null, () => { throw new TypeError("away") }] })
  session.open()
  await until("the stream", () => streams.length === 1)
  const text = "h\u00e9llo \u{1f600}"
  const bytes = new TextEncoder().encode(`: hello\n\nid: 1-0\ndata: ${JSON.stringify(said("1-0", text))}\n\n: alive\n\n`)
  for (const byte of bytes) streams[0].write(new Uint8Array([byte]))
  await until("the text", () => session.state.tasks.t?.steps[0].text === text)
  streams[0].end()
  await until("another stream", () => streams.length === 2)
  streams[1].tell(said("1-0", "again"))
  streams[1].tell(ended("2-0"))
  await until("the end", () => session.state.tasks.t.status === "completed")
  assert.equal(session.state.tasks.t.steps[0].text, text)
  assert.deepEqual(asked().map(({ headers }) => [headers["last-event-id"], headers.authorization]), [["0", "Bearer k"], ["0", "Bearer k"], ["1-0", "Bearer k"], ["1-0", "Bearer k"]])
  session.close()
  await until("the stream to be left", () => asked().at(-1).signal.aborted)
})

test("a stream that is refused for good closes the session", async (t) => {
  const { session } = overStreams(t, { refusals: [() => json({ detail: "another session" }, 403)] })
  session.open()
  await until("its end", () => session.status === "closed")
  assert.match(session.error.message, /another session/)
})

test("where a WebSocket does not open, or cannot carry the key, events come by server-sent events", async (t) => {
  const sockets = fakeSockets()
  const { session, streams } = overStreams(t, { transport: "auto", WebSocket: sockets.WebSocket })
  session.open()
  ;(await sockets.next()).drop(1006)
  ;(await sockets.next()).drop(1006)
  await until("the stream", () => session.status === "connected")
  assert.deepEqual([streams.length, sockets.opened.length], [1, 2])
  const odd = overStreams(t, { transport: "auto", WebSocket: sockets.WebSocket, key: "a/b=" })
  odd.session.open()
  await until("the stream", () => odd.session.status === "connected")
  assert.equal(sockets.opened.length, 2)
})

test("from now on: a snapshot, without the word of a gap, and what comes next", async (t) => {
  const { session, streams, asked } = overStreams(t, { sessionOptions: { after: "now" } })
  const events = []
  session.on("event", (event) => events.push(event.type))
  await until("the stream", () => streams.length === 1)
  assert.match(asked()[0].headers["last-event-id"], /^18446744073709551615-/)
  streams[0].write(new TextEncoder().encode(`data: ${JSON.stringify({ type: "error", code: "cursor_expired", message: "m" })}\n\n`))
  streams[0].tell({ type: "snapshot", id: "9-0", tasks: [], messages: [] })
  await until("the snapshot", () => session.cursor === "9-0")
  assert.deepEqual(events, ["snapshot"])
})

test("a state that was kept goes on from its cursor", async (t) => {
  const { session, sockets } = overSockets(t)
  session.open()
  const socket = await sockets.next()
  socket.greet()
  socket.tell(routed("1-0", "constructor"), said("2-0", "hi"))
  const kept = JSON.parse(JSON.stringify(session.state))
  const later = overSockets(t, { session: null, sessionOptions: { state: kept } })
  later.session.open()
  const again = await later.sockets.next()
  assert.equal(again.url, "ws://gateway/v1/ws?session_id=s+1&after=2-0")
  again.greet()
  again.tell(said("2-0", "hi"), said("3-0", "more", 2), routed("4-0", "toString"))
  assert.deepEqual(later.session.state.tasks.t.steps.map((step) => step.text), ["hi", "more"])
  assert.deepEqual(Object.keys(later.session.state.messages), ["constructor", "toString"])
})
