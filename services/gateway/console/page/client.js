// The console's connections to the gateway that serves it: one with the tenant's key, one with the operator's.
import { connect } from "../pentad.js"

export { approvalsOf, callsOf, clientCallsOf, questionsOf, tasksOf } from "../pentad.js"

/** Names under which the browser's tab keeps the keys until it is closed. */
const API_KEY = "pentad.key"
const ADMIN_KEY = "pentad.admin-key"
/** Address of the gateway: the console is served at `console` below it, also behind a proxy with a path of its own. */
const ADDRESS = new URL(".", location.href).href.replace(/\/$/, "")

/** The connection as a tenant: sessions, tasks, memory. */
export let client = made(API_KEY)
let operator = made(ADMIN_KEY)

/** Whether the tab has an API key, and an admin key. */
export const keys = () => ({ api: read(API_KEY) !== null, admin: read(ADMIN_KEY) !== null })

/** Use these keys from now on; an empty one changes nothing. */
export function signIn({ api = "", admin = "" }) {
  if (api) sessionStorage.setItem(API_KEY, api)
  if (admin) sessionStorage.setItem(ADMIN_KEY, admin)
  client = made(API_KEY)
  operator = made(ADMIN_KEY)
}

/** Forget both keys. */
export function signOut() {
  sessionStorage.removeItem(API_KEY)
  sessionStorage.removeItem(ADMIN_KEY)
}

/**
 * Ask the gateway as the tenant. `options`: `method`, `query` (of a list each value; empty ones are left out), `body`,
 * `signal`.
 */
export const ask = (path, options) => asked(client, path, options)

/** Ask the gateway as the operator: with the admin key, where one is given. */
export const askAsOperator = (path, options) => asked(read(ADMIN_KEY) === null ? client : operator, path, options)

function asked(connection, path, { method = "GET", query = {}, ...options } = {}) {
  const given = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each]))
  const pairs = given.filter(([, value]) => value !== "" && value !== null && value !== undefined)
  return connection.request(method, pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path, options)
}

function made(name) {
  const key = read(name)
  return connect({ url: ADDRESS, ...(key === null ? {} : { key }) })
}

function read(name) {
  return sessionStorage.getItem(name)
}
