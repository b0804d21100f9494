// The shape of a graph of agents for a drawing: its nodes and all ways between them, those that no edge says as well.

/** Names of the boxes at which all runs begin and end: no node can have them. */
export const START = "(start)"
export const END = "(end)"

/** `graph` as `GET /v1/graphs/NAME` gives it. Returns `{nodes, edges}` for `FlowView`. */
export function drawn(graph) {
  const nodes = [
    { key: START, end: true },
    ...graph.nodes.map(({ key, kind }) => ({ key, kind })),
    { key: END, end: true },
  ]
  const edges = [
    { from: START, to: graph.entry },
    ...graph.edges.map((edge) => ({ from: edge.from, to: edge.to, condition: conditionOf(edge) })),
    ...graph.nodes.flatMap(waysOf),
    ...(graph.ends ?? []).map((key) => ({ from: key, to: END })),
  ]
  return { nodes, edges }
}

function waysOf(node) {
  const branches = (node.branches ?? []).map((to) => ({ from: node.key, to, condition: "branch" }))
  const item = node.kind === "map" ? [{ from: node.key, to: node.node, condition: "each item" }] : []
  const then = node.next ? [{ from: node.key, to: node.next, condition: "then" }] : []
  const failed =
    node.on_error && node.on_error !== "fail" ? [{ from: node.key, to: node.on_error, condition: "on error" }] : []
  return [...branches, ...item, ...then, ...failed]
}

function conditionOf({ when, check, where }) {
  if (when) return when
  if (check) return `check ${check}`
  if (!where) return undefined
  const tests = Object.entries(where).flatMap(([path, compared]) =>
    Object.entries(compared).map(([operator, value]) => `${path} ${operator} ${JSON.stringify(value)}`),
  )
  return tests.join(" and ")
}
