// The review page. All that is known lives on the server; here is one picture, and what is being done to it.

import { makeSteps } from './following.js'
import { depthOf, scoresOf } from './scores.js'
import { placeTags } from './tags.js'

const $ = (id) => document.getElementById(id)
const [stage, frame, picture, layers, holder] = ['stage', 'frame', 'picture', 'layers', 'boxes'].map($)

const page = {
  classes: [], // of the data set: name, colour, ink
  by: '', // the score that pictures are ordered by, and the classes of each
  state: null, // order, progress and version, as the server has them
  image: null, // the picture shown: name, size, classes
  place: 0, // which of its classes is being decided
  chosen: -1, // which box
  visited: [], // pictures seen in this tab
  at: -1, // which of these is shown
  again: false, // everything is done, and somebody looks once more
  shown: { predicted: true, samples: true },
  zoom: 1,
  drawing: false, // the next drag draws, wherever it begins
  gesture: null,
  moved: null, // a class and a timer: arrow keys have moved a box that is not saved yet
  unsaved: null, // a class whose boxes the server did not take, as it was not there
  saving: Promise.resolve(true),
  acting: Promise.resolve(), // what has been asked for, one after the other
  asked: 0, // how many of these are not done
  leaving: 0, // how many of these may lead to another picture or class
  era: 0, // rises when something goes wrong: what was asked for before is void
}

class Trouble extends Error {
  constructor(words, status) {
    super(words)
    this.status = status
  }
}

async function ask(path, method = 'GET', body = undefined) {
  let answer
  try {
    const headers = body ? { 'Content-Type': 'application/json' } : {}
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), keepalive: method !== 'GET' })
  } catch {
    throw new Trouble(`${method === 'GET' ? 'No' : 'Not saved: no'} answer from tag2box. Is it still running?`, 0)
  }
  const content = await answer.json().catch(() => ({}))
  if (!answer.ok) throw new Trouble(content.error ?? `tag2box has refused this (${answer.status})`, answer.status)
  return content
}

async function refresh() {
  const before = page.state?.version
  page.state = await ask('api/state')
  showProgress()
  if (before !== undefined && before !== page.state.version && page.image) await show(page.image.number, entry().number)
}

// More often while the nets are still looking; later other tabs may have changed something.
const looking = () => page.state.ready < page.state.images && !page.state.trouble
const pollLater = () => setTimeout(poll, looking() ? 1500 : 15000)

async function poll() {
  if (looking() || document.visibilityState === 'visible') {
    if (!busy()) await attempt(refresh)
    if (!page.image && $('choices').hidden) await attempt(next)
  }
  pollLater()
}

const busy = () => page.gesture !== null || page.moved !== null || page.asked > 0

function candidate() {
  const { order, done } = page.state
  const seen = new Set(page.visited)
  const finished = new Set(page.again ? [] : done)
  const open = order.filter((number) => !finished.has(number))
  const fresh = open.find((number) => !seen.has(number))
  if (fresh !== undefined || page.again) return fresh
  const skipped = open[(open.indexOf(page.image?.number) + 1) % open.length] // round and round
  return skipped === page.image?.number ? undefined : skipped
}

async function next() {
  await settle()
  if (page.unsaved) return undefined
  if (page.at < page.visited.length - 1) return visit(page.at + 1)
  const number = candidate()
  if (number === undefined) return showEnd()
  page.visited.push(number)
  return visit(page.visited.length - 1)
}

async function back() {
  await settle()
  const to = page.image ? page.at - 1 : page.at
  return to < 0 || page.unsaved ? undefined : visit(to)
}

async function visit(at) {
  page.at = at
  await show(page.visited[at])
}

let latest = 0

async function show(number, label = undefined) {
  const turn = ++latest
  const image = await ask(`api/images/${number}`)
  const source = `pictures/${number}`
  const loaded = new Image()
  loaded.src = source
  const whole = await loaded.decode().then(() => true, () => false)
  if (turn !== latest) return
  const fresh = page.image?.number !== number
  image.classes.forEach(adopt)
  page.image = image
  if (page.visited[page.at] !== number) {
    page.visited.push(number)
    page.at = page.visited.length - 1
  }
  const wanted = image.classes.findIndex((one) => one.number === label)
  const open = image.classes.findIndex((one) => one.status === 'open')
  page.place = Math.max(0, wanted >= 0 ? wanted : open)
  page.chosen = -1
  if (fresh) page.zoom = 1
  setDrawing(false)
  history.replaceState(null, '', `#${number}`)
  if (picture.getAttribute('src') !== source) picture.src = source
  picture.alt = whole ? `Picture ${image.name}` : 'This picture cannot be read'
  frame.style.setProperty('--ratio', image.size[0] / image.size[1])
  frame.style.setProperty('--zoom', page.zoom)
  frame.hidden = $('panel').hidden = false
  $('note').hidden = true
  if (fresh) {
    frame.classList.remove('fresh')
    void frame.offsetWidth // so that the animation begins anew
    frame.classList.add('fresh')
    if (!$('keys').open) stage.focus({ preventScroll: true })
  }
  render()
  const following = candidate()
  if (following !== undefined) new Image().src = `pictures/${following}`
}

// What the server says of a class, and the boxes to begin with.
function adopt(one) {
  one.status = one.decision?.status ?? 'open'
  one.version = one.decision?.version ?? 0
  const boxes = one.decision ? one.decision.boxes : one.look?.suggested ?? []
  one.boxes = boxes.map((box) => [...box])
}

function showEnd() {
  const { ready, done, total, decided } = page.state
  const skipped = total - done.length
  page.image = null
  page.chosen = -1
  frame.hidden = $('panel').hidden = true
  $('note').hidden = false
  $('choices').hidden = $('following').hidden = true
  if (looking() && skipped > 0) {
    $('words').textContent = `The nets are looking at the ${ready ? 'next' : 'first'} picture …`
    return
  }
  $('choices').hidden = false
  $('following').hidden = !decided
  const one = total === 1 ? 'The picture is' : `All ${total} pictures are`
  $('words').textContent = skipped > 0 ? `${count(skipped, 'picture')} left to decide.` : `${one} reviewed. Thank you.`
  $('again').textContent = skipped > 0 ? 'Go on with these' : 'Look at them again'
  $('again').classList.toggle('primary', skipped > 0)
  const onwards = skipped > 0 ? null : $('following').querySelector('button')
  ;(onwards ?? $('again')).focus()
}

async function again() {
  page.again = page.state.done.length >= page.state.total
  page.visited = []
  page.at = -1
  await next()
}

const entry = () => page.image.classes[page.place]
const nameOf = (one) => page.classes[one.number].name
const count = (number, word) => `${number} ${word}${number === 1 ? '' : word.endsWith('x') ? 'es' : 's'}`

// Saves go one after the other: each is based on the version that the one before has made.
function save(one, status) {
  const image = page.image
  const boxes = one.boxes.map((box) => [...box])
  page.saving = page.saving.then(async () => {
    try {
      const path = `api/images/${image.number}/classes/${one.number}`
      const answer = await ask(path, 'PUT', { status, boxes, based_on: one.version })
      one.decision = answer.image.classes.find((other) => other.number === one.number).decision
      one.status = one.decision.status
      one.version = one.decision.version
      if (status === 'rejected') one.boxes = []
      page.state = answer.state
      showProgress()
      if (page.image === image) render()
      return true
    } catch (trouble) {
      await recover(trouble, image, one)
      return false
    }
  })
  return page.saving
}

async function recover(trouble, image, one) {
  page.era++
  say(trouble.status === 409 ? 'Changed in another tab. This is how it is now.' : trouble.message)
  if (trouble.status === 0) return // what was done stays on the screen; the next try may succeed
  page.state = await ask('api/state')
  if (page.image === image) await show(image.number, one.number)
}

async function edited(one) {
  render()
  const kept = await save(one, one.status === 'accepted' && one.boxes.length ? 'accepted' : 'open')
  page.unsaved = !kept && page.image?.classes.includes(one) ? one : null
}

// Save what arrow keys have moved or what could not be saved before, and wait for all that is on its way.
async function settle() {
  const one = page.moved?.one ?? page.unsaved
  clearTimeout(page.moved?.timer)
  page.moved = null
  if (one) await edited(one)
  await page.saving
}

async function decide(status) {
  const one = entry()
  if (status === 'accepted' && !one.boxes.length) return say('No box to accept. Draw one, or say that it is not there.')
  await settle()
  if (page.unsaved) return undefined
  if (one.status !== status && !(await save(one, status))) return undefined
  announce(`${nameOf(one)} ${status === 'accepted' ? `accepted, ${count(one.boxes.length, 'box')}` : 'is not there'}.`)
  return advance()
}

async function advance() {
  const { classes } = page.image
  for (let step = 1; step < classes.length; step++) {
    const place = (page.place + step) % classes.length
    if (classes[place].status === 'open') return choose(place)
  }
  return next()
}

function choose(place) {
  page.place = place
  page.chosen = -1
  render()
  stage.focus({ preventScroll: true })
  announce(`${nameOf(entry())}, ${count(entry().boxes.length, 'box')}.`)
}

async function turnClass(step) {
  await settle()
  const { length } = page.image.classes
  choose((page.place + step + length) % length)
}

async function timeTravel(way) {
  await settle()
  try {
    const answer = await ask(`api/${way}`, 'POST', { based_on: page.state.version })
    page.state = answer.state
    showProgress()
    if (answer.changed) await show(answer.changed.image, answer.changed.class)
    announce(answer.changed ? `${way} done.` : `Nothing to ${way}.`)
  } catch (trouble) {
    page.era++
    if (trouble.status === 409) await refresh()
    const words = `Changed in another tab. This is how it is now; ${way} again if you mean it.`
    say(trouble.status === 409 ? words : trouble.message)
  }
}

function addClass(number) {
  const there = page.image.classes.findIndex((one) => one.number === number)
  if (there >= 0) return choose(there)
  page.image.classes.push({ number, tagged: false, look: null, decision: null, status: 'open', version: 0, boxes: [] })
  return choose(page.image.classes.length - 1)
}

const tenth = (value) => Math.round(value * 10) / 10
const clamp = (value, low, high) => Math.min(Math.max(value, low), high)
const scale = () => frame.getBoundingClientRect().width / page.image.size[0] // from the picture to the screen
const least = () => Math.max(1, 4 / scale())

function moveBox([x0, y0, x1, y1], dx, dy) {
  const [width, height] = page.image.size
  const x = clamp(dx, -x0, width - x1)
  const y = clamp(dy, -y0, height - y1)
  return [x0 + x, y0 + y, x1 + x, y1 + y].map(tenth)
}

function resizeBox([x0, y0, x1, y1], edges, dx, dy) {
  const [width, height] = page.image.size
  const small = Math.min(least(), x1 - x0, y1 - y0)
  return [
    edges.l ? clamp(x0 + dx, 0, x1 - small) : x0,
    edges.t ? clamp(y0 + dy, 0, y1 - small) : y0,
    edges.r ? clamp(x1 + dx, x0 + small, width) : x1,
    edges.b ? clamp(y1 + dy, y0 + small, height) : y1,
  ].map(tenth)
}

function select(index, focus = true) {
  page.chosen = index
  renderBoxes()
  if (focus && index >= 0) holder.children[index].focus({ preventScroll: true })
  if (focus && index < 0) stage.focus({ preventScroll: true })
}

async function addBox(box) {
  const one = entry()
  one.boxes.push(box)
  select(one.boxes.length - 1)
  await edited(one)
}

async function newBox() {
  await settle()
  const [width, height] = page.image.size
  const shift = (entry().boxes.length % 5) * 0.04
  const box = [1 / 3 + shift, 1 / 3 + shift, 2 / 3 + shift, 2 / 3 + shift]
  await addBox(box.map((part, side) => tenth(part * (side % 2 ? height : width))))
}

async function deleteBox() {
  await settle()
  const one = entry()
  if (page.chosen < 0 && one.boxes.length === 1) page.chosen = 0
  if (page.chosen < 0) return say('Choose a box first: click on it, or press Tab.')
  one.boxes.splice(page.chosen, 1)
  select(Math.min(page.chosen, one.boxes.length - 1))
  announce(`Deleted; ${count(one.boxes.length, 'box')} left.`)
  return edited(one)
}

async function swap() {
  await settle()
  const one = entry()
  if (!one.look) return say('The nets have not been asked about this class.')
  const same = (boxes) => JSON.stringify(boxes) === JSON.stringify(one.boxes)
  const { suggested, agreed } = one.look
  const boxes = same(suggested) ? agreed : suggested
  if (same(boxes)) return say('Both nets suggest the same boxes here.')
  one.boxes = boxes.map((box) => [...box])
  page.chosen = -1
  say(boxes === agreed ? 'Boxes of the conditional net' : 'Boxes of the prediction net')
  return edited(one)
}

function nudge(dx, dy, resize) {
  const one = entry()
  const step = Math.max(1, Math.round(Math.max(...page.image.size) / 300))
  const box = one.boxes[page.chosen]
  const moved = resize ? resizeBox(box, { r: true, b: true }, dx * step, dy * step) : moveBox(box, dx * step, dy * step)
  one.boxes[page.chosen] = moved
  renderBoxes()
  clearTimeout(page.moved?.timer)
  page.moved = { one, timer: setTimeout(() => attempt(settle, anywhere), 600) }
}

function pointOf(event) {
  const { left, top } = frame.getBoundingClientRect()
  const [width, height] = page.image.size
  return [clamp((event.clientX - left) / scale(), 0, width), clamp((event.clientY - top) / scale(), 0, height)]
}

// Which edges of a box a point takes hold of, generously outside and no further in than a third; null: it is not on it.
function holdOf([x0, y0, x1, y1], [x, y], reach) {
  if (x < x0 - reach || x > x1 + reach || y < y0 - reach || y > y1 + reach) return null
  const [inX, inY] = [Math.min(reach, (x1 - x0) / 3), Math.min(reach, (y1 - y0) / 3)]
  return { l: x < x0 + inX, r: x > x1 - inX, t: y < y0 + inY, b: y > y1 - inY }
}

const isEdge = (hold) => hold.l || hold.r || hold.t || hold.b

function under(event) {
  if (page.drawing || event.shiftKey) return null
  const point = pointOf(event)
  const { boxes } = entry()
  const reach = (event.pointerType === 'mouse' ? 8 : 22) / scale()
  const area = ([x0, y0, x1, y1]) => (x1 - x0) * (y1 - y0)
  const rank = (index) => (index === page.chosen ? -1 : area(boxes[index])) // the chosen one first, then the smallest
  const order = boxes.map((_, index) => index).sort((a, b) => rank(a) - rank(b))
  for (const index of order) {
    const hold = holdOf(boxes[index], point, reach)
    if (hold) return { index, hold }
  }
  return null
}

function cursorFor(hit) {
  if (!hit) return 'crosshair'
  const { l, r, t, b } = hit.hold
  if ((l && t) || (r && b)) return 'nwse-resize'
  if ((r && t) || (l && b)) return 'nesw-resize'
  return l || r ? 'ew-resize' : t || b ? 'ns-resize' : 'move'
}

const fingers = new Map() // where each of them is

function begin(event) {
  if (event.button !== 0 || !page.image) return
  fingers.set(event.pointerId, [event.clientX, event.clientY])
  if (fingers.size > 1) return cancel()
  if (page.leaving) return
  event.preventDefault()
  settle()
  const hit = under(event)
  const one = entry()
  page.gesture = {
    one, hit, pointer: event.pointerId, start: pointOf(event), from: [event.clientX, event.clientY],
    before: one.boxes.map((box) => [...box]), index: hit ? hit.index : -1, active: false,
  }
  frame.setPointerCapture(event.pointerId)
}

// Two fingers enlarge the picture and take it along.
function pinch(event) {
  const middle = () => {
    const [[x0, y0], [x1, y1]] = fingers.values()
    return [(x0 + x1) / 2, (y0 + y1) / 2, Math.hypot(x1 - x0, y1 - y0)]
  }
  const [x, y, apart] = middle()
  fingers.set(event.pointerId, [event.clientX, event.clientY])
  const [newX, newY, newApart] = middle()
  enlarge(newApart / Math.max(apart, 1), [x, y])
  stage.scrollBy(x - newX, y - newY)
}

function follow(event) {
  const { gesture } = page
  if (fingers.size > 1 && fingers.has(event.pointerId)) return pinch(event)
  if (!gesture) {
    if (page.image && event.pointerType === 'mouse') frame.style.cursor = cursorFor(under(event))
    return
  }
  if (event.pointerId !== gesture.pointer) return
  const far = Math.hypot(event.clientX - gesture.from[0], event.clientY - gesture.from[1])
  if (!gesture.active && far < 4) return
  const [x, y] = pointOf(event)
  const [fromX, fromY] = gesture.start
  const { one, hit } = gesture
  if (!gesture.active) {
    gesture.active = true
    if (!hit) gesture.index = one.boxes.push([0, 0, 0, 0]) - 1
    page.chosen = gesture.index
  }
  if (!hit) {
    const drawn = [Math.min(x, fromX), Math.min(y, fromY), Math.max(x, fromX), Math.max(y, fromY)]
    one.boxes[gesture.index] = drawn.map(tenth)
  } else {
    const box = gesture.before[hit.index]
    const by = [x - fromX, y - fromY]
    one.boxes[hit.index] = isEdge(hit.hold) ? resizeBox(box, hit.hold, ...by) : moveBox(box, ...by)
  }
  renderBoxes()
}

function end(event) {
  const { gesture } = page
  fingers.delete(event.pointerId)
  if (!gesture || event.pointerId !== gesture.pointer) return
  page.gesture = null
  const { one, hit, index } = gesture
  if (!gesture.active) return select(hit ? hit.index : -1)
  const [x0, y0, x1, y1] = one.boxes[index]
  if (Math.min(x1 - x0, y1 - y0) < least()) {
    one.boxes = gesture.before
    return select(-1)
  }
  setDrawing(false)
  select(index)
  announce(describe(one, index))
  if (JSON.stringify(one.boxes) !== JSON.stringify(gesture.before)) attempt(() => edited(one))
}

function cancel() {
  if (!page.gesture) return
  page.gesture.one.boxes = page.gesture.before
  page.gesture = null
  select(Math.min(page.chosen, entry().boxes.length - 1), false)
}

// Enlarge the picture around a point of the screen, by default the middle of the chosen box or of what is seen.
function enlarge(factor, centre = undefined) {
  const seen = (page.chosen < 0 ? stage : holder.children[page.chosen]).getBoundingClientRect()
  const [x, y] = centre ?? [seen.left + seen.width / 2, seen.top + seen.height / 2]
  const before = frame.getBoundingClientRect()
  page.zoom = factor ? clamp(page.zoom * factor, 1, 8) : 1
  frame.style.setProperty('--zoom', page.zoom)
  const after = frame.getBoundingClientRect()
  stage.scrollLeft += after.left + ((x - before.left) * after.width) / before.width - x
  stage.scrollTop += after.top + ((y - before.top) * after.height) / before.height - y
  renderBoxes()
}

function turnWheel(event) {
  if (!event.ctrlKey || !page.image) return
  event.preventDefault()
  enlarge(Math.exp(-event.deltaY / 200), [event.clientX, event.clientY])
}

function setDrawing(on) {
  page.drawing = on
  $('draw').setAttribute('aria-pressed', on)
  frame.style.cursor = 'crosshair'
}

function make(tag, className = '', text = '') {
  const made = document.createElement(tag)
  made.className = className
  made.textContent = text // never markup: names come from files
  return made
}

function put(element, [x0, y0, x1, y1]) {
  const [width, height] = page.image.size
  const sides = { left: x0 / width, top: y0 / height, width: (x1 - x0) / width, height: (y1 - y0) / height }
  for (const [side, share] of Object.entries(sides)) element.style[side] = `${share * 100}%`
}

function render() {
  const { colour } = page.classes[entry().number]
  document.documentElement.style.setProperty('--class', colour)
  renderLayers()
  renderBoxes()
  renderPanel()
}

function renderLayers() {
  const one = entry()
  const made = []
  const add = (className, box, of, text) => {
    const element = make('div', className)
    element.style.setProperty('--c', page.classes[of.number].colour)
    if (text) element.append(make('span', '', text))
    put(element, box)
    made.push(element)
    return element
  }
  for (const box of page.shown.samples && one.look ? one.look.samples.flat() : []) {
    add('sample', box, one).style.setProperty('--depth', `${depthOf(box, page.image.size, one.look.samples.length)}%`)
  }
  for (const other of page.image.classes) {
    if (other === one || other.status !== 'accepted') continue
    other.boxes.forEach((box) => add('other', box, other, nameOf(other)))
  }
  const taken = new Set(one.boxes.map(String))
  if (page.shown.predicted) {
    for (const [score, box] of one.look?.predicted ?? []) {
      if (!taken.has(String(box))) add('predicted', box, one, score.toFixed(2))
    }
  }
  layers.replaceChildren(...made)
}

// Tags of accepted classes first, which stay where they are while a box is moved; scores where there is room.
function arrangeTags() {
  const found = (kind, within, selector) => [...within.querySelectorAll(selector)].map((tag) => ({ kind, tag }))
  const tags = [
    ...found('other', layers, '.other > span'), ...found('tag', holder, '.tag'),
    ...found('score', layers, '.predicted > span'),
  ]
  const measured = tags.map(({ kind, tag }) => {
    const { offsetLeft: x, offsetTop: y, offsetWidth: width, offsetHeight: height } = tag.parentElement
    return { kind, box: [x, y, x + width, y + height], size: [tag.offsetWidth, tag.offsetHeight] }
  })
  placeTags(measured, [frame.clientWidth, frame.clientHeight]).forEach((place, index) => {
    const { tag } = tags[index]
    tag.style.visibility = place ? '' : 'hidden'
    if (!place) return
    const [x, y] = measured[index].box
    tag.style.left = `${place[0] - x - tag.parentElement.clientLeft}px`
    tag.style.top = `${place[1] - y - tag.parentElement.clientTop}px`
  })
}

function describe(one, index) {
  const [x0, y0, x1, y1] = one.boxes[index].map(Math.round)
  return `${nameOf(one)}, box ${index + 1} of ${one.boxes.length}: ${x1 - x0} by ${y1 - y0} pixels at ${x0}, ${y0}`
}

function makeBox() {
  const element = make('div', 'box')
  element.tabIndex = 0
  element.setAttribute('role', 'group')
  element.setAttribute('aria-roledescription', 'box')
  element.append(make('span', 'tag'))
  for (const at of ['l t', 'x t', 'r t', 'r y', 'r b', 'x b', 'l b', 'l y']) {
    const handle = make('i', 'handle')
    handle.dataset.at = at
    element.append(handle)
  }
  element.addEventListener('focus', () => {
    const index = [...holder.children].indexOf(element)
    if (index !== page.chosen) select(index, false)
  })
  return element
}

// Elements stay as long as they can: one that is made anew would lose the focus.
function renderBoxes() {
  const one = entry()
  const { colour, ink } = page.classes[one.number]
  while (holder.children.length > one.boxes.length) holder.lastChild.remove()
  while (holder.children.length < one.boxes.length) holder.append(makeBox())
  const size = scale()
  const scores = new Map((one.look?.predicted ?? []).map(([score, box]) => [String(box), score]))
  one.boxes.forEach((box, index) => {
    const element = holder.children[index]
    const [width, height] = [(box[2] - box[0]) * size, (box[3] - box[1]) * size]
    element.classList.toggle('chosen', index === page.chosen)
    element.classList.toggle('narrow', width < 90)
    element.classList.toggle('flat', height < 90)
    element.style.setProperty('--c', colour)
    element.style.setProperty('--on-c', ink)
    element.setAttribute('aria-label', describe(one, index))
    const tag = element.firstChild
    const score = one.status === 'open' ? scores.get(String(box)) : undefined
    tag.replaceChildren(nameOf(one), ...(score === undefined ? [] : [' ', make('small', '', score.toFixed(2))]))
    put(element, box)
  })
  arrangeTags()
  $('delete').disabled = !one.boxes.length
}

function renderPanel() {
  const { image, state } = page
  const one = entry()
  $('name').textContent = image.name
  $('name').title = image.name
  $('rank').replaceChildren(...ranked(state.order.indexOf(image.number) + 1, state.order.length))
  $('chips').replaceChildren(...image.classes.map(chip))
  $('chips').children[page.place].scrollIntoView({ block: 'nearest', inline: 'nearest' })
  renderMore()
  $('facts').replaceChildren(...(one.doubts ? facts(one.doubts) : []))
  $('samples').textContent = count(one.look?.samples.length ?? 0, 'sample')
  $('layers-shown').hidden = !one.look
  $('swap').disabled = !one.look
  $('accept').disabled = !one.boxes.length
  const boxes = count(one.boxes.length, 'box')
  const accept = one.boxes.length ? `Accept ${boxes}` : 'Accept'
  $('accept').firstChild.textContent = one.status === 'accepted' ? `✓ ${boxes}` : accept
  $('reject').firstChild.textContent = one.status === 'rejected' ? '✕ Not there' : 'Not there'
  $('back').disabled = page.at < 1
}

// "33rd most uncertain of 300 by doubt", on a phone "33rd of 300 by doubt".
function ranked(rank, of) {
  if (!rank) return []
  const most = `${rank === 1 ? 'the' : ordinal(rank)} most uncertain`
  return [make('span', 'wordy', most), make('span', 'terse', ordinal(rank)), ` of ${of} by ${page.by}`]
}

function ordinal(number) {
  const teens = number % 100 > 10 && number % 100 < 20
  return number + (teens ? 'th' : (['th', 'st', 'nd', 'rd'][number % 10] ?? 'th'))
}

function chip(one, place) {
  const made = make('button', `chip ${one.status}`)
  made.style.setProperty('--c', page.classes[one.number].colour)
  made.setAttribute('aria-pressed', place === page.place)
  const accepted = `✓ ${count(one.boxes.length, 'box')}`
  const words = { accepted, rejected: 'not there', open: one.tagged ? '' : 'no tag' }
  made.append(make('span', 'dot'), make('b', '', nameOf(one)), make('small', '', words[one.status]))
  made.addEventListener('click', () => attempt(() => settle().then(() => choose(place))))
  return made
}

function renderMore() {
  const select = $('more').querySelector('select')
  const here = new Set(page.image.classes.map((one) => one.number))
  const options = page.classes.map(({ name }, number) => [name, number]).filter(([, number]) => !here.has(number))
  select.replaceChildren(new Option('+ class', ''), ...options.map(([name, number]) => new Option(name, number)))
  $('more').hidden = !options.length
}

function facts(doubts) {
  return scoresOf(doubts, page.by).map(([word, value, title]) => {
    const [row, term, told, bar] = [make('div'), make('dt', '', word), make('dd'), make('i')]
    term.title = word === page.by ? `${title}. Pictures come in its order, and the classes of each` : title
    bar.style.setProperty('--share', `${clamp(value, 0, 1) * 100}%`)
    told.append(bar, make('span', '', Math.max(value, 0).toFixed(2)))
    row.append(term, told)
    return row
  })
}

function showProgress() {
  const { done, total, seconds_left: seconds, ready, trouble, can_undo: undo, can_redo: redo } = page.state
  const words = [make('b', '', `${done.length}`), ` of ${total}`]
  if (done.length < total && seconds !== null) words.push(' · ', ...duration(seconds))
  else if (done.length < total && looking()) words.push(` · ${ready} looked at`)
  $('progress').replaceChildren(...words)
  $('bar').firstChild.style.width = `${(100 * done.length) / total}%`
  $('bar').setAttribute('aria-valuemax', total)
  $('bar').setAttribute('aria-valuenow', done.length)
  $('undo').disabled = !undo
  $('redo').disabled = !redo
  if (trouble && !page.told) say(`The nets have stopped: ${trouble}`)
  page.told = Boolean(trouble)
}

// "about 12 min left", on a phone "12 min".
function duration(seconds) {
  const time = seconds < 5400 ? `${Math.max(1, Math.round(seconds / 60))} min` : `${(seconds / 3600).toFixed(1)} h`
  return [make('span', 'wordy', 'about '), time, make('span', 'wordy', ' left')]
}

let toasting

function say(words) {
  $('toast').textContent = words
  $('toast').classList.add('shown')
  clearTimeout(toasting)
  toasting = setTimeout(hush, 4500)
}

// Whoever goes on has read it, and it would be in the way.
function hush() {
  $('toast').classList.remove('shown')
}

function announce(words) {
  $('said').textContent = words
}

function showLayer(...names) {
  const on = names.length > 1 ? !names.some((name) => page.shown[name]) : !page.shown[names[0]]
  for (const name of names) {
    page.shown[name] = on
    $(`show-${name}`).setAttribute('aria-pressed', on)
  }
  renderLayers()
  arrangeTags()
}

const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }
const modifiers = new Set(['Alt', 'AltGraph', 'CapsLock', 'Control', 'Meta', 'Shift'])
const leaves = { leaves: true }
const anywhere = { leaves: true, anywhere: true } // where no picture is shown too, and on the way to one
const keys = {
  a: [() => decide('accepted'), leaves],
  enter: [() => decide('accepted'), leaves],
  r: [() => decide('rejected'), leaves],
  n: [next, anywhere],
  p: [back, anywhere],
  u: [() => timeTravel('undo'), anywhere],
  U: [() => timeTravel('redo'), anywhere],
  c: [() => turnClass(1)],
  C: [() => turnClass(-1)],
  b: [newBox],
  d: [deleteBox],
  delete: [deleteBox],
  backspace: [deleteBox],
  t: [swap],
  1: [() => showLayer('predicted')],
  2: [() => showLayer('samples')],
  h: [() => showLayer('predicted', 'samples')],
  '+': [() => enlarge(1.5)],
  '=': [() => enlarge(1.5)],
  '-': [() => enlarge(1 / 1.5)],
  0: [() => enlarge(0)],
}

function pressed(event) {
  if (!event.repeat && !modifiers.has(event.key)) hush()
  if (event.altKey || $('keys').open) return
  if (event.key === '?') return openKeys()
  if (event.ctrlKey || event.metaKey) return shortcut(event)
  if (event.target instanceof HTMLSelectElement) return
  const control = event.target.closest?.('button, a')
  if (event.key === 'Escape') return letGo()
  if (arrows[event.key] && page.image && page.chosen >= 0 && !control && !page.leaving) {
    event.preventDefault()
    return nudge(...arrows[event.key], event.shiftKey)
  }
  if (control && event.key === 'Enter') return // presses that button
  const letter = event.key.length === 1 && event.shiftKey // as without Caps Lock
  const key = letter ? event.key.toUpperCase() : event.key.toLowerCase()
  const [action, how] = keys[key] ?? []
  if (!action || page.gesture || (!page.image && how !== anywhere)) return
  event.preventDefault()
  if (!event.repeat) attempt(action, how)
}

function letGo() {
  if (page.gesture) cancel()
  else if (page.drawing) setDrawing(false)
  else if (page.image) select(-1)
}

function shortcut(event) {
  const key = event.key.toLowerCase()
  if (key !== 'z' && key !== 'y') return
  event.preventDefault()
  attempt(...keys[key === 'y' || event.shiftKey ? 'U' : 'u'])
}

// Do things one after the other. Whoever is on the way to another picture decides nothing before seeing it.
function attempt(action, { leaves = false, anywhere = false } = {}) {
  if (page.leaving && !anywhere) return page.acting
  const { era } = page
  page.asked += 1
  page.leaving += leaves
  stage.setAttribute('aria-busy', true)
  page.acting = page.acting.then(async () => {
    try {
      if (era === page.era) await action()
    } catch (trouble) {
      page.era++
      if (!(trouble instanceof Trouble)) throw trouble
      say(trouble.message)
    } finally {
      page.asked -= 1
      page.leaving -= leaves
      stage.setAttribute('aria-busy', page.asked > 0)
    }
  }).catch((error) => console.error(error))
  return page.acting
}

function openKeys() {
  $('keys').showModal()
}

function wire() {
  const buttons = {
    accept: keys.a, reject: keys.r, next: keys.n, back: keys.p, undo: keys.u, redo: keys.U,
    delete: keys.d, swap: keys.t, 'show-predicted': keys[1], 'show-samples': keys[2], again: [again, anywhere],
  }
  for (const [id, action] of Object.entries(buttons)) $(id).addEventListener('click', () => attempt(...action))
  $('help').addEventListener('click', openKeys)
  $('close').addEventListener('click', () => $('keys').close())
  $('draw').addEventListener('click', (event) => {
    if (event.detail === 0) attempt(newBox) // by the keyboard: nothing to drag with
    else setDrawing(!page.drawing)
  })
  $('more').querySelector('select').addEventListener('change', (event) => addClass(Number(event.target.value)))
  $('keys').addEventListener('click', (event) => event.target === $('keys') && $('keys').close())
  frame.addEventListener('pointerdown', begin)
  frame.addEventListener('pointermove', follow)
  frame.addEventListener('pointerup', end)
  frame.addEventListener('pointercancel', (event) => {
    fingers.delete(event.pointerId)
    cancel()
  })
  stage.addEventListener('wheel', turnWheel, { passive: false })
  document.addEventListener('keydown', pressed)
  document.addEventListener('pointerdown', hush, { capture: true })
  window.addEventListener('resize', () => page.image && renderBoxes())
  window.addEventListener('pagehide', settle)
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'hidden') settle()
    else if (!busy()) attempt(refresh)
  })
}

async function start() {
  const { title, by, following, classes } = await ask('api/about')
  page.classes = classes
  page.by = by
  $('steps').replaceChildren(...makeSteps(following, make, say, announce))
  document.title = `${title} – tag2box review`
  page.state = await ask('api/state')
  wire()
  showProgress()
  const number = Number.parseInt(location.hash.slice(1), 10)
  await attempt(() => (page.state.order.includes(number) ? show(number) : next()), anywhere)
  pollLater()
}

start().catch((trouble) => {
  $('words').textContent = trouble.message
})
