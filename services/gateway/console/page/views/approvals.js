// Tool calls that wait for a person: seen whole, edited, allowed or refused.
import { ask } from "../client.js"
import { html, useState } from "../html.js"
import { useAction, usePages } from "../loading.js"
import { JsonField, Loading, More, Problem, TaskLink, Value, When } from "../parts/basics.js"
import { addressOf } from "../router.js"

/** All that wait, of the sessions that the key may see. */
export function ApprovalList() {
  const waiting = usePages((cursor, signal) => ask("/v1/approvals", { query: { cursor, limit: 50 }, signal }), [])
  return html`<p><button type="button" onClick=${waiting.reload}>Refresh</button></p>
    <${Loading} of=${waiting} empty=${waiting.items.length === 0} what="No call waits for a decision." />
    <ul class="plain">${waiting.items.map(
      (call) => html`<li class="panel" key=${call.tool_call_id}>
      <p class="quiet">Task <${TaskLink} id=${call.task_id} /> in <a href=${addressOf(["chat", call.session_id])}>${call.session_id}</a>${call.user_id ? ` of ${call.user_id}` : ""}</p>
      <${Approval} of=${call} onDecided=${waiting.reload} />
    </li>`,
    )}</ul>
    <${More} of=${waiting} />`
}

/**
 * One call and the decision about it. `of` is as `GET /v1/approvals` lists it. A question of a tool's server is answered
 * with the values of its form.
 */
export function Approval({ of: call, onDecided }) {
  const asked = call.needs && call.needs !== "approval"
  const [editing, setEditing] = useState(Boolean(call.form))
  const [args, setArgs] = useState(call.form ? {} : call.args)
  const [reason, setReason] = useState("")
  const decide = useAction(async (approved) => {
    const changed = approved && editing && args !== undefined
    const body = {
      approved,
      ...(call.args_digest ? { args_digest: call.args_digest } : {}),
      ...(changed ? { args } : {}),
      ...(reason ? { reason } : {}),
    }
    const path = `/v1/tasks/${call.task_id}/approvals/${encodeURIComponent(call.tool_call_id)}`
    const decision = await ask(path, { method: "POST", body })
    onDecided?.(decision)
    return decision
  })
  return html`<div class="approval" aria-label=${`Decision about ${call.tool}`} role="group">
    <p><b>${call.tool}</b> ${asked ? "asks" : "waits for your decision"}${call.effect ? html` <span class="badge">${call.effect}</span>` : ""}</p>
    ${call.reason && html`<p><${Reason} text=${call.reason} /></p>`}
    ${
      editing
        ? html`<${JsonField} label=${call.form ? "Answer" : "Arguments"} value=${args ?? {}} onChange=${setArgs} rows=${6} />`
        : html`<${Value} of=${call.args} label="arguments" />`
    }
    ${call.form && html`<details><summary>What is asked for</summary><${Value} of=${call.form} label="form" /></details>`}
    <label class="field">Reason <input value=${reason} onInput=${(event) => setReason(event.target.value)} /></label>
    <div class="row">
      <button type="button" class="primary" disabled=${decide.busy || (editing && args === undefined)} onClick=${() => decide.run(true)}>${editing && !call.form ? "Approve as edited" : "Approve"}</button>
      ${!editing && !asked && html`<button type="button" onClick=${() => setEditing(true)}>Edit</button>`}
      <button type="button" class="danger" disabled=${decide.busy} onClick=${() => decide.run(false)}>Refuse</button>
      ${call.expires_at && html`<span class="quiet">until <${When} at=${call.expires_at} /></span>`}
    </div>
    ${call.approvers && html`<p class="quiet">${call.approvers.join(", ")} may decide.</p>`}
    <${Problem} error=${decide.error} />
  </div>`
}

/** A reason may name the page on which a person signs in. */
function Reason({ text }) {
  return text
    .split(/(https?:\/\/[^\s"'<>]+)/)
    .map((part, i) => (i % 2 ? html`<a href=${part} target="_blank" rel="noopener noreferrer">${part}</a>` : part))
}
