// What lies around a node of memory, as far as it is asked for: page by page, as the gateway tells 200 nodes a request.
import { ask } from "../client.js"
import { clip } from "../format.js"

const PAGE = 200
const STARTS = 16
/** Nodes that one drawing may have, and pages of one walk together. */
export const MAX_NODES = 5_000

/**
 * The neighbourhood of `starts`, in the order of the walk, at most `wanted` nodes. `walk`: `strategy`, `depth`,
 * `as_of`, and whose. Yields what is known so far, `{nodes, edges}`, after each request.
 */
export async function* neighbourhood(starts, wanted, walk, signal) {
  const [first, ...others] = starts.slice(0, STARTS)
  const path = `/v1/memory/nodes/${encodeURIComponent(first)}/neighbours`
  const [nodes, edges] = [new Map(), new Map()]
  let cursor = null
  do {
    const limit = Math.max(Math.min(wanted - nodes.size, PAGE), others.length + 1)
    const found = await ask(path, { query: { ...walk, start: others, limit, cursor }, signal })
    for (const node of found.nodes) nodes.set(node.id, node)
    for (const edge of found.edges) edges.set(edge.id, edge)
    cursor = found.next
    yield { nodes: [...nodes.values()], edges: [...edges.values()] }
  } while (cursor && nodes.size < wanted)
}

/** A neighbourhood as `GraphView` takes it. */
export function asDrawing({ nodes, edges }) {
  return {
    nodes: nodes.map((node) => ({
      id: node.id,
      label: clip(node.text, 40),
      kind: node.kind,
      size: 4 + 6 * node.importance,
    })),
    edges: edges.map((edge) => ({ from: edge.source, to: edge.target, label: edge.type })),
  }
}
