// Something new, written as JSON, in a dialog.
import { html, useState } from "../html.js"
import { useAction } from "../loading.js"
import { Dialog, JsonField, Problem } from "./basics.js"

/**
 * `example` is what the field begins with. `add` sends what was written; what it returns as a text is told, and the
 * dialog stays.
 */
export function AddDialog({ title, hint = "", example, add, onClose, onAdded }) {
  const [body, setBody] = useState(example)
  const send = useAction(async () => {
    const told = await add(body)
    onAdded()
    if (typeof told !== "string" || !told) onClose()
    return told
  })
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${hint && html`<p class="quiet">${hint}</p>`}
    <${JsonField} label="As JSON" value=${example} onChange=${setBody} />
    ${typeof send.done === "string" && html`<p class="warn" role="status">It is added. ${send.done}</p>`}
    <${Problem} error=${send.error} />
    <div class="row end"><button type="button" class="primary" disabled=${send.busy || body === undefined}
      onClick=${() => send.run()}>Add</button></div>
  <//>`
}
