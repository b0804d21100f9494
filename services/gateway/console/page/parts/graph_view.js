// A graph of what is known: laid out by forces, drawn on a canvas.
import { html, useEffect, useRef } from "../html.js"
import { GraphDrawing } from "./graph_drawing.js"
import { GraphLayout } from "./graph_layout.js"

/**
 * `nodes`: `[{id, label, kind, size}]`, `edges`: `[{from, to, label}]`; `chosen` is drawn larger, `onChoose` gets the
 * id of a node that is pressed. A graph that grows keeps its layout. It is moved by the pointer or the arrow keys, made
 * larger and smaller by the wheel, two fingers, + and -, and seen whole with 0.
 */
export function GraphView({ nodes, edges, chosen, onChoose, label }) {
  const canvas = useRef(null)
  const parts = useRef(null)
  const choose = useRef(onChoose)
  choose.current = onChoose
  useEffect(() => {
    const drawing = new GraphDrawing(canvas.current, (id) => choose.current?.(id))
    const layout = new GraphLayout(() => drawing.changed())
    parts.current = { drawing, layout }
    return () => {
      layout.end()
      drawing.end()
    }
  }, [])
  useEffect(() => {
    const { drawing, layout } = parts.current
    drawing.show(layout.show(nodes, edges), chosen)
  }, [nodes, edges, chosen])
  return html`<div class="graph" data-nodes=${nodes.length}>
    <canvas ref=${canvas} role="img" aria-label=${label} tabindex="0"></canvas>
  </div>`
}
