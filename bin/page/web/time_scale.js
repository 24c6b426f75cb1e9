// Maps time to places on the timeline, between 0 and 1. A pause takes up less room the longer it is:
// an hour in which nothing happened must not hide the seconds around it.

// Milliseconds after which a pause is shortened.
const PAUSE = 20_000

export class TimeScale {
  constructor(times) {
    this.times = times
    this.places = new Float64Array(times.length)
    this.pauses = []
    let place = 0
    for (let at = 1; at < times.length; at++) {
      const gap = times[at] - times[at - 1]
      const shown = gap > PAUSE ? PAUSE * (1 + Math.log(gap / PAUSE)) : gap
      if (gap > PAUSE) this.pauses.push({ from: times[at - 1], to: times[at] })
      place += shown
      this.places[at] = place
    }
    this.total = Math.max(place, 1)
  }

  place(time) {
    const { times, places, total } = this
    if (times.length === 0 || time <= times[0]) return 0
    const at = lastTime(times, time)
    if (at >= times.length - 1) return places[times.length - 1] / total
    const part = (time - times[at]) / (times[at + 1] - times[at])
    return (places[at] + part * (places[at + 1] - places[at])) / total
  }

  time(place) {
    const { times, places, total } = this
    const wanted = place * total
    const at = Math.max(0, Math.min(lastTime(places, wanted), times.length - 2))
    const width = places[at + 1] - places[at]
    return width > 0 ? times[at] + ((wanted - places[at]) / width) * (times[at + 1] - times[at]) : times[at] ?? 0
  }
}

/** The last index whose value is at most `wanted`. */
function lastTime(values, wanted) {
  let [low, high] = [0, values.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (values[middle] <= wanted) low = middle + 1
    else high = middle
  }
  return low - 1
}
