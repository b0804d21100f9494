// The system at this moment: streams, services, models and tasks of all tenants, read again every second.
import { askAsOperator } from "../client.js"
import { clip, count, duration } from "../format.js"
import { html, useRef } from "../html.js"
import { useAction, useLoaded } from "../loading.js"
import { Act, Loading, Problem, Status, TaskLink, When } from "../parts/basics.js"
import { Table } from "../parts/table.js"
import { addressOf } from "../router.js"

const EVERY_MS = 1_000
/** A group with more entries than this behind is marked. */
const MUCH = 100

export function Live() {
  const before = useRef(null)
  const rates = useRef({})
  const now = useLoaded(
    async (signal) => {
      const told = await askAsOperator("/v1/operations", { signal })
      rates.current = ratesOf(before.current, told, rates.current)
      before.current = told
      return told
    },
    [],
    { every: EVERY_MS },
  )
  const stop = useAction(({ task_id: id, tenant_id: tenant }) =>
    askAsOperator(`/v1/tasks/${id}/cancel`, { method: "POST", query: { tenant } }),
  )
  if (!now.value) return html`<${Loading} of=${now} />`
  const {
    streams,
    services,
    models,
    tools,
    tasks,
    approvals,
    messages,
    dead_letters: letters,
    memory_lag_s: lag,
    memory_waits: waits,
    left_out: left,
  } = now.value
  const tiles = [
    [rate(rates.current.turns), "turns a second"],
    [rate(rates.current.steps), "steps a second"],
    [rate(rates.current.tokens), "tokens a second"],
    [count(tasks.active), "active tasks"],
    [count(messages), "messages wait"],
    [count(approvals), "approvals wait", addressOf(["operations", "approvals"])],
    [count(letters), "dead letters", addressOf(["operations", "dead-letters"])],
    [duration(lag * 1000), "memory is behind"],
  ]
  return html`<${Problem} error=${now.error} />
    <div class="tiles">${tiles.map(
      ([figure, name, link]) => html`<div class="tile" key=${name}><b>${figure}</b><span>
      ${link ? html`<a href=${link}>${name}</a>` : name}</span></div>`,
    )}</div>
    ${waits && html`<p class="warn">Ended tasks are not remembered now: ${waits}</p>`}
    <${Table} title="Streams" left=${left.streams}
      heads=${["Stream", "Group", "#Lag", "#Pending", "#Oldest", "#Consumers", "#Length"]}
      rows=${streams.flatMap((stream) =>
        stream.groups.map((group) => ({
          key: `${stream.key} ${group.name}`,
          cells: [
            html`<code>${stream.key}</code>`,
            group.name,
            html`<span class=${(group.lag ?? 0) > MUCH ? "warn" : ""}>${count(group.lag)}</span>`,
            count(group.pending),
            group.oldest_s === null ? "–" : duration(group.oldest_s * 1000),
            `${group.active} of ${group.consumers}`,
            count(stream.length),
          ],
        })),
      )} />
    <${Table} title="Services" left=${left.services}
      heads=${["Service", "State", "Release", "Where", "#Under way", "Queues", "Seen"]}
      rows=${services.map((each) => ({
        key: each.name,
        cells: [
          each.service,
          html`<span class=${each.alive ? "good" : "problem"}>${each.alive ? "alive" : "gone"}</span>`,
          each.release,
          `${each.machine} ${each.pid}`,
          count(each.under_way),
          each.queues.join(", "),
          html`<${When} at=${each.seen_at} />`,
        ],
      }))} />
    <${Table} title="Models" left=${left.models}
      heads=${["Model", "State", "#Under way", "#Limit", "#Waiting", "#Processes", "Error"]}
      rows=${models.map((each) => ({
        key: each.id,
        cells: [
          html`<a href=${addressOf(["registries", "models", each.id])}>${each.id}</a>`,
          html`<${Status} of=${each.state ?? "unknown"} />`,
          count(each.under_way),
          count(each.limit),
          count(each.waiting),
          count(each.processes),
          clip(each.error ?? "", 120),
        ],
      }))} />
    <section class="panel">
      <h2>Tools</h2>
      <p><a href=${addressOf(["operations", "tools"])}>
        ${count(tools.alive)} of ${count(tools.total)} tools</a> have a worker,
        ${" "}${count(tools.servers_ready)} of ${count(tools.servers)} MCP servers are ready.</p>
      <ul>
        ${tools.troubled.map(
          (each) => html`<li key=${each.name}><code>${each.name}</code> ${each.why} ${each.tenant_id ?? ""}</li>`,
        )}
        ${tools.troubled_servers.map(
          (each) => html`<li key=${each.name}><code>
          ${each.name}</code> ${each.condition ?? "unknown"} ${each.error ?? ""}</li>`,
        )}
      </ul>
    </section>
    <${Table} title="Tenants" left=${left.tenants} heads=${["Tenant", "#Active", "#Queued", "#Approvals", "#Messages"]}
      rows=${tasks.tenants.map(({ tenant_id: tenant, active, queued, approvals: asked, messages: waiting }) => ({
        key: tenant,
        cells: [tenant, ...[active, queued, asked, waiting].map(count)],
      }))} />
    <${Table} title="Tasks that go on" left=${left.newest}
      heads=${["Task", "Tenant", "Status", "Goal", "#Steps", "Waits for", "Updated", ""]}
      rows=${tasks.newest.map((each) => ({
        key: each.task_id,
        cells: [
          html`<${TaskLink} id=${each.task_id} />`,
          each.tenant_id,
          html`<${Status} of=${each.status} />`,
          clip(each.goal, 80),
          count(each.steps),
          clip(each.waiting_for ?? "", 60),
          html`<${When} at=${each.updated_at} />`,
          html`<${Act} action=${stop} args=${[each]} danger confirm=${`Stop the task of ${each.tenant_id}?`}>Stop<//>`,
        ],
      }))} />
    <${Problem} error=${stop.error} />`
}

/** Differences of the totals of two answers by second; the ones before while nothing newer is told. */
function ratesOf(before, now, known) {
  const seconds = before && (new Date(now.at) - new Date(before.at)) / 1000
  if (!seconds || seconds < 0) return known
  const by = (name) => Math.max(0, now.totals[name] - before.totals[name]) / seconds
  return { turns: by("turns"), steps: by("steps"), tokens: by("input_tokens") + by("output_tokens") }
}

const rate = (value) => (value === undefined ? "–" : value < 10 ? value.toFixed(1) : count(Math.round(value)))
