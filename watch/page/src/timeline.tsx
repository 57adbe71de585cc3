// Which lock was hot when: a row for each lock, a cell for each window of time, darker where more threads waited.
import {scaleLinear} from "d3-scale";
import {useState} from "preact/hooks";
import {duration} from "./figures";
import {brief} from "./flame";
import type {Heat} from "./model";
import {useWidth} from "./width";

const cell = 20, mostRows = 14;

/** The waiting in all windows together, by which the hottest locks are chosen. */
function peak(values: (number | null)[]): number {
  return values.reduce<number>((sum, v) => sum + (v ?? 0), 0);
}

export function Timeline({heat, onOpen}: {heat: Heat; onOpen?: (row: number) => void}) {
  const [box, width] = useWidth<HTMLDivElement>(640);
  const [at, setAt] = useState<[number, number] | null>(null);
  const rows = [...heat.rows].sort((a, b) => peak(b.values) - peak(a.values)).slice(0, mostRows);
  const n = heat.from.length;
  if (n === 0 || rows.length === 0) return null;
  const label = width < 520 ? 0 : Math.min(260, width * 0.34);
  const begin = heat.from[0] ?? 0, end = Math.max(begin + 1e-9, heat.to[n - 1] ?? 0);
  const x = scaleLinear().domain([begin, end]).range([label, width]);
  const most = Math.max(1e-12, ...rows.flatMap(r => r.values.map(v => v ?? 0)));
  const pitch = label ? cell : cell + 16;
  const height = rows.length * pitch + 24;
  const ticks = x.ticks(Math.max(2, Math.floor((width - label) / 80)));
  const chosen = at && rows[at[0]];
  const value = at && chosen ? chosen.values[at[1]] : null;
  return (
    <div class="timeline" ref={box}>
      <svg width={width} height={height} role="img" aria-label={`Waiting by lock and time; the most was ${most.toPrecision(2)} ${heat.unit}`}>
        {rows.map((r, i) => (
          <g transform={`translate(0,${i * pitch})`} class={onOpen ? "opens" : ""} onClick={() => onOpen?.(r.open)}>
            <text class="name" x={label ? label - 8 : 0} y={label ? cell - 6 : 11} text-anchor={label ? "end" : "start"}>
              {((t: string, m: number) => t.length > m ? t.slice(0, m - 1) + "…" : t)(brief(r.name), Math.floor((label || width) / 7))}
              <title>{r.name}</title>
            </text>
            <rect class="ground" x={label} y={label ? 1 : 15} width={width - label} height={cell - 3}/>
            {r.values.slice(0, n).map((v, k) => v === null || v <= 0 ? null : (
              <rect class="heat" x={x(heat.from[k] ?? 0)} y={label ? 1 : 15} width={Math.max(1, x(heat.to[k] ?? 0) - x(heat.from[k] ?? 0) - (n > 200 ? 0 : 0.5))}
                    height={cell - 3} fill-opacity={0.08 + 0.92 * Math.sqrt(v / most)} onMouseEnter={() => setAt([i, k])}/>
            ))}
          </g>
        ))}
        {ticks.map(t => (
          <g class="axis-mark"><line class="axis" x1={x(t)} x2={x(t)} y1={rows.length * pitch} y2={rows.length * pitch + 4}/>
            <text x={Math.min(Math.max(x(t), label + 8), width - 14)} y={height - 4} text-anchor="middle">{t === 0 ? "0" : `${+t.toPrecision(6)} s`}</text></g>
        ))}
      </svg>
      <p class="told muted" aria-live="off">
        {at && chosen && value != null
          ? <><bdi class="code">{brief(chosen.name)}</bdi>: <b class="number">{value.toPrecision(2)}</b> {heat.unit} from {duration(heat.from[at[1]] ?? 0)} to {duration(heat.to[at[1]] ?? 0)}</>
          : <>Darker: more waiting. The darkest cell is <span class="number">{most.toPrecision(2)}</span> {heat.unit}.</>}
      </p>
      {heat.rows.length > mostRows ? <p class="muted">The {mostRows} hottest of {heat.rows.length} locks.</p> : null}
    </div>
  );
}
