// A file of usher stat --json.
import {useMemo, useState} from "preact/hooks";
import {ChainView, StackList, ownFrame} from "./chains";
import {count, duration, none, plural, share} from "./figures";
import {Flame, brief, nameOf} from "./flame";
import {Histogram} from "./histogram";
import type {Obj, Row, Sleep, Stat} from "./model";
import {Barred, Command, Facts, Figures, Remarks, Verdict} from "./parts";
import {Table, type Column} from "./table";
import {base, shown} from "./text";
import {Timeline} from "./timeline";

export interface Words { rule: (name: string) => string }

function contendedShare(r: {contended: number | null; acquisitions: number}): number | null {
  return r.contended === null || r.acquisitions === 0 ? null : r.contended / r.acquisitions;
}

function heldText(r: Row): string {
  return r.heldShare === null ? none : (r.holding && !r.holdingExact ? "~" : "") + share(r.heldShare);
}

function columnsOf(most: number, words: Words): Column<Row>[] {
  return [
    {key: "name", title: "lock", by: r => r.name,
     cell: r => <><bdi class="code">{shown(brief(r.name), 200)}</bdi>{r.objects > 1 ? <span class="muted"> ×{count(r.objects)}</span> : null}{r.byInit ? <span class="muted"> (init)</span> : null}{r.embedded ? <span class="muted"> (embedded)</span> : null}</>},
    {key: "kind", title: "kind", by: r => r.kind, cell: r => r.kind},
    {key: "waited", title: "waited", number: true, about: "The sum of all threads' waits", by: r => r.waiting.total,
     cell: r => <Barred value={duration(r.waiting.total) + (r.waiting.hidden ? "+" : "")} part={most > 0 ? r.waiting.total / most : 0}/>},
    {key: "contended", title: "contended", number: true, about: "The share of the acquisitions that found it locked", by: contendedShare, cell: r => share(contendedShare(r))},
    {key: "held", title: "held", number: true, about: "The share of the process's time for which it was locked; ~ marks an estimate", by: r => r.heldShare, cell: heldText},
    {key: "acquired", title: "acquired", number: true, about: "Locks: times locked. Condition variables, barriers, joins: waits. Semaphores: credits taken", by: r => r.acquisitions, cell: r => count(r.acquisitions)},
    {key: "median", title: "median wait", number: true, wide: true, by: r => r.waiting.median, cell: r => duration(r.waiting.median)},
    {key: "p99", title: "99 %", number: true, wide: true, about: "99 % of the waits were shorter", by: r => r.waiting.p99, cell: r => duration(r.waiting.p99)},
    {key: "longest", title: "longest", number: true, wide: true, by: r => r.waiting.longest, cell: r => duration(r.waiting.longest)},
    {key: "verdict", title: "verdict", by: r => words.rule(r.rule) || null, cell: r => words.rule(r.rule) || none},
  ];
}

const objectColumns: Column<Obj>[] = [
  {key: "name", title: "object", by: o => o.name, cell: o => <bdi class="code">{o.name}</bdi>},
  {key: "pid", title: "process", by: o => o.pid, cell: o => o.pid, number: true},
  {key: "waited", title: "waited", number: true, by: o => o.waiting.total, cell: o => duration(o.waiting.total)},
  {key: "acquired", title: "acquired", number: true, by: o => o.acquisitions, cell: o => count(o.acquisitions)},
  {key: "contended", title: "contended", number: true, by: contendedShare, cell: o => share(contendedShare(o))},
  {key: "longest", title: "longest", number: true, by: o => o.waiting.longest, cell: o => duration(o.waiting.longest)},
];

function Threads({of}: {of: Row}) {
  const most = Math.max(1e-12, ...of.threads.map(t => t.waited));
  const [all, setAll] = useState(false);
  if (of.threads.length === 0) return null;
  const shownThreads = of.threads.slice(0, all ? 1000 : 8);
  return (
    <section>
      <h4>Threads that waited</h4>
      <ul class="threads">
        {shownThreads.map(t => (
          <li><span class="number">{t.id}</span><span class="bar"><span style={{width: `${t.waited / most * 100}%`}}/></span>
            <span class="number">{duration(t.waited)}</span><span class="number muted">{plural(t.waits, "wait")}</span></li>
        ))}
      </ul>
      {of.threads.length > 8 ? <button type="button" class="plain" onClick={() => setAll(!all)}>{all ? "Fewer" : `All ${of.threads.length} threads`}</button> : null}
      {of.moreThreads ? <p class="muted">Other threads waited, too.</p> : null}
    </section>
  );
}

const holderWords: Record<string, string> = {barrier: "the last to come", condition: "signallers", semaphore: "posts", join: "ended threads"};

export function Lock({row}: {row: Row}) {
  const [openObject, setOpenObject] = useState<number | null>(null);
  const hasHolds = row.holding !== null, place = ownFrame(row.place);
  return (
    <article class="lock" aria-label={row.name}>
      <p class="sentence"><bdi>{row.verdict || "No rule says anything about it."}</bdi> {row.rule ? <span class="muted tag">{row.rule}</span> : null}</p>
      {row.command ? <Command text={row.command}/> : null}
      <p class="muted">
        <bdi class={row.name.length > 200 ? "code full" : "code"}>{row.name}</bdi>{row.module ? <>, in <bdi class="code">{row.module}</bdi></> : null}
        {place ? <>, first {row.byInit ? "initialised" : "used"} in <bdi class="code">{brief(nameOf(place))}</bdi> <bdi>{base(place.source)}</bdi></> : null}
        {row.objects > 1 ? `, ${plural(row.objects, "object")}, ${count(row.gone)} destroyed` : ""}
      </p>
      <div class="pair">
        <Histogram of={row.waiting} what={row.kind === "condition" ? "From a signal until the waiter runs" : "Waits"} tone="waits"/>
        {hasHolds && row.holding ? <Histogram of={row.holding} what={row.holdingExact ? "Holds" : "Holds (a sample was timed)"} tone="holds"/> : null}
      </div>
      <div class="pair">
        <section>
          <h4>{row.kind in holderWords ? `Who made them wait: ${holderWords[row.kind]}` : "Held at, while others waited"}</h4>
          <Flame stacks={row.holders} what="holders" tone="holds"/>
        </section>
        <section>
          <h4>Waited for at</h4>
          <Flame stacks={row.waiters} what="waiters" tone="waits"/>
        </section>
      </div>
      {row.stacksLeftOut > 0 ? <p class="muted">{plural(row.stacksLeftOut, "stack")} with less waiting were left out so that the page stays small.</p> : null}
      <div class="pair">
        <Threads of={row}/>
        {row.facts.length + row.order.length > 0 ? <section><h4>Counts</h4><Facts all={[...row.facts, ...row.order]}/></section> : null}
      </div>
      {row.each.length > 1 ? (
        <details><summary>{plural(row.each.length + row.eachLeftOut, "object")} of this place, one by one</summary>
          <Table rows={row.each} columns={objectColumns} first="waited" words={o => o.name + " " + o.address} noun="objects" leftOut={row.eachLeftOut} open={openObject} onOpen={setOpenObject}/>
        </details>
      ) : null}
      {row.place.frames.length > 0 ? <details><summary>{row.byInit ? "Where it was initialised" : "Where it was first used"}</summary><StackList stack={row.place}/></details> : null}
    </article>
  );
}

function Asleep({of}: {of: NonNullable<Stat["asleep"]>}) {
  const [open, setOpen] = useState<number | null>(null);
  const most = Math.max(1, ...of.places.map(p => p.samples));
  const recorded = of.recorded.filter(([, n]) => n > 0);
  const columns: Column<Sleep>[] = [
    {key: "call", title: "call", by: s => s.call, cell: s => <bdi class="code">{s.call || none}</bdi>},
    {key: "where", title: "from", by: s => s.stack.frames[0] ? nameOf(s.stack.frames[0]) : null,
     cell: s => { const f = ownFrame(s.stack); return f ? <><bdi class="code">{shown(brief(nameOf(f)), 160)}</bdi> <span class="muted"><bdi>{shown(base(f.source), 80)}</bdi>{s.certain ? "" : " (perhaps)"}</span></> : none; }},
    {key: "module", title: "module", by: s => base(s.module) || null, cell: s => <bdi class="code">{shown(base(s.module), 80) || none}</bdi>, wide: true},
    {key: "share", title: "share", number: true, by: s => s.samples, cell: s => share(of.samples > 0 ? s.samples / of.samples : null)},
    {key: "samples", title: "samples", number: true, about: "Each stands for 100 ms of a thread's time", by: s => s.samples,
     cell: s => <Barred value={count(s.samples)} part={s.samples / most}/>},
  ];
  return (
    <section>
      <h2>Off the CPU</h2>
      <p class="muted">{plural(of.samples, "sample")} of sleeping threads, each 100 ms of a thread's time
        {recorded.length > 0 ? `: in waits for recorded objects ${recorded.map(([kind, n]) => `${share(n / Math.max(1, of.samples))} ${kind}`).join(", ")}` : ""}
        {of.unreadable > 0 ? `; in calls that the kernel did not show ${share(of.unreadable / Math.max(1, of.samples))}` : ""}{of.places.length > 0 ? "; the others:" : "."}</p>
      {of.places.length > 0 ? <Table rows={of.places} columns={columns} first="samples" words={s => [s.call, s.module, ...s.stack.frames.map(f => f.function)].join(" ")} noun="places"
        open={open} onOpen={setOpen} detail={s => <div class="pair"><section><h4>Stack</h4><StackList stack={s.stack}/></section>{s.below.frames.length > 0 ? <section><h4>Probably called from</h4><StackList stack={s.below}/></section> : null}</div>}/> : null}
    </section>
  );
}

export function StatView({of, words}: {of: Stat; words: Words}) {
  const [open, setOpen] = useState<number | null>(null);
  const most = useMemo(() => Math.max(0, ...of.rows.map(r => r.waiting.total)), [of]);
  const figures = [
    ...of.waited.filter(([, s]) => s > 0).sort((a, b) => b[1] - a[1]).map(([kind, s]) => ({what: `waited: ${kind}, of all threads’ time`, about: `${duration(s)} of ${duration(of.threadSeconds)}`,
      value: `${duration(s)}, ${share(of.threadSeconds > 0 ? s / of.threadSeconds : null)}`})),
    ...(of.cpu ? [{what: `CPUs used of ${+of.cpu.cpus.toFixed(1)}`, value: of.cpu.busy.toFixed(2)},
                  {what: "threads ready, without a CPU", value: of.cpu.waiting.toFixed(2)}] : []),
    ...(of.others !== null ? [{what: "CPU time taken by others", value: share(of.others)}] : []),
    ...(of.attached ? [{what: "stopped while attaching", value: duration(of.attached.seconds)}] : []),
  ];
  const show = (row: number) => {
    setOpen(row);
    setTimeout(() => document.querySelector(`tr[data-row="${row}"]`)?.scrollIntoView({block: "start"}), 0);
  };
  return (
    <>
      <header class="about">
        <h1><bdi class="code">{of.command || "a program without a command"}</bdi></h1>
        <p class="muted">{duration(of.seconds)} under {of.lock === "pthread" ? "the C library’s locks" : of.lock || "an unknown lock"}; {plural(of.threads, "thread")} in {plural(of.processes, "process", "processes")}; process {of.pid}; recorded by usher {of.usher}</p>
      </header>
      <Verdict text={of.verdict} tag={of.rule} next={of.next} begins alarm={of.deadlocks.length > 0}/>
      <Figures all={figures}/>
      {of.deadlocks.length > 0 ? <section><h2>{of.deadlocks.length > 1 ? "Deadlocks" : "Deadlock"}</h2>{of.deadlocks.map(d => <ChainView chain={d}/>)}</section> : null}
      {of.heat ? <section><h2>Which lock was hot when</h2><Timeline heat={of.heat} onOpen={show}/></section> : null}
      <section>
        <h2>Locks</h2>
        {of.rows.length > 0 ? <Table rows={of.rows} columns={columnsOf(most, words)} first="waited" kinds={r => r.kind} noun="locks" leftOut={of.rowsLeftOut}
          words={r => [r.name, r.kind, r.rule, words.rule(r.rule), r.verdict, r.module, ...r.holders.slice(0, 3).concat(r.waiters.slice(0, 3)).flatMap(s => s.frames.map(f => f.function))].join(" ")}
          open={open} onOpen={setOpen} detail={r => <Lock row={r}/>}/> : <p class="muted">No calls of locks were recorded.</p>}
      </section>
      {of.asleep ? <Asleep of={of.asleep}/> : null}
      <Remarks all={of.remarks}/>
    </>
  );
}
