// What lies around a node of memory, as far as it is asked for: the gateway tells 200 nodes a request.
import { ask } from "../client.js"
import { clip } from "../format.js"

const PAGE = 200
const STARTS = 16
/** Nodes that one drawing may have. */
export const MAX_NODES = 5_000

/**
 * The neighbourhood of `starts`, the nearest first, at most `wanted` nodes. `walk`: `strategy`, `depth`, `as_of`, and
 * whose. Yields what is known so far, `{nodes, edges}`, after each request.
 */
export async function* neighbourhood(starts, wanted, walk, signal) {
  const [nodes, edges] = [new Map(), new Map()]
  const add = (found, depth) => {
    const fresh = found.nodes.filter((node) => !nodes.has(node.id) && nodes.size < wanted)
    for (const node of fresh) nodes.set(node.id, { ...node, depth: node.depth + depth })
    for (const edge of found.edges) edges.set(edge.id ?? `${edge.source} ${edge.type} ${edge.target}`, edge)
    return fresh
  }
  const around = (ids, how) =>
    ask(`/v1/memory/nodes/${encodeURIComponent(ids[0])}/neighbours`, { query: { start: ids.slice(1), ...how }, signal })
  add(await around(starts.slice(0, STARTS), { ...walk, limit: Math.min(wanted, PAGE) }), 0)
  yield shown(nodes, edges)
  if (nodes.size < Math.min(wanted, PAGE)) return
  const seen = new Set()
  const waiting = []
  while (nodes.size < wanted) {
    const batch = waiting.pop() ?? unseen(nodes, seen, walk.depth)
    if (!batch.length) return
    const ids = batch.map((node) => node.id)
    const found = await around(ids, { ...walk, depth: 1, limit: PAGE })
    // An answer that is full has left something out: each half is asked for by itself.
    if (found.nodes.length >= PAGE && batch.length > 1) {
      waiting.push(batch.slice(batch.length / 2), batch.slice(0, batch.length / 2))
    }
    if (add(found, Math.min(...batch.map((node) => node.depth))).length) yield shown(nodes, edges)
  }
}

/** The next nodes to look around, the nearest first. */
function unseen(nodes, seen, depth) {
  const next = [...nodes.values()].filter((node) => !seen.has(node.id) && node.depth < depth).slice(0, STARTS)
  for (const node of next) seen.add(node.id)
  return next
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

function shown(nodes, edges) {
  return {
    nodes: [...nodes.values()],
    edges: [...edges.values()].filter((edge) => nodes.has(edge.source) && nodes.has(edge.target)),
  }
}
