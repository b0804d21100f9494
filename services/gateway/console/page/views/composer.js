// Where a person says something: to whom, with which files.
import { clip } from "../format.js"
import { html, useRef, useState } from "../html.js"
import { useAction } from "../loading.js"
import { Problem } from "../parts/basics.js"

const USER = "pentad.user"
const ENDED = ["completed", "failed", "cancelled"]

/** `question`: the last one that a task asks; the message answers it unless another task is chosen. */
export function Composer({ session, tasks, question }) {
  const [text, setText] = useState("")
  const [to, setTo] = useState("")
  const [user, setUser] = useState(() => sessionStorage.getItem(USER) ?? "")
  const [files, setFiles] = useState([])
  const field = useRef(null)
  const attach = useAction(async (chosen) => {
    const kept = []
    for (const file of chosen) {
      await session.files.put(file.name, file)
      kept.push(file.name)
    }
    setFiles((before) => [...before, ...kept])
  })
  const send = useAction((content) => {
    const taskId = to || question?.task_id
    const options = {
      ...(taskId ? { taskId } : {}),
      ...(user ? { userId: user } : {}),
      ...(files.length ? { files } : {}),
    }
    setText("")
    setFiles([])
    field.current.focus()
    return session.send(content, options).accepted
  })
  const submit = (event) => {
    event.preventDefault()
    if (text.trim()) send.run(text)
  }
  const type = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event)
  }
  const name = (event) => {
    setUser(event.target.value.trim())
    sessionStorage.setItem(USER, event.target.value.trim())
  }
  return html`<form class="composer" onSubmit=${submit}>
    <textarea ref=${field} rows="2" aria-label="Message" placeholder=${question ? "Your answer" : "Message"} autofocus value=${text}
      onInput=${(event) => setText(event.target.value)} onKeyDown=${type} />
    <div class="row">
      <label>To <select value=${to} onChange=${(event) => setTo(event.target.value)}>
        <option value="">${question ? "the task that asks" : "the task it belongs to"}</option>
        <option value="new">a new task</option>
        ${tasks.map((task) => html`<option value=${task.task_id}>${clip(task.goal ?? task.task_id, 40)}${ENDED.includes(task.status) ? " (ended)" : ""}</option>`)}
      </select></label>
      <label>As user <input size="8" value=${user} onChange=${name} /></label>
      <label class="button">Attach <input class="hidden" type="file" multiple onChange=${(event) => attach.run([...event.target.files])} /></label>
      ${files.map((path) => html`<span class="badge" key=${path}>${path}</span>`)}
      <span class="grow"></span>
      <button class="primary" disabled=${!text.trim()}>Send</button>
    </div>
    <${Problem} error=${send.error ?? attach.error} />
  </form>`
}
