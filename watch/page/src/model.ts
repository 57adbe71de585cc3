// What the page shows, taken from the JSON of usher stat (docs/schema/stat.json). Every value is checked on its way in.
import {shown} from "./text";
import {amount, at, fields, flag, list, number, text, texts, type Fields, type Json} from "./values";

export interface Frame { function: string; source: string; module: string; offset: string; inlined: boolean }
export interface Stack { frames: Frame[]; cut: boolean }
export interface Charged extends Stack { count: number; waited: number }
/** From, to (seconds), how many. */
export type Bucket = [number, number, number];
export interface Durations {
  count: number; total: number; median: number | null; p99: number | null; longest: number | null; buckets: Bucket[]; hidden: boolean;
}
export interface Thread { id: string; waits: number; waited: number }
export interface Fact { what: string; value: number | string; as: "count" | "duration" | "share" | "ratio" | "text" }
export interface Counts {
  acquisitions: number; contended: number | null; waiting: Durations; holding: Durations | null; heldShare: number | null;
  holdingExact: boolean; stillWaiting: number; threads: Thread[]; moreThreads: boolean; facts: Fact[];
}
export interface Obj extends Counts { name: string; address: string; pid: string }
export interface Row extends Counts {
  kind: string; name: string; rule: string; verdict: string; command: string; module: string; place: Stack; byInit: boolean;
  embedded: boolean; objects: number; gone: number; order: Fact[]; holders: Charged[]; waiters: Charged[]; each: Obj[];
  eachLeftOut: number; stacksLeftOut: number;
}
export interface Link { thread: string; waitsFor: string; address: string; stack: Stack; since: number | null; does: string }
/** Of a circle the last link's object is held by the first one's thread; else it is held by nobody who waits. */
export interface Chain { circle: boolean; seconds: number | null; links: Link[]; note: string }
/** What each lock was waited for in one window of time, in threads that waited on average. */
export interface Heat { from: number[]; to: number[]; rows: {name: string; open: number; values: (number | null)[]}[]; unit: string }
export interface Sleep { call: string; module: string; certain: boolean; samples: number; stack: Stack; below: Stack }
export interface Stat {
  command: string; pid: string; lock: string; usher: string; seconds: number; processes: number; threads: number; threadSeconds: number;
  waited: [string, number][]; rule: string; verdict: string; next: string; deadlocks: Chain[]; others: number | null;
  cpu: {cpus: number; busy: number; waiting: number} | null; attached: {seconds: number; threads: number} | null;
  remarks: string[]; rows: Row[]; rowsLeftOut: number; heat: Heat | null;
  asleep: {samples: number; recorded: [string, number][]; unreadable: number; places: Sleep[]} | null;
}

/** The frames that usher report put into one table for a file; a stack has their numbers. */
export class Frames {
  private readonly table: Frame[];
  constructor(table: Json) { this.table = list(table).map(frameOf); }

  stack(v: Json): Stack {
    const f = fields(v);
    const frames = list(at(f, "frames")).flatMap(one => {
      if (typeof one !== "number") return [frameOf(one)];
      const known = this.table[one];
      return known ? [known] : [];
    });
    return {frames, cut: flag(at(f, "cut")) || amount(at(f, "frames_left_out")) > 0};
  }
  charged(v: Json): Charged[] {
    return list(v).map(one => ({...this.stack(one), count: amount(at(fields(one), "count")), waited: amount(at(fields(one), "waited"))}));
  }
}

function frameOf(v: Json): Frame {
  const f = fields(v), module = text(at(f, "module")), offset = text(at(f, "offset")), file = text(at(f, "file"));
  const line = number(at(f, "line"));
  return {
    function: shown(text(at(f, "function"))), module: shown(module), offset: shown(offset), inlined: flag(at(f, "inlined")),
    source: shown(file) + (file && line !== null ? ":" + line : ""),
  };
}

/** As in the text report: two ids of a thread in another namespace. */
export function idOf(f: Fields, key: string): string {
  const seen = number(at(f, key)), own = number(at(f, "own_" + key));
  return (seen === null ? "?" : String(seen)) + (own === null ? "" : ` (own ${own})`);
}

function durations(v: Json): Durations {
  const f = fields(v);
  const buckets = list(at(f, "histogram")).flatMap((b): Bucket[] => {
    const [from, to, n] = list(b).map(number);
    return from != null && to != null && n != null && from >= 0 && to > from && n > 0 ? [[from, to, n]] : [];
  });
  return {
    count: amount(at(f, "count")), total: amount(at(f, "total")), median: number(at(f, "median")), p99: number(at(f, "p99")),
    longest: number(at(f, "longest")), hidden: flag(at(f, "hidden")), buckets,
  };
}

const plain: [string, string][] = [
  ["most_waiting", "most waiters at once"], ["still_waiting", "still waited at the end"], ["timeouts", "ended at a time limit"],
  ["failed_tries", "failed trylocks"], ["signals", "signals or posts"], ["unheard", "signals without a waiter"],
  ["woken", "waits that a signal ended"], ["herd", "most waiters woken at once"],
];

function facts(f: Fields): Fact[] {
  const all: Fact[] = [];
  const add = (what: string, value: Json, as: Fact["as"]) => {
    const n = number(value);
    if (n !== null && n > 0) all.push({what, value: n, as});
  };
  for (const [key, what] of plain) add(what, at(f, key), "count");
  const tries = fields(at(f, "tries"));
  add("locked after failed trylocks", at(tries, "count"), "count");
  add("time until then", at(tries, "total"), "duration");
  const ways = fields(at(f, "ways"));
  add("looked at the word", at(ways, "polls"), "count");
  add("slept", at(ways, "sleeps"), "count");
  add("hand-overs", at(ways, "hand_overs"), "count");
  const sides = fields(at(f, "sides"));
  for (const [key, what] of [["reading", "to read"], ["writing", "to write"]] as const) {
    const side = fields(at(sides, key));
    add(`acquired ${what}`, at(side, "acquisitions"), "count");
    add(`waited ${what}`, at(side, "waited"), "duration");
    add(`… behind a writer`, at(side, "behind_writer"), "duration");
    add(`… behind readers`, at(side, "behind_readers"), "duration");
  }
  add("most readers at once", at(sides, "most_readers"), "count");
  const last = fields(at(f, "last"));
  if (number(at(last, "times"))) all.push({what: "came last most often", value: `thread ${idOf(last, "tid")}`, as: "text"});
  add("… times", at(last, "times"), "count");
  add("holds with sched_yield()", at(fields(at(f, "holding")), "yielding"), "share");
  return all;
}

function counts(v: Json): Counts {
  const f = fields(v), holding = at(f, "holding");
  return {
    acquisitions: amount(at(f, "acquisitions")), contended: number(at(f, "contended")), waiting: durations(at(f, "waiting")),
    holding: holding === null || holding === undefined ? null : durations(holding), heldShare: number(at(f, "held_share")),
    holdingExact: flag(at(fields(holding), "exact")), stillWaiting: amount(at(f, "still_waiting")),
    threads: list(at(f, "threads")).map(t => ({id: idOf(fields(t), "tid"), waits: amount(at(fields(t), "waits")), waited: amount(at(fields(t), "waited"))})),
    moreThreads: flag(at(f, "more_threads")) || amount(at(f, "threads_left_out")) > 0, facts: facts(f),
  };
}

function order(v: Json): Fact[] {
  const f = fields(v);
  const rows: [string, string, Fact["as"]][] = [
    ["owner_changes", "acquired by another thread than before", "share"], ["lwss", "different threads in 1,000 acquisitions (LWSS)", "ratio"],
    ["mttr", "acquisitions until a thread has it again, median (MTTR)", "ratio"], ["gini", "Gini coefficient of the threads", "ratio"],
    ["rstddev", "relative standard deviation of the threads", "ratio"],
  ];
  return rows.flatMap(([key, what, as]) => {
    const n = number(at(f, key));
    return n === null ? [] : [{what, value: n, as}];
  });
}

function object(v: Json): Obj {
  const f = fields(v);
  return {...counts(v), name: shown(text(at(f, "name"))), address: shown(text(at(f, "address"))), pid: idOf(f, "pid")};
}

function row(v: Json, frames: Frames): Row {
  const f = fields(v);
  return {
    ...counts(v), kind: shown(text(at(f, "kind")), 40) || "?", name: shown(text(at(f, "name"))), rule: text(at(f, "rule")),
    verdict: shown(text(at(f, "verdict"))), command: shown(text(at(f, "command"))), module: shown(text(at(f, "module"))),
    place: frames.stack(at(f, "place")), byInit: flag(at(f, "by_init")), embedded: flag(at(f, "embedded")),
    objects: amount(at(f, "objects")), gone: amount(at(f, "gone")), order: order(at(f, "order")),
    holders: frames.charged(at(f, "holders")), waiters: frames.charged(at(f, "waiters")), each: list(at(f, "each")).map(object),
    eachLeftOut: amount(at(f, "each_left_out")), stacksLeftOut: amount(at(f, "holders_left_out")) + amount(at(f, "waiters_left_out")),
  };
}

function pairs(v: Json): [string, number][] {
  return Object.entries(fields(v)).slice(0, 50).map(([key, n]): [string, number] => [shown(key, 40), amount(n)]);
}

function deadlock(v: Json, frames: Frames): Chain {
  const f = fields(v);
  const links = list(at(f, "threads")).map((t): Link => {
    const one = fields(t);
    return {thread: idOf(one, "tid"), waitsFor: shown(text(at(one, "waits_for"))), address: shown(text(at(one, "address"))),
            stack: frames.stack(at(one, "stack")), since: null, does: ""};
  });
  const cut = amount(at(f, "threads_left_out"));
  return {circle: cut === 0, seconds: number(at(f, "seconds")), links, note: cut ? `It is a circle; ${cut} more threads of it were left out of this page.` : ""};
}

/** Of the windows of the recording: each row's waiting in threads that waited on average. `open`: the row's index. */
function heatOf(report: Fields): Heat | null {
  const windows = fields(at(report, "windows"));
  const to = list(at(windows, "ends")).map(amount), from = [0, ...to.slice(0, -1)];
  if (to.length < 2 || to.some((end, i) => end <= (from[i] ?? 0))) return null;
  const rows = list(at(report, "rows")).map((r, open) => {
    const f = fields(r), waited = list(at(f, "windows"));
    return {open, name: shown(text(at(f, "name"))), values: to.map((end, i) => {
      const seconds = number(waited[i]);
      return seconds === null ? null : Math.max(0, seconds) / (end - (from[i] ?? 0));
    })};
  }).filter(r => r.values.some(v => v !== null && v > 0));
  return rows.length === 0 ? null : {from, to, rows, unit: "threads waiting, on average"};
}

export function statOf(v: Json, frames: Frames): Stat {
  const f = fields(v), cpu = fields(at(f, "cpu")), attached = at(f, "attached"), asleep = fields(at(f, "asleep"));
  const cpus = number(at(cpu, "cpus"));
  return {
    command: shown(texts(at(f, "command")).join(" ")), pid: idOf(f, "pid"), lock: shown(text(at(f, "lock")), 100), usher: shown(text(at(f, "usher")), 40),
    seconds: amount(at(f, "seconds")), processes: amount(at(f, "processes")), threads: amount(at(f, "threads")),
    threadSeconds: amount(at(f, "thread_seconds")), waited: pairs(at(f, "waited")), rule: text(at(f, "rule")),
    verdict: shown(text(at(f, "verdict"))), next: shown(text(at(f, "next"))),
    deadlocks: list(at(f, "deadlocks")).map(d => deadlock(d, frames)).filter(d => d.links.length > 0),
    others: number(at(f, "others_cpu_share")),
    cpu: cpus === null ? null : {cpus, busy: amount(at(cpu, "busy")), waiting: amount(at(cpu, "waiting"))},
    attached: attached ? {seconds: amount(at(fields(attached), "stopped_seconds")), threads: amount(at(fields(attached), "stopped_threads"))} : null,
    remarks: texts(at(f, "remarks")).map(t => shown(t)), rows: list(at(f, "rows")).map(r => row(r, frames)),
    rowsLeftOut: amount(at(f, "rows_left_out")), heat: heatOf(f),
    asleep: at(f, "asleep") ? {
      samples: amount(at(asleep, "samples")), recorded: pairs(at(asleep, "recorded")), unreadable: amount(at(asleep, "unreadable")),
      places: list(at(asleep, "places")).map((p): Sleep => {
        const one = fields(p);
        return {call: shown(text(at(one, "call")), 60), module: shown(text(at(one, "module"))), certain: flag(at(one, "certain")),
                samples: amount(at(one, "samples")), stack: frames.stack(at(one, "stack")), below: frames.stack(at(one, "below"))};
      }),
    } : null,
  };
}
