// Small parts that all views have.
import type {ComponentChildren} from "preact";
import {count, duration, ratio, share} from "./figures";
import type {Fact} from "./model";

export function Verdict({text, tag, next, alarm = false, begins = false, children}: {text: string; tag?: string; next?: string; alarm?: boolean; /** The text is the middle of a sentence, by an ordinary word. */ begins?: boolean; children?: ComponentChildren}) {
  return (
    <section class={"verdict" + (alarm ? " alarm" : "") + (begins ? " begins" : "")} aria-label="Verdict">
      <p class="sentence"><bdi>{text || "This file has no verdict."}</bdi></p>
      {tag ? <p class="muted tag">{tag}</p> : null}
      {next ? <Command text={next}/> : null}
      {children}
    </section>
  );
}

/** A command to copy: one click selects all of it. */
export function Command({text}: {text: string}) {
  return <p class="command"><span class="muted">Next: </span><code class="select"><bdi>{text}</bdi></code></p>;
}

export function Figures({all}: {all: {what: string; value: string; about?: string}[]}) {
  return (
    <dl class="figures">
      {all.map(f => <div title={f.about}><dt>{f.what}</dt><dd class="number">{f.value}</dd></div>)}
    </dl>
  );
}

export function factText(f: Fact): string {
  if (typeof f.value === "string") return f.value;
  return f.as === "count" ? count(f.value) : f.as === "duration" ? duration(f.value) : f.as === "share" ? share(f.value) : ratio(f.value);
}

export function Facts({all}: {all: Fact[]}) {
  if (all.length === 0) return null;
  return <dl class="facts">{all.map(f => <div><dt>{f.what}</dt><dd class={f.as === "text" ? "" : "number"}>{factText(f)}</dd></div>)}</dl>;
}

/** A number with a thin bar below it, relative to the largest one. */
export function Barred({value, part}: {value: string; part: number}) {
  return <span class="barred">{value}<span class="bar" aria-hidden="true"><span style={{width: `${Math.min(100, Math.max(0, part * 100))}%`}}/></span></span>;
}

export function Remarks({all}: {all: string[]}) {
  if (all.length === 0) return null;
  return (
    <section><h2>Remarks</h2><ul class="remarks">{all.slice(0, 100).map(t => <li><bdi>{t}</bdi></li>)}</ul></section>
  );
}
