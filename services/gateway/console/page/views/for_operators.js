// What only an operator sees: without the admin key nothing is asked for, and it is said where to give it.
import { keys } from "../client.js"
import { html } from "../html.js"

/** `children` is drawn where the tab has the admin key. */
export function ForOperators({ children }) {
  if (keys().admin) return children
  return html`<p class="panel">
    This belongs to all tenants: give the admin key under Keys. That of a gateway on this machine stands in
    ${" "}<code>admin.key</code> of its data directory.
  </p>`
}
