// How long single waits or holds took: bars over a logarithmic axis, with the median and the 99th percentile.
import {scaleLinear, scaleLog} from "d3-scale";
import {count, duration} from "./figures";
import type {Durations} from "./model";
import {useWidth} from "./width";

const height = 132, below = 22, above = 26, perOctave = 2;

interface Bar { from: number; to: number; n: number }

/** Joins the buckets to bars that are half an octave wide; the shortest bucket may begin at 0. */
function bars(d: Durations): Bar[] {
  const joined = new Map<number, number>();
  for (const [from, to, n] of d.buckets) {
    const middle = Math.max(from > 0 ? Math.sqrt(from * to) : to / 2, 1e-9);
    const at = Math.floor(Math.log2(middle) * perOctave);
    joined.set(at, (joined.get(at) ?? 0) + n);
  }
  return [...joined].sort((a, b) => a[0] - b[0]).map(([at, n]) => ({from: 2 ** (at / perOctave), to: 2 ** ((at + 1) / perOctave), n}));
}

export function Histogram({of, what, tone}: {of: Durations; what: string; tone: string}) {
  const [box, width] = useWidth<HTMLDivElement>(360);
  const all = bars(of);
  const marks = ([["median", of.median], ["99 %", of.p99], ["longest", of.longest]] as const)
    .filter((m): m is readonly ["median" | "99 %" | "longest", number] => m[1] !== null && m[1] > 0);
  const said = marks.map(([name, v]) => `${name} ${duration(v)}`).join(", ");
  const ends = [...all.flatMap(b => [b.from, b.to]), ...marks.map(m => m[1])].filter(v => v > 0);
  const drawn = ends.length > 0, widest = Math.sqrt(Math.max(1, 100 / (Math.max(...ends) / Math.min(...ends))));
  const low = Math.min(...ends) / widest, high = Math.max(...ends) * widest;  // two decades at least
  const x = scaleLog().domain(drawn ? [low / 1.3, high * 1.3] : [1e-6, 1]).range([4, width - 4]);
  const most = Math.max(1, ...all.map(b => b.n));
  const y = scaleLinear().domain([0, most]).range([height - below, above]);
  // Marks whose labels would overlap have one label.
  const labels = marks.map(([name, v]) => ({x: x(v), text: name as string, end: x(v) > width * 0.6}));
  type Label = (typeof labels)[number];
  const wide = (l: Label) => 4 + 6.6 * l.text.length, left = (l: Label) => l.end ? l.x - wide(l) : l.x, right = (l: Label) => l.end ? l.x : l.x + wide(l);
  for (let i = 1; i < labels.length;) {
    const a = labels[i - 1], b = labels[i];
    if (!a || !b || right(a) + 6 <= left(b)) {
      i++;
      continue;
    }
    labels.splice(i - 1, 2, {x: a.end ? b.x : a.x, text: `${a.text}, ${b.text}`, end: a.end});
    i = 1;
  }
  const decades = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1000, 1e4, 1e5].filter(v => v >= low / 1.3 && v <= high * 1.3);
  const every = Math.ceil(decades.length / Math.max(1, Math.floor(width / 58)));
  const names: Record<string, string> = {1e-9: "1 ns", 1e-8: "10 ns", 1e-7: "100 ns", 1e-6: "1 µs", 1e-5: "10 µs", 1e-4: "100 µs", 1e-3: "1 ms",
                                         0.01: "10 ms", 0.1: "100 ms", 1: "1 s", 10: "10 s", 100: "100 s", 1000: "1,000 s", 1e4: "10⁴ s", 1e5: "10⁵ s"};
  return (
    <figure class={"histogram " + tone} ref={box}>
      <figcaption><b>{what}</b> <span class="number">{count(of.count)}</span>{said ? <span class="muted">, {said}</span> : null}</figcaption>
      {drawn ? (
        <svg width={width} height={height} role="img" aria-label={`${what}: ${count(of.count)}; ${said}`}>
          {all.map(b => (
            <rect class="bar" x={x(b.from) + 0.5} width={Math.max(1, x(b.to) - x(b.from) - 1)} y={Math.min(y(b.n), y(0) - 1)}
                  height={Math.max(1, y(0) - y(b.n))}><title>{`${count(b.n)} from ${duration(b.from)} to ${duration(b.to)}`}</title></rect>
          ))}
          <line class="axis" x1={0} x2={width} y1={y(0) + 0.5} y2={y(0) + 0.5}/>
          {decades.map((v, i) => (
            <g>
              <line class="axis" x1={x(v)} x2={x(v)} y1={y(0)} y2={y(0) + 4}/>
              {i % every === 0 ? <text x={Math.min(Math.max(x(v), 22), width - 26)} y={height - 5} text-anchor="middle">{names[v] ?? ""}</text> : null}
            </g>
          ))}
          {marks.map(([, v]) => <g class="mark"><line x1={x(v)} x2={x(v)} y1={above - 10} y2={y(0)}/></g>)}
          {labels.map(l => <text x={l.end ? l.x - 4 : l.x + 4} y={above - 13} text-anchor={l.end ? "end" : "start"}>{l.text}</text>)}
        </svg>
      ) : <p class="muted">No single duration was recorded.</p>}
      {drawn && all.length === 0 ? <p class="muted">This file has no histogram, only these figures.</p> : null}
    </figure>
  );
}
