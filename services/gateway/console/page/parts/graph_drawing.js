// A graph on a canvas, to move about in. One of thousands of nodes takes longer to draw than a frame lasts: while it
// moves, the picture that there is moves, and the graph is drawn anew when it has come to rest.

const COLOURS = ["#4c5fd5", "#c2487f", "#2e8f6b", "#b5651d", "#7a52c7", "#3187a8", "#8a7d1a", "#a33d3d"]
/** Milliseconds in which a drawing fits into a frame, and after which one that does not is made. */
const [QUICK_MS, REST_MS] = [8, 120]
/** Edges up to which each has an arrow, and its name. */
const [MAX_ARROWS, MAX_NAMES] = [2_000, 60]
/** Pixels of a letter and of a line of names, from where a node is pressed, and around the whole graph. */
const [LETTER, LINE, NEAR, MARGIN] = [7, 18, 12, 24]
/** Nodes that are drawn as large as they say; of more, all are smaller. */
const FEW = 300
const KEYS = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }

export class GraphDrawing {
  #points = []
  #lines = []
  #camera = { x: 0, y: 0, zoom: 1 }
  #shown = { x: 0, y: 0, zoom: 1 }
  #isFitted = true
  #isStale = true
  #cost = 0
  #drawnAt = 0
  #frame = 0
  #hovered = null
  #pointers = new Map()
  #moved = 0
  #left = new AbortController()

  /** `onChoose` gets the id of a node that is pressed. */
  constructor(canvas, onChoose) {
    this.canvas = canvas
    this.onChoose = onChoose
    this.picture = document.createElement("canvas")
    this.sizes = new ResizeObserver(() => this.#resize())
    this.sizes.observe(canvas)
    const listen = (kind, act) => canvas.addEventListener(kind, act, { signal: this.#left.signal, passive: false })
    listen("pointerdown", (event) => this.#press(event))
    listen("pointermove", (event) => this.#move(event))
    listen("pointerup", (event) => this.#release(event))
    listen("pointercancel", (event) => this.#pointers.delete(event.pointerId))
    listen("pointerleave", () => this.#hover(null))
    listen("wheel", (event) => this.#wheel(event))
    listen("keydown", (event) => this.#key(event))
  }

  /** Draw these from now on. `chosen`: the id of a node that stands out. */
  show({ points, lines }, chosen) {
    this.#points = points
    this.#lines = lines
    this.chosen = chosen
    this.kinds = [...new Set(points.map((point) => point.kind))]
    this.changed()
  }

  /** What is drawn has changed its place or its looks. */
  changed() {
    this.#isStale = true
    this.#frame ||= requestAnimationFrame(() => this.#next())
  }

  end() {
    this.#left.abort()
    this.sizes.disconnect()
    cancelAnimationFrame(this.#frame)
  }

  /** One frame. Nothing is drawn while nothing changes. */
  #next() {
    this.#frame = 0
    const now = performance.now()
    const isMoving = this.#pointers.size > 0 || now - this.#moved < REST_MS
    const rest = isMoving ? REST_MS : 2 * this.#cost // at most a third of the time goes into drawings
    const isDue = this.#cost < QUICK_MS || (now - this.#drawnAt > rest && !isMoving)
    if (this.#isStale && isDue) this.#draw()
    this.#paint()
    if (this.#isStale) this.#frame = requestAnimationFrame(() => this.#next())
  }

  /** Draw the graph as the picture. */
  #draw() {
    const began = performance.now()
    if (this.#isFitted) this.#fit()
    const pen = this.picture.getContext("2d")
    const style = getComputedStyle(this.canvas)
    pen.setTransform(1, 0, 0, 1, 0, 0)
    pen.clearRect(0, 0, this.picture.width, this.picture.height)
    pen.scale(devicePixelRatio, devicePixelRatio)
    pen.font = "12px system-ui, sans-serif"
    this.ink = style.color
    this.#drawLines(pen)
    this.#drawPoints(pen)
    this.#drawNames(pen)
    this.#shown = { ...this.#camera }
    this.#isStale = false
    this.#drawnAt = performance.now()
    this.#cost = this.#drawnAt - began
  }

  #drawLines(pen) {
    pen.strokeStyle = pen.fillStyle = "#8886"
    const [hasArrows, hasNames] = [this.#lines.length <= MAX_ARROWS, this.#lines.length <= MAX_NAMES]
    for (const { from, to, label } of this.#lines) {
      const [[x1, y1], [x2, y2]] = [this.#placeOf(from), this.#placeOf(to)]
      pen.beginPath()
      pen.moveTo(x1, y1)
      pen.lineTo(x2, y2)
      pen.stroke()
      if (hasArrows) drawArrow(pen, x1, y1, x2, y2, this.#radius(to))
      if (hasNames) drawText(pen, label, (x1 + x2) / 2, (y1 + y2) / 2, this.ink)
    }
  }

  #drawPoints(pen) {
    this.kinds.forEach((kind, i) => {
      pen.fillStyle = COLOURS[i % COLOURS.length]
      for (const point of this.#points) if (point.kind === kind) this.#drawPoint(pen, point)
    })
  }

  #drawPoint(pen, point) {
    const [[x, y], radius] = [this.#placeOf(point), this.#radius(point)]
    if (!this.#isSeen(x, y)) return
    if (radius < 2.5 && point.id !== this.chosen) return pen.fillRect(x - radius, y - radius, 2 * radius, 2 * radius)
    pen.beginPath()
    pen.arc(x, y, radius, 0, 2 * Math.PI)
    pen.fill()
    if (point.id === this.chosen) {
      pen.strokeStyle = this.ink
      pen.stroke()
    }
  }

  /** Names of the largest nodes, each where no other name is. */
  #drawNames(pen) {
    const taken = new Set()
    const chosen = this.#points.filter((point) => point.id === this.chosen)
    for (const point of [...chosen, ...this.#points.toSorted((a, b) => b.size - a.size)]) {
      const [x, y] = this.#placeOf(point)
      const cells = cellsOf(x, y, point.label)
      if (!this.#isSeen(x, y) || cells.some((cell) => taken.has(cell))) continue
      for (const cell of cells) taken.add(cell)
      drawText(pen, point.label, x + this.#radius(point) + 3, y + 4, this.ink)
    }
  }

  /** Show the picture where the camera is now, with the name of the node under the pointer. */
  #paint() {
    const pen = this.canvas.getContext("2d")
    const [now, then, width, height] = [this.#camera, this.#shown, this.canvas.clientWidth, this.canvas.clientHeight]
    const larger = now.zoom / then.zoom
    const left = (then.x - now.x) * now.zoom + (width - width * larger) / 2
    const top = (then.y - now.y) * now.zoom + (height - height * larger) / 2
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0)
    pen.clearRect(0, 0, width, height)
    if (width && height) pen.drawImage(this.picture, left, top, width * larger, height * larger)
    if (this.#hovered) this.#paintName(pen, this.#hovered)
  }

  #paintName(pen, point) {
    const [x, y] = this.#placeOf(point)
    pen.font = "bold 13px system-ui, sans-serif"
    const width = pen.measureText(point.label).width
    pen.fillStyle = getComputedStyle(this.canvas.parentElement).backgroundColor
    pen.fillRect(x + 8, y - 12, width + 8, 20)
    drawText(pen, point.label, x + 12, y + 3, this.ink)
  }

  #placeOf({ x, y }) {
    const { x: left, y: top, zoom } = this.#camera
    return [(x - left) * zoom + this.canvas.clientWidth / 2, (y - top) * zoom + this.canvas.clientHeight / 2]
  }

  #radius({ id, size }) {
    const smaller = Math.min(1, Math.sqrt(FEW / this.#points.length))
    return Math.max(1, size * smaller) * (id === this.chosen ? 1.8 : 1)
  }

  #isSeen(x, y) {
    return x > -MARGIN && y > -MARGIN && x < this.canvas.clientWidth + MARGIN && y < this.canvas.clientHeight + MARGIN
  }

  /** Look at the whole graph. */
  #fit() {
    if (!this.#points.length) return
    const [left, right] = boundsOf(this.#points.map(({ x }) => x))
    const [top, bottom] = boundsOf(this.#points.map(({ y }) => y))
    const [width, height] = [this.canvas.clientWidth - 2 * MARGIN, this.canvas.clientHeight - 2 * MARGIN]
    const zoom = Math.min(width / (right - left || 1), height / (bottom - top || 1))
    this.#camera = { x: (left + right) / 2, y: (top + bottom) / 2, zoom: Math.max(zoom, 0.001) }
  }

  #resize() {
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = Math.round(this.canvas.clientWidth * devicePixelRatio)
      canvas.height = Math.round(this.canvas.clientHeight * devicePixelRatio)
    }
    this.#cost = 0 // what was drawn is gone
    this.changed()
  }

  #press(event) {
    this.canvas.setPointerCapture(event.pointerId)
    this.#pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, way: 0 })
  }

  #move({ pointerId, offsetX: x, offsetY: y }) {
    const before = this.#pointers.get(pointerId)
    if (!before) return this.#hover(this.#nearest(x, y))
    const [dx, dy] = [x - before.x, y - before.y]
    const other = [...this.#pointers].find(([id]) => id !== pointerId)?.[1]
    this.#pointers.set(pointerId, { x, y, way: before.way + Math.hypot(dx, dy) })
    if (!other) return this.#pan(dx, dy)
    const [now, then] = [{ x, y }, before].map((one) => Math.hypot(one.x - other.x, one.y - other.y))
    return this.#zoom(now / (then || 1), other.x, other.y)
  }

  #release({ pointerId, offsetX: x, offsetY: y }) {
    const pointer = this.#pointers.get(pointerId)
    this.#pointers.delete(pointerId)
    const pressed = pointer && pointer.way < 4 ? this.#nearest(x, y) : null
    if (pressed) this.onChoose(pressed.id)
    else this.changed()
  }

  #wheel(event) {
    event.preventDefault()
    this.#zoom(Math.exp(-Math.max(-300, Math.min(300, event.deltaY)) / 500), event.offsetX, event.offsetY)
  }

  #key(event) {
    const [dx, dy] = KEYS[event.key] ?? []
    if (dx !== undefined) this.#pan(dx, dy)
    else if (["+", "-"].includes(event.key)) {
      this.#zoom(event.key === "+" ? 1.25 : 0.8, this.canvas.clientWidth / 2, this.canvas.clientHeight / 2)
    } else if (event.key === "0") {
      this.#isFitted = true
      this.changed()
    } else return
    event.preventDefault()
  }

  #pan(dx, dy) {
    const { x, y, zoom } = this.#camera
    this.#look({ x: x - dx / zoom, y: y - dy / zoom, zoom })
  }

  /** Go nearer, or further away; what is at this place stays there. */
  #zoom(factor, atX, atY) {
    const { x, y, zoom } = this.#camera
    const nearer = Math.min(Math.max(zoom * factor, 1e-4), 1e4)
    const [dx, dy] = [atX - this.canvas.clientWidth / 2, atY - this.canvas.clientHeight / 2]
    this.#look({ x: x + dx / zoom - dx / nearer, y: y + dy / zoom - dy / nearer, zoom: nearer })
  }

  #look(camera) {
    this.#camera = camera
    this.#isFitted = false
    this.#moved = performance.now()
    this.changed()
  }

  #hover(point) {
    if (point === this.#hovered) return
    this.#hovered = point
    this.canvas.style.cursor = point ? "pointer" : ""
    this.#frame ||= requestAnimationFrame(() => this.#next())
  }

  #nearest(x, y) {
    let [found, least] = [null, NEAR]
    for (const point of this.#points) {
      const [px, py] = this.#placeOf(point)
      const far = Math.hypot(px - x, py - y) - this.#radius(point) / 2
      if (far < least) [found, least] = [point, far]
    }
    return found
  }
}

function boundsOf(values) {
  return values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity])
}

/** Parts of the picture that a name covers: 40 pixels wide and a line high each. */
function cellsOf(x, y, name) {
  const [row, first] = [Math.round(y / LINE), Math.floor(x / 40)]
  const last = Math.floor((x + name.length * LETTER) / 40)
  const columns = Array.from({ length: last - first + 1 }, (_, i) => first + i)
  return columns.flatMap((column) => [row, row + 1].map((each) => `${column} ${each}`))
}

function drawArrow(pen, x1, y1, x2, y2, radius) {
  const angle = Math.atan2(y2 - y1, x2 - x1)
  const [x, y] = [x2 - radius * Math.cos(angle), y2 - radius * Math.sin(angle)]
  pen.beginPath()
  pen.moveTo(x, y)
  for (const turn of [-0.4, 0.4]) pen.lineTo(x - 7 * Math.cos(angle + turn), y - 7 * Math.sin(angle + turn))
  pen.fill()
}

function drawText(pen, text, x, y, ink) {
  const before = pen.fillStyle
  pen.fillStyle = ink
  pen.fillText(text, x, y)
  pen.fillStyle = before
}
