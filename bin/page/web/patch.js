// Applies the patches that lead from one state to the next. Everything that did not change is shared
// between the two, so all states of a stretch of the log can be kept.

/** The value after the operations: `["=", path, value]`, `["-", path]`, `["+", path, text]` and
 *  `["~", path, at, count, items]`. */
export function patched(value, operations) {
  return operations.reduce((result, operation) => changedAt(result, operation, 0), value)
}

function changedAt(value, operation, depth) {
  const [kind, path, ...rest] = operation
  if (depth === path.length) {
    if (kind === "=") return rest[0]
    if (kind === "+") return value + rest[0]
    if (kind === "~") return value.toSpliced(rest[0], rest[1], ...rest[2])
    throw new Error(`unknown operation ${kind}`)
  }
  const step = path[depth]
  if (kind === "-" && depth === path.length - 1) {
    const { [step]: _, ...others } = value
    return others
  }
  const inner = value[step]
  // a message that is read late
  const changed = changedAt(typeof inner?.read === "function" ? inner.read() : inner, operation, depth + 1)
  return Array.isArray(value) ? value.with(step, changed) : { ...value, [step]: changed }
}
