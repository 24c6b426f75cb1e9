// Where the data comes from: named blocks of JSON. A page in a file has them as elements,
// packed if they are large; another source only needs the same method.

export class EmbeddedSource {
  /** The block with this name. */
  async block(name) {
    const element = document.getElementById(name)
    if (!element) throw new Error(`the page has no block ${name}`)
    if (element.type === "application/json") return JSON.parse(element.textContent)
    const letters = atob(element.textContent)
    const packed = new Uint8Array(letters.length)
    for (let at = 0; at < letters.length; at++) packed[at] = letters.charCodeAt(at)
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))
    return new Response(unpacked).json()
  }
}
