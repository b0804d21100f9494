// Values as people read them.

const NUMBER = new Intl.NumberFormat("en")

/** A whole number with separators. */
export const count = (n) => (n === null || n === undefined ? "–" : NUMBER.format(n))

/** A number of bytes, in the unit that fits. */
export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"]
  let i = 0
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000
  return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`
}

/** A duration in milliseconds, in the unit that fits. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–"
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`
  const hours = Math.floor(ms / 3_600_000)
  return hours < 48 ? `${hours} h ${Math.round((ms % 3_600_000) / 60_000)} min` : `${Math.round(hours / 24)} days`
}

/** A time of RFC 3339 in the reader's own zone: the time alone for today, else with the date. */
export function time(text) {
  const at = new Date(text)
  if (!text || Number.isNaN(at.getTime())) return "–"
  const today = at.toDateString() === new Date().toDateString()
  const clock = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" })
  return today ? clock : `${at.toLocaleDateString()} ${clock}`
}

/** How long ago a time was, or how far ahead it is. */
export function ago(text) {
  const ms = Date.now() - new Date(text).getTime()
  if (Number.isNaN(ms)) return "–"
  return ms >= 0 ? `${duration(ms)} ago` : `in ${duration(-ms)}`
}

/** Dollars, with as many digits as small amounts need. */
export const dollars = (n) => (n ? `$${n < 0.01 ? n.toPrecision(2) : n.toFixed(n < 1 ? 4 : 2)}` : "$0")

/** The share of a whole in percent. */
export const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–")

/** A text cut to a length, with a mark where it is cut. */
export const clip = (text, length = 120) => (text.length > length ? `${text.slice(0, length - 1)}…` : text)

/** The end of a long id, which tells ids apart. */
export const short = (id) => (id && id.length > 14 ? `…${id.slice(-8)}` : id)

/** A value as JSON that is laid out for reading. */
export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2))
