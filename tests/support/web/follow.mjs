// What the example's page does, without a browser: node follow.mjs SERVER TEXT. Prints entries whenever they change, as JSON.
import { Conversation, Session } from "../../../examples/web/chat.mjs"

const [server, text] = process.argv.slice(2)
const conversation = new Conversation()
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
const session = new Session({
  getToken,
  onState: (state) => print("state", state),
  onEvent: (event) => {
    conversation.take(event)
    print("entries", conversation.entries.map(({ kind, text, state }) => [kind, text ?? null, state]))
    if (event.type === "task_end") session.stop()
  },
})
conversation.say(session.send(text), text)
await session.run()
