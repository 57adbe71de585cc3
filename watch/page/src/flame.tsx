// A flame graph of stacks, the outermost frame on top. Its boxes are buttons with text, so a keyboard and a screen reader
// reach each frame: arrows move along the tree, Enter enlarges a frame, Escape goes back.
import {hierarchy, partition, type HierarchyRectangularNode} from "d3-hierarchy";
import {useMemo, useRef, useState} from "preact/hooks";
import {duration, share} from "./figures";
import type {Charged, Frame} from "./model";
import {base} from "./text";

interface Node { label: string; frame: Frame | null; self: number; children: Map<string, Node> }
type Box = HierarchyRectangularNode<Node>;

/** Code of the C++ library between functions of the program, as in std::function. */
export function isPlumbing(f: Frame): boolean {
  return /^(?:std|__gnu_cxx)::/.test(f.function) || f.source.includes("/include/c++/");
}

export function nameOf(f: Frame): string {
  return f.function || (base(f.module) || "?") + (f.offset ? "+" + f.offset : "");
}

/** A name without the arguments of functions and templates, for a narrow box. */
export function brief(name: string): string {
  let depth = 0, out = "";
  for (const c of name.replace(/\(anonymous namespace\)/g, "{anonymous}").replace(/operator(?:<<|>>|<=>|[<>]=?|\(\))/g, op => op === "operator()" ? "operator\u0001" : op.replace(/</g, "\u0002").replace(/>/g, "\u0003"))) {
    if (c === "<" || c === "(") depth++;
    else if ((c === ">" || c === ")") && depth > 0) depth--;
    else if (depth === 0) out += c;
  }
  return out.replace(/\u0001/g, "()").replace(/\u0002/g, "<").replace(/\u0003/g, ">").replace(/ const$/, "") || name;
}

const deepest = 200, narrowest = 0.002;

function treeOf(stacks: Charged[], plumbing: boolean): Node {
  const root: Node = {label: "all", frame: null, self: 0, children: new Map()};
  for (const s of stacks) {
    let at = root;
    const step = (label: string, frame: Frame | null) => {
      let next = at.children.get(label);
      if (!next) at.children.set(label, next = {label, frame, self: 0, children: new Map()});
      at = next;
    };
    if (s.cut) step("… (the outer frames were not found)", null);
    const frames = s.frames.filter(f => plumbing || !isPlumbing(f));
    for (let i = Math.min(frames.length, deepest) - 1; i >= 0; i--) {
      const f = frames[i] as Frame;
      step(nameOf(f) + (f.source ? "  " + base(f.source) : ""), f);
    }
    at.self += s.waited;
  }
  return root;
}

function told(box: Box, total: number): string {
  const f = box.data.frame;
  return `${f ? nameOf(f) : box.data.label}: ${duration(box.value ?? 0)}, ${share((box.value ?? 0) / total)}`;
}

export function Flame({stacks, what, tone}: {stacks: Charged[]; what: string; tone: string}) {
  const [plumbing, setPlumbing] = useState(false);
  const [zoomed, setZoomed] = useState<string>("");
  const [focus, setFocus] = useState<string>("0");
  const frame = useRef<HTMLDivElement>(null);
  const hasPlumbing = useMemo(() => stacks.some(s => s.frames.some(isPlumbing)), [stacks]);
  const root = useMemo(() => {
    const h = hierarchy(treeOf(stacks, plumbing), n => [...n.children.values()])
      .sum(n => n.self).sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
    return partition<Node>()(h);
  }, [stacks, plumbing]);
  const boxes = useMemo(() => {
    const all = new Map<string, Box>(), name = new Map<Box, string>();
    root.each(b => {
      const path = b.parent ? name.get(b.parent) + "." + (b.parent.children ?? []).indexOf(b) : "0";
      name.set(b, path);
      all.set(path, b);
    });
    return {all, name};
  }, [root]);
  const total = root.value ?? 0;
  if (!(total > 0)) return <p class="muted">No stacks of {what} were recorded.</p>;

  const zoom = boxes.all.get(zoomed) ?? root, width = zoom.x1 - zoom.x0;
  const visible = [...boxes.all.values()].filter(b => b.x1 > zoom.x0 + 1e-12 && b.x0 < zoom.x1 - 1e-12
    && (Math.min(b.x1, zoom.x1) - Math.max(b.x0, zoom.x0)) / width >= narrowest);
  const levels = visible.reduce((most, b) => Math.max(most, b.depth), 0) + 1;
  const chosen = boxes.all.get(focus) ?? root;
  const top = visible.find(b => b === chosen) ?? zoom;

  const go = (b: Box | undefined | null) => {
    if (!b || !visible.includes(b)) return;
    const path = boxes.name.get(b) ?? "0";
    setFocus(path);
    frame.current?.querySelector<HTMLElement>(`[data-path="${path}"]`)?.focus();
  };
  const beside = (b: Box, by: number): Box | undefined => {
    const row = visible.filter(o => o.depth === b.depth).sort((x, y) => x.x0 - y.x0);
    return row[row.indexOf(b) + by];
  };
  const key = (e: KeyboardEvent, b: Box) => {
    const moves: Record<string, () => void> = {
      ArrowDown: () => go(b.children?.find(c => visible.includes(c))), ArrowUp: () => go(b.parent),
      ArrowRight: () => go(beside(b, 1)), ArrowLeft: () => go(beside(b, -1)), Home: () => go(root),
    };
    if (e.key === "Escape" && zoom !== root) {
      setZoomed("");
      e.stopPropagation();
    } else if (moves[e.key]) {
      moves[e.key]?.();
      e.preventDefault();
    }
  };
  const f = top.data.frame;
  return (
    <div class={"flame " + tone}>
      <div class="boxes" ref={frame} role="group" aria-label={`Flame graph of ${what}: arrow keys move, Enter enlarges, Escape goes back`}
           style={{height: `${levels * 21}px`}}>
        {visible.map(b => {
          const left = Math.max(b.x0, zoom.x0), right = Math.min(b.x1, zoom.x1), path = boxes.name.get(b) ?? "0";
          const outer = b !== zoom && b.x0 <= zoom.x0 && b.x1 >= zoom.x1 && b.depth < zoom.depth;
          const label = b === root ? what : b.data.frame ? brief(nameOf(b.data.frame)) : b.data.label;
          return (
            <button key={path} data-path={path} type="button" tabIndex={b === top ? 0 : -1} aria-label={told(b, total)}
                    class={(b.data.frame ? "" : "bare ") + (outer ? "outer " : "") + (b === top ? "at" : "")}
                    style={{left: `${(left - zoom.x0) / width * 100}%`, width: `${(right - left) / width * 100}%`, top: `${b.depth * 21}px`}}
                    onFocus={() => setFocus(path)} onMouseEnter={() => setFocus(path)}
                    onClick={() => setZoomed(path === zoomed ? "" : path)} onKeyDown={e => key(e, b)}>
              {(right - left) / width > 0.02 ? label : ""}
            </button>
          );
        })}
      </div>
      <div class="told" aria-live="polite">
        <b class="number">{duration(top.value ?? 0)}</b> <span class="number">{share((top.value ?? 0) / total)}</span>{" "}
        <bdi class={f ? "code" : "muted"}>{f ? nameOf(f) : top === root ? `all ${what}, by the waiting that they are charged with` : top.data.label}</bdi>
        {f && f.inlined ? <span class="muted"> (inlined)</span> : null}
        {f ? <div class="muted code"><bdi>{[f.source, f.module].filter(Boolean).join("  in ")}</bdi></div> : null}
      </div>
      <div class="row-of-buttons">
        {zoom !== root ? <button type="button" class="plain" onClick={() => setZoomed("")}>Show all</button> : null}
        {hasPlumbing ? <label><input type="checkbox" checked={plumbing} onChange={e => { setPlumbing(e.currentTarget.checked); setZoomed(""); }}/> functions of the C++ library</label> : null}
      </div>
    </div>
  );
}
