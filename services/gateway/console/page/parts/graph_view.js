// A graph of what is known, laid out by forces in a worker and drawn with WebGL.
import { html, useEffect, useRef } from "../html.js"
import { ForceLayout, Graph, Sigma } from "../vendor.js"

const LAYOUT_MS = 4_000
const COLOURS = ["#4c5fd5", "#c2487f", "#2e8f6b", "#b5651d", "#7a52c7", "#3187a8", "#8a7d1a", "#a33d3d"]

/**
 * `nodes`: `[{id, label, kind, size}]`, `edges`: `[{from, to, label}]`; `chosen` is drawn larger, `onChoose` gets the id
 * of a node that is pressed. A graph that grows keeps its layout. Edges to unknown nodes are left out.
 */
export function GraphView({ nodes, edges, chosen, onChoose, label }) {
  const element = useRef(null)
  const drawn = useRef(null)
  const choose = useRef(onChoose)
  choose.current = onChoose
  useEffect(() => {
    drawn.current = new Drawing(element.current, (id) => choose.current?.(id))
    return () => drawn.current.end()
  }, [])
  useEffect(() => drawn.current.show(nodes, edges, chosen), [nodes, edges, chosen])
  return html`<div class="graph" role="img" aria-label=${label} data-nodes=${nodes.length} ref=${element} />`
}

class Drawing {
  constructor(element, onChoose) {
    this.graph = new Graph({ multi: true })
    this.kinds = new Map()
    const ink = getComputedStyle(element).color
    this.view = new Sigma(this.graph, element, {
      labelColor: { color: ink },
      edgeLabelColor: { color: ink },
      labelRenderedSizeThreshold: 7,
      allowInvalidContainer: true,
      defaultEdgeType: "arrow",
    })
    this.view.on("clickNode", ({ node }) => onChoose(node))
  }

  show(nodes, edges, chosen) {
    this.drop(nodes)
    nodes.forEach((node, i) => this.place(node, i, node.id === chosen))
    for (const { from, to, label } of edges) {
      const key = `${from} ${label} ${to}`
      if (!this.graph.hasNode(from) || !this.graph.hasNode(to) || this.graph.hasEdge(key)) continue
      this.graph.addEdgeWithKey(key, from, to, { label, size: 1, color: "#8888" })
    }
    this.view.setSetting("renderEdgeLabels", edges.length <= 60)
    this.view.setSetting("hideEdgesOnMove", edges.length > 2_000)
    this.layOut()
  }

  drop(nodes) {
    const wanted = new Set(nodes.map((node) => node.id))
    for (const id of this.graph.nodes()) if (!wanted.has(id)) this.graph.dropNode(id)
  }

  place({ id, label, kind, size }, i, chosen) {
    if (!this.kinds.has(kind)) this.kinds.set(kind, COLOURS[this.kinds.size % COLOURS.length])
    const looks = { label, size: chosen ? size * 1.8 : size, highlighted: chosen, color: this.kinds.get(kind) }
    if (this.graph.hasNode(id)) this.graph.mergeNodeAttributes(id, looks)
    else {
      const [angle, reach] = [i * 2.4, Math.sqrt(i + 1)] // a spiral: no two nodes begin at one place
      this.graph.addNode(id, { ...looks, x: reach * Math.cos(angle), y: reach * Math.sin(angle) })
    }
  }

  layOut() {
    this.stop()
    if (this.graph.order < 2) return
    const settings = { barnesHutOptimize: this.graph.order > 300, slowDown: 8, gravity: 1 }
    this.layout = new ForceLayout(this.graph, { settings })
    this.layout.start()
    this.timer = setTimeout(() => this.layout.stop(), LAYOUT_MS)
  }

  stop() {
    clearTimeout(this.timer)
    this.layout?.kill()
  }

  end() {
    this.stop()
    this.view.kill()
  }
}
