// Texts that cannot be told from their background, by WCAG AA.

/** Runs in the page: texts whose contrast is less than 4.5. */
export function faintTexts() {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number)
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor
      if (colour !== "rgba(0, 0, 0, 0)" && colour !== "transparent") return colour
    }
    return "rgb(255, 255, 255)"
  }
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())
  const shown = [...document.body.querySelectorAll("*")].filter((element) => !["SCRIPT", "NOSCRIPT", "OPTION"].includes(element.nodeName) && element.checkVisibility() && hasText(element))
  return shown.flatMap((element) => {
    const [a, b] = [light(getComputedStyle(element).color), light(background(element))]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    return ratio < 4.5 ? [`${ratio.toFixed(2)} ${element.className} ${element.textContent.slice(0, 30)}`] : []
  })
}
