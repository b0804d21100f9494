// What the example's page does, without a browser: node follow.mjs SERVER TEXT. Prints entries whenever they change, as JSON.
import { connect } from "../../../clients/js/pentad.js"
import { rows } from "../../../examples/web/chat.mjs"

const [server, text] = process.argv.slice(2)
let cookie = ""
let tokens = 0

async function getToken() {
  const answer = await fetch(`${server}/token`, { method: "POST", headers: cookie ? { cookie } : {} })
  if (!answer.ok) throw new Error(await answer.text())
  cookie ||= answer.headers.get("set-cookie").split(";")[0]
  tokens += 1
  return await answer.json()
}

const print = (kind, value) => console.log(JSON.stringify({ [kind]: value, tokens }))
const session = connect({ getToken }).session()
session.on("status", (status) => print("state", status))
session.on("state", (state) => print("entries", rows(state).map(({ kind, text, state }) => [kind, text, state])))
session.on("event", ({ type }) => type === "task_end" && setTimeout(() => session.close()))
session.send(text)
