// The console's frame: who may come in, where one is, and the view of that place.
import { ask, keys, signIn, signOut } from "./client.js"
import { html, useEffect, useState } from "./html.js"
import { Dialog, Problem } from "./parts/basics.js"
import { addressOf, usePlace } from "./router.js"
import { Component, render } from "./vendor.js"
import { ChatView } from "./views/chat.js"

const THEME = "pentad.theme"
/** Views by the first part of their address; what is seldom first is loaded when it is gone to. */
const VIEWS = {
  chat: ["Chat", async () => ChatView],
  tasks: ["Tasks", async () => (await import("./views/tasks.js")).TasksView],
  memory: ["Memory", async () => (await import("./views/memory.js")).MemoryView],
  operations: ["Operations", async () => (await import("./views/operations.js")).OperationsView],
  registries: ["Registries", async () => (await import("./views/registries.js")).RegistriesView],
}

function Console() {
  const [entry, setEntry] = useState({ open: null, error: null })
  const look = async () => {
    try {
      await ask("/v1/sessions", { query: { limit: 1 } })
      setEntry({ open: true, error: null })
    } catch (error) {
      setEntry({ open: ![401, 403].includes(error.status), error })
    }
  }
  useEffect(() => void look(), [])
  if (entry.open === null) return html`<p class="quiet" role="status">Loading …</p>`
  if (!entry.open) return html`<${SignIn} error=${keys().api ? entry.error : null} onKey=${look} />`
  return html`<${Frame} trouble=${entry.error} onAgain=${look} />`
}

function SignIn({ error, onKey }) {
  return html`<main class="sign-in">
    <h1>Pentad console</h1>
    <${KeyForm} onKey=${onKey} />
    <${Problem} error=${error} />
  </main>`
}

function KeyForm({ onKey }) {
  const submit = (event) => {
    event.preventDefault()
    const given = new FormData(event.target)
    signIn({ api: given.get("api").trim(), admin: given.get("admin").trim() })
    onKey()
  }
  return html`<form onSubmit=${submit}>
    <label class="field">
      API key
      <input type="password" name="api" autofocus autocomplete="off" />
    </label>
    <label class="field">
      Admin key, for what belongs to all tenants
      <input type="password" name="admin" autocomplete="off" />
    </label>
    <p class="quiet">Keys stay in this tab until it is closed.</p>
    <button class="primary">Sign in</button>
  </form>`
}

function Frame({ trouble, onAgain }) {
  const place = usePlace()
  const name = Object.hasOwn(VIEWS, place.parts[0]) ? place.parts[0] : "chat"
  const [asking, setAsking] = useState(false)
  const [view, setView] = useState({ name: "chat", View: ChatView, error: null })
  useEffect(() => {
    let gone = false
    VIEWS[name][1]().then(
      (View) => gone || setView({ name, View, error: null }),
      (error) => gone || setView({ name, View: null, error }),
    )
    document.title = `${VIEWS[name][0]} – Pentad`
    return () => void (gone = true)
  }, [name])
  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <a class="name" href=${addressOf(["chat"])}><img src="console/icon.svg" alt="" width="20" height="20" />Pentad</a>
      <nav aria-label="Views">
        ${Object.entries(VIEWS).map(
          ([key, [title]]) =>
            html`<a href=${addressOf([key])} aria-current=${key === name ? "page" : undefined}>${title}</a>`,
        )}
      </nav>
      <${Theme} />
      <button type="button" class="plain" onClick=${() => setAsking(true)}>Keys</button>
    </header>
    ${asking && html`<${Keys} onClose=${() => setAsking(false)} />`}
    <main id="main" tabindex="-1">
      <${Problem} error=${trouble ?? view.error} />
      ${trouble && html`<p><button type="button" onClick=${onAgain}>Try again</button></p>`}
      ${!place.valid && html`<p class="problem">This address names no place of the console.</p>`}
      ${
        place.valid && view.name === name && view.View
          ? html`<${Guarded} place=${place}><${view.View} place=${place} /><//>`
          : place.valid && html`<p class="quiet" role="status">Loading …</p>`
      }
    </main>
  </div>`
}

/** What is drawn of a view that fails: the error, until one goes elsewhere. The frame around it stays. */
class Guarded extends Component {
  static getDerivedStateFromError(error) {
    return { error }
  }

  componentDidUpdate(before) {
    if (this.state.error && before.place !== this.props.place) this.setState({ error: null })
  }

  render({ children }, { error }) {
    return error ? html`<${Problem} error=${error} />` : children
  }
}

function Keys({ onClose }) {
  const { api, admin } = keys()
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <p>This tab has ${api ? "an" : "no"} API key and ${admin ? "an" : "no"} admin key.</p>
    <${KeyForm} onKey=${() => location.reload()} />
    ${(api || admin) && html`<button type="button" class="danger" onClick=${leave}>Sign out</button>`}
  <//>`
}

function Theme() {
  const [theme, setTheme] = useState(() => localStorage.getItem(THEME) ?? "system")
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = theme
    localStorage.setItem(THEME, theme)
  }, [theme])
  return html`<label class="quiet">
    Theme
    <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
      ${["system", "light", "dark"].map((name) => html`<option value=${name}>${name}</option>`)}
    </select>
  </label>`
}

function skip(event) {
  event.preventDefault()
  document.getElementById("main").focus()
}

function leave() {
  signOut()
  location.reload()
}

render(html`<${Console} />`, document.getElementById("console"))
