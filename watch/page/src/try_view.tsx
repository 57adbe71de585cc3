// A file of usher try --json.
import {scaleLinear, scaleLog} from "d3-scale";
import {useState} from "preact/hooks";
import {count, duration, none, plural, ratio, share} from "./figures";
import {Facts, Figures, Verdict} from "./parts";
import {Table, type Column} from "./table";
import {shown} from "./text";
import {amount, at, fields, flag, list, number, text, texts, type Json} from "./values";
import {useWidth} from "./width";

interface Run { round: number; metric: number | null; seconds: number; user: number; system: number; voluntary: number; involuntary: number; kib: number; trouble: string }
interface Candidate {
  name: string; verdict: string; better: number | null; interval: [number | null, number | null]; rounds: number; dropped: string; troubles: string[];
  failed: number; differs: number; waiting: number | null; locks: number | null; contended: number | null; runs: Run[];
}
export interface Trial {
  command: string; usher: string; date: string; machine: string; metric: string; lower: boolean; budget: number | null; rounds: number; seconds: number;
  others: number; interrupted: boolean; isRatio: boolean; leftOut: string[]; winner: string; kind: string; text: string; next: string; candidates: Candidate[];
}

function candidate(v: Json): Candidate {
  const f = fields(v), calls = fields(at(f, "calls")), dropped = fields(at(f, "dropped")), interval = list(at(f, "interval"));
  return {
    name: shown(text(at(f, "name")), 120) || "?", verdict: shown(text(at(f, "verdict")), 40), better: number(at(f, "speed_up")) ?? number(at(f, "difference")),
    interval: [number(interval[0]), number(interval[1])], rounds: amount(at(f, "rounds")), failed: amount(at(f, "failed_runs")),
    dropped: at(f, "dropped") ? `left out after round ${amount(at(dropped, "round"))}: ${shown(text(at(dropped, "why")), 300)}` : "",
    troubles: texts(at(f, "troubles")).map(t => shown(t, 600)), differs: amount(at(f, "output_differs_at_line")),
    waiting: number(at(calls, "waiting_share")), locks: number(at(calls, "locks")), contended: number(at(calls, "contended")),
    runs: list(at(f, "runs")).map((r): Run => {
      const one = fields(r);
      return {round: amount(at(one, "round")), metric: number(at(one, "metric")), seconds: amount(at(one, "seconds")), user: amount(at(one, "user_s")),
              system: amount(at(one, "system_s")), voluntary: amount(at(one, "voluntary_switches")), involuntary: amount(at(one, "involuntary_switches")),
              kib: amount(at(one, "peak_kib")), trouble: shown(text(at(one, "trouble")), 300)};
    }),
  };
}

export function trialOf(v: Json): Trial {
  const f = fields(v), machine = fields(at(f, "machine")), conclusion = fields(at(f, "conclusion"));
  return {
    command: shown(texts(at(f, "command")).join(" ")), usher: shown(text(at(f, "usher")), 40), date: shown(text(at(f, "date")), 40),
    machine: shown([text(at(machine, "cpu")), `${amount(at(machine, "cpus"))} CPUs`, text(at(machine, "libc")), text(at(machine, "kernel"))].filter(Boolean).join(", "), 400),
    metric: shown(text(at(f, "metric")), 300), lower: text(at(f, "better")) === "lower", budget: number(at(f, "budget_s")), rounds: amount(at(f, "rounds")),
    seconds: amount(at(f, "seconds")), others: amount(at(f, "others_cpu_share")), interrupted: flag(at(f, "interrupted")),
    isRatio: text(at(f, "comparison")) !== "difference", winner: shown(text(at(f, "winner")), 120), kind: shown(text(at(conclusion, "kind")), 40),
    text: shown(text(at(conclusion, "text"))), next: shown(text(at(conclusion, "command"))), candidates: list(at(f, "candidates")).map(candidate),
    leftOut: list(at(f, "left_out")).map(l => `${shown(text(at(fields(l), "name")), 120)}: ${shown(text(at(fields(l), "why")), 400)}`),
  };
}

function median(values: number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
  return n === 0 ? null : ((sorted[Math.floor((n - 1) / 2)] ?? 0) + (sorted[Math.floor(n / 2)] ?? 0)) / 2;
}

const runMedian = (c: Candidate, of: (r: Run) => number | null) => median(c.runs.filter(r => !r.trouble).map(of).filter((v): v is number => v !== null));

/** Each candidate's interval on one axis; the line is the C library's lock. */
function Intervals({of}: {of: Trial}) {
  const [box, width] = useWidth<HTMLDivElement>(640);
  const still = of.isRatio ? 1 : 0;
  const known = of.candidates.filter(c => c.better !== null);
  const values = known.flatMap(c => [c.better, ...c.interval]).filter((v): v is number => v !== null && (!of.isRatio || v > 0));
  if (values.length === 0) return null;
  const low = Math.min(still, ...values), high = Math.max(still, ...values), pad = Math.max((high - low) * 0.08, 0.01);
  const label = Math.min(170, width * 0.32, 16 + 7.4 * Math.max(4, ...known.map(c => c.name.length))), right = 118;
  const domain: [number, number] = of.isRatio ? [low / (1 + pad), high * (1 + pad)] : [low - pad, high + pad];
  const x = (of.isRatio ? scaleLog() : scaleLinear()).domain(domain).range([label, Math.max(label + 60, width - right)]);
  const row = 26, height = known.length * row + 26;
  const ticks = scaleLinear().domain(domain).ticks(Math.max(2, Math.floor((width - label - right) / 70)));
  const order = [...known].sort((a, b) => (b.better ?? 0) - (a.better ?? 0));
  return (
    <figure class="intervals" ref={box}>
      <svg width={width} height={height} role="img" aria-label={order.map(c => `${c.name} ${ratio(c.better)}`).join(", ")}>
        {ticks.filter(t => !of.isRatio || t > 0).map(t => <g><line class="grid" x1={x(t)} x2={x(t)} y1={0} y2={known.length * row}/><text x={x(t)} y={height - 8} text-anchor="middle">{+t.toPrecision(3)}</text></g>)}
        <line class="still" x1={x(still)} x2={x(still)} y1={0} y2={known.length * row}/>
        {order.map((c, i) => {
          const y = i * row + row / 2, a = c.interval[0], b = c.interval[1];
          return (
            <g class={"candidate " + (/^(better|worse|reference)$/.test(c.verdict) ? c.verdict : "level")}>
              <text class="name" x={label - 10} y={y + 4} text-anchor="end">{c.name.length > label / 7 ? c.name.slice(0, Math.floor(label / 7) - 1) + "…" : c.name}</text>
              {a !== null || b !== null ? <line class="interval" x1={a === null ? label : x(Math.max(a, domain[0]))} x2={b === null ? width - right : x(Math.min(b, domain[1]))} y1={y} y2={y}/> : null}
              {c.better !== null && (!of.isRatio || c.better > 0) ? <circle cx={x(c.better)} cy={y} r={4.5}/> : null}
              <text class="figure" x={width} y={y + 4} text-anchor="end">{ratio(c.better)}{a !== null && b !== null ? `  (${ratio(a)}–${ratio(b)})` : ""}</text>
            </g>
          );
        })}
      </svg>
      <figcaption class="muted">{of.isRatio ? "Times as good as the C library’s locks: to the right is better. The dot is the median over the rounds, the line its interval." : "Difference from the C library’s locks: to the right is better."}</figcaption>
    </figure>
  );
}

/** Every run: the metric over the rounds, so that drifts and outliers are seen. */
function Rounds({of}: {of: Trial}) {
  const [box, width] = useWidth<HTMLDivElement>(640);
  const [only, setOnly] = useState("");
  const runs = of.candidates.flatMap(c => c.runs.map(r => ({c: c.name, round: r.round, v: r.metric ?? (of.metric ? null : r.seconds), trouble: r.trouble}))
    .filter((r): r is {c: string; round: number; v: number; trouble: string} => r.v !== null));
  if (runs.length < 3) return null;
  const rounds = Math.max(...runs.map(r => r.round)), height = 190, left = 58;
  const low = Math.min(...runs.map(r => r.v)), high = Math.max(...runs.map(r => r.v));
  const x = scaleLinear().domain([1, Math.max(2, rounds)]).range([left + 10, width - 18]);
  const y = scaleLinear().domain([low - (high - low) * 0.06, high + (high - low) * 0.06 + 1e-12]).range([height - 26, 8]);
  return (
    <figure class="rounds" ref={box}>
      <div class="legend" role="group" aria-label="Candidates">
        {of.candidates.map((c, i) => <button type="button" class={`plain series-${i % 6}` + (only === c.name ? " on" : "")} aria-pressed={only === c.name} onClick={() => setOnly(only === c.name ? "" : c.name)}><span class="dot" aria-hidden="true"/>{c.name}</button>)}
      </div>
      <svg width={width} height={height} role="img" aria-label={`All runs over ${rounds} rounds`}>
        {y.ticks(4).map(t => <g><line class="grid" x1={left} x2={width} y1={y(t)} y2={y(t)}/><text x={left - 8} y={y(t) + 4} text-anchor="end">{of.metric ? count(t) : duration(t).replace(/0+(?=\D)/, m => m)}</text></g>)}
        {x.ticks(Math.min(rounds, Math.floor(width / 60))).filter(Number.isInteger).map(t => <text x={x(t)} y={height - 6} text-anchor="middle">{t}</text>)}
        {of.candidates.map((c, i) => (
          <g class={`series series-${i % 6}` + (only && only !== c.name ? " faint" : "")}>
            {runs.filter(r => r.c === c.name).map(r => <circle cx={x(r.round) + (i - (of.candidates.length - 1) / 2) * Math.min(5, width / rounds / of.candidates.length / 1.5)} cy={y(r.v)} r={3}><title>{`${c.name}, round ${r.round}: ${of.metric ? r.v : duration(r.v)}`}</title></circle>)}
          </g>
        ))}
      </svg>
      <figcaption class="muted">{of.metric ? "The metric" : "The duration"} of every run, over the rounds; {of.lower ? "lower" : "higher"} is better.</figcaption>
    </figure>
  );
}

const columns = (of: Trial): Column<Candidate>[] => [
  {key: "name", title: "lock", by: c => c.name, cell: c => <bdi class="code">{c.name}</bdi>},
  {key: "better", title: of.isRatio ? "speed-up" : "difference", number: true, by: c => c.better, cell: c => ratio(c.better)},
  {key: "verdict", title: "verdict", by: c => c.verdict, cell: c => c.verdict === "reference" ? "the C library’s" : c.verdict},
  {key: "run", title: of.metric ? "metric" : "run", number: true, about: "The median of the runs", by: c => runMedian(c, r => r.metric ?? (of.metric ? null : r.seconds)),
   cell: c => { const m = runMedian(c, r => r.metric ?? (of.metric ? null : r.seconds)); return of.metric ? (m === null ? none : +m.toPrecision(4)) : duration(m); }},
  {key: "cpu", title: "CPU time", number: true, by: c => runMedian(c, r => r.user + r.system), cell: c => duration(runMedian(c, r => r.user + r.system))},
  {key: "switches", title: "switches", number: true, about: "Context switches of a run, the median", by: c => runMedian(c, r => r.voluntary + r.involuntary), cell: c => count(runMedian(c, r => r.voluntary + r.involuntary))},
  {key: "waiting", title: "waiting", number: true, about: "The share of all threads’ time in which they waited for mutexes", by: c => c.waiting, cell: c => share(c.waiting)},
  {key: "rounds", title: "rounds", number: true, by: c => c.rounds, cell: c => count(c.rounds)},
];

export function TryView({of}: {of: Trial}) {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <>
      <header class="about">
        <h1><bdi class="code">{of.command || "a trial without a command"}</bdi></h1>
        <p class="muted">{plural(of.rounds, "round")} of {plural(of.candidates.length, "candidate")} in {duration(of.seconds)}; {of.date}; usher {of.usher}</p>
        <p class="muted"><bdi>{of.machine}</bdi></p>
      </header>
      <Verdict text={of.text || "The trial could not continue."} tag={of.kind} next={of.next}/>
      <Figures all={[
        {what: "winner", value: of.winner || "none"}, {what: of.metric ? "metric" : "compared", value: of.metric || "the time of a run"},
        {what: "CPU time taken by others", value: share(of.others)}, ...(of.interrupted ? [{what: "interrupted", value: "yes"}] : []),
      ]}/>
      <section><h2>Compared with the C library</h2><Intervals of={of}/></section>
      <section><h2>All candidates</h2>
        <Table rows={of.candidates} columns={columns(of)} first="better" words={c => c.name + " " + c.verdict} noun="candidates" open={open} onOpen={setOpen}
          detail={c => (
            <article class="lock">
              {c.dropped ? <p><bdi>{c.dropped}</bdi></p> : null}
              {c.troubles.map(t => <p><bdi>{t}</bdi></p>)}
              {c.differs > 0 ? <p>Its output differs from the reference’s at line {c.differs}.</p> : null}
              <Facts all={[
                ...(c.locks !== null ? [{what: "calls that locked a mutex", value: c.locks, as: "count" as const}] : []),
                ...(c.contended !== null ? [{what: "of these had to wait", value: c.contended, as: "count" as const}] : []),
                {what: "failed runs", value: c.failed, as: "count" as const}, {what: "interval, low", value: ratio(c.interval[0]), as: "text" as const},
                {what: "interval, high", value: ratio(c.interval[1]), as: "text" as const},
                {what: "largest memory, KiB", value: Math.max(0, ...c.runs.map(r => r.kib)), as: "count" as const},
              ]}/>
            </article>
          )}/>
      </section>
      <section><h2>Round by round</h2><Rounds of={of}/></section>
      {of.leftOut.length > 0 ? <section><h2>Not tried</h2><ul class="remarks">{of.leftOut.slice(0, 60).map(l => <li><bdi>{l}</bdi></li>)}</ul></section> : null}
    </>
  );
}
