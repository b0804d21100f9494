// A session of pentad.js for tests in Python: node session_driver.mjs '{"url", "session", ...}'. Commands are read from
// stdin, one a line; what happens is written to stdout, one a line.
import { createInterface } from "node:readline"
import { approvalsOf, connect, questionsOf } from "../../../clients/js/pentad.js"

const { url, session: id, transport, key, after, ttl_s, may = ["read", "send", "approve"] } = JSON.parse(process.argv[2])
const print = (kind, value) => console.log(JSON.stringify({ [kind]: value }))
const server = connect({ url, key, transport: "sse" })
const getToken = () => server.token({ session_id: id, may, ttl_s }).then((token) => (print("token", token.expires_at), token))
const client = connect({ url, transport, ...(ttl_s ? { getToken } : { key }) })
const session = client.session(id, { after })

const COMMANDS = {
  async send({ text, ...options }) {
    const turn = session.send(text, options)
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
