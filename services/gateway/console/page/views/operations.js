// Operations: what the whole system does now, for its operator.
import { html } from "../html.js"
import { Tabs } from "../parts/basics.js"
import { addressOf } from "../router.js"
import { ApprovalList } from "./approvals.js"
import { DeadLetters } from "./dead_letters.js"
import { Live } from "./live.js"
import { ForOperators } from "./for_operators.js"
import { Schedules, Webhooks } from "./outside.js"
import { Tools } from "./tools.js"

/** Title and view by name, and whether it is for operators alone. */
const PARTS = {
  live: ["Live", Live, true],
  approvals: ["Approvals", ApprovalList],
  tools: ["Tools and servers", Tools],
  "dead-letters": ["Dead letters", DeadLetters, true],
  schedules: ["Schedules", Schedules],
  webhooks: ["Webhooks", Webhooks],
}

/** `#/operations/PART`. */
export function OperationsView({ place: { parts, query } }) {
  const name = parts[1] in PARTS ? parts[1] : "live"
  const [title, View, operators] = PARTS[name]
  const view = html`<${View} parts=${parts.slice(2)} query=${query} />`
  return html`<h1>Operations</h1>
    <${Tabs} label="Parts of operations" at=${title} of=${Object.entries(PARTS).map(([key, [each]]) => [each, addressOf(["operations", key])])} />
    ${operators ? html`<${ForOperators}>${view}<//>` : view}`
}
