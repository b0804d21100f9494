// A component that is drawn again only when what it is given has changed: states of `pentad.js` keep what is the same.
import { Component } from "../vendor.js"

export function memo(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = new Set([...Object.keys(this.props), ...Object.keys(next)])
      return [...names].some((name) => this.props[name] !== next[name])
    }

    render(props) {
      return View(props)
    }
  }
}
