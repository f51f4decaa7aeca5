// What the nets' doubts of a class are called, as in `tag2box rank`, and which of them are shown.

const titles = {
  doubt: 'Of confidence and distance: high where the prediction net is unsure and the samples are elsewhere',
  confidence: 'The score of the prediction net’s best box',
  distance: 'How far the samples are from that box: 0 where all agree on the place, 1 where none touches it',
  'self-diversity': 'How often two samples differ in what they take for this class',
  dissimilarity: 'How much the nets differ in what they take for this class',
  total: 'Dissimilarity and self-diversity together',
}
const helpful = ['doubt', 'confidence', 'distance', 'self-diversity'] // dissimilarity is no judge of boxes
const SHOWN = 4

// Name, value and title of each: first what pictures are ordered by, then what helps to judge the boxes.
export function scoresOf(doubts, by) {
  const names = [by, ...helpful.filter((name) => name !== by)].slice(0, SHOWN)
  return names.map((name) => [name, name === 'confidence' ? 1 - doubts[name] : doubts[name], titles[name]])
}

// How deep a sample is tinted, in per cent. However many samples there are, where all of them agree the picture is
// still seen; and the more of it they cover the fainter they are, until one of all the picture is an outline alone.
export function depthOf([x0, y0, x1, y1], [width, height], samples) {
  const share = ((x1 - x0) * (y1 - y0)) / (width * height)
  const together = 0.36 * Math.max(0, 1 - share / 0.9) ** 1.5
  return 100 * (1 - (1 - together) ** (1 / samples))
}
