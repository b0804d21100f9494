// A session of pentad.js for tests in Python: node session_driver.mjs '{"url", "session", ...}'. Commands are read from
// stdin, one a line; what happens is written to stdout, one a line.
import { createInterface } from "node:readline"
import { approvalsOf, clientCallsOf, connect, questionsOf } from "../../../clients/js/pentad.js"

const { url, session: id, transport, key, after, ttl_s, may = ["read", "send", "approve"] } = JSON.parse(process.argv[2])
const print = (kind, value) => console.log(JSON.stringify({ [kind]: value }))
const server = connect({ url, key, transport: "sse" })
const getToken = () => server.token({ session_id: id, may, ttl_s }).then((token) => (print("token", token.expires_at), token))
const client = connect({ url, transport, ...(ttl_s ? { getToken } : { key }) })
const session = client.session(id, { after })

/** A tool whose function tells that it is called, and gives or throws what it is told to, then or when it is released. */
let release
const released = new Promise((resolve) => (release = resolve))
function ownTool({ gives, throws, waits, ...tool }) {
  if (gives === undefined && throws === undefined) return tool
  const run = async (args, { call, signal }) => {
    print("ran", { args, call: call.tool_call_id })
    signal.addEventListener("abort", () => print("gave_up", call.tool_call_id))
    if (waits) await released
    if (throws !== undefined) throw new Error(throws)
    return gives
  }
  return { ...tool, run }
}

const COMMANDS = {
  async send({ text, tools, ...options }) {
    const turn = session.send(text, { ...options, tools: tools?.map(ownTool) })
    await turn.accepted
    turn.done().then((result) => print("turn", result), (error) => print("failed", error.name))
    return { message_id: turn.messageId }
  },
  approve: ({ call, ...options }) => session.approve(approvalsOf(session.state).find((each) => !call || each.tool_call_id === call), options),
  refuse: (options) => session.refuse(approvalsOf(session.state)[0], options),
  answer: ({ text }) => session.answer(questionsOf(session.state)[0].task_id, text).accepted,
  cancel: ({ task }) => session.cancel(task),
  pause: ({ task }) => session.pause(task),
  resume: ({ task }) => session.resume(task),
  move: ({ message, to }) => session.move(message, to),
  release: () => release(),
  client_calls: () => clientCallsOf(session.state),
  result: ({ value }) => session.sendResult(clientCallsOf(session.state)[0], value),
  fail: ({ reason }) => session.sendFailure(clientCallsOf(session.state)[0], reason),
  approvals: () => session.approvals(),
  history: () => session.history(),
  put: ({ path, text }) => session.files.put(path, text),
  get: async ({ path, start, end }) => await (await session.files.get(path, { start, end })).text(),
  list: async () => { const found = []; for await (const file of session.files.list()) found.push(file.path); return found },
  remove: ({ path }) => session.files.remove(path),
  search: ({ question, ...query }) => client.memory.search(question, query),
  expand: ({ anchor }) => client.memory.expand(anchor),
  request: ({ method, path, ...options }) => client.request(method, path, options),
  state: () => session.state,
  close: () => session.close(),
}

session.on("event", (event) => print("event", event))
session.on("status", (status) => print("status", status))
session.on("error", (error) => print("closed", { name: error.name, message: error.message }))
for await (const line of createInterface({ input: process.stdin })) {
  const { number, command, ...options } = JSON.parse(line)
  Promise.resolve()
    .then(() => COMMANDS[command](options))
    .then((value) => print("answer", { number, value: value ?? null }))
    .catch((error) => print("answer", { number, error: { name: error.name, message: error.message } }))
}
