// What was set aside: why, what led to it, and sending it again, edited or as it was.
import { askAsOperator } from "../client.js"
import { clip } from "../format.js"
import { html, useState } from "../html.js"
import { useAction, useLoaded, usePages } from "../loading.js"
import { Act, JsonField, Loading, More, Problem, TaskLink, Value, When } from "../parts/basics.js"
import { addressOf, go } from "../router.js"

export function DeadLetters({ parts: [id] }) {
  return id ? html`<${Letter} key=${id} id=${id} />` : html`<${Letters} />`
}

function Letters() {
  const letters = usePages(
    (cursor, signal) => askAsOperator("/v1/dead-letters", { query: { cursor, limit: 50 }, signal }),
    [],
  )
  return html`<${Loading} of=${letters} empty=${letters.items.length === 0} what="Nothing was set aside." />
    ${
      letters.items.length > 0 &&
      html`<div class="scroll" tabindex="0" role="region" aria-label="Dead letters">
      <table>
        <thead><tr><th>Letter</th><th>Kind</th><th>Reason</th><th>Tenant</th><th>Task</th><th>At</th></tr></thead>
        <tbody>
          ${letters.items.map(
            (letter) => html`<tr key=${letter.id}>
            <td><a href=${addressOf(["operations", "dead-letters", letter.id])}><code>${letter.id}</code></a></td>
            <td>${letter.kind ?? html`<span class="problem">${letter.problem}</span>`}</td>
            <td>${clip(letter.reason ?? "", 120)}</td>
            <td>${letter.tenant_id}</td>
            <td>${letter.task_id && html`<${TaskLink} id=${letter.task_id} />`}</td>
            <td><${When} at=${letter.at} /></td>
          </tr>`,
          )}
        </tbody>
      </table>
    </div>`
    }
    <${More} of=${letters} />`
}

function Letter({ id }) {
  const letter = useLoaded((signal) => askAsOperator(`/v1/dead-letters/${id}`, { signal }), [id])
  const back = html`<p><a href=${addressOf(["operations", "dead-letters"])}>All dead letters</a></p>`
  if (!letter.value) return html`${back}<${Loading} of=${letter} />`
  const {
    reason,
    kind,
    stream,
    attempts,
    at,
    chain,
    body,
    redrive,
    tenant_id: tenant,
    session_id: session,
    task_id: task,
  } = letter.value
  return html`${back}
    <section class="panel">
      <h2>${kind} <code>${id}</code></h2>
      <p class="problem">${reason}</p>
      <dl class="facts">
        <dt>Set aside</dt><dd><${When} at=${at} /> after ${attempts} attempts</dd>
        <dt>Stream</dt><dd><code>${stream}</code></dd>
        <dt>Whose</dt><dd>${tenant ?? "unknown"}${session ? html`, session <a href=${addressOf(["chat", session])}>${session}</a>` : ""}${task ? html`, task <${TaskLink} id=${task} />` : ""}</dd>
      </dl>
      <h3>What led to it</h3>
      <ol>${(chain ?? []).map((link) => html`<li key=${link.id}>${link.kind} ${link.kind === "task" ? html`<${TaskLink} id=${link.id} />` : html`<code>${link.id}</code>`}</li>`)}</ol>
      <details><summary>What was set aside</summary><${Value} of=${body} label="body" /></details>
    </section>
    <${Redrive} id=${id} redrive=${redrive} />`
}

function Redrive({ id, redrive }) {
  const [body, setBody] = useState(redrive?.body)
  const [edited, setEdited] = useState(false)
  const send = useAction(() =>
    askAsOperator(`/v1/dead-letters/${id}/redrive`, { method: "POST", ...(edited ? { body } : {}) }),
  )
  const discard = useAction(async () => {
    await askAsOperator(`/v1/dead-letters/${id}`, { method: "DELETE" })
    go(["operations", "dead-letters"])
  })
  const edit = (value) => {
    setEdited(true)
    setBody(value)
  }
  if (send.done)
    return html`<section class="panel"><p class="good" role="status">It was sent again.</p><${Value} of=${send.done} label="what the gateway answered" /></section>`
  return html`<section class="panel">
    <h2>Send it again</h2>
    ${redrive?.problem && html`<p class="warn">${redrive.problem}</p>`}
    ${redrive?.body !== undefined && redrive?.body !== null && html`<${JsonField} label="What is sent" value=${redrive.body} onChange=${edit} rows=${10} />`}
    <div class="row">
      <button type="button" class="primary" disabled=${send.busy || (edited && body === undefined)} onClick=${() => send.run()}>Redrive</button>
      <${Act} action=${discard} danger confirm="Remove it for good?">Discard<//>
    </div>
    <${Problem} error=${send.error ?? discard.error} />
  </section>`
}
