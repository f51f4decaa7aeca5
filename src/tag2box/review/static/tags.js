// Where the tags of boxes go: each at the first of its spots that is free. Pixels of the screen, from the picture's corner.

const GAP = 4
const HIGH = 12 // so far a tag may stand out above the picture
const spots = {
  above: ([x0, y0], [, high]) => [x0, y0 - GAP - high],
  'above end': ([, y0, x1], [wide, high]) => [x1 - wide, y0 - GAP - high],
  below: ([x0, , , y1]) => [x0, y1 + GAP],
  'below end': ([, , x1, y1], [wide]) => [x1 - wide, y1 + GAP],
  head: ([x0, y0]) => [x0 + GAP, y0 + GAP],
  'head end': ([, y0, x1], [wide]) => [x1 - GAP - wide, y0 + GAP],
  foot: ([x0, , , y1], [, high]) => [x0 + GAP, y1 - GAP - high],
  'foot end': ([, , x1, y1], [wide, high]) => [x1 - GAP - wide, y1 - GAP - high],
}
const outside = ['above', 'above end', 'below', 'below end']
const inside = ['head', 'head end', 'foot', 'foot end']

// In which order the kinds of tags try them. One that may be left out goes where there is room, or nowhere.
export const kinds = {
  tag: { order: ['above', 'above end', 'head', 'head end', 'below', 'below end', 'foot', 'foot end'] },
  other: { order: [...inside, ...outside] },
  score: { order: ['foot end', 'foot', 'head end', 'head'], optional: true },
}

const overlap = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]

// Inside a box that is hardly larger a tag would hide what is in it.
const hides = (spot, [x0, y0, x1, y1], [wide, high]) =>
  inside.includes(spot) && (x1 - x0 < wide + 2 * GAP || y1 - y0 < 2 * high + GAP)

// tags: their kind, box and size; the first ones choose first. Left and top of each, null for one that is left out.
export function placeTags(tags, [width, height]) {
  const taken = []
  return tags.map(({ kind, box, size }) => {
    const at = (spot) => {
      const [x, y] = spots[spot](box, size)
      return [x, y, x + size[0], y + size[1]]
    }
    const within = ([x0, y0, x1, y1]) => x0 >= 0 && y0 >= -HIGH && x1 <= width && y1 <= height
    const { order, optional } = kinds[kind]
    const fitting = order.filter((spot) => !hides(spot, box, size)).map(at).filter(within)
    const free = fitting.find((place) => !taken.some((other) => overlap(place, other)))
    const place = free ?? (optional ? null : fitting[0] ?? pushedInside(at(order[0]), [width, height]))
    if (place) taken.push(place)
    return place && place.slice(0, 2)
  })
}

function pushedInside([x0, y0, x1, y1], [width, height]) {
  const left = Math.max(0, Math.min(x0, width - (x1 - x0)))
  const top = Math.max(-HIGH, Math.min(y0, height - (y1 - y0)))
  return [left, top, left + x1 - x0, top + y1 - y0]
}
