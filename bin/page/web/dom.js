// Makes elements. A string among the children becomes a text node: no text of a run is ever read as
// markup, and nothing here sets an address or a handler from text.

export function h(tag, props, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value)
    else if (name === "style") Object.assign(element.style, value)
    else element.setAttribute(name, value === true ? "" : value)
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false))
  return element
}

export function button(label, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, label)
}

export function byId(id) {
  return document.getElementById(id)
}

/** Something that opens; `make` gives its content when it does so for the first time. */
export function opening(kind, summary, make) {
  const details = h("details", { class: kind }, summary)
  details.addEventListener("toggle", () => details.append(...[make()].flat(Infinity).filter(Boolean)), { once: true })
  return details
}

/** Colours of the style sheet, as a canvas takes them. */
export function colours(names) {
  const probe = h("span", { hidden: true })
  document.body.append(probe)
  const found = names.map((name) => {
    probe.style.color = `var(--${name})`
    return [name, getComputedStyle(probe).color]
  })
  probe.remove()
  return Object.fromEntries(found)
}
