// A graph of agents as a drawing: boxes in layers, conditions on the edges, and the path of a run marked.
import { clip } from "../format.js"
import { html, useMemo } from "../html.js"
import { graphlib, layout } from "../vendor.js"

const HEIGHT = 40
const CHAR = 7.2
/** How far a way from a node to itself reaches. */
const LOOP = 34

/**
 * `nodes`: `[{key, kind?}]`, `edges`: `[{from, to, condition?}]`. `visits`: for each node that a run has come to, how
 * often and how it is now: `{KEY: {times, state: "active"|"done"|"failed"}}`. `passed`: edges of the run, `"FROM TO"`.
 */
export function FlowView({ nodes, edges, visits = {}, passed = new Set(), onChoose, label }) {
  const drawing = useMemo(() => drawingOf(nodes, edges), [nodes, edges])
  const loops = edges.filter((edge) => edge.from === edge.to && drawing.hasNode(placeOf(edge.from)))
  const { width, height } = sizeOf(drawing, loops)
  return html`<div class="flow" tabindex="0" role="region" aria-label=${label}>
    <svg width=${width + 16} height=${height + 16} viewBox="-8 -8 ${width + 16} ${height + 16}">
      <defs>
        <marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0 10 5 0 10z" fill="context-stroke" />
        </marker>
      </defs>
      ${drawing
        .edges()
        .map((edge) => drawing.edge(edge))
        .map((edge) => html`<${Edge} of=${edge} passed=${passed.has(`${edge.from} ${edge.to}`)} />`)}
      ${loops.map(
        (edge) => html`<${Loop} of=${drawing.node(placeOf(edge.from))} condition=${edge.condition}
        passed=${passed.has(`${edge.from} ${edge.from}`)} />`,
      )}
      ${drawing
        .nodes()
        .map((place) => drawing.node(place))
        .map((box) => html`<${Box} name=${box.key} of=${box} visit=${visits[box.key]} onChoose=${onChoose} />`)}
    </svg>
  </div>`
}

function Edge({ of: { points, condition, x, y }, passed }) {
  const line = points.map(({ x, y }, i) => `${i ? "L" : "M"}${x} ${y}`).join("")
  return html`<g class=${passed ? "edge passed" : "edge"}>
    <path d=${line} marker-end="url(#tip)" />
    ${condition && html`<text x=${x} y=${y}><title>${condition}</title>${clip(condition, 34)}</text>`}
  </g>`
}

/** A way from a node to itself, at its right side. */
function Loop({ of: { x, y, width }, condition, passed }) {
  const side = x + width / 2
  return html`<g class=${passed ? "edge passed loop" : "edge loop"}>
    <path d=${`M${side} ${y - 9}C${side + LOOP} ${y - 22} ${side + LOOP} ${y + 22} ${side} ${y + 9}`}
      marker-end="url(#tip)" />
    ${condition && html`<text x=${side + LOOP - 4} y=${y + 4}><title>${condition}</title>${clip(condition, 34)}</text>`}
  </g>`
}

function Box({ name, of: { x, y, width, height, kind, end }, visit, onChoose }) {
  const state = visit?.state ?? ""
  const press = onChoose && !end ? () => onChoose(name) : undefined
  return html`<g class="node ${state} ${end ? "end" : ""}" transform="translate(${x - width / 2} ${y - height / 2})"
    onClick=${press}>
    <rect width=${width} height=${height} rx=${end ? height / 2 : 6} />
    <text x=${width / 2} y=${kind ? 17 : height / 2 + 4}>${clip(name, 30)}</text>
    ${
      kind &&
      html`<text class="kind" x=${width / 2} y="31">
      ${kind}${visit?.times > 1 ? ` · ${visit.times} times` : ""}</text>`
    }
  </g>`
}

/** A node's name in the layout, whose maps take `constructor` for what they have. */
const placeOf = (key) => `:${key}`

function drawingOf(nodes, edges) {
  const drawing = new graphlib.Graph({ multigraph: true })
  drawing.setGraph({ rankdir: "TB", nodesep: 36, ranksep: 44, edgesep: 16 })
  for (const { key, kind, end } of nodes) {
    const chars = Math.max(key.length, (kind ?? "").length + 10, 6)
    const width = Math.min(chars, 30) * CHAR + 24
    drawing.setNode(placeOf(key), { key, width, height: end ? 28 : HEIGHT, kind, end })
  }
  edges.forEach(({ from, to, condition }, i) => {
    if (from === to || !drawing.hasNode(placeOf(from)) || !drawing.hasNode(placeOf(to))) return
    const width = condition ? Math.min(condition.length, 34) * 6 : 0
    const words = { condition, width, height: condition ? 16 : 0, labelpos: "c" }
    drawing.setEdge(placeOf(from), placeOf(to), { from, to, ...words }, String(i))
  })
  layout(drawing)
  return drawing
}

/** The size of a drawing, with room for the loops and their conditions. */
function sizeOf(drawing, loops) {
  const { width, height } = drawing.graph()
  const reach = loops.map(({ from, condition = "" }) => {
    const node = drawing.node(placeOf(from))
    return node.x + node.width / 2 + LOOP + Math.min(condition.length, 34) * 6
  })
  return { width: Math.max(width, ...reach), height }
}
