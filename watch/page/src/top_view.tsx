// A file of usher top --json (docs/schema/top.json).
import {useState} from "preact/hooks";
import {ChainView, StackList, ownFrame} from "./chains";
import {count, duration, none, plural, share} from "./figures";
import {Flame, brief, nameOf} from "./flame";
import {Frames, idOf, type Chain, type Charged, type Fact, type Stack} from "./model";
import {Barred, Facts, Figures, Remarks, Verdict} from "./parts";
import {Table, type Column} from "./table";
import {base, shown} from "./text";
import {amount, at, fields, flag, list, number, text, texts, type Fields, type Json} from "./values";

interface Waiter { thread: string; waited: number; confirmed: boolean; limited: boolean; side: string; stack: Stack }
interface Holder { thread: string; does: string; confirmed: boolean; waited: number; stack: Stack; elsewhere: string }
interface Wait {
  what: string; library: string; kind: string; name: string; address: string; module: string; offset: string; knownBy: string; call: string;
  words: string; free: boolean | null; unchanged: number; holder: Holder | null; waiters: Waiter[]; waitersLeftOut: number; samples: number; waited: number; most: number; place: Stack;
}
interface ThreadRow { id: string; name: string; state: string; does: string; wait: number | null; waited: number; cpu: number }
export interface Top {
  command: string; process: string; pid: string; looked: string; lock: string; libc: string; date: string; machine: string; usher: string; seconds: number; passes: number; period: number;
  threads: number; ofPart: boolean; cpuShare: number | null; stacksLeftOut: number; findings: {what: string; text: string; seconds: number}[]; chains: Chain[]; waits: Wait[]; waitsLeftOut: number;
  rows: ThreadRow[]; rowsLeftOut: number; doing: {does: string; threads: number}[]; remarks: string[];
}

const word = (v: Json, most = 300) => shown(text(v), most);

function threadName(f: Fields): string {
  const name = word(at(f, "thread"), 80) || word(at(f, "name"), 80);
  return idOf(f, "tid") + (name ? " " + name : "");
}

function waitOf(v: Json, frames: Frames): Wait {
  const f = fields(v), h = fields(at(f, "holder")), free = at(f, "free");
  return {
    what: word(at(f, "what"), 40) || "unknown", library: word(at(f, "library"), 40), kind: word(at(f, "kind"), 120), name: shown(text(at(f, "name"))),
    address: word(at(f, "address"), 40), module: word(at(f, "module")), offset: word(at(f, "offset"), 40), knownBy: word(at(f, "known_by"), 600), call: word(at(f, "call"), 60),
    words: word(at(f, "words"), 400), free: typeof free === "boolean" ? free : null, unchanged: amount(at(f, "unchanged")),
    holder: at(f, "holder") ? {thread: threadName(h), does: word(at(h, "does")), confirmed: flag(at(h, "confirmed")), waited: amount(at(h, "waited")), stack: frames.stack(at(h, "stack")),
                               elsewhere: number(at(h, "pid")) === null ? "" : `process ${idOf(h, "pid")}`} : null,
    waiters: list(at(f, "waiters")).map((w): Waiter => {
      const one = fields(w);
      return {thread: threadName(one), waited: amount(at(one, "waited")), confirmed: flag(at(one, "confirmed")), limited: flag(at(one, "time_limit")), side: word(at(one, "side"), 20), stack: frames.stack(at(one, "stack"))};
    }),
    waitersLeftOut: amount(at(f, "waiters_left_out")), samples: amount(at(f, "samples")), waited: amount(at(f, "waited")), most: amount(at(f, "most_waiting")), place: frames.stack(at(f, "place")),
  };
}

export function topOf(v: Json, frames: Frames): Top {
  const f = fields(v), waits = list(at(f, "waits")).map(w => waitOf(w, frames));
  const chains = list(at(f, "chains")).map((c): Chain => {
    const one = fields(c), cut = amount(at(one, "links_left_out"));
    return {
      circle: flag(at(one, "circle")) && cut === 0, seconds: number(at(one, "seconds")), note: cut ? `${cut} more threads of it were left out of this page.` : "",
      links: list(at(one, "links")).map(l => {
        const link = fields(l), wait = waits[number(at(link, "wait")) ?? -1], id = threadName(link);
        const own = wait?.waiters.find(w => w.thread === id);
        return {thread: id, waitsFor: wait ? wait.name || wait.what : "", address: word(at(link, "address"), 40), since: own ? own.waited : null, does: word(at(link, "does")), stack: own?.stack ?? {frames: [], cut: false}};
      }),
    };
  }).filter(c => c.links.length > 0);
  return {
    command: shown(texts(at(f, "command")).join(" ")), process: word(at(f, "process"), 100), pid: idOf(f, "pid"), looked: word(at(f, "looked"), 60), lock: word(at(f, "lock"), 60), libc: word(at(f, "libc"), 200),
    date: word(at(f, "date"), 40), machine: word(at(f, "machine")), usher: word(at(f, "usher"), 40), seconds: amount(at(f, "seconds")), passes: amount(at(f, "passes")), period: amount(at(f, "period")),
    threads: amount(at(f, "threads_seen")), ofPart: flag(at(f, "of_a_part")), cpuShare: number(at(fields(at(f, "cost")), "cpu_share")), stacksLeftOut: amount(at(f, "stacks_left_out")),
    findings: list(at(f, "findings")).map(x => ({what: word(at(fields(x), "what"), 40), text: shown(text(at(fields(x), "text"))), seconds: amount(at(fields(x), "seconds"))})),
    chains, waits, waitsLeftOut: amount(at(f, "waits_left_out")),
    rows: list(at(f, "threads")).map((t): ThreadRow => {
      const one = fields(t);
      return {id: idOf(one, "tid"), name: word(at(one, "name"), 80), state: word(at(one, "state"), 40), does: word(at(one, "does")), wait: number(at(one, "wait")), waited: amount(at(one, "waited")), cpu: amount(at(one, "cpu_seconds"))};
    }),
    rowsLeftOut: amount(at(f, "threads_left_out")),
    doing: list(at(f, "doing")).map(d => ({does: word(at(fields(d), "does")), threads: amount(at(fields(d), "threads"))})), remarks: texts(at(f, "remarks")).map(t => shown(t)),
  };
}

const kindOf = (w: Wait) => w.what.replace(/_/g, " ");

function columnsOf(top: Top): Column<Wait>[] {
  const most = Math.max(1e-12, ...top.waits.map(w => w.waited));
  return [
    {key: "name", title: "waited for", by: w => w.name, cell: w => <bdi class="code">{w.name || kindOf(w)}</bdi>},
    {key: "kind", title: "kind", by: kindOf, cell: w => <bdi>{[w.library, w.kind, kindOf(w)].filter(Boolean).join(" ")}</bdi>},
    {key: "waited", title: "waited", number: true, about: "Of all threads together, estimated from the samples", by: w => w.waited, cell: w => <Barred value={duration(w.waited)} part={w.waited / most}/>},
    {key: "waiters", title: "waiting now", number: true, by: w => w.waiters.length + w.waitersLeftOut, cell: w => count(w.waiters.length + w.waitersLeftOut)},
    {key: "most", title: "most", number: true, wide: true, about: "The most at once", by: w => w.most, cell: w => count(w.most)},
    {key: "longest", title: "longest now", number: true, by: w => w.waiters.length ? Math.max(...w.waiters.map(x => x.waited)) : null, cell: w => w.waiters.length ? duration(Math.max(...w.waiters.map(x => x.waited))) : none},
    {key: "holder", title: "holder", by: w => w.holder?.thread ?? null, cell: w => w.holder ? <bdi>{w.holder.thread}</bdi> : w.free ? "free" : none},
  ];
}

function WaitDetail({of}: {of: Wait}) {
  const waiting: Charged[] = of.waiters.map(w => ({...w.stack, count: 1, waited: w.waited})).filter(s => s.frames.length > 0);
  const facts: Fact[] = [
    {what: "known by", value: of.knownBy, as: "text"}, {what: "in system call", value: of.call, as: "text"}, {what: "words", value: of.words, as: "text"}, {what: "at", value: [of.address, base(of.module) + (of.offset ? "+" + of.offset : "")].filter(Boolean).join(", "), as: "text"},
    {what: "its word has not changed for", value: of.unchanged, as: "duration"}, {what: "found waiting, times", value: of.samples, as: "count"},
  ];
  const f = of.holder ? ownFrame(of.holder.stack) : null;
  return (
    <article class="lock">
      {of.holder ? (
        <section><h4>Holder</h4>
          <p>Thread <b><bdi>{of.holder.thread}</bdi></b>{of.holder.elsewhere ? ` of ${of.holder.elsewhere}` : ""} <bdi>{of.holder.does}</bdi>{f ? <> in <bdi class="code">{brief(nameOf(f))}</bdi></> : null}{of.holder.confirmed ? "" : " (a second reading did not confirm it)"}</p>
          {of.holder.stack.frames.length > 0 ? <StackList stack={of.holder.stack}/> : null}
        </section>
      ) : <p class="muted">{of.free ? "Its word says that nobody holds it." : "No word names a holder."}</p>}
      <div class="pair">
        <section><h4>Waiting now</h4>
          <ul class="links">{of.waiters.slice(0, 200).map(w => <li><details><summary><bdi>{w.thread}</bdi> <b class="number">{duration(w.waited)}</b><span class="muted">{w.side ? ", " + w.side : ""}{w.limited ? ", with a time limit" : ""}{w.confirmed ? "" : ", not confirmed"}</span></summary><StackList stack={w.stack}/></details></li>)}</ul>
          {of.waitersLeftOut > 0 ? <p class="muted">{count(of.waitersLeftOut)} more.</p> : null}
        </section>
        <section><h4>Counts</h4><Facts all={facts.filter(x => x.value !== "" && x.value !== 0)}/></section>
      </div>
      {waiting.length > 0 ? <section><h4>Waiters’ stacks</h4><Flame stacks={waiting} what="waiters" tone="waits"/></section> : null}
    </article>
  );
}

export function TopView({of}: {of: Top}) {
  const [open, setOpen] = useState<number | null>(null), [openThread, setOpenThread] = useState<number | null>(null);
  const threads: Column<ThreadRow>[] = [
    {key: "name", title: "thread", by: t => t.name, cell: t => <bdi>{t.name || none}</bdi>},
    {key: "id", title: "id", number: true, by: t => Number.parseInt(t.id, 10) || 0, cell: t => t.id},
    {key: "state", title: "state", by: t => t.state, cell: t => t.state},
    {key: "does", title: "does", by: t => t.does, cell: t => <bdi>{t.does}</bdi>},
    {key: "waited", title: "waits for", number: true, about: "The time of its present wait", by: t => t.waited, cell: t => duration(t.waited)},
    {key: "cpu", title: "CPU time", number: true, by: t => t.cpu, cell: t => duration(t.cpu)},
  ];
  const first = of.findings[0];
  const worst = of.waits.find(w => w.what !== "call" && w.what !== "unknown");
  const verdict = first ? first.text : `No circle, lost wake-up or chain was seen. ${worst ? `The first of the objects that threads waited for: ${worst.name || kindOf(worst)}, ${duration(worst.waited)} in ${duration(of.seconds)}.`
    : of.waits.length > 0 ? "Threads waited in system calls only." : "No thread was seen waiting."}`;
  return (
    <>
      <header class="about">
        <h1><bdi class="code">{of.command || of.process || "a process"}</bdi></h1>
        <p class="muted">process {of.pid}; looked at {of.looked} for {duration(of.seconds)}, {plural(of.passes, "pass", "passes")}; {plural(of.threads, "thread")}{of.ofPart ? ", of which passes looked at a part" : ""}; <bdi>{[of.lock, of.libc, of.machine, of.date].filter(Boolean).join("; ")}</bdi>; usher {of.usher}</p>
      </header>
      <Verdict text={verdict} tag={first?.what.replace(/_/g, " ")} begins={first?.what === "circle"} alarm={first !== undefined && /^(circle|lost_wake_up|holder_ended)$/.test(first.what)}/>
      <Figures all={[{what: "threads", value: count(of.threads)}, {what: "of them waiting for an object or call", value: count(of.waits.reduce((n, w) => n + w.waiters.length + w.waitersLeftOut, 0))},
        {what: "cost, of a CPU", value: share(of.cpuShare)}]}/>
      {of.findings.length > 1 ? <section><h2>Also found</h2><ul class="remarks">{of.findings.slice(1, 40).map(x => <li><bdi>{x.text}</bdi></li>)}</ul></section> : null}
      {of.chains.length > 0 ? <section><h2>Chains</h2>{of.chains.slice(0, 12).map(c => <ChainView chain={c}/>)}{of.chains.length > 12 ? <p class="muted">{of.chains.length - 12} shorter chains are not drawn.</p> : null}</section> : null}
      <section><h2>Waits</h2>
        {of.waits.length > 0 ? <Table rows={of.waits} columns={columnsOf(of)} first="" kinds={kindOf} noun="waits" leftOut={of.waitsLeftOut} open={open} onOpen={setOpen}
          words={w => [w.name, w.library, w.kind, kindOf(w), w.module, w.holder?.thread ?? "", ...w.waiters.slice(0, 50).map(x => x.thread)].join(" ")} detail={w => <WaitDetail of={w}/>}/> : <p class="muted">None.</p>}
      </section>
      <section><h2>Threads</h2>
        {of.doing.length > 0 ? <p class="muted">{of.doing.slice(0, 8).map(d => `${count(d.threads)} × ${d.does}`).join(" · ")}</p> : null}
        <Table rows={of.rows} columns={threads} first="waited" words={t => [t.name, t.id, t.state, t.does].join(" ")} noun="threads" leftOut={of.rowsLeftOut} open={openThread} onOpen={setOpenThread}/>
      </section>
      <Remarks all={[...of.remarks, ...(of.stacksLeftOut > 0 ? [`The stacks of ${plural(of.stacksLeftOut, "waiting thread")} were not read, for lack of time or room.`] : [])]}/>
    </>
  );
}
