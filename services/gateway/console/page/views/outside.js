// What happens outside conversations: messages that are due at a time, and events that are sent to addresses.
import { ask, askAsOperator, keys } from "../client.js"
import { clip, count } from "../format.js"
import { html, useState } from "../html.js"
import { useAction, useLoaded, usePages } from "../loading.js"
import { AddDialog } from "../parts/add_dialog.js"
import { Act, Loading, More, Problem, Status, TaskLink, When } from "../parts/basics.js"
import { Table } from "../parts/table.js"

export function Schedules() {
  const schedules = usePages((cursor, signal) => ask("/v1/schedules", { query: { cursor, limit: 50 }, signal }), [])
  const [adding, setAdding] = useState(false)
  const [shown, setShown] = useState(null)
  const act = useAction(async (id, verb) => {
    const path = `/v1/schedules/${encodeURIComponent(id)}`
    await ask(verb === "remove" ? path : `${path}/${verb}`, { method: verb === "remove" ? "DELETE" : "POST" })
    schedules.reload()
  })
  return html`<p><button type="button" onClick=${() => setAdding(true)}>Add a schedule …</button></p>
    <${Problem} error=${act.error} />
    <${Loading} of=${schedules} empty=${schedules.items.length === 0} what="There is none." />
    ${schedules.items.map(
      (each) => html`<section class="panel" key=${each.schedule_id} aria-label=${each.schedule_id}>
      <div class="row">
        <h2 class="grow"><code>${each.schedule_id}</code> <span class="quiet">
          ${each.cron ?? each.at ?? `every ${each.every} s`} ${each.time_zone}</span></h2>
        <${Status} of=${each.status} />
      </div>
      <p>${clip(each.content, 200)}</p>
      <p class="quiet">Next <${When} at=${each.next_at} />
        ${each.last ? html`, last ${each.last.due_at}: <${Status} of=${each.last.status} />` : ""}</p>
      <div class="row">
        ${each.status === "active" && html`<${Act} action=${act} args=${[each.schedule_id, "pause"]}>Pause<//>`}
        ${each.status === "paused" && html`<${Act} action=${act} args=${[each.schedule_id, "resume"]}>Resume<//>`}
        <button type="button"
          onClick=${() => setShown(shown === each.schedule_id ? null : each.schedule_id)}>History</button>
        <${Act} action=${act} args=${[each.schedule_id, "remove"]} danger confirm="Remove this schedule?">Remove<//>
      </div>
      ${shown === each.schedule_id && html`<${History} id=${each.schedule_id} />`}
    </section>`,
    )}
    <${More} of=${schedules} />
    ${
      adding &&
      html`<${AddDialog} title="Add a schedule" add=${(body) => ask("/v1/schedules", { method: "POST", body })}
      example=${{ cron: "0 9 * * 1-5", time_zone: "UTC", content: "What is new?" }} onClose=${() => setAdding(false)}
      onAdded=${schedules.reload} />`
    }
    ${keys().admin && html`<${SchedulesOfAll} />`}`
}

/** Tenant of all that a gateway without API keys has; its lists name none. */
const ONLY_TENANT = "default"

/** What operators see: schedules of all tenants that are not paused, or all of one. Their tenants change them. */
function SchedulesOfAll() {
  const [tenant, setTenant] = useState("")
  const schedules = usePages(
    (cursor, signal) => askAsOperator("/v1/schedules", { query: { cursor, limit: 50, tenant }, signal }),
    [tenant],
  )
  return html`<label class="field">Tenant (left out: what is due in all of them; named: paused ones, too)
      <input value=${tenant} onChange=${(event) => setTenant(event.target.value.trim())} /></label>
    <${Problem} error=${schedules.error} />
    <${Table} title="Schedules of all tenants"
      heads=${["Schedule", "Tenant", "When", "Message", "Next", "Last", "Status"]}
      rows=${schedules.items.map((each) => ({
        key: `${each.tenant_id ?? tenant} ${each.schedule_id}`,
        cells: [
          html`<code>${each.schedule_id}</code>`,
          each.tenant_id ?? (tenant || ONLY_TENANT),
          `${each.cron ?? each.at ?? `every ${each.every} s`} ${each.time_zone}`,
          clip(each.content, 80),
          html`<${When} at=${each.next_at} />`,
          each.last ? html`<${When} at=${each.last.due_at} /> <${Status} of=${each.last.status} />` : "–",
          html`<${Status} of=${each.status} />`,
        ],
      }))} />
    <${More} of=${schedules} />`
}

function History({ id }) {
  const runs = useLoaded((signal) => ask(`/v1/schedules/${encodeURIComponent(id)}/runs`, { signal }), [id])
  const items = runs.value?.items ?? []
  return html`<${Loading} of=${runs} empty=${items.length === 0} what="It was not due yet." />
    <ul>${items.map(
      (run) => html`<li key=${run.due_at}>
      <${When} at=${run.due_at} /> <${Status} of=${run.status} />
      ${" "}${run.task_id && html`<${TaskLink} id=${run.task_id} />`} ${run.reason}</li>`,
    )}</ul>`
}

export function Webhooks() {
  const webhooks = useLoaded((signal) => ask("/v1/webhooks", { signal }), [])
  const [adding, setAdding] = useState(false)
  const remove = useAction(async (id) => {
    await ask(`/v1/webhooks/${encodeURIComponent(id)}`, { method: "DELETE" })
    webhooks.reload()
  })
  const items = webhooks.value?.items ?? []
  return html`<p><button type="button" onClick=${() => setAdding(true)}>Add a webhook …</button></p>
    <${Problem} error=${remove.error} />
    <${Loading} of=${webhooks} empty=${items.length === 0} what="There is none." />
    ${items.map(
      (each) => html`<section class="panel" key=${each.id} aria-label=${each.url}>
        <h2>${each.url}</h2>
        <p class="quiet">${each.events.join(", ")}${each.session ? `, of session ${each.session}` : ""}</p>
        <p>${count(each.waiting)} events wait. ${each.error && html`<span class="problem">${each.error}</span>`}</p>
        <${Act} action=${remove} args=${[each.id]} danger confirm="Send nothing there any more?">Remove<//>
      </section>`,
    )}
    ${
      adding &&
      html`<${AddDialog}
        title="Add a webhook"
        add=${(body) => ask("/v1/webhooks", { method: "POST", body })}
        example=${{ url: "https://example.com/hook", events: ["task_end"], secret: newSecret() }}
        onClose=${() => setAdding(false)}
        onAdded=${webhooks.reload}
      />`
    }`
}

/** A secret as Standard Webhooks has it, for the receiver to check signatures with. */
function newSecret() {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`
}
