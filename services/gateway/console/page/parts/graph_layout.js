// Places of the nodes of a graph, found by forces in a worker: what belongs together comes to lie together.
import { ForceLayout, Graph } from "../vendor.js"

/** Milliseconds that a layout takes, and those that each node adds. */
const [LAYOUT_MS, NODE_MS] = [4_000, 1]
/** Nodes for which the forces of those far away are taken together. */
const MANY = 300

export class GraphLayout {
  /** `onMoved` is called when places have changed. */
  constructor(onMoved) {
    this.graph = new Graph({ multi: true })
    this.graph.on("eachNodeAttributesUpdated", onMoved)
  }

  /**
   * Take these nodes and edges, and lay them out; those that were there before begin where they are. Edges to unknown
   * nodes are left out. Returns `{points, lines}`: a point has what its node has, with `x` and `y`, which change.
   */
  show(nodes, edges) {
    const wanted = new Set(nodes.map((node) => node.id))
    for (const id of this.graph.nodes()) if (!wanted.has(id)) this.graph.dropNode(id)
    nodes.forEach((node, i) => this.#place(node, i))
    const known = edges.filter(({ from, to }) => this.graph.hasNode(from) && this.graph.hasNode(to))
    for (const { from, to, label } of known) {
      const key = `${from} ${label} ${to}`
      if (!this.graph.hasEdge(key)) this.graph.addEdgeWithKey(key, from, to)
    }
    this.#begin()
    const pointOf = (id) => this.graph.getNodeAttributes(id)
    const lines = known.map(({ from, to, label }) => ({ from: pointOf(from), to: pointOf(to), label }))
    return { points: nodes.map((node) => pointOf(node.id)), lines }
  }

  #place(node, i) {
    if (this.graph.hasNode(node.id)) return this.graph.mergeNodeAttributes(node.id, node)
    const [angle, reach] = [i * 2.4, Math.sqrt(i + 1)] // a spiral: no two nodes begin at one place
    return this.graph.addNode(node.id, { ...node, x: reach * Math.cos(angle), y: reach * Math.sin(angle) })
  }

  #begin() {
    this.end()
    if (this.graph.order < 2) return
    const settings = { barnesHutOptimize: this.graph.order > MANY, slowDown: 8, gravity: 1 }
    this.worker = new ForceLayout(this.graph, { settings })
    this.worker.start()
    this.timer = setTimeout(() => this.worker.stop(), LAYOUT_MS + this.graph.order * NODE_MS)
  }

  end() {
    clearTimeout(this.timer)
    this.worker?.kill()
  }
}
