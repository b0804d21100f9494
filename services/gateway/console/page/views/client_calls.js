// Calls of tools that an application runs itself: shown as what they are, and answered by hand where it is gone.
import { html, useState } from "../html.js"
import { useAction } from "../loading.js"
import { Problem, TaskLink, Value } from "../parts/basics.js"

/** Stands beside a call that waits for its application. */
export const APPLICATION = "waits for the application that asked"

/** One call, and a result or a failure that a person sends in place of the application. The first result counts. */
export function ClientCall({ of: call, session }) {
  const [text, setText] = useState("")
  const send = useAction((how) => session[how](call, text))
  return html`<div class="approval" aria-label=${`Result of ${call.tool}`} role="group">
    <p><b>${call.tool}</b> of <${TaskLink} id=${call.task_id} /> ${APPLICATION}</p>
    <${Value} of=${call.args} label="arguments" />
    <details><summary>Answer in its place</summary>
      <label class="field">Result, or why it has failed
        <textarea rows="3" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
      <div class="row">
        <button type="button" class="primary" disabled=${send.busy} onClick=${() => send.run("sendResult")}>Send the
          result</button>
        <button type="button" class="danger" disabled=${send.busy} onClick=${() => send.run("sendFailure")}>It has
          failed</button>
      </div>
    </details>
    <${Problem} error=${send.error} />
  </div>`
}
