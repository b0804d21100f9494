// The drawing of a neighbourhood, which grows while the gateway is asked for more of it.
import { count } from "../format.js"
import { html, useEffect, useMemo, useState } from "../html.js"
import { Problem } from "../parts/basics.js"
import { GraphView } from "../parts/graph_view.js"
import { asDrawing, neighbourhood } from "./neighbourhood.js"

/** `onGrown` gets the nodes in the order in which they were reached. */
export function GrowingGraph({ starts, wanted, walk, chosen, onChoose, onGrown }) {
  const [state, setState] = useState({ around: { nodes: [], edges: [] }, growing: true, error: null })
  useEffect(() => {
    const stop = new AbortController()
    const grow = async () => {
      try {
        for await (const around of neighbourhood(starts, wanted, walk, stop.signal)) {
          if (stop.signal.aborted) return
          setState({ around, growing: true, error: null })
          onGrown?.(around.nodes)
        }
        setState((old) => ({ ...old, growing: false }))
      } catch (error) {
        if (!stop.signal.aborted) setState((old) => ({ ...old, growing: false, error }))
      }
    }
    grow()
    return () => stop.abort()
  }, [JSON.stringify([starts, wanted, walk])])
  const drawing = useMemo(() => asDrawing(state.around), [state.around])
  const words = `${count(drawing.nodes.length)} nodes, ${count(drawing.edges.length)} edges`
  return html`<${Problem} error=${state.error} />
    <p class="quiet" role="status">${words}${state.growing ? " …" : ""}</p>
    <${GraphView} nodes=${drawing.nodes} edges=${drawing.edges} chosen=${chosen} label=${words} onChoose=${onChoose} />`
}
