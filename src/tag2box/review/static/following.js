// What comes after a review: commands to be copied into a terminal.

export function makeSteps(steps, make, say, announce) {
  return steps.map(({ title, why, command }) => {
    const step = make('section')
    const code = make('code')
    code.append(...unbroken(command, make))
    const copy = make('button', '', 'Copy')
    copy.setAttribute('aria-label', `Copy the command to ${why}`)
    copy.addEventListener('click', () => copied(code, copy, say, announce))
    const box = make('div', 'command')
    box.append(code, copy)
    step.append(make('h2', '', title), make('p', '', `To ${why}, type in a terminal:`), box)
    return step
  })
}

// As text, since it has names of folders in it. A line ends before an option and not within, where it can.
function unbroken(command, make) {
  const parts = command.split(/ (?=--)/)
  return parts.flatMap((part, index) => [...(index ? [' '] : []), make('span', '', part)])
}

async function copied(code, button, say, announce) {
  try {
    await navigator.clipboard.writeText(code.textContent)
    button.textContent = 'Copied'
    announce('Copied.')
    setTimeout(() => { button.textContent = 'Copy' }, 2000)
  } catch { // an address other than this machine's, or a browser that does not allow it
    getSelection().selectAllChildren(code)
    say('It is selected; copy it with Ctrl C.')
  }
}
