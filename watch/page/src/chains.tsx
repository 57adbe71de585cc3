// Threads that wait for each other, drawn: a circle as a ring, a chain as a line. A list beside it says the same in words.
import {useState} from "preact/hooks";
import {duration} from "./figures";
import {brief, isPlumbing, nameOf} from "./flame";
import type {Chain, Frame, Link, Stack} from "./model";
import {base} from "./text";
import {useWidth} from "./width";

const mostDrawn = 8;

function clip(text: string, most: number): string {
  return text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text;
}

const systemLibrary = /^(?:libc|libpthread|libstdc\+\+|libm|libgcc_s|ld-linux|ld-musl|libusher)\b/;

/** The first frame of the program itself. */
export function ownFrame(s: Stack): Frame | null {
  return s.frames.find(f => !isPlumbing(f) && !systemLibrary.test(base(f.module)) && !/^(?:__|pthread_|syscall$|futex)/.test(f.function)) ?? s.frames[0] ?? null;
}

export function StackList({stack}: {stack: Stack}) {
  const [all, setAll] = useState(false);
  const frames = all ? stack.frames : stack.frames.filter(f => !isPlumbing(f));
  if (stack.frames.length === 0) return <p class="muted">The stack is not known.</p>;
  return (
    <>
      <ol class="stack">
        {frames.slice(0, all ? 400 : 24).map(f => (
          <li><bdi class="code">{all ? nameOf(f) : brief(nameOf(f))}</bdi> <span class="muted"><bdi>{all ? f.source : base(f.source)}</bdi>{f.inlined ? " (inlined)" : ""}</span></li>
        ))}
        {stack.cut ? <li class="muted">… the outer frames were not found</li> : null}
      </ol>
      {frames.length !== stack.frames.length || frames.length > 24 || all
        ? <button type="button" class="plain" aria-pressed={all} onClick={() => setAll(!all)}>{all ? "Fewer" : `All ${stack.frames.length} frames`}</button> : null}
    </>
  );
}

interface Spot { x: number; y: number }

/** Where the arrow between two boxes begins and ends, at their borders. */
function border(from: Spot, to: Spot, w: number, h: number): Spot {
  const dx = to.x - from.x, dy = to.y - from.y;
  const k = Math.min(dx === 0 ? Infinity : (w / 2 + 5) / Math.abs(dx), dy === 0 ? Infinity : (h / 2 + 5) / Math.abs(dy));
  return {x: from.x + dx * k, y: from.y + dy * k};
}

function Picture({chain}: {chain: Chain}) {
  const [frame, width] = useWidth<HTMLDivElement>(560);
  const links = chain.links.slice(0, mostDrawn), cut = chain.links.length - links.length;
  const nodes = links.flatMap(l => [{thread: true, text: l.thread.includes(" ") ? l.thread : "thread " + l.thread}, ...(l.waitsFor || l.does ? [{thread: false, text: brief(l.waitsFor) || l.does}] : [])]);
  const n = nodes.length, w = Math.min(190, Math.max(108, (width - 40) / 3)), h = 30;
  const self = chain.circle && n === 2;
  const ring = chain.circle && !cut && n > 2;
  const inRow = Math.max(1, Math.floor((width - 10 + 26) / (w + 26)));
  const rows = Math.ceil(n / inRow);
  const radiusX = (width - w) / 2 - 6, radiusY = n <= 4 ? 70 : 40 + 17 * n;
  const height = ring ? 2 * radiusY + h + 24 : self ? 116 : rows * (h + 30) + 8;
  const spots: Spot[] = nodes.map((_, i) => {
    if (ring) {
      const angle = -Math.PI / 2 + 2 * Math.PI * i / n;
      return {x: width / 2 + Math.min(radiusX, 300) * Math.cos(angle), y: height / 2 + radiusY * Math.sin(angle)};
    }
    if (self) return {x: width / 2 + (i === 0 ? -1 : 1) * Math.min(width / 4 + 6, 150), y: height / 2};
    const row = Math.floor(i / inRow), column = i % inRow;
    return {x: 6 + w / 2 + (row % 2 === 0 ? column : inRow - 1 - column) * (w + 26), y: 22 + row * (h + 30)};
  });
  const letters = Math.floor((w - 16) / 7);
  const arrows = nodes.flatMap((node, i) => {
    const j = i + 1 < n ? i + 1 : chain.circle && !cut ? 0 : -1;
    const from = spots[i], to = spots[j];
    if (!from || !to || j === i) return [];
    const bend = self ? (i === 0 ? -16 : 16) : 0;
    const a = border(from, to, w, h), b = border(to, from, w, h);
    const word = !node.thread ? "held by" : links[Math.floor(i / 2)]?.waitsFor ? "waits for" : "does";
    return [(
      <g class={node.thread ? "waits" : "held"}>
        <path d={`M${a.x},${a.y + bend} L${b.x},${b.y + bend}`} marker-end={node.thread ? "url(#head-waits)" : "url(#head-held)"}/>
        <text x={(a.x + b.x) / 2 + (Math.abs(b.y - a.y) > 8 ? (b.x > a.x ? 8 : -8) * Math.sign(b.y - a.y) : 0)}
              y={(a.y + b.y) / 2 + bend + (bend > 0 ? 14 : Math.abs(b.x - a.x) < 20 ? 4 : -5)} text-anchor={Math.abs(b.y - a.y) > 8 ? ((b.x > a.x ? 1 : -1) * Math.sign(b.y - a.y) > 0 ? "start" : "end") : "middle"}>
          {Math.abs(b.x - a.x) > 62 || Math.abs(b.y - a.y) > 8 ? word : ""}
        </text>
      </g>
    )];
  });
  return (
    <div ref={frame} class="picture">
      <svg width={width} height={height} role="img" aria-label={sentence(chain)}>
        <defs>
          {["waits", "held"].map(kind => (
            <marker id={"head-" + kind} class={kind} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker>
          ))}
        </defs>
        {arrows}
        {nodes.map((node, i) => (
          <g class={node.thread ? "thread" : "lock"} transform={`translate(${(spots[i]?.x ?? 0) - w / 2},${(spots[i]?.y ?? 0) - h / 2})`}>
            <rect width={w} height={h} rx={node.thread ? 15 : 3}/>
            <text x={w / 2} y={h / 2 + 4} text-anchor="middle">{clip(node.text, letters)}</text>
            <title>{node.text}</title>
          </g>
        ))}
      </svg>
      {cut ? <p class="muted">The picture shows {mostDrawn} of {chain.links.length} threads; the list has all.</p> : null}
    </div>
  );
}

function sentence(chain: Chain): string {
  const n = chain.links.length;
  return chain.circle && n > 1 ? `${n} threads wait for each other in a circle` : chain.circle ? "A thread waits for itself" : `A chain of ${n} waits`;
}

function linkText(l: Link): string {
  const f = ownFrame(l.stack);
  return f ? `in ${brief(nameOf(f))}${f.source ? ", " + base(f.source) : ""}` : "";
}

export function ChainView({chain}: {chain: Chain}) {
  return (
    <div class="chain">
      <p>{sentence(chain)}{chain.seconds !== null ? <>, for <span class="number">{duration(chain.seconds)}</span> so far</> : null}.{chain.note ? " " + chain.note : ""}</p>
      <Picture chain={chain}/>
      <ul class="links">
        {chain.links.map((l, i) => {
          const next = chain.links[(i + 1) % chain.links.length];
          const known = l.waitsFor && (i + 1 < chain.links.length || chain.circle);
          return (
            <li>
              <details>
                <summary>
                  Thread <b><bdi>{l.thread}</bdi></b> {l.waitsFor ? <>waits for <bdi class="code">{l.waitsFor}</bdi></> : <bdi>{l.does || "waits for nothing that was seen"}</bdi>}
                  {l.since !== null ? <>, for <span class="number">{duration(l.since)}</span></> : null}
                  {known && next ? <>, which thread <b><bdi>{next.thread}</bdi></b> holds</> : null}
                  <span class="muted"> <bdi>{linkText(l)}</bdi></span>
                </summary>
                <StackList stack={l.stack}/>
                {l.address ? <p class="muted">The object is at <span class="code">{l.address}</span>.</p> : null}
              </details>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
