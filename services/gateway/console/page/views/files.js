// The files of a session: those that were given, and those that tools have made.
import { client } from "../client.js"
import { bytes } from "../format.js"
import { html } from "../html.js"
import { useAction, usePages } from "../loading.js"
import { Loading, More, Problem } from "../parts/basics.js"

export function Files({ session, state }) {
  const made = Object.values(state.tasks).reduce(
    (sum, task) =>
      sum + Object.values(task.calls).filter((call) => call.result_ref !== undefined && call.status === "done").length,
    0,
  )
  const files = usePages(
    (cursor, signal) =>
      client.request("GET", `/v1/sessions/${encodeURIComponent(session.id)}/files`, {
        query: { cursor: cursor ?? undefined, limit: 50 },
        signal,
      }),
    [session.id, made],
  )
  const save = useAction(async (path) => {
    const address = `/v1/sessions/${encodeURIComponent(session.id)}/files/${path.split("/").map(encodeURIComponent).join("/")}`
    const link = document.createElement("a")
    link.href = URL.createObjectURL(await client.request("GET", address, { as: "blob" }))
    link.download = path.split("/").at(-1)
    link.click()
    URL.revokeObjectURL(link.href)
  })
  return html`<h2>Files</h2>
    <${Loading} of=${files} empty=${files.items.length === 0} what="There is none." />
    <ul class="plain">${files.items.map(
      (file) => html`<li key=${file.path}>
      <button type="button" class="plain" onClick=${() => save.run(file.path)}>${file.path}</button> <span class="quiet">${bytes(file.size)}</span>
    </li>`,
    )}</ul>
    <${More} of=${files} />
    <${Problem} error=${save.error} />`
}
